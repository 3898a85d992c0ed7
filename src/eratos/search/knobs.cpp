#include "eratos/search/knobs.h"

#include <algorithm>
#include <cmath>

#include "eratos/base/check.h"

namespace eratos::search {

namespace {

enum : std::size_t {
  kMatrix,
  kGrouped,
  kSmallTiles,
  kAttention,
  kMemoryBound,
  kScaleUp,
  kNetwork,
  kHost,
  kHiding,
};

// A difference as wide as what is likely, so that traffic about to surface is seen to.
constexpr double kTurn = 1.0;  // of a standard deviation

Seconds* host_times(framework::HostCosts& h, std::size_t i) {
  Seconds* all[] = {&h.per_kernel,
                    &h.per_layer,
                    &h.per_layer_tp_across_nodes,
                    &h.per_layer_tp_each_node,
                    &h.per_micro_batch,
                    &h.per_blocking_send,
                    &h.per_step,
                    &h.per_gathered_piece,
                    &h.per_moe_layer,
                    &h.per_moe_router,
                    &h.per_moe_wait,
                    &h.per_local_expert,
                    &h.per_recompute,
                    &h.per_moe_overlap};
  return i < std::size(all) ? all[i] : nullptr;
}

Space turned_space(const Space& space, const Knobs& theta, calibration::Calibration& calibration) {
  Space out = space;
  turn(theta, calibration, out.base.framework);
  return out;
}

}  // namespace

void turn(const Knobs& theta, calibration::Calibration& calibration,
          framework::FrameworkProfile& profile) {
  const auto rate = [&](std::size_t k) { return std::exp(-theta[k]); };
  calibration::PartCalibration& part = calibration.part;
  profile.kernel.matrix *= rate(kMatrix);
  for (calibration::GemmCurve& gemm : part.gemm) {
    gemm.grouped *= rate(kGrouped);
    for (std::size_t t = 1; t < gemm.tile.size(); ++t) gemm.tile[t] *= rate(kSmallTiles);
  }
  profile.kernel.attention *= rate(kAttention);
  profile.kernel.memory_bound *= rate(kMemoryBound);
  // The profile's factor is of all links; that of the network takes it back.
  profile.kernel.collective *= rate(kScaleUp);
  part.network.share *= rate(kNetwork) / rate(kScaleUp);
  for (std::size_t i = 0; Seconds* time = host_times(profile.host, i); ++i) {
    *time = *time * std::exp(theta[kHost]);
  }
  framework::OverlapRules& o = profile.overlap;
  for (double* share :
       {&o.tp_share, &o.tp_backward_share, &o.dp_share, &o.fsdp_share, &o.ep_share}) {
    *share = std::min(1.0, *share * rate(kHiding));
  }
}

Knobs elasticities_of(const job::JobSpec& job, const calibration::Calibration& calibration,
                      const projection::Options& options, Seconds step, projection::Workspace& w) {
  Knobs out{};
  const auto checked = std::make_unique<job::CheckedJob>();
  for (std::size_t k = 0; k < kKnobCount; ++k) {
    Knobs theta{};
    theta[k] = kTurn * kKnobs[k].sd;
    calibration::Calibration turned = calibration;
    job::JobSpec other = job;
    turn(theta, turned, other.framework);
    const bool legal = job::check(other, *checked).empty();
    ERATOS_CHECK(legal);
    const projection::Projection p = projection::project(*checked, turned, options, w);
    out[k] = std::log(p.time.step / step) / theta[k];
  }
  return out;
}

Turned::World::World(const Space& s, const calibration::Calibration& c,
                     const projection::Options& options, const Knobs& theta)
    : calibration(c),
      space(turned_space(s, theta, calibration)),
      evaluator(space, calibration, options) {}

Turned::Turned(const Space& space, const calibration::Calibration& calibration,
               const projection::Options& options, const Knobs& theta) {
  worlds_.push_back(std::make_unique<World>(space, calibration, options, theta));
  for (std::size_t k = 0; k < kKnobCount; ++k) {
    Knobs further = theta;
    further[k] += kTurn * kKnobs[k].sd;
    worlds_.push_back(std::make_unique<World>(space, calibration, options, further));
  }
}

Turned::Point Turned::at(const Candidate& candidate) {
  Point out;
  const Ask ask{Ask::What::project, candidate};
  out.tell = worlds_[0]->evaluator.answer(ask);
  if (!out.tell.fits) return out;
  for (std::size_t k = 0; k < kKnobCount; ++k) {
    const double turned = worlds_[k + 1]->evaluator.answer(ask).figure;
    out.elasticity[k] = std::log(turned / out.tell.figure) / (kTurn * kKnobs[k].sd);
  }
  return out;
}

}  // namespace eratos::search
