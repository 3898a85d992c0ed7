#include "eratos/reader/sayable.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "eratos/parallel/schedules.h"
#include "eratos/reader/export_job.h"

namespace eratos::reader {

namespace {

using search::AxisId;

// The field of the normalised job that an axis sets, or what its fields begin with; "" where a
// writer takes every value, or where values only make sense together (degrees).
std::string_view path_of(AxisId axis) {
  switch (axis) {
    case AxisId::precision:
      return "precision.";
    case AxisId::cp_kind:
      return "parallel.cp_kind";
    case AxisId::order:
      return "parallel.order";
    case AxisId::sequence_parallel:
      return "parallel.sequence_parallel";
    case AxisId::dispatcher:
      return "moe.dispatcher";
    case AxisId::fused_loss:
      return "loss.fused";
    case AxisId::recompute:
      return "recompute.";
    case AxisId::split:
      return "parallel.layout";
    case AxisId::schedule:
      return "schedule.algorithm";
    case AxisId::sharding:
      return "sharding.";
    case AxisId::offload:
      return "offload.optimizer";
    case AxisId::overlap_tp:
      return "overlap.tp";
    case AxisId::overlap_moe:
      return "overlap.moe_a2a";
    case AxisId::overlap_p2p:
      return "overlap.p2p";
    case AxisId::overlap_reduce:
      return "overlap.grad_reduce";
    case AxisId::overlap_gather:
      return "overlap.param_gather";
    default:
      return "";
  }
}

void set_stages(job::JobSpec& s, int pp) {
  s.parallel.pp = pp;
  s.cluster.nodes = pp;
  s.batch.global = s.cluster.gpus() * 8;
}

// A job in which the axis means something and every framework's rules are kept.
job::JobSpec plain_job(const job::JobSpec& base, AxisId axis) {
  job::JobSpec s = base;
  const auto order = s.parallel.order;
  s.parallel = {};
  s.parallel.order = order;
  s.parallel.sharding = parallel::Sharding::zero1;
  s.layout = {};
  s.recompute = {};
  s.schedule = {};
  s.offload.optimizer = 0;
  s.overlap = {};
  s.batch = {1, s.cluster.gpus() * 8, s.batch.sequence, s.batch.packed_length};
  switch (axis) {
    case AxisId::sequence_parallel:
    case AxisId::overlap_tp:
      s.parallel.tp = 2;
      s.parallel.sequence_parallel = true;
      break;
    case AxisId::split:
      // Stages that differ: a split of equal ones says nothing.
      set_stages(s, s.model.layers() % 3 != 0 ? 3 : 5);
      break;
    case AxisId::schedule:
    case AxisId::order:
      s.parallel.pp = 4;
      break;
    case AxisId::cp_kind:
      s.parallel.cp = 2;
      break;
    case AxisId::overlap_p2p:
      s.parallel.pp = 4;
      s.parallel.vpp = 2;
      break;
    case AxisId::dispatcher:
    case AxisId::overlap_moe:
      s.parallel.ep = 2;
      break;
    case AxisId::overlap_reduce:
      s.overlap.param_gather = false;
      break;
    default:
      break;
  }
  return s;
}

// Does the target's file bring back what the job has under `path`? Nothing where it is refused for
// something else.
std::optional<bool> comes_back(const job::JobSpec& job, std::string_view target,
                               std::string_view path) {
  const auto exported = export_job(job, target);
  if (!exported) return std::nullopt;
  return std::none_of(exported->unsaid.begin(), exported->unsaid.end(),
                      [&](const Unsaid& u) { return u.path.rfind(path, 0) == 0; });
}

// The stages of a split, for every number of them up to 16 that the layers do not divide into.
bool is_sayable_split(const search::Space& space, std::size_t at, std::string_view target) {
  for (int pp = 2; pp <= 16; ++pp) {
    job::JobSpec job = plain_job(space.base, AxisId::split);
    if (job.model.layers() % pp == 0) continue;
    set_stages(job, pp);
    search::apply(space, AxisId::split, at, job);
    if (job.layout.stages.empty()) return true;
    if (!comes_back(job, target, path_of(AxisId::split)).value_or(true)) return false;
  }
  return true;
}

bool is_sayable(const search::Space& space, AxisId axis, std::size_t at, std::string_view target) {
  if (axis == AxisId::split) return is_sayable_split(space, at, target);
  job::JobSpec job = plain_job(space.base, axis);
  search::apply(space, axis, at, job);
  if (axis == AxisId::sharding && job.parallel.sharding == parallel::Sharding::none) {
    job.overlap.param_gather = false;
  }
  if (axis == AxisId::schedule) {
    if (job.schedule.algorithm == "auto") return true;
    const auto* facts = parallel::find_schedule_facts(job.schedule.algorithm);
    if (facts != nullptr) job.parallel.vpp = facts->least_vpp;
  }
  return comes_back(job, target, path_of(axis)).value_or(true);
}

}  // namespace

search::LayerFreedom layer_freedom(const search::Space& space, std::string_view target) {
  search::LayerFreedom out;
  if (target.empty()) return out;
  // The first two alone: no pattern that repeats.
  job::JobSpec sets = plain_job(space.base, AxisId::recompute);
  sets.recompute.granularity = job::Granularity::full;
  sets.recompute.layer_ids = {0, 1};
  out.sets = comes_back(sets, target, path_of(AxisId::recompute)).value_or(false);
  sets.recompute.layer_ids.clear();
  for (int i = 1; i < sets.model.layers(); i += 2) sets.recompute.layer_ids.push_back(i);
  out.every = comes_back(sets, target, path_of(AxisId::recompute)).value_or(false);
  // Ends that have fewer, and a second stage that is unlike those behind it: no rule deals so.
  job::JobSpec split = plain_job(space.base, AxisId::split);
  constexpr int kStages = 5;
  set_stages(split, kStages);
  split.layout.stages = search::balanced_stages(split, kStages);
  if (split.layout.stages.front().layers > 1 && split.layout.stages.back().layers > 1) {
    --split.layout.stages.front().layers;
    split.layout.stages[1].layers += 2;
    --split.layout.stages.back().layers;
  }
  out.splits = comes_back(split, target, path_of(AxisId::split)).value_or(false);
  return out;
}

bool says_offload(const job::JobSpec& job) {
  const std::string_view target = target_of(job.framework);
  if (target.empty()) return true;
  job::JobSpec plain = plain_job(job, AxisId::offload);
  plain.offload.optimizer = 1;
  return comes_back(plain, target, path_of(AxisId::offload)).value_or(true);
}

std::string_view target_of(const framework::FrameworkProfile& framework) {
  const std::string_view name = framework.name;
  if (name.find("torchtitan") != std::string_view::npos) return "torchtitan";
  if (name == "primus-megatron") return "primus";
  if (name == "megatron") return "megatron";
  if (name == "nanotron") return "nanotron";
  return "";
}

void one_by_one(std::size_t n, const std::function<void(std::size_t)>& one) {
  for (std::size_t i = 0; i < n; ++i) one(i);
}

void keep_sayable(search::Space& space, const EachOf& each_of) {
  const std::string_view target = target_of(space.base.framework);
  if (target.empty()) return;
  const bool titan = target == "torchtitan";
  space.file = {.expert_tensor_all_or_none = titan, .sharding_spans_cp = titan};
  struct Tried {
    std::size_t axis = 0;
    std::size_t at = 0;
    bool sayable = false;
  };
  std::vector<Tried> all;
  for (std::size_t i = 0; i < search::kAxes; ++i) {
    if (space.named[i] || path_of(static_cast<AxisId>(i)).empty()) continue;
    const std::size_t n = space.axes[i].size();
    for (std::size_t at = 0; n > 1 && at < n; ++at) all.push_back({i, at, false});
  }
  each_of(all.size(), [&](std::size_t i) {
    all[i].sayable = is_sayable(space, static_cast<AxisId>(all[i].axis), all[i].at, target);
  });
  for (auto next = all.begin(); next != all.end();) {
    const std::size_t axis = next->axis;
    std::vector<search::Value> kept;
    std::vector<search::Space::LeftOut> gone;
    for (; next != all.end() && next->axis == axis; ++next) {
      const search::Value& value = space.axes[axis][next->at];
      if (next->sayable) {
        kept.push_back(value);
      } else {
        gone.push_back({static_cast<AxisId>(axis), value.word});
      }
    }
    // A file without any of them says something else than the job: the job's own is as good.
    if (kept.empty()) continue;
    space.axes[axis] = std::move(kept);
    space.left_out.insert(space.left_out.end(), gone.begin(), gone.end());
  }
}

}  // namespace eratos::reader
