// Programs of one job that the next one has too.
#include <algorithm>
#include <cstddef>

#include "eratos/base/check.h"
#include "eratos/lower/lower.h"
#include "eratos/projection/compose.h"
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

}  // namespace eratos::projection
