#include "eratos/projection/candidate.h"

#include <algorithm>
#include <cstddef>

#include "eratos/lower/lower.h"
#include "eratos/projection/compose.h"
#include "eratos/projection/passes.h"
#include "eratos/projection/routing.h"
#include "eratos/projection/state.h"
#include "eratos/schedule/bounds.h"

namespace eratos::projection {

namespace {

// Visits the once-a-step ops of each pipeline rank, priced.
template <class Visit>
void every_step(const job::CheckedJob& job, const Pricing& pricing, Workspace& w, Visit visit) {
  StepPrice price;
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    if (!lower::steps_as_before(job, w.lowered, rank)) {
      lower::lower_step(job, w.lowered, rank, w.step);
      price = step_price(job, pricing, w.step);
    }
    visit(rank, price);
  }
}

// Ranks that need not wait for one another between two steps are as far apart as the longest one's work.
Picoseconds longest_work(const job::CheckedJob& job, const Workspace& w) {
  const schedule::Schedule& schedule = schedule_of(job);
  const int chunks = parallel::chunks_of(job.parallel);
  Picoseconds most = 0;
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    Picoseconds work = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const schedule::ChunkCost& c = w.chunks[static_cast<std::size_t>(rank * chunks + chunk)];
      work += c.forward + (schedule.splits_backward
                               ? std::min(c.input_gradient + c.weight_gradient, c.backward)
                               : c.backward);
    }
    most = std::max(most, work);
  }
  return most * schedule::micro_batches_of(shape_of(job), schedule.placement);
}

// What passes hide when run side by side depends on what they expose, which switches change both ways.
bool is_open(const job::CheckedJob& job) {
  const job::OverlapSpec& o = job.spec->overlap;
  return schedule_of(job).side_by_side && (o.tp || o.moe_a2a);
}

void bound_step(const job::CheckedJob& job, Pricing& pricing, Workspace& w, Screen& out) {
  pricing.any_overlap = true;
  fill_times(job, pricing, w);
  const Picoseconds makespan =
      job.spec->schedule.post_validation
          ? longest_work(job, w)
          : schedule::bounds(schedule_of(job), shape_of(job), costs_of(job, w)).lower;
  double exposed = 0;
  double optimizer = 0;
  every_step(job, pricing, w, [&](int rank, const StepPrice& price) {
    const StepTime t = step_time(job, price, longest_pass(job, w, rank));
    exposed = rank == 0 ? t.dp_exposed : std::min(exposed, t.dp_exposed);
    optimizer = std::max(optimizer, t.optimizer);
  });
  out.step_lower_bound =
      Seconds{to_seconds(makespan).value + exposed + optimizer + host_step(job, w)};
  // What other switches hide is taken off in another order: a hair less, so that it stays below.
  constexpr double kRounding = 1 - 1e-12;
  out.busy_lower_bound = Seconds{(kernels_of_step(job, pricing, w) + optimizer) * kRounding};
}

}  // namespace

Screen screen_closely(const job::CheckedJob& job, const calibration::Calibration& calibration,
                      Pricing& pricing, const Options& options, Workspace& w) {
  if (is_open(job) || !hiding_pays(job.spec->framework)) {
    return screen(job, calibration, options, w);
  }
  Screen out;
  prepare_stages(job, w, ops::mean_of_most(spread_of(job), job.parallel.ep));
  fill_held(job, w);
  price_for(job, pricing);
  pricing.any_overlap = false;
  if (needs_times(job)) fill_times(job, pricing, w);
  if (!fit(job, options, w, out)) return out;
  if (schedule_of(job).generate_for != nullptr) {
    out.fits = true;
    out.device_peak = out.least_peak = Bytes{0};
  }
  if (!out.fits) return out;
  bound_step(job, pricing, w, out);
  return out;
}

LeastWork least_work(const job::CheckedJob& job, Pricing& pricing, Workspace& w) {
  if (!hiding_pays(job.spec->framework)) return {};
  prepare_stages(job, w, ops::mean_of_most(spread_of(job), job.parallel.ep));
  price_for(job, pricing);
  pricing.any_overlap = true;
  const ProgramTime* const times = times_of(job, pricing, false, w);
  const double kappa = job.spec->framework.overlap.contention;
  double seconds = 0;
  double kernels = 0;
  for (const ChunkPass pass : {ChunkPass::forward, ChunkPass::backward}) {
    const ChunkTime t = time_chunk(w.lowered.stages[0], times, pass, pricing);
    seconds += least_time(t, pricing);
    kernels += t.sum.compute - kappa * t.sum.hidden;
  }
  // A schedule rounds every pass to a picosecond, of a microsecond at least.
  constexpr double kRounding = 1 - 1e-6;
  return {Seconds{seconds * kRounding}, Seconds{kernels * kRounding}};
}

Simulated simulate(const job::CheckedJob& job, Pricing& pricing, const Options& options,
                   Workspace& w) {
  prepare_stages(job, w, ops::mean_of_most(spread_of(job), job.parallel.ep));
  fill_held(job, w);
  price_for(job, pricing);
  pricing.any_overlap = false;
  fill_times(job, pricing, w);
  Screen memory;
  const bool ordered = fit(job, options, w, memory);
  Simulated out{memory.fits, memory.device_peak, memory.least_peak, {}, {}};
  if (!ordered || !out.fits) return out;
  double work = 0;
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    const OnePass pass = one_pass(job, w, rank);
    work += pass.forward + pass.backward;
  }
  if (!(work * job.micro_batches < kLongestSeconds) || !simulated_step(job, w)) return out;
  double end = 0;
  double optimizer = 0;
  every_step(job, pricing, w, [&](int rank, const StepPrice& price) {
    const StepTime t = step_time(job, price, one_pass(job, w, rank));
    const schedule::RankTime& at = w.timing.ranks[static_cast<std::size_t>(rank)];
    const bool overlapping = job.spec->schedule.post_validation;
    const double last = to_seconds(overlapping ? at.last_end - at.first_start : at.last_end).value;
    end = std::max(end, last + t.dp_exposed);
    optimizer = std::max(optimizer, t.optimizer);
  });
  out.step = Seconds{end + optimizer + host_step(job, w)};
  out.busy = Seconds{kernels_of_step(job, pricing, w) + optimizer};
  return out;
}

}  // namespace eratos::projection
