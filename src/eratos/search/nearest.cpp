#include "eratos/search/nearest.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "eratos/parallel/schedules.h"
#include "eratos/search/axes.h"

namespace eratos::search {

namespace {

// One step on one axis.
struct Move {
  std::string name;
  job::JobSpec spec;
};

std::string joined(const std::string& before, const std::string& what) {
  return before.empty() || what.empty() ? before + what : before + ", " + what;
}

void say(Move& m, const std::string& what) { m.name = joined(m.name, what); }

// Explicit stages belong to the pp and vpp they were written for. What is dropped is said.
void forget_layout(Move& m) {
  const job::LayoutSpec before = std::exchange(m.spec.layout, {});
  if (!before.stages.empty()) say(m, "parallel.layout=null");
  if (before.first_stage_layers > 0) say(m, "parallel.first_stage_layers=null");
  if (before.last_stage_layers > 0) say(m, "parallel.last_stage_layers=null");
}

// Layers that do not divide: the middle stages as many as fit, the rest shared by the ends.
// Worked example: 61 layers on 16 stages are 3, fourteen of 4, and 2.
void deal_unevenly(Move& m) {
  const job::JobSpec& s = m.spec;
  const int pp = s.parallel.pp;
  const int layers = s.model.layers();
  const bool even = s.framework.pipeline_split == framework::PipelineSplit::even;
  if (!even || s.parallel.vpp > 1 || pp < 2 || layers % pp == 0 || s.layout.embedding_counts ||
      s.layout.output_counts) {
    return;
  }
  const int each = layers / pp + 1;
  const int rest = layers - each * (pp - 2);
  if (rest < 2) return;
  m.spec.layout.first_stage_layers = (rest + 1) / 2;
  m.spec.layout.last_stage_layers = rest / 2;
  say(m, "parallel.first_stage_layers=" + std::to_string((rest + 1) / 2));
  say(m, "parallel.last_stage_layers=" + std::to_string(rest / 2));
}

// Divisors of n up to `most`, and the double and the half of what there is.
std::vector<int> degrees_near(int now, int n, int most) {
  std::vector<int> out;
  for (int d = 1; d <= std::min(n, most); ++d) {
    if (n % d == 0) out.push_back(d);
  }
  for (const int d : {now * 2, now / 2}) {
    if (d >= 1 && d <= std::max(most, now) && std::find(out.begin(), out.end(), d) == out.end())
      out.push_back(d);
  }
  std::erase(out, now);
  return out;
}

constexpr int kMostDegree = 64;  // as a search's

void add_degree(std::vector<Move>& moves, const job::JobSpec& from, const char* field,
                int parallel::ParallelSpec::*degree, const std::vector<int>& values) {
  for (const int next : values) {
    Move m{std::string("parallel.") + field + "=" + std::to_string(next), from};
    m.spec.parallel.*degree = next;
    if (degree == &parallel::ParallelSpec::pp || degree == &parallel::ParallelSpec::vpp) {
      forget_layout(m);
      deal_unevenly(m);
    }
    if (degree == &parallel::ParallelSpec::tp) {
      // Said with the degree, so that applying what is printed gives the same job.
      if (from.parallel.sequence_parallel != (next > 1)) {
        m.spec.parallel.sequence_parallel = next > 1;
        say(m, std::string("parallel.sequence_parallel=") + (next > 1 ? "true" : "false"));
      }
      if (model::is_moe(from.model)) say(m, "parallel.etp=" + std::to_string(from.parallel.etp));
    }
    moves.push_back(std::move(m));
  }
}

void add_degrees(std::vector<Move>& moves, const job::JobSpec& from) {
  using parallel::ParallelSpec;
  const int world = from.cluster.gpus();
  const ParallelSpec& p = from.parallel;
  // Tensor parallelism beyond the scale-up domain only loses.
  const int domain = from.cluster.levels.empty() ? world : from.cluster.levels[0].gpus;
  add_degree(moves, from, "tp", &ParallelSpec::tp, degrees_near(p.tp, world, domain));
  add_degree(moves, from, "pp", &ParallelSpec::pp, degrees_near(p.pp, world, kMostDegree));
  add_degree(moves, from, "vpp", &ParallelSpec::vpp, degrees_near(p.vpp, 1, kMostDegree));
  add_degree(moves, from, "cp", &ParallelSpec::cp, degrees_near(p.cp, world, kMostDegree));
  if (model::is_moe(from.model)) {
    add_degree(moves, from, "ep", &ParallelSpec::ep,
               degrees_near(p.ep, most_experts(from), kMostDegree));
    add_degree(moves, from, "etp", &ParallelSpec::etp, degrees_near(p.etp, 1, kMostDegree));
  } else if (p.ep > 1 || p.etp > 1) {
    Move m{"parallel.ep=1, parallel.etp=1", from};
    m.spec.parallel.ep = 1;
    m.spec.parallel.etp = 1;
    moves.push_back(std::move(m));
  }
}

// The layers as they stand do not divide.
void add_split(std::vector<Move>& moves, const job::JobSpec& from) {
  Move m{"", from};
  forget_layout(m);
  deal_unevenly(m);
  if (!m.name.empty()) moves.push_back(std::move(m));
}

void add_batch(std::vector<Move>& moves, const job::JobSpec& from) {
  for (int next = from.batch.micro * 2; next >= 1; next /= 2) {
    if (next == from.batch.micro) continue;
    Move m{"batch.micro=" + std::to_string(next), from};
    m.spec.batch.micro = next;
    moves.push_back(std::move(m));
  }
  // A batch that the data-parallel ranks do not divide: the multiples on both sides of it.
  const long long cut =
      static_cast<long long>(from.parallel.tp) * from.parallel.cp * from.parallel.pp;
  if (cut < 1 || from.cluster.gpus() % cut != 0) return;
  const long long slice = from.batch.micro * (from.cluster.gpus() / cut);
  if (slice < 1 || slice > from.batch.global * 2LL || from.batch.global % slice == 0) return;
  const long long below = from.batch.global / slice * slice;
  for (const long long next : {below, below + slice}) {
    if (next < 1) continue;
    Move m{"batch.global=" + std::to_string(next), from};
    m.spec.batch.global = static_cast<int>(next);
    moves.push_back(std::move(m));
  }
}

void add_offload(std::vector<Move>& moves, const job::JobSpec& from) {
  if (from.offload.optimizer >= 1 || from.cluster.accelerator.host_link.value <= 0) return;
  Move m{"offload.optimizer=1", from};
  m.spec.offload.optimizer = 1;
  moves.push_back(std::move(m));
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
  if (from.parallel.sharding != parallel::Sharding::zero3 &&
      (from.parallel.pp == 1 || from.framework.state.gathered_in_pipeline)) {
    Move m{"sharding.stage=zero3", from};
    m.spec.parallel.sharding = parallel::Sharding::zero3;
    moves.push_back(std::move(m));
  }
}

// Other schedules that the framework runs, the way it runs them. 1F1B and its interleaved form are
// reached by vpp.
void add_schedule(std::vector<Move>& moves, const job::JobSpec& from) {
  if (from.schedule.algorithm != "auto") {
    Move m{"schedule.algorithm=auto", from};
    m.spec.schedule.algorithm = "auto";
    moves.push_back(std::move(m));
  }
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
      say(m, "parallel.vpp=" + std::to_string(asked));
      forget_layout(m);
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

std::vector<Move> moves_from(const job::JobSpec& from, bool offload) {
  std::vector<Move> moves;
  add_batch(moves, from);
  add_recompute(moves, from);
  add_sharding(moves, from);
  add_schedule(moves, from);
  add_degrees(moves, from);
  add_split(moves, from);
  if (offload) add_offload(moves, from);
  return moves;
}

// parallel.tp=2 and parallel.etp=1 of "parallel.tp=2, parallel.etp=1".
std::vector<std::string> parts_of(const std::string& change) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin < change.size();) {
    const std::size_t end = std::min(change.find(", ", begin), change.size());
    out.push_back(change.substr(begin, end - begin));
    begin = end + 2;
  }
  return out;
}

std::string setting_of(const std::string& part) { return part.substr(0, part.find('=')); }

// parallel.tp and parallel.sequence_parallel of "parallel.tp=2, parallel.sequence_parallel=true".
std::set<std::string> settings_in(const std::string& change) {
  std::set<std::string> out;
  for (const std::string& part : parts_of(change)) out.insert(setting_of(part));
  return out;
}

// `then` behind `before`, each setting once: what is said last holds.
// Worked example: "parallel.etp=2" and "parallel.tp=4, parallel.etp=2".
std::string after(const std::string& before, const std::string& then) {
  const std::set<std::string> again = settings_in(then);
  std::string out;
  for (const std::string& part : parts_of(before)) {
    if (!again.contains(setting_of(part))) out = joined(out, part);
  }
  return joined(out, then);
}

// A change that also makes another one, which fits by itself, is no answer of its own.
void drop_supersets(std::vector<Neighbour>& sorted) {
  std::vector<std::set<std::string>> kept;
  std::erase_if(sorted, [&](const Neighbour& n) {
    const std::set<std::string> mine = settings_in(n.change);
    const bool more = std::any_of(kept.begin(), kept.end(), [&](const auto& fewer) {
      return std::includes(mine.begin(), mine.end(), fewer.begin(), fewer.end());
    });
    if (!more) kept.push_back(mine);
    return more;
  });
}

class Nearest {
 public:
  Nearest(const calibration::Calibration& calibration, const projection::Options& options,
          projection::Workspace& w, bool offload)
      : calibration_(calibration), options_(options), w_(w), offload_(offload) {}

  // The best of each set of settings within two changes; two only where `enough` are not found with
  // one. Where two do not do: a third from those of the two that come nearest.
  std::vector<Neighbour> of(const job::JobSpec& spec, std::size_t enough) {
    std::vector<Neighbour> found;
    too_big_.clear();
    const std::vector<Move> first = moves_from(spec, offload_);
    for (const Move& m : first) consider(m, "", 1, found);
    if (found.size() < enough) {
      for (const Move& m : first) {
        for (const Move& second : moves_from(m.spec, offload_)) {
          // A second step on the first axis undoes or repeats it.
          const auto axis = [](const std::string& name) { return name.substr(0, name.find('=')); };
          if (axis(second.name) <= axis(m.name)) continue;
          consider(second, m.name, 2, found);
        }
      }
    }
    if (found.empty()) {
      for (const Neighbour& near : std::exchange(too_big_, {})) {
        for (const Move& m : moves_from(near.spec, offload_)) {
          const std::set<std::string> before = settings_in(near.change);
          const std::set<std::string> then = settings_in(m.name);
          const bool again = std::any_of(then.begin(), then.end(), [&](const std::string& setting) {
            return before.contains(setting);
          });
          if (!again) consider(m, near.change, near.changes + 1, found);
        }
      }
    }
    std::stable_sort(found.begin(), found.end(), [](const Neighbour& a, const Neighbour& b) {
      if (a.changes != b.changes) return a.changes < b.changes;
      return a.screen.step_lower_bound < b.screen.step_lower_bound;
    });
    drop_supersets(found);
    return found;
  }

  bool fits(const job::JobSpec& spec, projection::Screen& out) {
    if (!job::check(spec, *checked_).empty()) return false;
    if (!projection::schedule_faults(*checked_).empty()) return false;
    out = projection::screen(*checked_, calibration_, options_, w_);
    return out.fits;
  }

 private:
  void consider(const Move& move, const std::string& before, int changes,
                std::vector<Neighbour>& found) {
    projection::Screen screen;
    const bool good = fits(move.spec, screen);
    const std::string change = after(before, move.name);
    if (!good) {
      if (screen.least_peak.value > 0) keep_nearest({move.spec, change, changes, screen});
      return;
    }
    const auto settings = settings_in(change);
    const auto alike = std::find_if(found.begin(), found.end(), [&](const Neighbour& n) {
      return settings_in(n.change) == settings;
    });
    Neighbour neighbour{move.spec, change, changes, screen};
    if (alike == found.end()) {
      found.push_back(std::move(neighbour));
    } else if (changes == alike->changes &&
               screen.step_lower_bound < alike->screen.step_lower_bound) {
      *alike = std::move(neighbour);
    }
  }

  // Legal and too big: those that lack least.
  void keep_nearest(Neighbour n) {
    constexpr std::size_t kMost = 8;
    const auto at = std::upper_bound(too_big_.begin(), too_big_.end(), n,
                                     [](const Neighbour& a, const Neighbour& b) {
                                       return a.screen.least_peak < b.screen.least_peak;
                                     });
    if (at == too_big_.end() && too_big_.size() == kMost) return;
    too_big_.insert(at, std::move(n));
    if (too_big_.size() > kMost) too_big_.pop_back();
  }

  const calibration::Calibration& calibration_;
  const projection::Options& options_;
  projection::Workspace& w_;
  bool offload_;
  std::vector<Neighbour> too_big_;
  std::unique_ptr<job::CheckedJob> checked_ = std::make_unique<job::CheckedJob>();
};

std::string nodes_word(const hardware::ClusterSpec& c) {
  return "--nodes " + std::to_string(c.nodes);
}

// The first larger cluster on which the job fits as it stands.
void add_larger(const job::JobSpec& spec, std::span<const hardware::ClusterSpec> larger,
                Nearest& nearest, std::vector<Neighbour>& found) {
  for (const hardware::ClusterSpec& cluster : larger) {
    Neighbour n{spec, nodes_word(cluster), 1, {}};
    n.spec.cluster = cluster;
    if (!nearest.fits(n.spec, n.screen)) continue;
    found.push_back(std::move(n));
    return;
  }
}

// The first on which it fits with some changes.
std::vector<Neighbour> on_larger(const job::JobSpec& spec,
                                 std::span<const hardware::ClusterSpec> larger, std::size_t max,
                                 Nearest& nearest) {
  for (const hardware::ClusterSpec& cluster : larger) {
    job::JobSpec there = spec;
    there.cluster = cluster;
    std::vector<Neighbour> found = nearest.of(there, max);
    if (found.empty()) continue;
    for (Neighbour& n : found) {
      n.change = nodes_word(cluster) + ", " + n.change;
      ++n.changes;
    }
    return found;
  }
  return {};
}

}  // namespace

std::vector<Neighbour> nearest_that_fit(const job::JobSpec& spec,
                                        const calibration::Calibration& calibration,
                                        const projection::Options& options, std::size_t max,
                                        projection::Workspace& w,
                                        std::span<const hardware::ClusterSpec> larger,
                                        bool offload) {
  Nearest nearest(calibration, options, w, offload);
  std::vector<Neighbour> found = nearest.of(spec, max);
  if (found.size() > max) found.resize(max);
  std::vector<Neighbour> more;
  add_larger(spec, larger, nearest, more);
  if (found.empty() && more.empty()) more = on_larger(spec, larger, max, nearest);
  if (!more.empty() && found.size() == max) found.pop_back();
  for (Neighbour& n : more) {
    if (found.size() < max) found.push_back(std::move(n));
  }
  return found;
}

}  // namespace eratos::search
