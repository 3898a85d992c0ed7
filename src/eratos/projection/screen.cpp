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

// Rounds down, so that a sum of bounds stays one.
Picoseconds floor_picoseconds(double seconds) { return static_cast<Picoseconds>(seconds * 1e12); }

}  // namespace

bool needs_times(const job::CheckedJob& job) {
  // An order that looks at times is the same only for the same times.
  return schedule_of(job).generate_for != nullptr ||
         job.parallel.output_layer != parallel::OutputLayer::last_stage;
}

namespace {

bool same_shape(const schedule::Shape& a, const schedule::Shape& b) {
  return a.pp == b.pp && a.chunks == b.chunks && a.micro_batches == b.micro_batches &&
         a.group_size == b.group_size && a.output == b.output;
}

void list_bytes(const Workspace& w, std::vector<std::int64_t>& out) {
  out.clear();
  for (const schedule::ChunkCost& c : w.chunks) {
    out.push_back(c.held);
    out.push_back(c.kept);
  }
  for (const schedule::OutputCost& o : w.outputs) out.push_back(o.held);
  out.insert(out.end(), w.limits.begin(), w.limits.end());
}

// Holds `rank` what the rank before holds, and nowhere more micro-batches of it? Then it needs no more.
// Where parameters are gathered, bytes beside the peak depend on which moment that is.
bool holds_no_more(const job::CheckedJob& job, const memory::StateRules& state, const Workspace& w,
                   int rank) {
  if (state.gathers || !w.outputs.empty() || !lower::steps_as_before(job, w.lowered, rank)) {
    return false;
  }
  const int chunks = parallel::chunks_of(job.parallel);
  int deepest = 0;
  int deepest_before = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const auto here = static_cast<std::size_t>(rank * chunks + chunk);
    const auto before = here - static_cast<std::size_t>(chunks);
    if (w.peaks.in_flight[here] > w.peaks.in_flight[before]) return false;
    if (w.peaks.waiting[here] > w.peaks.waiting[before]) return false;
    if (w.peaks.in_flight[here] > 0) deepest = chunk;
    if (w.peaks.in_flight[before] > 0) deepest_before = chunk;
  }
  return deepest == deepest_before;
}

}  // namespace

Result<void> fill_peaks(const job::CheckedJob& job, Workspace& w) {
  const schedule::Schedule& schedule = schedule_of(job);
  const schedule::Shape shape = shape_of(job);
  list_bytes(w, w.peaks_bytes);
  PeaksKey& key = w.peaks_key;
  if (key.schedule == &schedule && same_shape(key.shape, shape) && key.bytes == w.peaks_bytes) {
    return {};
  }
  key.schedule = nullptr;
  auto found = schedule::find_peaks(schedule, shape, costs_of(job, w), w.order, w.peaks);
  if (!found || needs_times(job)) return found;
  key.schedule = &schedule;
  key.shape = shape;
  key.bytes.swap(w.peaks_bytes);
  return found;
}

bool fit(const job::CheckedJob& job, const Options& options, Workspace& w, Screen& out) {
  if (!fill_peaks(job, w)) return false;
  const memory::StateRules state = state_rules(job);
  const memory::StageInput frame = frame_of(job);
  const ops::LoadSpread spread = spread_of(job);
  memory::StageMemory stage;
  RoutingAnswer routing;
  const std::vector<memory::ProgramMemory>* programs = &w.program_memory;
  if (!spread.even()) {
    uneven_memory(job, spread, options, true, w, routing);
    w.at_peak.load = -1;  // another job's
    programs = &memory_at(routing.at_peak, w, w.at_peak);
  }
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    if (rank > 0 && holds_no_more(job, state, w, rank)) continue;
    rank_memory(job, state, frame, rank, *programs, w, stage);
    if (rank == 0 || stage.device > out.device_peak) {
      out.device_peak = stage.device;
      out.peak_stage = rank;
    }
    out.least_peak = max(out.least_peak, stage.least);
  }
  out.fits = spread.even() ? out.least_peak <= job.spec->cluster.accelerator.memory_visible *
                                                   (1.0 - options.memory_margin)
                           : enough(routing);
  return true;
}

Screen screen(const job::CheckedJob& job, const calibration::Calibration& calibration,
              const Options& options, Workspace& w) {
  const job::JobSpec& spec = *job.spec;
  prepare_stages(job, w, ops::mean_of_most(spread_of(job), job.parallel.ep));
  fill_held(job, w);
  const schedule::Schedule& schedule = schedule_of(job);
  const schedule::Shape shape = shape_of(job);
  Screen out;
  if (needs_times(job)) fill_times(job, make_pricing(job, calibration), w);
  if (!fit(job, options, w, out)) return out;

  const kernel::KernelContext kernels =
      kernel::make_context(spec.cluster.accelerator, calibration.part, spec.framework.kernel,
                           spec.framework.attention_kernel, kernel::Setting::in_training);
  const std::vector<ProgramBound>& bound = bounds_of(kernels, w);
  // Whole backwards: their bound holds for the halves together, and what hides is left out.
  const int chunks = parallel::chunks_of(job.parallel);
  double most = 0;
  double all = 0;
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    double work = 0;
    for (int part = 0; part < lower::parts_of(job); ++part) {
      double forward = 0;
      double backward = 0;
      for (const ops::StageItem& item : lower::part_of(job, w.lowered, rank, part).items) {
        forward += bound[item.program].forward * item.repeat;
        backward += bound[item.program].backward * item.repeat;
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
    all += work;
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
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    if (lower::steps_as_before(job, w.lowered, rank)) continue;
    lower::lower_step(job, w.lowered, rank, w.step);
    optimizer = std::max(optimizer, bound_of(w.step, kernels));
  }
  out.step_lower_bound += Seconds{optimizer};
  // Sums in another order than project()'s: a hair less, so that it stays below.
  constexpr double kRounding = 1 - 1e-12;
  out.busy_lower_bound = Seconds{(all * m / job.parallel.pp + optimizer) * kRounding};
  return out;
}

}  // namespace eratos::projection
