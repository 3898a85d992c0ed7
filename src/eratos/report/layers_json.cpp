#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "eratos/report/json.h"
#include "eratos/report/layers.h"
#include "eratos/report/layers_parts.h"
#include "eratos/report/space.h"
#include "eratos/text/dump.h"

namespace eratos::report {

namespace {

using text::Node;

Node whole(std::uint64_t n) { return Node::integer(static_cast<std::int64_t>(n)); }
Node bytes(Bytes b) { return number(std::round(b.value)); }

Node proof_node(const search::LayerPlans::Counts& c) {
  Node out = Node::mapping();
  out.set("candidates", whole(c.candidates));
  out.set("illegal", whole(c.illegal));
  out.set("not_by_layers", whole(c.refused));
  out.set("too_big", whole(c.too_big));
  out.set("slower", whole(c.slower));
  out.set("planned", whole(c.planned));
  out.set("modes", whole(c.modes));
  out.set("sets_priced", whole(c.sets));
  out.set("deals_begun", whole(c.deals));
  out.set("deals_simulated", whole(c.simulated));
  out.set("proven", Node::boolean(c.proven));
  return out;
}

Node axes_node(const search::Space& space, const search::Candidate& at) {
  Node out = Node::mapping();
  for (std::size_t i = 0; i < search::kAxes; ++i) {
    out.set(std::string(search::kAxisFacts[i].name), Node::string(space.axes[i][at.at[i]].word));
  }
  return out;
}

Node stages_node(const PlannedAnswer& one) {
  const projection::Projection& p = *one.answer.projection;
  Node out = Node::sequence();
  for (std::size_t r = 0; r < one.planned->plan.stages.size(); ++r) {
    const search::StagePlan& s = one.planned->plan.stages[r];
    Node stage = Node::mapping();
    stage.set("stage", whole(r));
    stage.set("first_layer", Node::integer(s.first));
    stage.set("layers", whole(s.full.size()));
    Node again = Node::sequence();
    for (const int id : recomputed_layers(s)) again.append(Node::integer(id));
    stage.set("recomputed", std::move(again));
    stage.set("device_peak_bytes", bytes(p.memory.stages[r].device));
    stage.set("least_peak_bytes", bytes(p.memory.stages[r].least));
    stage.set("forward_s", number(p.time.stage_forward[r].value));
    stage.set("backward_s", number(p.time.stage_backward[r].value));
    out.append(std::move(stage));
  }
  return out;
}

Node planned_node(const LayersAnswer& a, const PlannedAnswer& one) {
  Node out = Node::mapping();
  out.set("axes", axes_node(*a.space, one.planned->at));
  out.set("recompute", Node::string(plan_word(one.planned->plan)));
  out.set("plan", stages_node(one));
  put_all(out, project_node(one.answer));
  return out;
}

Node alike_node(const LayersAnswer& a) {
  if (a.alike->top.empty()) return Node::null();
  const search::Found& f = a.alike->top[0];
  Node out = Node::mapping();
  out.set("axes", axes_node(*a.alike_space, f.at));
  out.set("tokens_per_s_per_gpu", number(1 / f.figure / a.space->base.cluster.gpus()));
  out.set("gain", number(gain_over_alike(a)));
  out.set("proven", Node::boolean(a.alike->proof.proven));
  return out;
}

}  // namespace

std::string layers_json(const LayersAnswer& a) {
  Node out = document(a.version);
  out.set("method", Node::string("layers"));
  out.set("objective", Node::string("tokens_per_s_per_gpu"));
  out.set("interrupted", Node::boolean(a.interrupted));
  out.set("proof", proof_node(a.plans->counts()));
  if (a.own != nullptr) {
    Node own = Node::mapping();
    own.set("fits", Node::boolean(a.own->projection->memory.fits));
    own.set("step_s", number(a.own->projection->time.step.value));
    own.set("tokens_per_s_per_gpu", number(a.own->projection->throughput.tokens_per_s_per_gpu));
    out.set("baseline", std::move(own));
  }
  if (a.alike != nullptr) out.set("all_stages_alike", alike_node(a));
  out.set("target", a.target.empty() ? Node::null() : Node::string(a.target));
  Node top = Node::sequence();
  for (const PlannedAnswer& one : a.top) top.append(planned_node(a, one));
  out.set("best", a.top.empty() ? Node::null() : planned_node(a, a.top[0]));
  out.set("top", std::move(top));
  if (a.top.empty()) {
    if (a.plans->least()) {
      Node closest = Node::mapping();
      closest.set("axes", axes_node(*a.space, *a.plans->least()));
      closest.set("least_peak_bytes", bytes(a.plans->least_peak()));
      closest.set("missing_bytes", bytes(a.plans->least_peak() - a.capacity));
      out.set("closest", std::move(closest));
    }
    out.set("deciding_rules", rules_node(a.deciding));
    out.set("nearest_that_fit", nearby_node(a.nearby));
  }
  return text::to_json(out) + '\n';
}

}  // namespace eratos::report
