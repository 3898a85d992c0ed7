#include "eratos/memory/caching_allocator.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "eratos/base/check.h"

namespace eratos::memory {

namespace {

constexpr std::int64_t kMiB = 1048576;
constexpr std::int64_t kMinBlock = 512;
constexpr std::int64_t kSmallMost = 1 * kMiB;  // larger ones come from the pool of large blocks
constexpr std::int64_t kSmallSegment = 2 * kMiB;
constexpr std::int64_t kLargeSegment = 20 * kMiB;
constexpr std::int64_t kOwnSegment = 10 * kMiB;  // from here on a segment is as large as its block
constexpr std::int64_t kOwnRounding = 2 * kMiB;

std::int64_t rounded_up(std::int64_t bytes, std::int64_t to) { return (bytes + to - 1) / to * to; }

std::int64_t segment_for(std::int64_t block) {
  if (block <= kSmallMost) return kSmallSegment;
  return block < kOwnSegment ? kLargeSegment : rounded_up(block, kOwnRounding);
}

// Is a rest of so many bytes worth a block of its own?
bool splits(bool small, std::int64_t rest) { return small ? rest >= kMinBlock : rest > kSmallMost; }

}  // namespace

std::int64_t CachingAllocator::allocate(std::int64_t bytes, std::int32_t owner) {
  ERATOS_CHECK(bytes > 0);
  const std::int64_t size = std::max(kMinBlock, rounded_up(bytes, kMinBlock));
  const bool small = size <= kSmallMost;
  FreeList& list = small ? small_ : large_;
  auto best = list.lower_bound({size, 0});
  std::int64_t address = 0;
  if (best == list.end()) {
    const std::int64_t whole = segment_for(size);
    address = next_;
    next_ += rounded_up(whole, kOwnRounding);
    pieces_[address] = {whole, 0, -1, static_cast<std::int32_t>(segments_.size())};
    segments_.push_back({address, whole, small});
  } else {
    address = best->second;
    list.erase(best);
  }
  Piece& piece = pieces_[address];
  const std::int64_t rest = piece.bytes - size;
  if (splits(small, rest)) {
    piece.bytes = size;
    pieces_[address + size] = {rest, 0, -1, piece.segment};
    list.insert({rest, address + size});
  }
  piece.requested = bytes;
  piece.owner = owner;
  return address;
}

// Both are free, and neither is in a free list any more.
void CachingAllocator::merge_with_next(Pieces::iterator at) {
  const auto next = std::next(at);
  at->second.bytes += next->second.bytes;
  pieces_.erase(next);
}

void CachingAllocator::free(std::int64_t address) {
  auto at = pieces_.find(address);
  ERATOS_CHECK(at != pieces_.end() && at->second.requested > 0);
  at->second.requested = 0;
  at->second.owner = -1;
  const auto joins = [&](Pieces::iterator other) {
    return other->second.requested == 0 && other->second.segment == at->second.segment;
  };
  FreeList& list = list_of(at->second);
  if (const auto next = std::next(at); next != pieces_.end() && joins(next)) {
    list.erase({next->second.bytes, next->first});
    merge_with_next(at);
  }
  if (at != pieces_.begin()) {
    const auto before = std::prev(at);
    if (joins(before)) {
      list.erase({before->second.bytes, before->first});
      merge_with_next(before);
      at = before;
    }
  }
  list.insert({at->second.bytes, at->first});
}

std::vector<CachingAllocator::Block> CachingAllocator::blocks_of(const Segment& segment) const {
  std::vector<Block> out;
  for (auto at = pieces_.find(segment.address);
       at != pieces_.end() && at->first < segment.address + segment.bytes; ++at) {
    out.push_back({at->first, at->second.bytes, at->second.requested, at->second.owner});
  }
  return out;
}

}  // namespace eratos::memory
