// From ops to the duration of a pass: kernels and collectives priced, overlap and host applied.
//
// Letters: C compute of a pass, K its communication on one stream, w the share of K that may run
// beside compute, kappa the contention, G device time of a stage's pass, Q host time.
//   hidden = w * min(C left, K);  exposed = K - hidden;  C grows by kappa * hidden
//   pass of a stage: t = (G^n + Q^n)^(1/n)
// Source: docs/MODEL.md, overlap and host.
// Worked example: C 10 ms, K 4 ms, w 0.5, kappa 0.2: hidden 2, exposed 2, pass 12.4 ms.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "eratos/collective/collective.h"
#include "eratos/job/job.h"
#include "eratos/kernel/context.h"
#include "eratos/ops/stage.h"

namespace eratos::projection {

inline constexpr std::size_t kModules = static_cast<std::size_t>(ops::Module::count_);

// Seconds throughout; plain doubles because every field is one.
struct PassTime {
  double compute = 0;  // with contention
  double tp = 0;       // exposed, by stream
  double cp = 0;
  double ep = 0;
  double dp = 0;
  double copies = 0;   // exposed, over the host's link
  double hidden = 0;   // communication beside compute, on whichever stream
  double may_hide = 0;  // the same if there were compute enough
  double kernels = 0;  // launches
  double experts = 0;  // local experts that the host goes through, of every grouped product
  double flops = 0;    // matrix FLOPs, recomputed ones included
  std::array<double, kModules> module{};

  double device() const { return compute + tp + cp + ep + dp + copies; }
};

struct ProgramTime {
  PassTime forward;
  PassTime backward;
  // Its halves, where the schedule runs them apart: the second is the weights' gradients, the first
  // all else, recomputation included.
  PassTime input_gradient;
  PassTime weight_gradient;
  bool layer = false;  // a transformer layer: the host pays per_layer for it
  bool moe = false;
  bool shared = false;  // with shared experts
  double recomputed = 0;  // modules made again by themselves in backward
};

// One rank's pass over one micro-batch, all items of one chunk.
struct ChunkTime {
  PassTime sum;
  double host = 0;
  double duration = 0;  // sum.device() and host combined
  double longest = 0;   // the same with nothing hidden, where Pricing::any_overlap; else `duration`
  // The parts are sums of their own, so rounding may leave a hair below zero.
  double launch() const { return std::max(0.0, duration - sum.device()); }
};

class MeasuredPrices;

// What pricing needs, fixed for a job; kernels and links for all jobs of one part, cluster and
// framework.
struct Pricing {
  kernel::KernelContext kernels;
  collective::CollectiveContext links;
  const job::CheckedJob* job = nullptr;
  // The job stands for all whose overlap switches are its own or off: the host's part of a switch is
  // left out of `duration`, and what overlap hides is put back into `longest`.
  bool any_overlap = false;
  // Measured times, where there are any (measured_prices.h); whoever prices op by op asks here
  // first.
  MeasuredPrices* measured = nullptr;
  // Groups by axis, placed once.
  std::array<collective::GroupPlacement, 11> placements{};
};

Pricing make_pricing(const job::CheckedJob& job, const calibration::Calibration& calibration);
// Of another job of the same part, cluster, framework and calibration.
void price_for(const job::CheckedJob& job, Pricing& pricing);
// Whether no job is faster for hiding less: shares between 0 and 1, and less contention than is hidden.
bool hiding_pays(const framework::FrameworkProfile& profile);
// A pass, its ops dealt to any number of chunks and halves, from below: with all hidden that may be. Of
// a job without a pipeline. Requires hiding_pays().
double least_time(const ChunkTime& pass, const Pricing& pricing);

double price(const ops::Op& op, const Pricing& pricing);
// Seconds a layer and pass cost the host beyond its kernels.
double layer_host(const job::CheckedJob& job);
// Ranks of one tensor-parallel group that a node holds.
double tp_ranks_together(const job::CheckedJob& job);
// `split`: the halves of backward too.
void time_program(const ops::Program& program, const Pricing& pricing, bool split,
                  ProgramTime& out);
// The same, halves and all, with prices from elsewhere. `launched`: the host's launch is not in it.
struct OpPrice {
  double seconds = 0;
  bool launched = true;
};
void time_program(const ops::Program& program, const Pricing& pricing,
                  const std::function<OpPrice(const ops::Op&)>& prices, ProgramTime& out);

// Do a pipeline's sends and receives hold up compute in whole?
bool sends_block(const job::CheckedJob& job);

enum class ChunkPass : std::uint8_t { forward, backward, input_gradient, weight_gradient };
// The host pays for a layer's and a micro-batch's Python once in forward and once in backward: with the
// input gradient.
// Source: Megatron-LM forks put weight gradients into a queue of their own, launched without the
// layer's code (sail-sg/zero-bubble-pipeline-parallelism, WeightGradStore).
ChunkTime time_chunk(const ops::StageProgram& stage, const ProgramTime* programs, ChunkPass pass,
                     const Pricing& pricing);
void add(PassTime& to, const PassTime& from, double times);

}  // namespace eratos::projection
