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
// Expandable segments reserve addresses for more than a device has: here 1 TiB each.
constexpr std::int64_t kExpandableRoom = std::int64_t{1} << 40;

std::int64_t rounded_up(std::int64_t bytes, std::int64_t to) { return (bytes + to - 1) / to * to; }

std::int64_t segment_for(std::int64_t block) {
  if (block <= kSmallMost) return kSmallSegment;
  return block < kOwnSegment ? kLargeSegment : rounded_up(block, kOwnRounding);
}

// Expandable segments are mapped in pages of this size.
std::int64_t page_of(bool small) { return small ? kSmallSegment : kLargeSegment; }

// Is a rest of so many bytes worth a block of its own? In expandable segments any rest is.
bool splits(bool small, bool expandable, std::int64_t rest) {
  return small || expandable ? rest >= kMinBlock : rest > kSmallMost;
}

}  // namespace

std::int64_t CachingAllocator::allocate(std::int64_t bytes, std::int32_t owner) {
  ERATOS_CHECK(bytes > 0);
  const std::int64_t size = std::max(kMinBlock, rounded_up(bytes, kMinBlock));
  const bool small = size <= kSmallMost;
  FreeList& list = small ? small_ : large_;
  auto best = list.lower_bound({size, 0});
  std::int64_t address = 0;
  if (best == list.end()) {
    address = grow(size, small)->first;
  } else {
    address = best->second;
    list.erase(best);
  }
  Piece& piece = pieces_[address];
  const std::int64_t rest = piece.bytes - size;
  if (splits(small, expandable_, rest)) {
    piece.bytes = size;
    pieces_[address + size] = {rest, 0, -1, piece.segment};
    list.insert({rest, address + size});
  }
  piece.requested = bytes;
  piece.owner = owner;
  return address;
}

CachingAllocator::Pieces::iterator CachingAllocator::grow(std::int64_t size, bool small) {
  const auto same = std::find_if(segments_.begin(), segments_.end(),
                                 [&](const Segment& s) { return expandable_ && s.small == small; });
  if (same == segments_.end()) {
    const std::int64_t whole = expandable_ ? rounded_up(size, page_of(small)) : segment_for(size);
    const std::int64_t address = next_;
    next_ += expandable_ ? kExpandableRoom : rounded_up(whole, kOwnRounding);
    reserved_ += whole;
    segments_.push_back({address, whole, small});
    const Piece piece{whole, 0, -1, static_cast<std::int32_t>(segments_.size() - 1)};
    return pieces_.insert({address, piece}).first;
  }
  // Pages are mapped behind the last block; a free one there grows.
  const std::int64_t end = same->address + same->bytes;
  auto last = std::prev(pieces_.lower_bound(end));
  const bool free_end = last->second.requested == 0;
  const std::int64_t have = free_end ? last->second.bytes : 0;
  const std::int64_t more = rounded_up(size - have, page_of(small));
  same->bytes += more;
  reserved_ += more;
  if (!free_end) {
    const Piece piece{more, 0, -1, static_cast<std::int32_t>(same - segments_.begin())};
    return pieces_.insert({end, piece}).first;
  }
  list_of(last->second).erase({have, last->first});
  last->second.bytes += more;
  return last;
}

const CachingAllocator::Segment& CachingAllocator::segment_of(std::int64_t address) const {
  const auto at = pieces_.find(address);
  ERATOS_CHECK(at != pieces_.end());
  return segments_[static_cast<std::size_t>(at->second.segment)];
}

std::int64_t CachingAllocator::held() const {
  std::int64_t all = 0;
  for (const Segment& segment : segments_) {
    const std::int64_t page = expandable_ ? page_of(segment.small) : segment.bytes;
    std::int64_t behind = segment.address;  // pages up to here are counted
    for (auto at = pieces_.find(segment.address);
         at != pieces_.end() && at->first < segment.address + segment.bytes; ++at) {
      if (at->second.requested == 0) continue;
      const std::int64_t first = (at->first - segment.address) / page * page + segment.address;
      const std::int64_t last =
          rounded_up(at->first + at->second.bytes - segment.address, page) + segment.address;
      all += std::max<std::int64_t>(0, last - std::max(first, behind));
      behind = std::max(behind, last);
    }
  }
  return all;
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
