#include "eratos/schedule/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "eratos/schedule/registry.h"
#include "schedule/cases.h"

namespace eratos::schedule {
namespace {

// "F0 B0", or "F0.1" for micro-batch 0 on chunk 1 when there is more than one chunk.
std::string text(const Order& order, int rank) {
  std::string out;
  for (const Action& a : order.of(rank)) {
    out += out.empty() ? "" : " ";
    out += (a.kind == Kind::forward ? "F" : "B") + std::to_string(a.micro_batch);
    if (order.shape.chunks > 1) out += "." + std::to_string(a.chunk);
  }
  return out;
}

Order make(std::string_view name, Shape shape) {
  Order order;
  EXPECT_TRUE(make_order(name, shape, order).has_value());
  return order;
}

std::string message(const Result<void>& r) { return r ? "" : to_text(r.error()[0]); }

TEST(Order, GpipeByHand) {
  const Order o = make("gpipe", {2, 1, 3});
  EXPECT_EQ(text(o, 0), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(text(o, 1), "F0 F1 F2 B0 B1 B2");
}

TEST(Order, OneForwardOneBackwardByHand) {
  const Order o = make("1f1b", {4, 1, 5});
  EXPECT_EQ(text(o, 0), "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4");
  EXPECT_EQ(text(o, 2), "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4");
  EXPECT_EQ(text(o, 3), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
}

TEST(Order, FewerMicroBatchesThanRanks) {
  const Order o = make("1f1b", {4, 1, 2});
  EXPECT_EQ(text(o, 0), "F0 F1 B0 B1");
  EXPECT_EQ(text(o, 2), "F0 F1 B0 B1");
  EXPECT_EQ(text(o, 3), "F0 B0 F1 B1");
}

TEST(Order, NoPipeline) { EXPECT_EQ(text(make("none", {1, 1, 2}), 0), "F0 B0 F1 B1"); }

// Warm-up 2 (2 - 1 - r) + 1 * 2: 4 on rank 0, 2 on rank 1.
TEST(Order, InterleavedByHand) {
  const Order o = make("interleaved-1f1b", {2, 2, 4});
  EXPECT_EQ(text(o, 0),
            "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
  EXPECT_EQ(text(o, 1),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
}

// The table of Megatron-LM's own comment on get_schedule_table: pp 2, group 3, 5 micro-batches.
TEST(Order, ForwardsFollowMegatronsTable) {
  const Order o = make("interleaved-1f1b", {2, 2, 5, 3});
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<int> micro_batches;
    std::vector<int> chunks;
    for (const Action& a : o.of(rank)) {
      if (a.kind != Kind::forward) continue;
      micro_batches.push_back(a.micro_batch);
      chunks.push_back(a.chunk);
    }
    EXPECT_EQ(micro_batches, (std::vector<int>{0, 1, 2, 0, 1, 2, 3, 4, 3, 4}));
    EXPECT_EQ(chunks, (std::vector<int>{0, 0, 0, 1, 1, 1, 0, 0, 1, 1}));
  }
}

// pp 4, one micro-batch more than a group: the struck ones leave a last group of one.
TEST(Order, InterleavedLastGroupMayBeSmaller) {
  const Order o = make("interleaved-1f1b", {4, 2, 5});
  EXPECT_TRUE(is_complete(o));
  EXPECT_EQ(text(o, 3),
            "F0.0 F1.0 F2.0 F3.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 F4.0 B0.0 B1.0 B2.0 "
            "B3.0 F4.1 B4.1 B4.0");
}

TEST(Order, InterleavedSingleMicroBatch) {
  const Order o = make("interleaved-1f1b", {4, 2, 1});
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(text(o, rank), "F0.0 F0.1 B0.1 B0.0");
}

TEST(Order, LoopedPlacementChainsTheChunks) {
  const Order o = make("interleaved-1f1b", {2, 2, 2});
  // Slots: rank 0 holds stages 0 and 2, rank 1 holds 1 and 3.
  EXPECT_EQ(o.before, (std::vector<std::int32_t>{-1, 2, 0, 1}));
  EXPECT_EQ(o.after, (std::vector<std::int32_t>{2, 3, 1, -1}));
  for (int stage = 0; stage < 4; ++stage) {
    const int slot = slot_at(o.shape, Placement::looped, stage);
    EXPECT_EQ(stage_of(o.shape, Placement::looped, slot / 2, slot % 2), stage);
  }
}

TEST(Order, EverySmallCaseIsComplete) {
  int cases = 0;
  Order order;
  Rng rng(1);
  testing::for_every_small_case([&](const Schedule& schedule, const Shape& s) {
    // A schedule that looks at times has another order for other times.
    for (int seed = 0; seed < (schedule.generate == nullptr ? 8 : 1); ++seed) {
      const testing::OwnedCosts c = testing::random_costs(s, rng, Sends::overlapped);
      testing::order_of(schedule, s, c, order);
      EXPECT_TRUE(is_complete(order)) << testing::text(schedule, s);
      EXPECT_EQ(order.placement, schedule.placement);
      for (const Action& a : order.actions) {
        EXPECT_TRUE(schedule.splits_backward ||
                    (a.kind != Kind::input_gradient && a.kind != Kind::weight_gradient));
        EXPECT_TRUE(schedule.side_by_side || !a.with_next);
      }
    }
    ++cases;
  });
  EXPECT_GT(cases, 200);
}

TEST(Order, RandomOrdersAreComplete) {
  Rng rng(2);
  int split = 0;
  int pairs = 0;
  testing::for_random_orders(rng, 40, [&](const Order& order) {
    ASSERT_TRUE(is_complete(order)) << testing::text(order.shape);
    for (const Action& a : order.actions) {
      split += a.kind == Kind::weight_gradient;
      pairs += a.with_next;
    }
  });
  EXPECT_GT(split, 400);
  EXPECT_GT(pairs, 400);
}

TEST(Order, IsCompleteSeesFaults) {
  Order o = make("1f1b", {2, 1, 2});
  ASSERT_TRUE(is_complete(o));
  Order twice = o;
  twice.actions[1] = twice.actions[0];
  EXPECT_FALSE(is_complete(twice));
  Order backward_first = o;
  std::swap(backward_first.actions[4], backward_first.actions[5]);
  EXPECT_FALSE(is_complete(backward_first));
  Order missing = o;
  missing.actions.pop_back();
  missing.first.back() -= 1;
  EXPECT_FALSE(is_complete(missing));
  Order elsewhere = o;
  elsewhere.actions[0].chunk = 1;
  EXPECT_FALSE(is_complete(elsewhere));
  Order half = o;  // rank 0: F0 F1 BW0 BW1
  half.actions[2].kind = Kind::input_gradient;
  EXPECT_FALSE(is_complete(half));
  Order with_itself = o;
  with_itself.actions[1].with_next = true;  // F1 beside BW0
  EXPECT_TRUE(is_complete(with_itself));
  std::swap(with_itself.actions[2], with_itself.actions[3]);  // F1 beside BW1
  EXPECT_FALSE(is_complete(with_itself));
  Order uncut = o;
  uncut.shape.output = OutputLayer::two_barriers;
  EXPECT_FALSE(is_complete(uncut));
}

TEST(Order, UsedAgainItDoesNotAllocate) {
  Order o = make("interleaved-1f1b", {4, 2, 8});
  const Action* const data = o.actions.data();
  ASSERT_TRUE(make_order("1f1b", {4, 1, 8}, o).has_value());
  ASSERT_TRUE(make_order("interleaved-1f1b", {4, 2, 7}, o).has_value());
  EXPECT_EQ(o.actions.data(), data);
}

TEST(Registry, NamesAreUniqueAndFound) {
  std::vector<std::string_view> names;
  for (const Schedule* s : kSchedules) {
    EXPECT_EQ(find(s->name), s);
    EXPECT_FALSE(s->what.empty());
    EXPECT_TRUE((s->generate == nullptr) != (s->generate_for == nullptr)) << s->name;
    EXPECT_NE(s->refusal, nullptr) << s->name;
    names.push_back(s->name);
  }
  EXPECT_EQ(names[0], "none");
  EXPECT_EQ(names[3], "interleaved-1f1b");
  EXPECT_EQ(find("1F1B"), nullptr);
}

TEST(Registry, RefusalsSayWhyAndHow) {
  Order o;
  EXPECT_EQ(message(make_order("1f1p", {2, 1, 2}, o)),
            "error: unknown schedule `1f1p`; did you mean `1f1b`?");
  EXPECT_EQ(message(make_order("1f1b", {2, 2, 2}, o)),
            "error: 1f1b keeps one chunk a rank, but vpp is 2; set vpp to 1, or choose "
            "interleaved-1f1b");
  EXPECT_EQ(message(make_order("interleaved-1f1b", {2, 1, 2}, o)),
            "error: interleaved-1f1b needs at least 2 chunks a rank, but vpp is 1; choose 1f1b");
  EXPECT_EQ(message(make_order("interleaved-1f1b", {4, 2, 8, 3}, o)),
            "error: interleaved-1f1b needs groups of at least pp = 4 micro-batches, but the group "
            "size is 3; raise it, or leave it out");
  EXPECT_EQ(message(make_order("none", {2, 1, 2}, o)),
            "error: schedule none runs no pipeline, but pp is 2 and vpp 1; choose 1f1b, or "
            "interleaved-1f1b when vpp is above 1");
  EXPECT_EQ(message(make_order("gpipe", {2, 1, 0}, o)),
            "error: the number of micro-batches is 0; it must be at least 1");
  EXPECT_EQ(message(make_order("gpipe", {0, 1, 1}, o)), "error: pp is 0; it must be at least 1");
  EXPECT_FALSE(make_order("1f1b", {1 << 20, 1, 1 << 20}, o).has_value());
}

}  // namespace
}  // namespace eratos::schedule
