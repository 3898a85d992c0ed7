#include <cmath>
#include <utility>

#include "eratos/report/accuracy.h"
#include "eratos/report/error_node.h"
#include "eratos/report/json.h"
#include "eratos/text/dump.h"
#include "eratos/text/tree.h"

namespace eratos::report {

using text::Node;

Node summary_node(const ErrorSummary& s) {
  Node out = Node::mapping();
  out.set("n", Node::integer(s.n));
  if (s.n == 0) return out;
  out.set("median_abs", number(s.median_abs));
  out.set("p90_abs", number(s.p90_abs));
  out.set("mean", number(s.mean));
  out.set("within_10", number(s.within_10));
  if (s.in_band) out.set("in_band", number(*s.in_band));
  return out;
}

namespace {

Node group_node(const Group& g) {
  Node out = Node::mapping();
  out.set("throughput", summary_node(g.throughput));
  for (const auto& [name, summary] : {std::pair{"left_out_source", &g.left_out_source},
                                      {"left_out_group", &g.left_out_group},
                                      {"own", &g.own}}) {
    if (summary->n > 0) out.set(name, summary_node(*summary));
  }
  out.set("memory", summary_node(g.memory));
  return out;
}

Node groups_node(const std::map<std::string, Group>& groups) {
  Node out = Node::mapping();
  for (const auto& [name, group] : groups) out.set(name, group_node(group));
  return out;
}

Node feasibility_node(const Feasibility& f) {
  Node out = Node::mapping();
  out.set("n_fits", Node::integer(f.n_fits));
  out.set("n_oom", Node::integer(f.n_oom));
  out.set("false_fits", Node::integer(f.false_fits));
  out.set("false_oom", Node::integer(f.false_oom));
  return out;
}

Node schedules_node(const std::map<std::string, SchedulePairs>& schedules) {
  Node out = Node::mapping();
  for (const auto& [family, pairs] : schedules) {
    Node one = Node::mapping();
    one.set("speed_pairs", Node::integer(pairs.speed_pairs));
    one.set("ordered", Node::integer(pairs.ordered));
    one.set("memory_pairs", Node::integer(pairs.memory_pairs));
    one.set("memory_within_5", Node::integer(pairs.close));
    Node list = Node::sequence();
    for (const SchedulePair& p : pairs.all) {
      Node pair = Node::mapping();
      pair.set("a", Node::string(p.a));
      pair.set("b", Node::string(p.b));
      if (p.measured_speed > 0) {
        pair.set("measured_speed_ratio", number(p.measured_speed));
        pair.set("projected_speed_ratio", number(p.projected_speed));
      }
      if (p.measured_memory > 0) {
        pair.set("measured_memory_ratio", number(p.measured_memory));
        pair.set("projected_memory_ratio", number(p.projected_memory));
      }
      list.append(std::move(pair));
    }
    one.set("pairs", std::move(list));
    out.set(family, std::move(one));
  }
  return out;
}

Node three(const char* const (&names)[3], double a, double b, double c) {
  Node out = Node::mapping();
  out.set(names[0], number(a));
  out.set(names[1], number(b));
  out.set(names[2], number(c));
  return out;
}

Node ranking_node(const std::map<std::string, Ranking>& ranking) {
  Node out = Node::mapping();
  for (const auto& [family, r] : ranking) {
    Node one = Node::mapping();
    one.set("n_groups", Node::integer(static_cast<int>(r.groups.size())));
    one.set("n_rows", Node::integer(r.rows));
    one.set("regret",
            three({"median", "p90", "worst"}, r.regret_median, r.regret_p90, r.regret_worst));
    one.set("rank_correlation", three({"median", "p10", "least"}, r.correlation_median,
                                      r.correlation_p10, r.correlation_least));
    Node list = Node::sequence();
    for (const RankedGroup& g : r.groups) {
      Node group = Node::mapping();
      group.set("name", Node::string(g.name));
      group.set("n", Node::integer(g.n));
      group.set("regret", number(g.regret));
      group.set("rank_correlation", number(g.correlation));
      group.set("best", Node::string(g.best));
      group.set("picked", Node::string(g.picked));
      list.append(std::move(group));
    }
    one.set("groups", std::move(list));
    out.set(family, std::move(one));
  }
  return out;
}

Node picks_node(const Picks& picks) {
  Node out = Node::mapping();
  out.set("n_groups", Node::integer(static_cast<int>(picks.groups.size())));
  out.set("n_groups_without_pick", Node::integer(picks.none));
  out.set("n_rows", Node::integer(picks.rows));
  out.set("n_oom", Node::integer(picks.rows_oom));
  out.set("regret", three({"median", "p90", "worst"}, picks.regret_median, picks.regret_p90,
                          picks.regret_worst));
  out.set("picked_oom", Node::integer(picks.picks_oom));
  out.set("top_places", Node::integer(picks.top));
  out.set("top_places_oom", Node::integer(picks.top_oom));
  out.set("top_places_beside_oom", Node::integer(picks.top_beside_oom));
  Node list = Node::sequence();
  for (const PickedGroup& g : picks.groups) {
    Node group = Node::mapping();
    group.set("family", Node::string(g.family));
    group.set("name", Node::string(g.name));
    group.set("n", Node::integer(g.n));
    group.set("n_oom", Node::integer(g.n_oom));
    group.set("n_said_not_to_fit", Node::integer(g.denied));
    group.set("regret", number(g.regret));
    group.set("best", Node::string(g.best));
    group.set("picked", Node::string(g.picked));
    group.set("picked_oom", Node::boolean(g.picked_oom));
    group.set("top_places", Node::integer(g.top));
    group.set("top_places_oom", Node::integer(g.top_oom));
    list.append(std::move(group));
  }
  out.set("groups", std::move(list));
  return out;
}

Node measured_node(const AccuracyRow& row) {
  Node out = Node::mapping();
  if (!row.from.empty()) {
    out.set("from", Node::string(row.from));
    // A step time is compared as the tokens/s/GPU that it gives.
    out.set(row.from == "step_time_s" ? "tokens_per_s_per_gpu" : row.from,
            number(row.measured_speed));
  }
  if (row.measured_memory.value > 0) {
    out.set("memory_bytes", number(std::round(row.measured_memory.value)));
    out.set("memory_kind", Node::string(row.memory_kind));
  }
  if (!row.outcome.empty()) out.set("outcome", Node::string(row.outcome));
  return out;
}

Node projected_node(const AccuracyRow& row) {
  Node out = Node::mapping();
  out.set("step_s", number(row.projected_step_s));
  out.set("tokens_per_s_per_gpu", number(row.projected_tokens));
  if (row.from == "mfu" || row.from == "tflops_per_gpu") {
    out.set(row.from, number(row.projected_speed));
  }
  if (row.measured_memory.value > 0) {
    out.set("memory_bytes", number(std::round(row.projected_memory.value)));
  }
  out.set("device_peak_bytes", number(std::round(row.device_peak.value)));
  out.set("capacity_bytes", number(std::round(row.capacity.value)));
  out.set("fits", Node::boolean(row.fits));
  return out;
}

Node like_node(const AccuracyRow& row) {
  Node out = Node::mapping();
  out.set("source", Node::string(row.source));
  out.set("model", Node::string(row.model));
  out.set("framework", Node::string(row.like.framework));
  out.set("architecture", Node::string(row.like.architecture));
  out.set("experts", Node::boolean(row.like.experts));
  out.set("busy", number(row.like.busy));
  out.set("gpus", number(row.like.gpus));
  out.set("parameters", number(row.like.parameters));
  return out;
}

Node numbers(const std::vector<double>& values) {
  Node out = Node::sequence();
  for (const double value : values) out.append(number(value));
  return out;
}

Node left_out_node(const AccuracyRow& row) {
  Node out = Node::mapping();
  for (const auto& [name, error] : {std::pair{"all", row.fit_to_all},
                                    {"source", row.left_out_source},
                                    {"group", row.left_out_group},
                                    {"own", row.own}}) {
    if (!error) continue;
    Node each = Node::mapping();
    each.set("throughput", number(*error));
    out.set(name, std::move(each));
  }
  if (!row.own_draws.empty()) out.set("own_draws", numbers(row.own_draws));
  if (!row.known.empty()) {
    Node known = Node::mapping();
    for (const auto& [kind, error] : row.known) known.set(kind, number(error));
    out.set("known", std::move(known));
  }
  if (!row.few.empty()) {
    Node few = Node::mapping();
    for (const auto& [kind, by_rows] : row.few) {
      Node each = Node::mapping();
      for (const auto& [n, errors] : by_rows) each.set(std::to_string(n), numbers(errors));
      few.set(kind, std::move(each));
    }
    out.set("few", std::move(few));
  }
  return out;
}

Node row_node(const AccuracyRow& row) {
  Node out = Node::mapping();
  out.set("id", Node::string(row.id));
  out.set("file", Node::string(row.file));
  out.set("line", Node::integer(row.line));
  out.set("status", Node::string(row.ok() ? "ok" : "skipped"));
  if (!row.ok()) {
    out.set("reason", Node::string(row.skipped));
    if (!row.detail.empty()) out.set("detail", Node::string(row.detail));
  }
  out.set("family", Node::string(row.family));
  out.set("gpu", Node::string(row.gpu));
  if (!row.suspect.empty()) out.set("suspect", Node::string(row.suspect));
  if (!row.ok()) return out;
  out.set("framework", Node::string(row.framework));
  if (!row.excluded.empty()) out.set("excluded", Node::string(row.excluded));
  out.set("measured", measured_node(row));
  out.set("projected", projected_node(row));
  Node error = Node::mapping();
  if (const auto e = row.throughput_error()) error.set("throughput", number(*e));
  if (const auto e = row.memory_error()) error.set("memory", number(*e));
  out.set("error", std::move(error));
  if (Node left_out = left_out_node(row); left_out.size() > 0) {
    out.set("left_out", std::move(left_out));
  }
  Node in_band = Node::mapping();
  if (const auto inside = row.step_in_band()) in_band.set("step", Node::boolean(*inside));
  if (const auto inside = row.memory_in_band()) in_band.set("memory", Node::boolean(*inside));
  out.set("in_band", std::move(in_band));
  out.set("like", like_node(row));
  return out;
}

}  // namespace

std::string accuracy_json(const std::vector<AccuracyRow>& rows, const std::string& version) {
  const Accuracy a = summarise(rows);
  Node reasons = Node::mapping();
  int skipped_rows = 0;
  for (const auto& [reason, n] : a.skipped) {
    reasons.set(reason, Node::integer(n));
    skipped_rows += n;
  }
  Node skipped = Node::mapping();
  skipped.set("n", Node::integer(skipped_rows));
  skipped.set("by_reason", std::move(reasons));

  Node summary = Node::mapping();
  summary.set("rows", Node::integer(a.rows));
  summary.set("projected", Node::integer(a.projected));
  summary.set("throughput", summary_node(a.all.throughput));
  summary.set("memory", summary_node(a.all.memory));
  summary.set("throughput_suspect", summary_node(a.suspect));
  summary.set("feasibility", feasibility_node(a.feasibility));
  summary.set("schedules", schedules_node(a.schedules));
  summary.set("ranking", ranking_node(a.ranking));
  summary.set("picks", picks_node(a.picks));
  summary.set("skipped", std::move(skipped));
  summary.set("by_gpu", groups_node(a.by_gpu));
  summary.set("by_framework", groups_node(a.by_framework));
  summary.set("by_family", groups_node(a.by_family));

  Node list = Node::sequence();
  for (const AccuracyRow& row : rows) list.append(row_node(row));
  Node out = document(version);
  out.set("summary", std::move(summary));
  out.set("rows", std::move(list));
  return text::to_json(out) + '\n';
}

}  // namespace eratos::report
