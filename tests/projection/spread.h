// Legal jobs drawn at random over the whole catalogue, the same ones for the same seed: what the
// properties of room projection are tried on, and what bench/screen_bench.cpp screens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "eratos/base/rng.h"
#include "eratos/calibration/calibration.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/job/job.h"
#include "eratos/model/architecture.h"
#include "eratos/parallel/parallel.h"
#include "eratos/parallel/schedules.h"
#include "eratos/projection/projection.h"
#include "eratos/reader/catalogue.h"

namespace eratos::projection {

struct DrawnJob {
  job::JobSpec spec;
  std::size_t part = 0;  // index into Spread::calibrations
};

// Candidates of a search beside one job, in the order a search works through them: what its programs
// depend on stays (tp, cp, ep, micro-batch, sequence, recipe), pp, vpp, dp, optimizer sharding, full
// recomputation and the micro-batches change. Legal ones alone.
inline std::vector<DrawnJob> candidates(const DrawnJob& from) {
  const auto checked = std::make_unique<job::CheckedJob>();
  std::vector<DrawnJob> out;
  const auto add = [&](const DrawnJob& j) {
    if (!job::check(j.spec, *checked).empty() || !schedule_faults(*checked).empty()) return;
    out.push_back(j);
  };
  for (const int pp : {1, 2, 4, 8, 16}) {
    for (const int vpp : {1, 2}) {
      if (pp == 1 && vpp > 1) continue;
      for (const parallel::Sharding sharding : {parallel::Sharding::none, parallel::Sharding::zero1}) {
        for (const int layers : {0, 1, 2}) {
          DrawnJob j = from;
          j.spec.parallel.pp = pp;
          j.spec.parallel.vpp = vpp;
          j.spec.parallel.sharding = sharding;
          j.spec.parallel.hsdp_group = 0;
          j.spec.schedule = {};
          if (layers > 0) {
            j.spec.recompute = {};
            j.spec.recompute.granularity = job::Granularity::full;
            j.spec.recompute.method = job::RecomputeMethod::block;
            j.spec.recompute.layers = layers;
          }
          for (const int times : {8, 16}) {
            const auto& p = j.spec.parallel;
            const int dp = j.spec.cluster.gpus() / (p.tp * p.cp * p.pp);
            j.spec.batch.global = j.spec.batch.micro * dp * times;
            if (dp > 0) add(j);
          }
        }
      }
    }
  }
  return out;
}

class Spread {
 public:
  // `every_schedule`: a third of the pipelines are ordered by one that is not the framework's own choice,
  // some with their vocabulary layers cut.
  explicit Spread(std::uint64_t seed, bool every_schedule = false)
      : rng_(seed), every_schedule_(every_schedule) {
    for (const std::string& name : reader::names_of(reader::Kind::models)) {
      models_.push_back(*reader::load_model(name));
    }
    for (const std::string& name : reader::names_of(reader::Kind::frameworks)) {
      frameworks_.push_back(*reader::load_framework(name));
    }
    for (const char* part : {"h100-sxm", "mi355x", "a100-80g", "gb200"}) {
      parts_.emplace_back(part);
      calibrations.push_back(*reader::load_calibration(part));
    }
  }

  std::vector<calibration::Calibration> calibrations;

  const std::vector<model::Architecture>& models() const { return models_; }
  Rng& rng() { return rng_; }

  // The next legal job. The caller checks it again: a CheckedJob points at the spec it is of.
  DrawnJob next() {
    for (;;) {
      DrawnJob drawn = draw();
      if (job::check(drawn.spec, *checked_).empty() && schedule_faults(*checked_).empty()) return drawn;
    }
  }

 private:
  int pick(std::initializer_list<int> of) { return *(of.begin() + rng_.below(of.size())); }
  bool chance(double p) { return rng_.uniform() < p; }

  DrawnJob draw() {
    DrawnJob d;
    d.part = rng_.below(parts_.size());
    job::JobSpec& s = d.spec;
    s.model = models_[rng_.below(models_.size())];
    s.framework = frameworks_[rng_.below(frameworks_.size())];
    s.cluster = *reader::load_cluster(parts_[d.part] + "-" +
                                      std::to_string(pick({1, 2, 8, 16, 64, 128})) + "x8");
    auto& p = s.parallel;
    p.tp = pick({1, 1, 2, 4, 8});
    p.pp = pick({1, 1, 2, 4, 8, 16});
    p.vpp = p.pp > 1 && chance(0.4) ? pick({2, 3, 4, 5}) : 1;
    p.cp = pick({1, 1, 1, 2, 4});
    p.cp_kind = static_cast<parallel::CpKind>(rng_.below(3));
    p.sequence_parallel = p.tp > 1 && (model::is_moe(s.model) || chance(0.8));
    if (model::is_moe(s.model)) {
      p.ep = pick({1, 2, 4, 8, 16});
      p.etp = chance(0.15) ? p.tp : 1;
    }
    p.sharding = static_cast<parallel::Sharding>(rng_.below(5));
    if (p.sharding == parallel::Sharding::hsdp) p.hsdp_group = pick({2, 4, 8, 16});
    s.batch.micro = pick({1, 1, 2, 4});
    s.batch.sequence = pick({2048, 4096, 8192});
    const int dense = p.tp * p.cp * p.pp;
    const int dp = s.cluster.gpus() % dense == 0 ? s.cluster.gpus() / dense : 1;
    s.batch.global = s.batch.micro * dp * pick({1, 2, 4, 8, 16, 32, 128});
    s.precision = chance(0.2) ? job::Recipe::fp8_current : job::Recipe::bf16;
    s.recompute.granularity = static_cast<job::Granularity>(rng_.below(3));
    if (s.recompute.granularity == job::Granularity::full && chance(0.5)) {
      s.recompute.method = job::RecomputeMethod::block;
      s.recompute.layers = pick({1, 2, 4});
    }
    s.loss_fused = s.framework.loss.fused_by_default;
    s.overlap.tp = chance(0.5);
    s.overlap.moe_a2a = chance(0.3);
    if (chance(0.2)) draw_routing(s);
    if (chance(0.1)) s.attention = layer::AttentionKernel::unfused;
    if (chance(0.1)) s.hidden_dropout = 0.1;
    if (p.pp > 1 && p.vpp == 1 && chance(0.1)) s.schedule.algorithm = "gpipe";
    if (every_schedule_ && p.pp > 1 && chance(0.33)) draw_schedule(s);
    return d;
  }

  void draw_routing(job::JobSpec& s) {
    s.routing.balance = chance(0.5) ? job::Balance::random : job::Balance::skewed;
    if (s.routing.balance == job::Balance::skewed) s.routing.skew = 0.3;
    if (chance(0.3)) s.routing.capacity_factor = 1.25;
  }

  void draw_schedule(job::JobSpec& s) {
    const auto& facts =
        parallel::kScheduleFacts[1 + rng_.below(std::size(parallel::kScheduleFacts) - 1)];
    s.schedule.algorithm = std::string(facts.name);
    if (facts.most_vpp > 0) s.parallel.vpp = facts.most_vpp;
    if (facts.needs_limit) s.schedule.activation_limit = pick({0, 1, s.parallel.pp, 2 * s.parallel.pp});
    if (facts.splits_backward) s.schedule.post_validation = chance(0.3);
    if (facts.cuts_output && chance(0.5)) {
      s.schedule.output_layer = parallel::kOutputLayers[1 + rng_.below(3)];
      s.mtp = false;
    }
  }

  Rng rng_;
  bool every_schedule_;
  std::unique_ptr<job::CheckedJob> checked_ = std::make_unique<job::CheckedJob>();
  std::vector<model::Architecture> models_;
  std::vector<framework::FrameworkProfile> frameworks_;
  std::vector<std::string> parts_;
};

}  // namespace eratos::projection
