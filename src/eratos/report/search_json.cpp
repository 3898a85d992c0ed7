#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "eratos/report/json.h"
#include "eratos/report/search.h"
#include "eratos/report/search_advice.h"
#include "eratos/report/search_aim.h"
#include "eratos/report/search_parts.h"
#include "eratos/report/space.h"
#include "eratos/text/dump.h"

namespace eratos::report {

namespace {

using text::Node;

Node whole(std::uint64_t n) { return Node::integer(static_cast<std::int64_t>(n)); }
Node bytes(Bytes b) { return number(std::round(b.value)); }

Node proof_node(const search::Outcome& o) {
  Node out = Node::mapping();
  out.set("raw", whole(o.proof.raw));
  out.set("illegal", whole(o.proof.illegal));
  out.set("too_big", whole(o.proof.too_big));
  out.set("cut_by_bound", whole(o.proof.cut_by_bound));
  out.set("simulated", whole(o.proof.simulated));
  out.set("proven", Node::boolean(o.proof.proven));
  Node rules = Node::mapping();
  for (const RuleCount& r : removed_by(o)) rules.set(std::string(r.rule->name), whole(r.removed));
  out.set("illegal_by_rule", std::move(rules));
  return out;
}

// Against `figure`, that of the candidate the step leads away from.
Node step_node(const SearchAnswer& a, const search::StepAway& step, double figure) {
  const std::vector<search::Value>& values = a.space->values(step.axis);
  Node out = Node::mapping();
  out.set("axis", Node::string(std::string(search::facts_of(step.axis).name)));
  out.set("from", Node::string(values[step.from].word));
  out.set("to", Node::string(values[step.to].word));
  out.set("legal", Node::boolean(step.refused_by == nullptr));
  if (step.refused_by != nullptr) {
    out.set("rule", Node::string(std::string(step.refused_by->name)));
    return out;
  }
  out.set("fits", Node::boolean(step.fits));
  if (!step.fits) out.set("missing_bytes", bytes(step.missing));
  out.set("device_peak_bytes", bytes(step.device_peak));
  out.set("step_s", number(step.step.value));
  if (step.limit >= 0) {
    out.set("limit", Node::string(a.aim->limits[static_cast<std::size_t>(step.limit)].text));
  }
  out.set("tokens_per_s_per_gpu", number(tokens_per_gpu(a, step.figure)));
  out.set("gain", number(figure / step.aimed - 1));
  return out;
}

double figure_of(const Answer& a) {
  return a.projection->time.step.value /
         (static_cast<double>(a.spec->batch.global) * a.spec->batch.sequence);
}

Node ranked_node(const SearchAnswer& a, const Ranked& one) {
  Node out = Node::mapping();
  out.set("axes", axes_node(a, one.at));
  double share = 0;
  out.set("figures", figures_node(*a.aim, measures_of(one.answer)));
  out.set("binds", Node::string(binds(one, &share)));
  out.set("binds_share", number(share));
  const search::StepAway* change = best_change(one);
  out.set("best_single_change",
          change != nullptr ? step_node(a, *change, one.figure) : Node::null());
  out.set("behind_best", number(one.figure / a.top[0].figure - 1));
  out.set("within_error_band", Node::boolean(one.within_band));
  if (a.own != nullptr)
    out.set("gain_over_job", number(figure_of(*a.own) / figure_of(one.answer) - 1));
  add_losses(one, out);
  put_all(out, project_node(one.answer));
  return out;
}

Node point_node(const SearchAnswer& a, const search::Found& f) {
  Node out = Node::mapping();
  out.set("axes", axes_node(a, f.at));
  out.set("tokens_per_s_per_gpu", number(tokens_per_gpu(a, f.per_token)));
  out.set("device_peak_bytes", bytes(f.device_peak));
  out.set("headroom_bytes", bytes(a.capacity - f.device_peak));
  out.set("figures", figures_node(*a.aim, search::measures_of(*a.space, f)));
  return out;
}

Node closest_node(const SearchAnswer& a) {
  Node out = Node::mapping();
  out.set("axes", axes_node(a, a.outcome->least));
  out.set("least_peak_bytes", bytes(a.outcome->least_peak));
  out.set("missing_bytes", bytes(a.outcome->least_peak - a.capacity));
  return out;
}

}  // namespace

Node search_node(const SearchAnswer& a) {
  Node out = Node::mapping();
  out.set("method", Node::string(a.method));
  put_aim(a, out);
  out.set("interrupted", Node::boolean(a.interrupted));
  out.set("proof", proof_node(*a.outcome));
  if (a.own != nullptr) {
    Node own = Node::mapping();
    own.set("fits", Node::boolean(a.own->projection->memory.fits));
    own.set("step_s", number(a.own->projection->time.step.value));
    own.set("tokens_per_s_per_gpu", number(a.own->projection->throughput.tokens_per_s_per_gpu));
    out.set("baseline", std::move(own));
  }
  Node top = Node::sequence();
  for (const Ranked& one : a.top) top.append(ranked_node(a, one));
  out.set("best", a.top.empty() ? Node::null() : ranked_node(a, a.top[0]));
  out.set("top", std::move(top));
  if (a.front) {
    Node along = Node::sequence();
    for (const search::Objective o : a.aim->front) {
      along.append(Node::string(std::string(search::facts_of(o).json)));
    }
    out.set("pareto_figures", std::move(along));
    Node front = Node::sequence();
    for (const search::Found& f : a.outcome->front) front.append(point_node(a, f));
    out.set("pareto", std::move(front));
  }
  Node sensitivity = Node::sequence();
  if (!a.top.empty()) {
    for (const search::StepAway& s : a.top[0].steps) {
      sensitivity.append(step_node(a, s, a.top[0].figure));
    }
  }
  out.set("sensitivity", std::move(sensitivity));
  if (!a.top.empty()) add_advice(a, out);
  if (a.top.empty()) {
    if (a.outcome->any_too_big) out.set("closest", closest_node(a));
    out.set("deciding_rules", rules_node(a.deciding));
    out.set("nearest_that_fit", nearby_node(a.nearby));
  }
  return out;
}

std::string search_json(const SearchAnswer& a) {
  Node out = document(a.version);
  put_all(out, search_node(a));
  return text::to_json(out) + '\n';
}

}  // namespace eratos::report
