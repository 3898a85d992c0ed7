// A rank's allocations, walked op by op, against the peak that memory::stage_memory() works out
// from program sums; and what holds of every trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "eratos/job/job.h"
#include "eratos/projection/allocation_trace.h"
#include "eratos/projection/projection.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/default_job.h"
#include "eratos/reader/read_job.h"

namespace eratos::projection {
namespace {

struct Case {
  const char* name;
  const char* model;
  const char* cluster;
  std::vector<std::string> sets;
  double over = 0;   // the trace's peak may exceed the model's by so much of it
  double under = 0;  // or fall short
};

struct Loaded {
  reader::JobRead read;
  job::CheckedJob checked;
  calibration::Calibration calibration;
  WorkspacePtr workspace = make_workspace();

  explicit Loaded(const Case& c) {
    reader::ReadOptions options;
    options.cluster = c.cluster;
    options.sets = c.sets;
    auto got = reader::read_job(c.model, options);
    EXPECT_TRUE(got.has_value()) << c.name;
    if (!got) return;
    read = std::move(*got);
    for (const Diagnostic& d : job::check(read.job, checked))
      ADD_FAILURE() << c.name << ": " << to_text(d);
    calibration = *reader::load_calibration(read.job.cluster.accelerator);
  }
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"one rank", "llama3.1-8b", "h100-sxm-1x8", {"parallel.tp=2", "batch.global=16"}},
      {"recompute",
       "llama3.1-8b",
       "h100-sxm-1x8",
       {"parallel.tp=2", "batch.global=16", "recompute.granularity=full"}},
      {"zero3", "llama3.1-8b", "h100-sxm-1x8", {"sharding.stage=zero3", "batch.global=16"}},
      {"one micro-batch", "llama3.1-8b", "h100-sxm-1x8", {"parallel.tp=2", "batch.global=4"}},
      {"1f1b",
       "llama3.1-8b",
       "h100-sxm-4x8",
       {"parallel.pp=4", "parallel.tp=2", "batch.global=64"}},
      {"moe",
       "mixtral-8x22b",
       "mi355x-8x8",
       {"parallel.pp=4", "parallel.ep=8", "batch.global=256", "precision.recipe=bf16"}},
      {"fp8",
       "llama3.1-8b",
       "h100-sxm-4x8",
       {"parallel.pp=2", "batch.global=64", "precision.recipe=fp8-current"}},
      {"interleaved",
       "llama3.1-8b",
       "h100-sxm-4x8",
       {"parallel.pp=4", "parallel.vpp=2", "parallel.tp=2", "batch.global=64"}},
      {"gpipe",
       "llama3.1-8b",
       "h100-sxm-4x8",
       {"parallel.pp=4", "parallel.tp=2", "batch.global=32", "schedule.algorithm=gpipe"}},
      {"zb-h1",
       "llama3.1-8b",
       "h100-sxm-4x8",
       {"parallel.pp=4", "parallel.tp=2", "batch.global=64", "schedule.algorithm=zb-h1"},
       // The last rank's loss while earlier micro-batches wait for their weights' gradients: the
       // model looks for transients where most is kept, and in bounds of them elsewhere.
       0.02,
       0.005},
      {"zbv",
       "llama3.1-8b",
       "h100-sxm-4x8",
       {"parallel.pp=4", "parallel.vpp=2", "parallel.tp=2", "batch.global=64",
        "schedule.algorithm=zbv"},
       0.02,
       0.005},
      {"dualpipe",
       "llama3.1-8b",
       "h100-sxm-4x8",
       {"parallel.pp=4", "parallel.vpp=2", "parallel.tp=2", "batch.global=64",
        "schedule.algorithm=dualpipev"},
       // A chunk's backward is set on top of the most that is kept, which another chunk reached.
       0,
       0.005},
  };
  return all;
}

AllocationTrace traced(Loaded& job, int rank, std::int64_t most = 100000) {
  auto trace = trace_allocations(job.checked, job.calibration, {rank, most}, *job.workspace);
  EXPECT_TRUE(trace.has_value());
  return trace ? std::move(*trace) : AllocationTrace();
}

TEST(AllocationTrace, PeaksWhereTheModelDoes) {
  for (const Case& c : cases()) {
    Loaded job(c);
    const Projection answer = project(job.checked, job.calibration, {}, *job.workspace);
    for (int rank = 0; rank < job.checked.parallel.pp; ++rank) {
      const AllocationTrace trace = traced(job, rank);
      const double model = answer.memory.stages[static_cast<std::size_t>(rank)].allocated.value;
      const auto peak = static_cast<double>(trace.peak);
      // The trace rounds every tensor of the state up to a byte; the model does not.
      double state = 8;
      for (const Owner& o : trace.owners) state += o.micro_batch < 0 ? 1 : 0;
      EXPECT_LE(peak, model * (1 + c.over) + state) << c.name << ", rank " << rank;
      EXPECT_GE(peak, model * (1 - c.under) - state) << c.name << ", rank " << rank;
    }
  }
}

TEST(AllocationTrace, BlocksAreFreedOnceAndOnlyStateIsLeft) {
  for (const Case& c : cases()) {
    Loaded job(c);
    const AllocationTrace trace = traced(job, 0);
    std::map<std::int64_t, AllocationEvent> live;  // by address
    std::int64_t level = 0;
    std::int64_t highest = 0;
    Picoseconds last = 0;
    for (const AllocationEvent& e : trace.events) {
      EXPECT_GE(e.time, last) << c.name;
      last = e.time;
      if (e.kind == EventKind::allocate) {
        const auto next = live.lower_bound(e.address);
        ASSERT_TRUE(next == live.end() || e.address + e.bytes <= next->first) << c.name;
        live[e.address] = e;
        level += e.bytes;
      } else if (e.kind == EventKind::free) {
        ASSERT_EQ(live.at(e.address).owner, e.owner) << c.name;
        level -= e.bytes;
        live.erase(e.address);
      }
      highest = std::max(highest, level);
    }
    EXPECT_EQ(highest, trace.peak) << c.name;
    for (const auto& [address, e] : live) {
      const Owner& o = trace.owners[static_cast<std::size_t>(e.owner)];
      EXPECT_TRUE(o.held != HeldAs::saved && o.held != HeldAs::temporary)
          << c.name << ' ' << o.tensor;
    }
    std::int64_t at_peak = 0;
    for (const std::int32_t i : trace.alive_at_peak()) {
      at_peak += trace.events[static_cast<std::size_t>(i)].bytes;
    }
    EXPECT_EQ(at_peak, trace.peak) << c.name;
    std::int64_t named = 0;
    for (const PeakTensor& t : top_at_peak(trace, trace.owners.size())) named += t.bytes;
    EXPECT_EQ(named, trace.peak) << c.name;
  }
}

// What the allocator reserves for a step holds the peak, and expandable segments waste next to
// nothing: a page of each pool, and what best fit leaves between live blocks, which is more where two
// directions of a pipeline come and go in turn (dualpipe: 2.3%).
TEST(AllocationTrace, ReservesAtLeastWhatIsAllocated) {
  for (Case c : cases()) {
    std::int64_t fixed = 0;
    for (const char* expandable : {"false", "true"}) {
      Case set = c;
      set.sets.push_back(std::string("framework.memory.expandable_segments=") + expandable);
      Loaded job(set);
      const AllocationTrace trace = traced(job, 0);
      EXPECT_LE(trace.peak, trace.held_at_peak) << c.name;
      EXPECT_LE(trace.held_at_peak, trace.reserved_at_peak) << c.name;
      EXPECT_LE(trace.reserved_at_peak, trace.reserved) << c.name;
      if (fixed == 0) fixed = trace.reserved;
      const double most = std::string(c.name) == "dualpipe" ? 1.025 : 1.01;
      EXPECT_LE(trace.reserved, most * static_cast<double>(fixed)) << c.name << ' ' << expandable;
    }
  }
}

TEST(AllocationTrace, AFewMicroBatchesShowThePeak) {
  for (const Case& c : cases()) {
    Loaded job(c);
    for (int rank = 0; rank < job.checked.parallel.pp; ++rank) {
      const AllocationTrace all = traced(job, rank);
      const AllocationTrace few = traced(job, rank, 0);
      EXPECT_EQ(all.traced, all.micro_batches) << c.name;
      EXPECT_LE(few.traced, all.traced) << c.name;
      EXPECT_EQ(few.peak, all.peak) << c.name << ", rank " << rank << ", of " << few.traced;
    }
  }
}

TEST(AllocationTrace, PhasesOfAPipeline) {
  Loaded job(cases()[4]);
  const AllocationTrace trace = traced(job, 0);
  ASSERT_EQ(trace.phases.size(), 5u);
  const char* names[] = {"start of step", "end of warm-up", "peak", "end of cool-down",
                         "optimizer"};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_STREQ(trace.phases[i].name, names[i]);
    if (i > 0) {
      EXPECT_GE(trace.phases[i].time, trace.phases[i - 1].time);
    }
  }
  // 1F1B: rank 0 of 4 holds four micro-batches when its first backward begins, the start's state
  // below them, and nothing else once the last has left.
  EXPECT_EQ(trace.phases[3].bytes, trace.phases[0].bytes);
  EXPECT_GT(trace.phases[1].bytes, trace.phases[0].bytes);
  EXPECT_EQ(trace.phases[2].bytes, trace.peak);
}

TEST(AllocationTrace, RefusesARankThatIsNotThere) {
  Loaded job(cases()[4]);
  const auto trace = trace_allocations(job.checked, job.calibration, {4, 0}, *job.workspace);
  ASSERT_FALSE(trace.has_value());
  EXPECT_EQ(trace.error().front().message, "there is no pipeline rank 4");
}

}  // namespace
}  // namespace eratos::projection
