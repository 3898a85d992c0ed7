#include <algorithm>
#include <cstddef>

#include "eratos/kernel/kernel.h"
#include "eratos/lower/lower.h"
#include "eratos/projection/compose.h"
#include "eratos/projection/routing.h"
#include "eratos/projection/state.h"
#include "eratos/schedule/bounds.h"

namespace eratos::projection {

namespace {

// Never above what time_program() finds: communication is left out, kernels are bounded below.
double bound_of(const std::vector<ops::Op>& list, const kernel::KernelContext& k) {
  double seconds = 0;
  for (const ops::Op& op : list) {
    if (const auto* g = std::get_if<ops::Gemm>(&op.work)) {
      seconds += kernel::lower_bound(*g, k).value;
    } else if (const auto* a = std::get_if<ops::Attention>(&op.work)) {
      seconds += kernel::lower_bound(*a, k).value;
    } else if (const auto* e = std::get_if<ops::Elementwise>(&op.work); e != nullptr && op.kernels > 0) {
      seconds += kernel::lower_bound(*e, k).value;
    }
  }
  return seconds;
}

// Rounds down, so that a sum of bounds stays one.
Picoseconds floor_picoseconds(double seconds) { return static_cast<Picoseconds>(seconds * 1e12); }

}  // namespace

Screen screen(const job::CheckedJob& job, const calibration::Calibration& calibration,
              const Options& options, Workspace& w) {
  const job::JobSpec& spec = *job.spec;
  const ops::LoadSpread spread = spread_of(job);
  const double load = ops::mean_of_most(spread, job.parallel.ep);
  prepare(job, w, load);
  fill_held(job, w);
  const schedule::Schedule& schedule = schedule_of(job);
  const schedule::Shape shape = shape_of(job);
  Screen out;
  // An order that looks at times is the same only for the same times.
  const bool cut = job.parallel.output_layer != parallel::OutputLayer::last_stage;
  if (schedule.generate_for != nullptr || cut) fill_times(job, make_pricing(job, calibration), w);
  if (!schedule::find_peaks(schedule, shape, costs_of(job, w), w.order, w.peaks)) return out;

  const memory::StateRules state = state_rules(job);
  memory::StageMemory stage;
  RoutingAnswer routing;
  if (!spread.even()) uneven_memory(job, spread, options, true, w, routing);
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    rank_memory(job, state, rank, w, stage);
    if (rank == 0 || stage.device > out.device_peak) {
      out.device_peak = stage.device;
      out.peak_stage = rank;
    }
    out.least_peak = max(out.least_peak, stage.least);
  }
  out.fits = spread.even() ? out.least_peak <= spec.cluster.accelerator.memory_visible *
                                                    (1.0 - options.memory_margin)
                           : enough(routing);
  if (!spread.even()) prepare(job, w, load);

  const kernel::KernelContext kernels =
      kernel::make_context(spec.cluster.accelerator, calibration.part, spec.framework.kernel,
                           spec.framework.attention_kernel, kernel::Setting::in_training);
  if (w.program_time.size() < w.lowered.program_count) w.program_time.resize(w.lowered.program_count);
  for (std::size_t i = 0; i < w.lowered.program_count; ++i) {
    w.program_time[i].forward.compute = bound_of(w.lowered.programs[i].forward, kernels);
    w.program_time[i].backward.compute = bound_of(w.lowered.programs[i].backward, kernels);
  }
  // Whole backwards: their bound holds for the halves together, and what hides is left out.
  const int chunks = parallel::chunks_of(job.parallel);
  double most = 0;
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    double work = 0;
    for (int part = 0; part < lower::parts_of(job); ++part) {
      double forward = 0;
      double backward = 0;
      for (const ops::StageItem& item : lower::part_of(job, w.lowered, rank, part).items) {
        forward += w.program_time[item.program].forward.compute * item.repeat;
        backward += w.program_time[item.program].backward.compute * item.repeat;
      }
      work += forward + backward;
      if (part == chunks) {
        // Which half of a share's backward runs when is left open.
        w.outputs[static_cast<std::size_t>(rank)] = {floor_picoseconds(forward), 0, 0};
        continue;
      }
      schedule::ChunkCost& cost = w.chunks[static_cast<std::size_t>(rank * chunks + part)];
      cost = {.forward = floor_picoseconds(forward), .backward = floor_picoseconds(backward)};
      // So it is here: an input's gradient may be all of a split backward, or nothing.
      cost.weight_gradient = cost.backward;
    }
    most = std::max(most, work);
  }
  const double m = schedule::micro_batches_of(shape, schedule.placement);
  out.step_lower_bound = Seconds{most * m};
  if (!spec.schedule.post_validation) {
    const schedule::Bounds bounds =
        schedule::bounds(schedule, shape,
                         {.chunks = w.chunks,
                          .links = {},
                          .sends = schedule::Sends::overlapped,
                          .outputs = w.outputs});
    out.step_lower_bound = max(out.step_lower_bound, to_seconds(bounds.lower));
  }
  double optimizer = 0;
  for (std::size_t r = 0; r < w.lowered.rank_count; ++r) {
    optimizer = std::max(optimizer, bound_of(w.lowered.step_ops[r], kernels));
  }
  out.step_lower_bound += Seconds{optimizer};
  return out;
}

}  // namespace eratos::projection
