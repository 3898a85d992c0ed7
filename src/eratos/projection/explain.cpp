// One number of the answer as a tree. Every node carries formula, inputs and source; values come
// from the projection itself, never from a second calculation.
#include <array>
#include <cmath>
#include <cstdio>

#include "eratos/projection/compose.h"
#include "eratos/projection/projection.h"
#include "eratos/projection/state.h"

namespace eratos::projection {

namespace {

std::string text(const char* format, double v) {
  std::array<char, 64> buffer{};
  const int n = std::snprintf(buffer.data(), buffer.size(), format, v);
  return std::string(buffer.data(), static_cast<std::size_t>(n));
}
std::string seconds(Seconds s) {
  if (s.value >= 1) return text("%.4g s", s.value);
  if (s.value >= 1e-3) return text("%.4g ms", s.value * 1e3);
  return text("%.4g us", s.value * 1e6);
}
std::string gibibytes(Bytes b) { return text("%.3f GiB", b.value / kGiB); }
std::string count(double v) { return text("%.0f", v); }

Explanation leaf(std::string key, std::string value, std::string kind, std::string source) {
  return {std::move(key), std::move(value), "", std::move(source), std::move(kind), {}};
}

Explanation input(const char* key, double value) {
  return leaf(key, count(value), "input", "the job");
}

// What all explanations draw on.
struct Scene {
  const job::CheckedJob& job;
  const calibration::Calibration& calibration;
  Projection answer;
  Workspace& w;
};

Explanation explain_module_time(const Scene& s, ops::Module module) {
  const auto i = static_cast<std::size_t>(module);
  Explanation e{"time.by_module." + std::string(ops::name_of(module)),
                seconds(s.answer.time.by_module[i]),
                "m * (forward + backward) of its ops on the critical rank",
                "kernel and collective models, docs/MODEL.md",
                "calibrated",
                {}};
  return e;
}

Explanation explain_compute(const Scene& s) {
  Explanation e{"time.compute",
                seconds(s.answer.time.compute),
                "m * sum over ops of kernel time, slowed by hidden communication",
                "docs/MODEL.md, kernels; calibration " + s.answer.calibration,
                "calibrated",
                {input("m (micro-batches)", s.job.micro_batches)}};
  for (std::size_t i = 0; i < s.answer.time.by_module.size(); ++i) {
    if (s.answer.time.by_module[i].value > 0.005 * s.answer.time.step.value) {
      e.inputs.push_back(explain_module_time(s, static_cast<ops::Module>(i)));
    }
  }
  return e;
}

Explanation explain_bubble(const Scene& s) {
  const auto stage = static_cast<std::size_t>(s.answer.time.critical_stage);
  return {"time.bubble",
          seconds(s.answer.time.bubble),
          "step less everything the critical rank does; equal stages: (p-1)/v * (F+B)",
          "simulation of the schedule, docs/MODEL.md, schedule; closed form: arXiv 2104.04473 2.2",
          "analytic",
          {input("p (pipeline ranks)", s.job.parallel.pp), input("v (chunks a rank)", s.job.parallel.vpp),
           input("m (micro-batches)", s.job.micro_batches),
           leaf("F (forward of the critical rank, one micro-batch)",
                seconds(s.answer.time.stage_forward[stage]), "calibrated", "time of its programs"),
           leaf("B (backward)", seconds(s.answer.time.stage_backward[stage]), "calibrated",
                "time of its programs")}};
}

Explanation explain_exposed(const Scene& s, const char* axis, Seconds value, const char* formula) {
  return {std::string("time.exposed.") + axis, seconds(value), formula,
          "collective model, docs/MODEL.md; overlap shares of framework " + s.job.spec->framework.name,
          "calibrated",
          {}};
}

Explanation explain_step(const Scene& s) {
  const TimeAnswer& t = s.answer.time;
  Explanation e{"time.step",
                seconds(t.step),
                "compute + bubble + exposed communication + launch + optimizer, on the critical rank",
                "docs/MODEL.md, step",
                "calibrated",
                {}};
  e.inputs.push_back(explain_compute(s));
  e.inputs.push_back(explain_bubble(s));
  e.inputs.push_back(explain_exposed(s, "tp", t.exposed.tp, "m * (collectives of tp - hidden)"));
  e.inputs.push_back(explain_exposed(s, "cp", t.exposed.cp, "m * (collectives of cp - hidden)"));
  e.inputs.push_back(explain_exposed(s, "ep", t.exposed.ep, "m * (all-to-all of ep - hidden)"));
  e.inputs.push_back(explain_exposed(s, "pp", t.exposed.pp, "exposed share of send and receive"));
  e.inputs.push_back(explain_exposed(
      s, "dp", t.exposed.dp,
      "reduce + gather - min(each, share * one backward or forward), plus contention"));
  if (t.exposed.host.value > 0) {
    e.inputs.push_back(explain_exposed(s, "host", t.exposed.host,
                                       "m * (offloaded bytes / host link - compute of the pass)"));
  }
  e.inputs.push_back({"time.launch", seconds(t.launch), "m * ((G^n + Q^n)^(1/n) - G) + per step",
                      "host costs of framework " + s.job.spec->framework.name + ": " +
                          s.job.spec->framework.source,
                      "calibrated",
                      {}});
  e.inputs.push_back({"time.optimizer", seconds(t.optimizer),
                      "bytes of the update and of the gradient norm / sustained bandwidth",
                      "docs/MODEL.md, optimizer",
                      "calibrated",
                      {}});
  return e;
}

Explanation explain_tokens(const Scene& s) {
  const auto& b = s.job.spec->batch;
  return {"throughput.tokens_per_s_per_gpu",
          text("%.1f tokens/s/GPU", s.answer.throughput.tokens_per_s_per_gpu),
          "global * sequence / step / W",
          "definition",
          "analytic",
          {input("global (sequences a step)", b.global), input("sequence (tokens)", b.sequence),
           input("W (accelerators)", s.job.parallel.world()), explain_step(s)}};
}

Explanation explain_mfu(const Scene& s) {
  const auto& spec = *s.job.spec;
  const double per_token = model_flops_per_token(spec.model, spec.batch.sequence,
                                                 FlopConvention::causal, s.job.padded_vocab);
  const FlopsPerSecond peak = spec.cluster.accelerator.peak_of(job::gemm_dtype(spec.precision));
  return {"throughput.mfu",
          text("%.4f", s.answer.throughput.mfu),
          "tokens_per_s_per_gpu * model FLOPs a token / peak",
          "arXiv 2204.02311 appendix B, attention halved for the causal mask",
          "analytic",
          {leaf("model FLOPs a token", text("%.4g GFLOP", per_token * 1e-9), "analytic",
                "6 * weights met + attention, docs/MODEL.md, conventions"),
           leaf("peak", text("%.1f TFLOP/s", peak.value * 1e-12), "input",
                spec.cluster.accelerator.source),
           explain_tokens(s)}};
}

Explanation explain_memory(const Scene& s) {
  const MemoryAnswer& m = s.answer.memory;
  const auto stage_index = static_cast<std::size_t>(m.peak_stage);
  const memory::StageMemory& stage = m.stages[stage_index];
  const memory::StateRules rules = state_rules(s.job);
  Explanation e{"memory.allocated_peak",
                gibibytes(stage.allocated),
                "parameters + gradients + optimizer + activations + transient + workspace, worst stage",
                "docs/MODEL.md, memory",
                "analytic",
                {}};
  e.inputs.push_back(input("stage (pipeline rank at the peak)", m.peak_stage));
  e.inputs.push_back({"memory.parameters", gibibytes(stage.parameters), "P * bytes / shards",
                      "arXiv 1910.02054 section 3.1",
                      "analytic",
                      {input("P (local parameters)", s.answer.parameters.per_stage[stage_index]),
                       leaf("bytes a parameter", text("%g B", rules.dense.parameter), "analytic",
                            "precision of the job")}});
  e.inputs.push_back({"memory.gradients", gibibytes(stage.gradients), "P * bytes / shards",
                      "main gradients of framework " + s.job.spec->framework.name,
                      "analytic",
                      {leaf("bytes a parameter", text("%g B", rules.dense.gradient), "analytic",
                            "optimizer.main_gradient")}});
  e.inputs.push_back({"memory.optimizer", gibibytes(stage.optimizer), "P * bytes / D",
                      "arXiv 1910.02054 section 3.1",
                      "analytic",
                      {leaf("bytes a parameter", text("%g B", rules.dense.optimizer), "analytic",
                            "master copy and both moments"),
                       leaf("D (ranks that share it, dense)", count(rules.dense.optimizer_shards),
                            "input", "sharding of the job"),
                       leaf("D (experts)", count(rules.expert.optimizer_shards), "input",
                            "sharding of the job")}});
  Explanation activations{"memory.activations", gibibytes(stage.activations),
                          "sum of kept tensors * micro-batches in flight",
                          "lifetimes of the lowered programs; schedule",
                          "analytic",
                          {leaf("micro-batches in flight", text("%.3g", stage.in_flight), "analytic",
                                "the schedule at the peak")}};
  const memory::StageInput in = rank_input(s.job, m.peak_stage, s.w);
  for (const memory::Holder& h : memory::holders(s.w.lowered.programs, in, 16)) {
    activations.inputs.push_back(leaf(std::string(ops::name_of(h.module)) + "." + h.name,
                                      gibibytes(h.bytes), "analytic",
                                      "kept from forward to backward, all in flight"));
  }
  e.inputs.push_back(std::move(activations));
  e.inputs.push_back({"memory.transient", gibibytes(stage.transient),
                      "alive at the peak beyond what is kept, in " + std::string(stage.peak_program) +
                          ", " + std::string(ops::name_of(stage.peak_module)),
                      "lifetimes of the lowered programs",
                      "analytic",
                      {}});
  const auto& overheads = s.job.spec->framework.memory;
  const std::string profile = "framework " + s.job.spec->framework.name;
  e.inputs.push_back(leaf("memory.workspace", gibibytes(overheads.workspace), "assumed",
                          "library workspaces of " + profile));
  Explanation reserved{"memory.reserved_peak", gibibytes(stage.reserved), "allocated * (1 + reserve)",
                       "docs/MODEL.md, memory",
                       "assumed",
                       {}};
  reserved.inputs.push_back(std::move(e));
  reserved.inputs.push_back(leaf("reserve", text("%g", overheads.reserve_fraction), "assumed",
                                 "fragmentation and caches of the allocator, " + profile));
  Explanation device{"memory.device_peak", gibibytes(m.device_peak),
                     "reserved + context + communicators, worst stage", "docs/MODEL.md, memory",
                     "analytic",
                     {}};
  device.inputs.push_back(std::move(reserved));
  device.inputs.push_back(leaf("memory.context", gibibytes(overheads.context), "assumed",
                               "CUDA or HIP context of " + profile));
  device.inputs.push_back(leaf("memory.communication", gibibytes(stage.communication), "assumed",
                               "communicator buffers of " + profile));
  return device;
}

Explanation explain_parameters(const Scene& s) {
  return {"parameters.total", count(s.answer.parameters.total),
          "sum over layers of their weights, embedding, output layer, norms",
          s.job.spec->model.source,
          "analytic",
          {input("layers", s.job.spec->model.layers()), input("hidden", s.job.spec->model.hidden),
           input("vocabulary", s.job.spec->model.vocab)}};
}

struct Key {
  const char* name;
  Explanation (*explain)(const Scene&);
};

constexpr std::array<Key, 7> kKeys{{{"throughput.tokens_per_s_per_gpu", explain_tokens},
                                    {"throughput.mfu", explain_mfu},
                                    {"time.step", explain_step},
                                    {"time.compute", explain_compute},
                                    {"time.bubble", explain_bubble},
                                    {"memory.device_peak", explain_memory},
                                    {"parameters.total", explain_parameters}}};

// "time.step_s" and "time.step" are one key: the JSON's names carry the unit.
std::string without_unit(const std::string& key) {
  for (const char* suffix : {"_bytes", "_s"}) {
    const std::string tail(suffix);
    const bool rate = key.find("per_s") != std::string::npos;
    if (!rate && key.size() > tail.size() && key.compare(key.size() - tail.size(), tail.size(), tail) == 0) {
      return key.substr(0, key.size() - tail.size());
    }
  }
  return key;
}

// The node called `key` anywhere below, or nothing.
const Explanation* find_node(const Explanation& e, const std::string& key) {
  if (e.key == key) return &e;
  for (const Explanation& i : e.inputs) {
    if (const Explanation* found = find_node(i, key)) return found;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> explainable_keys() {
  std::vector<std::string> names;
  for (const Key& k : kKeys) names.emplace_back(k.name);
  for (const char* more : {"time.launch", "time.optimizer", "time.exposed.tp", "time.exposed.cp",
                           "time.exposed.ep", "time.exposed.pp", "time.exposed.dp",
                           "memory.parameters", "memory.gradients", "memory.optimizer",
                           "memory.activations", "memory.transient", "memory.workspace",
                           "memory.allocated_peak", "memory.reserved_peak", "memory.context",
                           "memory.communication"}) {
    names.emplace_back(more);
  }
  return names;
}

Result<Explanation> explain(const job::CheckedJob& job, const calibration::Calibration& calibration,
                            const Options& options, const std::string& key, Workspace& w) {
  std::string wanted = without_unit(key);
  if (wanted == "memory.peak") wanted = "memory.allocated_peak";  // one number, two names
  const Scene scene{job, calibration, project(job, calibration, options, w), w};
  if (scene.answer.time.stage_forward.empty()) {
    return fault({{}, scene.answer.warnings.empty() ? "the job has no projection"
                                                    : scene.answer.warnings.front().message,
                  "see `eratos check`", ""});
  }
  for (const Key& k : kKeys) {
    const Explanation tree = k.explain(scene);
    if (const Explanation* found = find_node(tree, wanted)) return *found;
  }
  const std::vector<std::string> known = explainable_keys();
  const std::string near = nearest_name(wanted, known);
  std::string all;
  for (const std::string& k : known) all += (all.empty() ? "" : ", ") + k;
  return fault({{}, "unknown key `" + key + "`" + (near.empty() ? "" : "; did you mean `" + near + "`?"),
                "explainable keys are " + all, ""});
}

}  // namespace eratos::projection
