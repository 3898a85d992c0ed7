// Addresses as PyTorch's caching allocator gives them: numbers by hand, and what must always hold.
#include <gtest/gtest.h>

#include <map>

#include "eratos/base/rng.h"
#include "eratos/memory/caching_allocator.h"

namespace eratos::memory {
namespace {

constexpr std::int64_t kMiB = 1048576;

TEST(CachingAllocator, SmallOnesShareASegmentAndMergeAgain) {
  CachingAllocator a;
  const std::int64_t first = a.allocate(600, 1);
  EXPECT_EQ(first, CachingAllocator::kFirstAddress);
  EXPECT_EQ(a.allocate(1, 2), first + 1024);
  a.free(first);
  // The rest behind the second block is the larger fit; the hole of 1,024 is the best one.
  EXPECT_EQ(a.allocate(1000, 3), first);
  a.free(first);
  a.free(first + 1024);
  ASSERT_EQ(a.segments().size(), 1u);
  const auto blocks = a.blocks_of(a.segments()[0]);
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].bytes, 2 * kMiB);
  EXPECT_EQ(a.allocate(kMiB, 4), first);
}

TEST(CachingAllocator, SegmentsGrowWithTheBlock) {
  CachingAllocator a;
  a.allocate(kMiB + 1, 0);
  a.allocate(10 * kMiB, 1);  // fits the rest of the first
  a.allocate(11 * kMiB + 1, 2);
  ASSERT_EQ(a.segments().size(), 2u);
  EXPECT_EQ(a.segments()[0].bytes, 20 * kMiB);
  EXPECT_EQ(a.segments()[1].bytes, 12 * kMiB);
  // A rest of less than 1 MiB stays with its block.
  EXPECT_EQ(a.blocks_of(a.segments()[1]).size(), 1u);
}

TEST(CachingAllocator, BlocksCoverSegmentsAndNeverOverlap) {
  Rng rng(7);
  CachingAllocator a;
  std::map<std::int64_t, std::int64_t> live;
  for (int i = 0; i < 4000; ++i) {
    if (!live.empty() && rng.below(100) < 48) {
      auto victim = live.begin();
      std::advance(victim, static_cast<long>(rng.below(live.size())));
      a.free(victim->first);
      live.erase(victim);
      continue;
    }
    const auto bytes = static_cast<std::int64_t>(1 + rng.below(1u << (8 + rng.below(17))));
    const std::int64_t at = a.allocate(bytes, i);
    const auto next = live.lower_bound(at);
    if (next != live.end()) {
      ASSERT_LE(at + bytes, next->first);
    }
    if (next != live.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second, at);
    }
    live[at] = bytes;
  }
  std::size_t found = 0;
  for (const auto& segment : a.segments()) {
    std::int64_t end = segment.address;
    bool free_before = false;
    for (const auto& block : a.blocks_of(segment)) {
      EXPECT_EQ(block.address, end);
      end += block.bytes;
      EXPECT_FALSE(free_before && block.requested == 0);  // neighbours that are free have merged
      free_before = block.requested == 0;
      if (block.requested == 0) continue;
      ++found;
      EXPECT_EQ(live.at(block.address), block.requested);
    }
    EXPECT_EQ(end, segment.address + segment.bytes);
  }
  EXPECT_EQ(found, live.size());
}

// The example of the header: a hole of 30 MiB is no room for 40 unless the segment can grow.
TEST(CachingAllocator, FixedSegmentsKeepTheShapeOfWhatWasFreed) {
  CachingAllocator fixed;
  CachingAllocator expandable(true);
  for (CachingAllocator* a : {&fixed, &expandable}) {
    a->free(a->allocate(30 * kMiB, 0));
    a->allocate(40 * kMiB, 1);
  }
  EXPECT_EQ(fixed.reserved(), 70 * kMiB);
  EXPECT_EQ(fixed.held(), 40 * kMiB);  // the first segment can be given back
  EXPECT_EQ(expandable.reserved(), 40 * kMiB);
  EXPECT_EQ(expandable.held(), 40 * kMiB);
  EXPECT_EQ(expandable.segments().size(), 1u);
}

// A live block keeps its whole segment from the driver, but only its own pages of an expandable one.
TEST(CachingAllocator, WhatPressureCannotGiveBack) {
  CachingAllocator fixed;
  CachingAllocator expandable(true);
  for (CachingAllocator* a : {&fixed, &expandable}) {
    a->free(a->allocate(100 * kMiB, 0));
    a->allocate(15 * kMiB, 1);  // best fit: out of the 100
    a->allocate(512, 2);        // small ones have a pool of their own
  }
  EXPECT_EQ(fixed.reserved(), 102 * kMiB);
  EXPECT_EQ(fixed.held(), 102 * kMiB);
  EXPECT_EQ(expandable.reserved(), 102 * kMiB);
  EXPECT_EQ(expandable.held(), 22 * kMiB);  // one page of 20 MiB, one of 2
}

// The end of an expandable segment grows from the free block that is there: 20 + 20 MiB are mapped, 35
// are used; of the 5 left and one more page 25 come.
TEST(CachingAllocator, AnExpandableSegmentGrowsFromItsFreeEnd) {
  CachingAllocator a(true);
  const std::int64_t first = a.allocate(35 * kMiB, 0);
  EXPECT_EQ(a.allocate(25 * kMiB, 1), first + 35 * kMiB);
  EXPECT_EQ(a.reserved(), 60 * kMiB);
  EXPECT_EQ(&a.segment_of(first), &a.segments()[0]);
  // No free end: the next page begins a block.
  EXPECT_EQ(a.allocate(2 * kMiB, 2), first + 60 * kMiB);
  EXPECT_EQ(a.reserved(), 80 * kMiB);
}

TEST(CachingAllocator, ReservedHoldsWhatIsHeldHoldsWhatIsAllocated) {
  for (const bool expandable : {false, true}) {
    Rng rng(11);
    CachingAllocator a(expandable);
    std::map<std::int64_t, std::int64_t> live;
    std::int64_t allocated = 0;
    std::int64_t before = 0;
    for (int i = 0; i < 3000; ++i) {
      if (!live.empty() && rng.below(100) < 48) {
        auto victim = live.begin();
        std::advance(victim, static_cast<long>(rng.below(live.size())));
        allocated -= victim->second;
        a.free(victim->first);
        live.erase(victim);
      } else {
        const auto bytes = static_cast<std::int64_t>(1 + rng.below(1u << (8 + rng.below(18))));
        live[a.allocate(bytes, i)] = bytes;
        allocated += bytes;
      }
      ASSERT_LE(allocated, a.held());
      ASSERT_LE(a.held(), a.reserved());
      ASSERT_LE(before, a.reserved());
      before = a.reserved();
      std::int64_t of_segments = 0;
      for (const auto& segment : a.segments()) of_segments += segment.bytes;
      ASSERT_EQ(of_segments, a.reserved());
      if (expandable) {
        ASSERT_LE(a.segments().size(), 2u);
      }
    }
  }
}

}  // namespace
}  // namespace eratos::memory
