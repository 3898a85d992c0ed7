// Programs of one job that the next one has too.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "eratos/base/check.h"
#include "eratos/lower/lower.h"
#include "eratos/projection/compose.h"
#include "eratos/projection/measured_prices.h"
#include "eratos/projection/state.h"

namespace eratos::projection {

namespace {

bool puts_off(const job::CheckedJob& job) {
  return schedule_of(job).splits_backward ||
         job.parallel.output_layer == parallel::OutputLayer::one_barrier;
}

bool is_of(const KeptPrograms& kept, const job::CheckedJob& job, double load) {
  return kept.split == puts_off(job) &&
         kept.rounding == job.spec->framework.memory.allocator_rounding &&
         kept.set.is_of(job, load);
}

// All but the programs themselves.
void start(const job::CheckedJob& job, KeptPrograms& out) {
  out.split = puts_off(job);
  out.rounding = job.spec->framework.memory.allocator_rounding;
  out.walked = 0;
  out.bounds.clear();
  out.times.clear();
  out.timed.clear();
  out.hits = 0;
  for (LoadedMemory& m : out.loaded) m.load = -1;
}

void exchange(Workspace& w) {
  w.active->programs.swap(w.lowered.programs);
  w.active->memory.swap(w.program_memory);
}

void activate(KeptPrograms& next, Workspace& w) {
  if (w.active == &next) return;
  if (w.active != nullptr) exchange(w);
  w.active = &next;
  exchange(w);
}

KeptPrograms* find(const job::CheckedJob& job, double load, Workspace& w) {
  KeptPrograms& newest = w.kept[w.newest];
  if (is_of(newest, job, load)) return &newest;
  for (KeptPrograms& kept : w.kept) {
    if (&kept != &newest && is_of(kept, job, load)) return &kept;
  }
  return nullptr;
}

// Room for a set that is not kept.
KeptPrograms& room(Workspace& w) {
  if (w.kept[w.newest].hits > 0) {
    const auto oldest = std::min_element(
        w.kept.begin(), w.kept.end(),
        [](const KeptPrograms& a, const KeptPrograms& b) { return a.used < b.used; });
    w.newest = static_cast<std::size_t>(oldest - w.kept.begin());
  }
  return w.kept[w.newest];
}

void mark(const ops::StageProgram& stage, Workspace& w) {
  for (const ops::StageItem& item : stage.items) w.in_job[item.program] = 1;
}

// Lowers what the active set lacks of the job, and walks it.
void fill(const job::CheckedJob& job, Workspace& w) {
  KeptPrograms& kept = *w.active;
  lower::lower_stages(job, kept.set, w.lowered);
  const std::size_t count = w.lowered.program_count;
  if (w.program_memory.size() < count) w.program_memory.resize(count);
  for (; kept.walked < count; ++kept.walked) {
    memory::walk(w.lowered.programs[kept.walked], kept.rounding, kept.split,
                 w.program_memory[kept.walked]);
  }
  w.in_job.assign(count, 0);
  for (std::size_t i = 0; i < w.lowered.stage_count; ++i) mark(w.lowered.stages[i], w);
  for (const ops::StageProgram& share : w.lowered.shares) mark(share, w);
}

}  // namespace

void prepare_stages(const job::CheckedJob& job, Workspace& w, double load) {
  KeptPrograms* kept = find(job, load, w);
  if (kept != nullptr) {
    ++kept->hits;
  } else {
    kept = &room(w);
    start(job, *kept);
    kept->set.start(job, load);
  }
  kept->used = ++w.clock;
  activate(*kept, w);
  fill(job, w);
}

void prepare(const job::CheckedJob& job, Workspace& w, double load) {
  prepare_stages(job, w, load);
  lower::lower_steps(job, w.lowered);
}

void prepare_at(double load, const job::CheckedJob& job, Workspace& w) {
  ERATOS_CHECK(w.active != nullptr && w.active != &w.passing);
  const lower::ProgramSet& prepared = w.active->set;
  start(job, w.passing);
  activate(w.passing, w);
  w.passing.set.start_like(prepared, job, load, w.lowered);
  fill(job, w);
  lower::lower_steps(job, w.lowered);
}

const std::vector<memory::ProgramMemory>& memory_at(double load, Workspace& w, LoadedMemory& out) {
  const std::size_t count = w.lowered.program_count;
  if (out.load != load) {
    out.load = load;
    out.walked.clear();
  }
  out.walked.resize(count, 0);
  if (out.memory.size() < count) out.memory.resize(count);
  const KeptPrograms& kept = *w.active;
  for (std::size_t i = 0; i < count; ++i) {
    if (out.walked[i] != 0 || w.in_job[i] == 0) continue;
    out.walked[i] = 1;
    if (!kept.set.routes(i)) {
      out.memory[i] = w.program_memory[i];
      continue;
    }
    kept.set.lower_at(load, i, w.scratch);
    memory::walk(w.scratch, kept.rounding, kept.split, out.memory[i]);
  }
  return out.memory;
}

const std::vector<ProgramBound>& bounds_of(const kernel::KernelContext& kernels, Workspace& w) {
  KeptPrograms& kept = *w.active;
  if (!kept.bounds.empty() && !(kept.kernels == kernels)) kept.bounds.clear();
  kept.kernels = kernels;
  for (std::size_t i = kept.bounds.size(); i < w.lowered.program_count; ++i) {
    const ops::Program& p = w.lowered.programs[i];
    kept.bounds.push_back({bound_of(p.forward, kernels), bound_of(p.backward, kernels)});
  }
  return kept.bounds;
}

namespace {

// A number that stands for equal prices.
std::uint64_t number_of(const Pricing& pricing, Workspace& w) {
  if (w.prices_number == 0 || !(w.priced_kernels == pricing.kernels) || !(w.priced_links == pricing.links)) {
    w.priced_kernels = pricing.kernels;
    w.priced_links = pricing.links;
    ++w.prices_number;
  }
  return w.prices_number;
}

bool holds_for(const TimesKey& key, const job::JobSpec& spec, std::uint64_t prices, bool split,
               const Pricing& pricing) {
  if (key.prices != prices || key.split != split || key.graphed != spec.graph_modules ||
      key.host_link != spec.cluster.accelerator.host_link.value ||
      key.gpus_per_node != spec.cluster.gpus_per_node) {
    return false;
  }
  for (std::size_t a = 0; a < key.placements.size(); ++a) {
    if ((key.axes >> a & 1) != 0 && !(key.placements[a] == pricing.placements[a])) return false;
  }
  return true;
}

std::uint32_t axes_of(const ops::Program& p) {
  std::uint32_t axes = 0;
  for (const auto* list : {&p.forward, &p.backward}) {
    for (const ops::Op& op : *list) {
      const auto* c = std::get_if<ops::Collective>(&op.work);
      if (c != nullptr) axes |= std::uint32_t{1} << static_cast<unsigned>(c->axis);
    }
  }
  return axes;
}

void add_axes(std::uint32_t axes, const Pricing& pricing, TimesKey& key) {
  for (std::size_t a = 0; a < key.placements.size(); ++a) {
    if (((axes & ~key.axes) >> a & 1) != 0) key.placements[a] = pricing.placements[a];
  }
  key.axes |= axes;
}

}  // namespace

const ProgramTime* times_of(const job::CheckedJob& job, const Pricing& pricing, bool split,
                            Workspace& w) {
  // Measured times are one job's: they are not kept.
  if (pricing.measured != nullptr) return pricing.measured->times();
  KeptPrograms& kept = *w.active;
  const job::JobSpec& spec = *job.spec;
  const std::uint64_t prices = number_of(pricing, w);
  if (!holds_for(kept.times_key, spec, prices, split, pricing)) {
    kept.timed.clear();
    kept.times_key = {prices,
                      split,
                      spec.graph_modules,
                      spec.cluster.accelerator.host_link.value,
                      spec.cluster.gpus_per_node,
                      0,
                      pricing.placements};
  }
  const std::size_t count = w.lowered.program_count;
  kept.timed.resize(count, 0);
  if (kept.times.size() < count) kept.times.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (w.in_job[i] == 0 || kept.timed[i] != 0) continue;
    time_program(w.lowered.programs[i], pricing, split, kept.times[i]);
    kept.timed[i] = 1;
    add_axes(axes_of(w.lowered.programs[i]), pricing, kept.times_key);
  }
  return kept.times.data();
}

}  // namespace eratos::projection
