#include "eratos/search/objective.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "eratos/base/check.h"
#include "eratos/search/front.h"

namespace eratos::search {

namespace {

constexpr double kHour = 3600;

}  // namespace

Result<Objective> objective_of(std::string_view word) {
  std::vector<std::string> known;
  for (const ObjectiveFacts& f : kObjectiveFacts) {
    const std::string between = " " + std::string(word) + " ";
    if (f.key == word || f.alias.find(between) != std::string_view::npos) return f.id;
    known.emplace_back(f.key);
  }
  const std::string near = nearest_name(word, known);
  std::string all;
  for (const ObjectiveFacts& f : kObjectiveFacts) {
    all += (all.empty() ? "" : ", ") + std::string(f.key);
    // Two have another word that users write.
    if (f.id == Objective::train_time) all += " (days)";
    if (f.id == Objective::headroom) all += " (memory)";
  }
  return fault({.message = "unknown objective `" + std::string(word) + "`",
                .cure = near.empty() ? "known: " + all : "did you mean `" + near + "`?"});
}

Power power_of(const hardware::ClusterSpec& cluster) {
  const hardware::RunningCost& r = cluster.running;
  const double load = r.load_w > 0 ? r.load_w : cluster.accelerator.board_power_w;
  if (load <= 0) return {};
  const double idle = r.idle_w > 0 ? r.idle_w : kIdleShare * load;
  return {(load + r.host_w) * r.pue, (std::min(idle, load) + r.host_w) * r.pue};
}

double figure_of(Objective objective, const Terms& terms, const Measures& m) {
  const Goodput& g = terms.goodput;
  const double wall = m.per_token / g.useful;  // seconds a token that counts
  switch (objective) {
    case Objective::throughput:
      return m.per_token;
    case Objective::step_time:
      return m.per_token * m.batch;
    case Objective::train_time:
      return terms.tokens * wall;
    case Objective::cost:
      return terms.price_per_gpu_hour / kHour * terms.gpus * wall;
    case Objective::energy: {
      const Power& p = terms.power;
      const double working = p.idle_w * m.per_token + (p.load_w - p.idle_w) * m.busy;
      return terms.gpus * (working * ((g.useful + g.redone) / g.useful) +
                           p.idle_w * wall * (g.writing + g.restarting));
    }
    case Objective::headroom:
      break;
  }
  return m.device_peak.value;
}

double value_of(Objective objective, const Terms& terms, const Measures& m) {
  const double figure = figure_of(objective, terms, m);
  if (objective == Objective::throughput) return figure > 0 ? 1 / figure / terms.gpus : 0;
  if (objective == Objective::headroom) return terms.capacity.value - figure;
  return figure;
}

std::string missing_for(Objective objective, const Terms& terms, const std::string& part) {
  switch (objective) {
    case Objective::train_time:
      if (terms.tokens > 0) return "";
      return "train_time needs the tokens to train on: --tokens 15T";
    case Objective::cost:
      if (terms.price_per_gpu_hour > 0) return "";
      return "cost needs the price of an accelerator and hour: --price 2.10, --price " + part +
             "=2.10, or price_per_gpu_hour in the cluster's file";
    case Objective::energy:
      if (terms.power.load_w > 0) return "";
      return "energy needs the power of " + part +
             ": power: {load_w: ...} in the cluster's file, or power_w in the accelerator's";
    case Objective::throughput:
    case Objective::step_time:
    case Objective::headroom:
      break;
  }
  return "";
}

bool refuses(const Limit& limit, double value) {
  return facts_of(limit.objective).more_is_better ? value < limit.value : value > limit.value;
}

namespace {

Measures measures(const Space& space, const Candidate& at, double per_token, double busy,
                  Bytes device_peak) {
  const int global = space.values(AxisId::global)[at[AxisId::global]].number;
  return {per_token, busy, static_cast<double>(global) * space.base.batch.sequence, device_peak};
}

double smallest_batch(const Space& space) {
  const std::vector<Value>& values = space.values(AxisId::global);
  const auto least =
      std::min_element(values.begin(), values.end(),
                       [](const Value& a, const Value& b) { return a.number < b.number; });
  return static_cast<double>(least->number) * space.base.batch.sequence;
}

double along(Objective objective, const Terms& terms, const Measures& m) {
  if (objective == Objective::headroom) return static_cast<double>(whole_gib(m.device_peak));
  return figure_of(objective, terms, m);
}

}  // namespace

Measures measures_of(const Space& space, const Candidate& at, const Tell& tell) {
  return measures(space, at, tell.per_token, tell.busy, tell.device_peak);
}

Measures measures_of(const Space& space, const Found& found) {
  return measures(space, found.at, found.per_token, found.busy, found.device_peak);
}

void judge(const Aim& aim, const Space& space, const Ask& ask, Tell& tell) {
  ERATOS_CHECK(aim.front.size() <= kMostAlong);
  Measures m = measures_of(space, ask.at, tell);
  if (ask.open <= AxisId::global) m.batch = smallest_batch(space);
  tell.figure = figure_of(aim.objective, aim.terms, m);
  for (std::size_t i = 0; i < aim.front.size(); ++i) {
    tell.along[i] = along(aim.front[i], aim.terms, m);
  }
  tell.refused_by = -1;
  tell.beyond = 0;
  for (std::size_t i = 0; i < aim.limits.size(); ++i) {
    const Limit& limit = aim.limits[i];
    const double value = value_of(limit.objective, aim.terms, m);
    if (!refuses(limit, value)) continue;
    if (tell.refused_by < 0) tell.refused_by = static_cast<int>(i);
    tell.beyond += std::abs(value - limit.value) / std::max(std::abs(limit.value), 1e-300);
  }
}

}  // namespace eratos::search
