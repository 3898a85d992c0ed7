#include "eratos/search/nearest.h"

#include <algorithm>

#include "eratos/parallel/schedules.h"

namespace eratos::search {

namespace {

// One step on one axis.
struct Move {
  std::string name;
  job::JobSpec spec;
};

// Explicit stages belong to the pp and vpp they were written for.
void forget_layout(job::JobSpec& s) { s.layout = job::LayoutSpec{}; }

void add_degree(std::vector<Move>& moves, const job::JobSpec& from, const char* field,
                int parallel::ParallelSpec::*degree, bool changes_stages) {
  const int now = from.parallel.*degree;
  for (const int next : {now * 2, now / 2}) {
    if (next < 1 || next == now) continue;
    Move m{std::string("parallel.") + field + "=" + std::to_string(next), from};
    m.spec.parallel.*degree = next;
    if (changes_stages) forget_layout(m.spec);
    if (degree == &parallel::ParallelSpec::tp) {
      // Said with the degree, so that applying what is printed gives the same job.
      if (from.parallel.sequence_parallel != (next > 1)) {
        m.spec.parallel.sequence_parallel = next > 1;
        m.name += std::string(", parallel.sequence_parallel=") + (next > 1 ? "true" : "false");
      }
      if (model::is_moe(from.model)) m.name += ", parallel.etp=" + std::to_string(from.parallel.etp);
    }
    moves.push_back(std::move(m));
  }
}

void add_batch(std::vector<Move>& moves, const job::JobSpec& from) {
  for (const int next : {from.batch.micro / 2, from.batch.micro * 2}) {
    if (next < 1 || next == from.batch.micro) continue;
    Move m{"batch.micro=" + std::to_string(next), from};
    m.spec.batch.micro = next;
    moves.push_back(std::move(m));
  }
}

void add_recompute(std::vector<Move>& moves, const job::JobSpec& from) {
  if (from.recompute.granularity != job::Granularity::selective &&
      from.recompute.granularity != job::Granularity::full) {
    Move m{"recompute.granularity=selective", from};
    m.spec.recompute.granularity = job::Granularity::selective;
    moves.push_back(std::move(m));
  }
  const bool all = from.recompute.granularity == job::Granularity::full &&
                   from.recompute.method == job::RecomputeMethod::uniform;
  if (!all) {
    Move m{"recompute.granularity=full", from};
    m.spec.recompute.granularity = job::Granularity::full;
    if (from.recompute.method != job::RecomputeMethod::uniform) {
      m.spec.recompute.method = job::RecomputeMethod::uniform;
      m.name += ", recompute.method=uniform";
    }
    if (from.recompute.layers != 1) {
      m.spec.recompute.layers = 1;
      m.name += ", recompute.layers=1";
    }
    if (!from.recompute.layer_ids.empty()) {
      m.spec.recompute.layer_ids.clear();
      m.name += ", recompute.layer_ids=[]";
    }
    moves.push_back(std::move(m));
  }
}

void add_sharding(std::vector<Move>& moves, const job::JobSpec& from) {
  if (from.parallel.sharding == parallel::Sharding::none) {
    Move m{"sharding.stage=zero1", from};
    m.spec.parallel.sharding = parallel::Sharding::zero1;
    moves.push_back(std::move(m));
  }
  if (from.parallel.sharding != parallel::Sharding::zero3 && from.parallel.pp == 1) {
    Move m{"sharding.stage=zero3", from};
    m.spec.parallel.sharding = parallel::Sharding::zero3;
    moves.push_back(std::move(m));
  }
}

// Other schedules that the framework runs, the way it runs them. 1F1B and its interleaved form are
// reached by vpp.
void add_schedule(std::vector<Move>& moves, const job::JobSpec& from) {
  if (from.parallel.pp == 1) return;
  const auto by_vpp = [](std::string_view name) {
    return name == "1f1b" || name == "interleaved-1f1b";
  };
  const bool now_by_vpp = from.schedule.algorithm == "auto" || by_vpp(from.schedule.algorithm);
  const framework::ScheduleRules& rules = from.framework.schedules;
  for (const std::string& name : rules.offered) {
    const parallel::ScheduleFacts* facts = parallel::find_schedule_facts(name);
    if (facts == nullptr || name == from.schedule.algorithm || (now_by_vpp && by_vpp(name)))
      continue;
    const bool recomputes = from.recompute.granularity != job::Granularity::none;
    if (facts->splits_backward && recomputes && !rules.split_recompute) continue;
    Move m{"schedule.algorithm=" + name, from};
    m.spec.schedule.algorithm = name;
    const int vpp = from.parallel.vpp;
    const int asked = vpp < facts->least_vpp                         ? facts->least_vpp
                      : facts->most_vpp > 0 && vpp > facts->most_vpp ? facts->most_vpp
                                                                     : vpp;
    if (asked != vpp) {
      m.spec.parallel.vpp = asked;
      m.name += ", parallel.vpp=" + std::to_string(asked);
      forget_layout(m.spec);
    }
    if (facts->splits_backward && !rules.split_dp_overlap) {
      const auto without = [&](const char* field, bool job::OverlapSpec::*overlap) {
        if (!(m.spec.overlap.*overlap)) return;
        m.spec.overlap.*overlap = false;
        m.name += std::string(", overlap.") + field + "=false";
      };
      without("grad_reduce", &job::OverlapSpec::grad_reduce);
      without("param_gather", &job::OverlapSpec::param_gather);
    }
    moves.push_back(std::move(m));
  }
}

std::vector<Move> moves_from(const job::JobSpec& from) {
  std::vector<Move> moves;
  add_batch(moves, from);
  add_recompute(moves, from);
  add_sharding(moves, from);
  add_schedule(moves, from);
  add_degree(moves, from, "tp", &parallel::ParallelSpec::tp, false);
  add_degree(moves, from, "pp", &parallel::ParallelSpec::pp, true);
  add_degree(moves, from, "vpp", &parallel::ParallelSpec::vpp, true);
  add_degree(moves, from, "cp", &parallel::ParallelSpec::cp, false);
  if (model::is_moe(from.model)) add_degree(moves, from, "ep", &parallel::ParallelSpec::ep, false);
  return moves;
}

bool try_one(const job::JobSpec& spec, const calibration::Calibration& calibration,
             const projection::Options& options, projection::Workspace& w, projection::Screen& out) {
  job::CheckedJob checked;
  if (!job::check(spec, checked).empty() || !projection::schedule_faults(checked).empty()) return false;
  out = projection::screen(checked, calibration, options, w);
  return out.fits;
}

}  // namespace

std::vector<Neighbour> nearest_that_fit(const job::JobSpec& spec,
                                        const calibration::Calibration& calibration,
                                        const projection::Options& options, std::size_t max,
                                        projection::Workspace& w) {
  std::vector<Neighbour> found;
  const auto consider = [&](const Move& move, const std::string& before, int changes) {
    projection::Screen screen;
    if (!try_one(move.spec, calibration, options, w, screen)) return;
    const std::string change = before.empty() ? move.name : before + ", " + move.name;
    found.push_back({move.spec, change, changes, screen});
  };
  const std::vector<Move> first = moves_from(spec);
  for (const Move& m : first) consider(m, "", 1);
  if (found.size() < max) {
    for (const Move& m : first) {
      for (const Move& second : moves_from(m.spec)) {
        // A second step on the first axis undoes or repeats it.
        const auto axis = [](const std::string& name) { return name.substr(0, name.find('=')); };
        if (axis(second.name) <= axis(m.name)) continue;
        consider(second, m.name, 2);
      }
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Neighbour& a, const Neighbour& b) {
    if (a.changes != b.changes) return a.changes < b.changes;
    return a.screen.step_lower_bound < b.screen.step_lower_bound;
  });
  if (found.size() > max) found.resize(max);
  return found;
}

}  // namespace eratos::search
