// Where PyTorch's caching allocator puts a block: pools of segments, best fit, splitting, merging.
//
// Question: which address does the next tensor get, and which segments were asked of the driver?
// Addresses are made up: segments follow one another from `kFirstAddress`, expandable ones far apart.
// A segment is never given back; held() says what would remain if the allocator had to. One stream;
// private pools and max_split_size are not followed.
//
// Worked example: 600 B take 1,024 B of a new 2 MiB segment; freed, they merge with its rest, and
// the next 1 MiB comes out of the same segment. 30 MiB freed and 40 MiB asked for: two segments and
// 70 MiB by default; expandable, two pages of 20 MiB that hold either.
//
// Source: pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp: round_size, get_allocation_size,
// get_free_block, should_split, kMinBlockSize, kSmallSize, kSmallBuffer, kLargeBuffer,
// kMinLargeAlloc, kRoundLarge; release_cached_blocks; ExpandableSegment, try_allocate_expandable_block.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace eratos::memory {

class CachingAllocator {
 public:
  static constexpr std::int64_t kFirstAddress = 0x7f0000000000;

  struct Segment {
    std::int64_t address = 0;
    std::int64_t bytes = 0;
    bool small = false;
  };
  struct Block {
    std::int64_t address = 0;
    std::int64_t bytes = 0;      // of the address space, what rounding and no split left included
    std::int64_t requested = 0;  // 0: free
    std::int32_t owner = -1;     // as given to allocate()
  };

  // expandable: one segment a pool, which grows (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True).
  explicit CachingAllocator(bool expandable = false) : expandable_(expandable) {}

  // The block's address. `bytes` > 0.
  std::int64_t allocate(std::int64_t bytes, std::int32_t owner);
  // Of a block handed out and not freed since (checked).
  void free(std::int64_t address);

  const std::vector<Segment>& segments() const { return segments_; }
  // Of a block handed out.
  const Segment& segment_of(std::int64_t address) const;
  // What the driver has given, all segments together.
  std::int64_t reserved() const { return reserved_; }
  // The same without what holds no live block: what is left after the allocator, refused by the
  // driver, has given back all it can: whole segments, or single pages of expandable ones.
  std::int64_t held() const;
  // In the order of their addresses; together they cover every segment.
  std::vector<Block> blocks_of(const Segment& segment) const;

 private:
  struct Piece {
    std::int64_t bytes = 0;
    std::int64_t requested = 0;
    std::int32_t owner = -1;
    std::int32_t segment = 0;
  };
  using Pieces = std::map<std::int64_t, Piece>;                      // by address
  using FreeList = std::set<std::pair<std::int64_t, std::int64_t>>;  // (bytes, address)

  FreeList& list_of(const Piece& piece) {
    return segments_[static_cast<std::size_t>(piece.segment)].small ? small_ : large_;
  }
  void merge_with_next(Pieces::iterator at);
  // A free piece of at least `size` at the end of the address space; not in a free list.
  Pieces::iterator grow(std::int64_t size, bool small);

  std::vector<Segment> segments_;
  Pieces pieces_;
  FreeList small_;
  FreeList large_;
  std::int64_t next_ = kFirstAddress;
  std::int64_t reserved_ = 0;
  bool expandable_ = false;
};

}  // namespace eratos::memory
