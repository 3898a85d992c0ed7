// Programs that a workspace keeps between jobs change no answer: whatever was screened before, in
// whatever order, every number is that of a workspace of its own, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "eratos/base/rng.h"
#include "eratos/calibration/calibration.h"
#include "eratos/job/job.h"
#include "eratos/model/architecture.h"
#include "eratos/projection/projection.h"
#include "eratos/projection/workspace.h"
#include "spread.h"

namespace eratos::projection {
namespace {

using Change = std::function<void(job::JobSpec&)>;

// One input each, of those that a program depends on and of those that none does.
const std::vector<Change>& changes() {
  static const std::vector<Change> all{
      [](job::JobSpec& s) { s.parallel.pp = s.parallel.pp == 4 ? 2 : 4; },
      [](job::JobSpec& s) { s.parallel.tp = s.parallel.tp == 2 ? 4 : 2; },
      [](job::JobSpec& s) { s.parallel.cp = s.parallel.cp == 2 ? 1 : 2; },
      [](job::JobSpec& s) { s.parallel.ep = s.parallel.ep == 8 ? 4 : 8; },
      [](job::JobSpec& s) { s.parallel.etp = s.parallel.tp; },
      [](job::JobSpec& s) { s.parallel.sequence_parallel = !s.parallel.sequence_parallel; },
      [](job::JobSpec& s) { s.parallel.cp_kind = parallel::CpKind::all_gather; },
      [](job::JobSpec& s) { s.parallel.sharding = parallel::Sharding::zero3; },
      [](job::JobSpec& s) { s.parallel.sharding = parallel::Sharding::zero1; },
      [](job::JobSpec& s) {
        s.parallel.sharding = parallel::Sharding::hsdp;
        s.parallel.hsdp_group = 4;
      },
      [](job::JobSpec& s) { s.parallel.vpp = 2; },
      [](job::JobSpec& s) { s.batch.micro *= 2; },
      [](job::JobSpec& s) { s.batch.global *= 2; },
      [](job::JobSpec& s) { s.batch.sequence *= 2; },
      [](job::JobSpec& s) { s.batch.packed_length = 1024; },
      [](job::JobSpec& s) { s.precision = job::Recipe::fp8_current; },
      [](job::JobSpec& s) { s.precision = job::Recipe::mxfp8; },
      [](job::JobSpec& s) {
        s.precision = job::Recipe::fp8_delayed;
        s.narrow.bf16_first_layers = 1;
      },
      [](job::JobSpec& s) {
        s.precision = job::Recipe::fp8_current;
        s.narrow.attention = true;
      },
      [](job::JobSpec& s) {
        s.precision = job::Recipe::fp8_current;
        s.narrow.output_layer = true;
      },
      [](job::JobSpec& s) { s.routing.row_multiple = 128; },
      [](job::JobSpec& s) { s.gradient_reduce_bf16 = true; },
      [](job::JobSpec& s) { s.recompute.granularity = job::Granularity::none; },
      [](job::JobSpec& s) { s.recompute.granularity = job::Granularity::selective; },
      [](job::JobSpec& s) {
        s.recompute.granularity = job::Granularity::selective;
        s.recompute.modules.set(static_cast<std::size_t>(ops::Module::norm));
      },
      [](job::JobSpec& s) { s.recompute.granularity = job::Granularity::full; },
      [](job::JobSpec& s) {
        s.recompute.granularity = job::Granularity::full;
        s.recompute.method = job::RecomputeMethod::block;
        s.recompute.layers = 1;
      },
      [](job::JobSpec& s) {
        s.recompute.granularity = job::Granularity::full;
        s.recompute.kept.set(static_cast<std::size_t>(ops::Module::qkv));
      },
      [](job::JobSpec& s) { s.overlap.tp = !s.overlap.tp; },
      [](job::JobSpec& s) { s.overlap.moe_a2a = !s.overlap.moe_a2a; },
      [](job::JobSpec& s) { s.overlap.grad_reduce = !s.overlap.grad_reduce; },
      [](job::JobSpec& s) { s.attention = layer::AttentionKernel::unfused; },
      [](job::JobSpec& s) { s.loss_fused = !s.loss_fused; },
      [](job::JobSpec& s) { s.hidden_dropout = 0.1; },
      [](job::JobSpec& s) { s.attention_dropout = 0.1; },
      [](job::JobSpec& s) { s.graph_share = 1; },
      [](job::JobSpec& s) { s.mtp = !s.mtp; },
      [](job::JobSpec& s) { s.routing.balance = job::Balance::random; },
      [](job::JobSpec& s) {
        s.routing.balance = job::Balance::skewed;
        s.routing.skew = 0.2;
      },
      [](job::JobSpec& s) { s.routing.capacity_factor = 1.5; },
      [](job::JobSpec& s) { s.routing.dispatcher = job::Dispatcher::allgather; },
      [](job::JobSpec& s) { s.offload.layers = 2; },
      [](job::JobSpec& s) { s.offload.activations.set(static_cast<std::size_t>(ops::Module::qkv)); },
      [](job::JobSpec& s) {
        s.lora.rank = 16;
        s.lora.targets = job::lora_modules();
      },
      [](job::JobSpec& s) { s.model.hidden *= 2; },
      [](job::JobSpec& s) { s.model.vocab += 12345; },
      [](job::JobSpec& s) { s.model.tie_embeddings = !s.model.tie_embeddings; },
      [](job::JobSpec& s) { s.model.final_soft_cap = 30; },
      [](job::JobSpec& s) { s.model.norm.kind = layer::NormKind::layernorm; },
      [](job::JobSpec& s) { s.model.blocks.back().post_norm = !s.model.blocks.back().post_norm; },
      [](job::JobSpec& s) { s.model.blocks.back().streams = 2; },
      [](job::JobSpec& s) { s.framework.fusions.norm = !s.framework.fusions.norm; },
      [](job::JobSpec& s) { s.framework.saved.gathered_input = !s.framework.saved.gathered_input; },
      [](job::JobSpec& s) { s.framework.loss.keeps_logits = !s.framework.loss.keeps_logits; },
      [](job::JobSpec& s) { s.framework.state.gather_dtype = DType::fp32; },
      [](job::JobSpec& s) { s.framework.overlap.tp_backward_share = 0.37; },
      [](job::JobSpec& s) { s.framework.kernel.scatter_add = 3; },
      [](job::JobSpec& s) { s.framework.kernel.matrix *= 0.9; },
      [](job::JobSpec& s) { s.framework.memory.allocator_rounding = Bytes{4096}; },
      [](job::JobSpec& s) { s.framework.host.per_kernel = Seconds{2e-5}; },
      [](job::JobSpec& s) {
        s.cluster.accelerator.any_layout_fp8 = !s.cluster.accelerator.any_layout_fp8;
      },
      [](job::JobSpec& s) { s.cluster.accelerator.memory_bandwidth *= 1.1; },
      [](job::JobSpec& s) { s.schedule.algorithm = "gpipe"; },
      [](job::JobSpec& s) { s.schedule.algorithm = "zb-h1"; },
      [](job::JobSpec& s) { s.schedule.output_layer = parallel::OutputLayer::one_barrier; },
  };
  return all;
}

template <class T>
void add(const T& value, std::vector<double>& out) {
  out.push_back(static_cast<double>(value));
}

std::vector<double> numbers(const Screen& s) {
  return {s.fits ? 1.0 : 0.0, s.device_peak.value, s.least_peak.value,
          static_cast<double>(s.peak_stage), s.step_lower_bound.value};
}

std::vector<double> numbers(const Projection& p) {
  const MemoryAnswer& m = p.memory;
  const TimeAnswer& t = p.time;
  std::vector<double> out{p.parameters.total, m.device_peak.value, m.reserved_peak.value,
                          m.least_peak.value, m.routing.run_p99.value, m.routing.run_oom,
                          m.routing.at_peak, m.fits ? 1.0 : 0.0, t.step.value, t.compute.value,
                          t.bubble.value, t.optimizer.value, t.launch.value,
                          t.exposed.total().value, p.throughput.hfu, p.confidence.step.second.value};
  for (const Seconds& s : t.by_module) add(s.value, out);
  for (const Seconds& s : t.stage_forward) add(s.value, out);
  for (const Seconds& s : t.stage_backward) add(s.value, out);
  for (const Bytes& b : m.saved_by_module) add(b.value, out);
  for (const memory::StageMemory& s : m.stages) {
    for (const Bytes b : {s.device, s.least, s.activations, s.transient}) add(b.value, out);
  }
  for (const double d : p.parameters.per_stage) add(d, out);
  return out;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

class Kept : public testing::Test {
 protected:
  bool legal(const job::JobSpec& s) {
    return job::check(s, *checked).empty() && schedule_faults(*checked).empty();
  }

  // A job, and what one changed input makes of it.
  std::vector<DrawnJob> neighbours(const DrawnJob& from) {
    std::vector<DrawnJob> out{from};
    for (const Change& change : changes()) {
      DrawnJob j = from;
      change(j.spec);
      if (legal(j.spec)) out.push_back(std::move(j));
    }
    return out;
  }

  template <class Work>
  void expect_same(const std::vector<DrawnJob>& jobs, const Work& work) {
    for (const DrawnJob& j : jobs) {
      ASSERT_TRUE(job::check(j.spec, *checked).empty());
      const calibration::Calibration& c = calibrations[rng.below(calibrations.size())];
      const auto alone = make_workspace();
      ASSERT_TRUE(same_bits(numbers(work(*checked, c, Options{}, *workspace)),
                            numbers(work(*checked, c, Options{}, *alone))))
          << j.spec.model.name << " " << j.spec.framework.name << " " << j.spec.cluster.name;
    }
  }

  void shuffle(std::vector<DrawnJob>& jobs) {
    for (std::size_t i = jobs.size(); i > 1; --i) std::swap(jobs[i - 1], jobs[rng.below(i)]);
  }

  // Of all parts, and each with another rate, so that a calibration that changes under a job counts.
  static std::vector<calibration::Calibration> two_of_each(const Spread& spread) {
    std::vector<calibration::Calibration> out = spread.calibrations;
    for (calibration::Calibration c : spread.calibrations) {
      for (auto& curve : c.part.gemm) curve.peak_fraction *= 0.9;
      out.push_back(std::move(c));
    }
    return out;
  }

  Spread spread{21, true};
  Rng rng{22};
  std::vector<calibration::Calibration> calibrations = two_of_each(spread);
  std::unique_ptr<job::CheckedJob> checked = std::make_unique<job::CheckedJob>();
  WorkspacePtr workspace = make_workspace();
};

Screen screened(const job::CheckedJob& j, const calibration::Calibration& c, const Options& o,
                Workspace& w) {
  return screen(j, c, o, w);
}
Projection projected(const job::CheckedJob& j, const calibration::Calibration& c, const Options& o,
                     Workspace& w) {
  return project(j, c, o, w);
}

TEST_F(Kept, ProgramsChangeNoScreen) {
  for (int i = 0; i < 60; ++i) {
    std::vector<DrawnJob> jobs = neighbours(spread.next());
    expect_same(jobs, screened);
    shuffle(jobs);
    expect_same(jobs, screened);
  }
}

TEST_F(Kept, ProgramsChangeNoProjection) {
  for (int i = 0; i < 30; ++i) {
    std::vector<DrawnJob> jobs = neighbours(spread.next());
    shuffle(jobs);
    expect_same(jobs, projected);
  }
}

TEST_F(Kept, OrderOfJobsThatHaveNothingInCommonChangesNoScreen) {
  std::vector<DrawnJob> jobs;
  for (int i = 0; i < 150; ++i) jobs.push_back(spread.next());
  const std::vector<DrawnJob> first = jobs;
  jobs.insert(jobs.end(), first.begin(), first.end());
  shuffle(jobs);
  expect_same(jobs, screened);
}

// The candidates of a search find the programs of the one before.
TEST_F(Kept, CandidatesOfASearchShareTheirPrograms) {
  int searches = 0;
  while (searches < 10) {
    const std::vector<DrawnJob> jobs = candidates(spread.next());
    if (jobs.size() < 8) continue;
    ++searches;
    const auto w = make_workspace();
    std::size_t found = 0;
    for (const DrawnJob& j : jobs) {
      ASSERT_TRUE(job::check(j.spec, *checked).empty());
      screen(*checked, calibrations[j.part], {}, *w);
      if (w->active->hits > 0) ++found;
    }
    EXPECT_GE(found + 2, jobs.size());
    expect_same(jobs, screened);
  }
}

}  // namespace
}  // namespace eratos::projection
