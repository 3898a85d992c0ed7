#include "eratos/report/json.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "eratos/report/hybrid.h"
#include "eratos/report/memory_timeline.h"
#include "eratos/text/dump.h"

namespace eratos::report {

using text::Node;

namespace {

Node bytes(Bytes b) { return number(std::round(b.value)); }

Node numbers(const std::vector<double>& values) {
  Node list = Node::sequence();
  for (const double v : values) list.append(number(v));
  return list;
}

Node range(double low, double high) { return numbers({low, high}); }

Node parameters_node(const projection::ParameterAnswer& p) {
  Node out = Node::mapping();
  out.set("total", number(p.total));
  out.set("active", number(p.active));
  out.set("per_stage", numbers(p.per_stage));
  return out;
}

Node stage_node(const memory::StageMemory& s, int stage) {
  Node out = Node::mapping();
  out.set("stage", Node::integer(stage));
  out.set("parameters_bytes", bytes(s.parameters));
  out.set("gradients_bytes", bytes(s.gradients));
  out.set("optimizer_bytes", bytes(s.optimizer));
  out.set("activations_bytes", bytes(s.activations));
  out.set("transient_bytes", bytes(s.transient));
  out.set("communication_bytes", bytes(s.communication));
  out.set("framework_bytes", bytes(s.framework));
  out.set("peak_bytes", bytes(s.allocated));
  out.set("reserved_bytes", bytes(s.reserved));
  out.set("least_bytes", bytes(s.least));
  out.set("device_bytes", bytes(s.device));
  out.set("in_flight_micro_batches", number(s.in_flight));
  out.set("waiting_micro_batches", number(s.waiting));
  out.set("peak_moment", Node::string(std::string(memory::name_of(s.moment))));
  return out;
}

Node time_node(const projection::TimeAnswer& t) {
  Node exposed = Node::mapping();
  exposed.set("tp_s", number(t.exposed.tp.value));
  exposed.set("cp_s", number(t.exposed.cp.value));
  exposed.set("ep_s", number(t.exposed.ep.value));
  exposed.set("pp_s", number(t.exposed.pp.value));
  exposed.set("dp_s", number(t.exposed.dp.value));
  if (t.exposed.host.value > 0) exposed.set("host_s", number(t.exposed.host.value));

  Node modules = Node::mapping();
  for (std::size_t i = 0; i < t.by_module.size(); ++i) {
    if (t.by_module[i].value == 0) continue;
    modules.set(ops::name_of(static_cast<ops::Module>(i)), number(t.by_module[i].value));
  }

  Node out = Node::mapping();
  out.set("step_s", number(t.step.value));
  out.set("compute_s", number(t.compute.value));
  out.set("bubble_s", number(t.bubble.value));
  out.set("optimizer_s", number(t.optimizer.value));
  out.set("launch_s", number(t.launch.value));
  out.set("exposed", std::move(exposed));
  out.set("bubble_ratio", number(t.bubble_ratio()));
  out.set("critical_stage", Node::integer(t.critical_stage));
  out.set("by_module_s", std::move(modules));
  return out;
}

Node throughput_node(const projection::ThroughputAnswer& t) {
  Node out = Node::mapping();
  out.set("tokens_per_s_per_gpu", number(t.tokens_per_s_per_gpu));
  out.set("tokens_per_s", number(t.tokens_per_s));
  out.set("samples_per_s", number(t.samples_per_s));
  out.set("model_tflops_per_gpu", number(t.model_flops_per_gpu.value / 1e12));
  out.set("hardware_tflops_per_gpu", number(t.hardware_flops_per_gpu.value / 1e12));
  out.set("mfu", number(t.mfu));
  out.set("hfu", number(t.hfu));
  return out;
}

Node confidence_node(const projection::Confidence& c, bool with_time) {
  Node out = Node::mapping();
  if (with_time) out.set("step_s", range(c.step.first.value, c.step.second.value));
  out.set("peak_bytes", range(std::round(c.peak.first.value), std::round(c.peak.second.value)));
  out.set("basis", Node::string(c.basis));
  return out;
}

Node provenance_node(const Answer& a) {
  Node out = Node::mapping();
  out.set("calibration", Node::string(a.projection->calibration));
  put_shares(a, out);
  out.set("defaults_filled", Node::integer(static_cast<std::int64_t>(a.defaults)));
  return out;
}

std::vector<projection::Warning> all_warnings(const Answer& a) {
  std::vector<projection::Warning> all = a.projection->warnings;
  all.insert(all.end(), a.reader_warnings.begin(), a.reader_warnings.end());
  return all;
}

Node explanation_node(const projection::Explanation& e) {
  Node out = Node::mapping();
  out.set("key", Node::string(e.key));
  out.set("value", Node::string(e.value));
  if (!e.formula.empty()) out.set("formula", Node::string(e.formula));
  if (!e.source.empty()) out.set("source", Node::string(e.source));
  out.set("kind", Node::string(e.kind));
  if (!e.inputs.empty()) {
    Node inputs = Node::sequence();
    for (const projection::Explanation& input : e.inputs) inputs.append(explanation_node(input));
    out.set("inputs", std::move(inputs));
  }
  return out;
}

}  // namespace

Node number(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: every whole number below is a double
  if (!std::isfinite(value)) return Node::null();
  if (value == std::floor(value) && std::abs(value) < kExact) {
    return Node::integer(static_cast<std::int64_t>(value));
  }
  return Node::number(value);
}

Node document(const std::string& version) {
  Node out = Node::mapping();
  out.set("schema", Node::integer(kSchema));
  out.set("eratos", Node::string(version));
  return out;
}

void put_all(Node& out, Node from) {
  for (text::Entry& entry : from.entries()) out.set(entry.key, std::move(entry.value));
}

Node warnings_node(const std::vector<projection::Warning>& warnings) {
  Node list = Node::sequence();
  for (const projection::Warning& w : warnings) {
    Node one = Node::mapping();
    one.set("code", Node::string(w.code));
    one.set("message", Node::string(w.message));
    list.append(std::move(one));
  }
  return list;
}

namespace {

// What uneven routing does to the highest rank: `step` one step, `run` run_steps of them.
Node routing_node(const projection::RoutingAnswer& r) {
  const auto span = [](Bytes p50, Bytes p99, double oom) {
    Node out = Node::mapping();
    out.set("p50_bytes", bytes(p50));
    out.set("p99_bytes", bytes(p99));
    out.set("oom_probability", number(oom));
    return out;
  };
  Node out = Node::mapping();
  out.set("most_loaded", number(r.most));
  out.set("load_at_peak", number(r.at_peak));
  out.set("step", span(r.step_p50, r.step_p99, r.step_oom));
  out.set("run_steps", Node::integer(r.run_steps));
  out.set("run", span(r.run_p50, r.run_p99, r.run_oom));
  return out;
}

}  // namespace

Node memory_node(const projection::MemoryAnswer& m) {
  Node stages = Node::sequence();
  for (std::size_t i = 0; i < m.stages.size(); ++i) {
    stages.append(stage_node(m.stages[i], static_cast<int>(i)));
  }
  Node out = Node::mapping();
  out.set("fits", Node::boolean(m.fits));
  out.set("capacity_bytes", bytes(m.capacity));
  out.set("margin", number(m.margin));
  out.set("peak_bytes", bytes(m.allocated_peak));
  out.set("allocated_peak_bytes", bytes(m.allocated_peak));
  out.set("reserved_peak_bytes", bytes(m.reserved_peak));
  out.set("least_peak_bytes", bytes(m.least_peak));
  out.set("device_peak_bytes", bytes(m.device_peak));
  out.set("peak_stage", Node::integer(m.peak_stage));
  if (!m.routing.even) {
    out.set("oom_probability", number(m.routing.run_oom));
    out.set("routing", routing_node(m.routing));
  }
  out.set("stages", std::move(stages));
  return out;
}

Node project_node(const Answer& a) {
  const projection::Projection& p = *a.projection;
  Node out = Node::mapping();
  out.set("job", a.job);
  out.set("parameters", parameters_node(p.parameters));
  out.set("memory", memory_node(p.memory));
  out.set("time", time_node(p.time));
  out.set("throughput", throughput_node(p.throughput));
  out.set("confidence", confidence_node(p.confidence, true));
  out.set("provenance", provenance_node(a));
  put_hybrid(a, out);
  if (a.simulated != nullptr) {
    Node simulation = Node::mapping();
    simulation.set("time", time_node(a.simulated->time));
    simulation.set("throughput", throughput_node(a.simulated->throughput));
    simulation.set("confidence", confidence_node(a.simulated->confidence, true));
    out.set("simulation", std::move(simulation));
  }
  out.set("warnings", warnings_node(all_warnings(a)));
  return out;
}

std::string project_json(const Answer& a) {
  Node out = document(a.version);
  put_all(out, project_node(a));
  return text::to_json(out) + '\n';
}

std::string memory_json(const Answer& a) {
  const projection::Projection& p = *a.projection;
  Node saved = Node::mapping();
  for (std::size_t i = 0; i < p.memory.saved_by_module.size(); ++i) {
    if (p.memory.saved_by_module[i].value == 0) continue;
    saved.set(ops::name_of(static_cast<ops::Module>(i)), bytes(p.memory.saved_by_module[i]));
  }
  Node memory = memory_node(p.memory);
  memory.set("saved_by_module_bytes", std::move(saved));
  if (a.timeline != nullptr) memory.set("timeline", timeline_node(*a.timeline));

  Node out = document(a.version);
  out.set("job", a.job);
  out.set("parameters", parameters_node(p.parameters));
  out.set("memory", std::move(memory));
  out.set("confidence", confidence_node(p.confidence, false));
  out.set("provenance", provenance_node(a));
  out.set("warnings", warnings_node(all_warnings(a)));
  return text::to_json(out) + '\n';
}

std::string explanation_json(const projection::Explanation& e, const std::string& version) {
  Node out = document(version);
  out.set("explanation", explanation_node(e));
  return text::to_json(out) + '\n';
}

}  // namespace eratos::report
