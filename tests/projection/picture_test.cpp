// A step on the clock: ops lie inside their actions, what follows the last action comes after it.
#include <gtest/gtest.h>

#include <memory>

#include "eratos/job/job.h"
#include "eratos/projection/picture.h"
#include "eratos/projection/workspace.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/default_job.h"
#include "eratos/reader/read_job.h"

namespace eratos::projection {
namespace {

class Picture : public testing::Test {
 protected:
  Picture() {
    reader::ReadOptions options;
    options.cluster = "h100-sxm-4x8";
    options.sets = {"parallel.pp=4", "parallel.tp=2", "parallel.vpp=2", "batch.global=64",
                    "schedule.algorithm=zbv"};
    auto read = reader::read_job("llama3.1-8b", options);
    EXPECT_TRUE(read.has_value());
    job = std::move(*read);
    EXPECT_TRUE(job::check(job.job, *checked).empty());
    calibration = *reader::load_calibration(job.job.cluster.accelerator);
  }

  reader::JobRead job;
  std::unique_ptr<job::CheckedJob> checked = std::make_unique<job::CheckedJob>();
  calibration::Calibration calibration;
  WorkspacePtr workspace = make_workspace();
};

TEST_F(Picture, OpsOfTheMicroBatchFillItsActions) {
  const auto drawn = picture(*checked, calibration, 3, *workspace);
  ASSERT_TRUE(drawn.has_value());
  EXPECT_EQ(drawn->schedule, "zbv");
  ASSERT_EQ(drawn->ranks.size(), 4u);
  int attention = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    Picoseconds busy = 0;  // of the micro-batch's actions
    Picoseconds covered = 0;
    const auto first = static_cast<std::size_t>(drawn->order.first[r]);
    const auto actions = drawn->order.of(rank);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].micro_batch != 3) continue;
      const schedule::Interval at = drawn->intervals[first + i];
      busy += at.end - at.start;
      Picoseconds last = at.start;
      for (const OpSpan& op : drawn->ranks[r].ops) {
        if (op.micro_batch != 3 || op.start < at.start || op.start >= at.end) continue;
        // Rounding to picoseconds, a picosecond an end.
        EXPECT_LE(op.start + op.duration, at.end + 2) << op.name;
        last = std::max(last, op.start + op.duration);
        if (op.stream == ops::Stream::compute) covered += op.duration;
        if (op.name == "core_attention") ++attention;
      }
      EXPECT_NEAR(static_cast<double>(last), static_cast<double>(at.end), 2.0);
    }
    EXPECT_GT(busy, 0);
    EXPECT_GT(covered, busy / 2);
    EXPECT_LE(covered, busy + 2 * static_cast<Picoseconds>(drawn->ranks[r].ops.size()));
    for (const OpSpan& op : drawn->ranks[r].ops) {
      if (op.micro_batch < 0) {
        EXPECT_GE(op.start, drawn->timing.ranks[r].last_end);
      }
    }
    EXPECT_GT(drawn->ranks[r].base, 0);
  }
  EXPECT_EQ(attention, 32);  // one a layer, in forward
}

TEST_F(Picture, ThereIsNoSuchMicroBatch) {
  const auto drawn = picture(*checked, calibration, checked->micro_batches, *workspace);
  ASSERT_FALSE(drawn.has_value());
  EXPECT_NE(drawn.error()[0].cure.find("0 to " + std::to_string(checked->micro_batches - 1)),
            std::string::npos);
}

TEST_F(Picture, ItIsTheStepThatProjectTimes) {
  const auto drawn = picture(*checked, calibration, 0, *workspace);
  ASSERT_TRUE(drawn.has_value());
  Picoseconds end = 0;
  for (const RankPicture& r : drawn->ranks) {
    for (const OpSpan& op : r.ops) end = std::max(end, op.start + op.duration);
  }
  const Projection p = project(*checked, calibration, {}, *workspace);
  // project() adds the host's time a step; every rank's optimizer starts when its own gradients are there.
  EXPECT_LE(to_seconds(end).value, p.time.step.value * (1 + 1e-9));
  EXPECT_GE(to_seconds(end).value, p.time.step.value * 0.98);
}

// 16 pipeline ranks one GPU apart on two nodes of 8: only the step from rank 7 to rank 8 leaves a node.
// In a V the last rank keeps its activations.
TEST(Links, SendsCostWhatTheLinkTheyCrossCosts) {
  reader::ReadOptions options;
  options.cluster = "h100-sxm-2x8";
  options.sets = {"parallel.pp=16", "batch.global=32", "framework=megatron"};
  for (const char* schedule : {"1f1b", "zbv"}) {
    const bool vee = std::string(schedule) == "zbv";
    auto sets = options;
    sets.sets.push_back(std::string("schedule.algorithm=") + schedule);
    if (vee) sets.sets.push_back("parallel.vpp=2");
    auto read = reader::read_job("llama3.1-8b", sets);
    ASSERT_TRUE(read.has_value());
    auto checked = std::make_unique<job::CheckedJob>();
    ASSERT_TRUE(job::check(read->job, *checked).empty());
    const auto calibration = *reader::load_calibration(read->job.cluster.accelerator);
    const auto drawn = picture(*checked, calibration, 0, *make_workspace());
    ASSERT_TRUE(drawn.has_value());
    const int chunks = vee ? 2 : 1;
    const auto forward = [&](int rank, int chunk) {
      return drawn->links[static_cast<std::size_t>(rank * chunks + chunk)].forward;
    };
    for (int rank = 0; rank < 15; ++rank) {
      if (rank == 7) {
        EXPECT_GT(forward(7, 0), 2 * forward(0, 0));
      } else {
        EXPECT_EQ(forward(rank, 0), forward(0, 0)) << rank;
      }
    }
    if (!vee) continue;
    EXPECT_EQ(forward(8, 1), forward(7, 0));  // up again
    EXPECT_EQ(forward(5, 1), forward(0, 0));
  }
}

// Two stages on two nodes, tp 8: each rank sends an eighth, and the eight gather it by NVLink.
TEST(Links, TensorParallelRanksSendTheirPart) {
  const auto link = [](const char* scattered, const char* sequence_parallel) {
    reader::ReadOptions options;
    options.cluster = "h100-sxm-2x8";
    options.sets = {"parallel.pp=2", "parallel.tp=8", "batch.global=32", "framework=megatron",
                    std::string("parallel.sequence_parallel=") + sequence_parallel};
    auto read = reader::read_job("llama3.1-8b", options);
    read->job.framework.overlap.pp_scattered = std::string(scattered) == "yes";
    auto checked = std::make_unique<job::CheckedJob>();
    EXPECT_TRUE(job::check(read->job, *checked).empty());
    const auto calibration = *reader::load_calibration(read->job.cluster.accelerator);
    return picture(*checked, calibration, 0, *make_workspace())->links[0].forward;
  };
  EXPECT_LT(2 * link("yes", "false"), link("no", "false"));
  EXPECT_GT(link("yes", "false"), link("no", "true"));  // the gather
  EXPECT_EQ(link("yes", "true"), link("no", "true"));   // cut already
}

}  // namespace
}  // namespace eratos::projection
