// One number of the answer as a tree. Every node carries formula, inputs and source; values come
// from the projection itself, never from a second calculation.
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "eratos/projection/compose.h"
#include "eratos/projection/projection.h"
#include "eratos/projection/routing.h"
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

// Rates of the job's own format that were taken from another part are assumed, not calibrated.
std::string kind_of(const Scene& s, calibration::Borrowing::Section section) {
  using Section = calibration::Borrowing::Section;
  const DType format = job::gemm_dtype(s.job.spec->precision);
  for (const calibration::Borrowing& b : s.calibration.part.statements) {
    if (b.section == section && (section != Section::matrix || b.dtype == format)) return "assumed";
  }
  return "calibrated";
}
std::string kind_of_compute(const Scene& s) {
  using Section = calibration::Borrowing::Section;
  for (const Section section : {Section::matrix, Section::attention, Section::memory_bound}) {
    if (kind_of(s, section) == "assumed") return "assumed";
  }
  return "calibrated";
}
std::string kind_of_traffic(const Scene& s) {
  using Section = calibration::Borrowing::Section;
  const bool across_nodes = s.job.spec->cluster.levels.size() > 1;
  if (across_nodes && kind_of(s, Section::network) == "assumed") return "assumed";
  return kind_of(s, Section::collective);
}

Explanation explain_module_time(const Scene& s, ops::Module module) {
  const auto i = static_cast<std::size_t>(module);
  Explanation e{"time.by_module." + std::string(ops::name_of(module)),
                seconds(s.answer.time.by_module[i]),
                "m * (forward + backward) of its ops on the critical rank",
                "kernel and collective models, docs/MODEL.md",
                kind_of_compute(s),
                {}};
  return e;
}

Explanation explain_compute(const Scene& s) {
  Explanation e{"time.compute",
                seconds(s.answer.time.compute),
                "m * sum over ops of kernel time, slowed by hidden communication",
                "docs/MODEL.md, kernels; calibration " + s.answer.calibration,
                kind_of_compute(s),
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
  const schedule::Schedule& schedule = schedule_of(s.job);
  std::string formula = "step less everything the critical rank does";
  std::string source = "simulation of the schedule, docs/MODEL.md, schedule";
  if (!schedule.bubble.empty()) {
    formula += "; equal stages, free sends: " + std::string(schedule.bubble);
    source += "; closed form: " + std::string(schedule.bubble_source);
  }
  return {"time.bubble",
          seconds(s.answer.time.bubble),
          std::move(formula),
          std::move(source),
          "analytic",
          {input("p (pipeline ranks)", s.job.parallel.pp),
           input("v (chunks a rank)", s.job.parallel.vpp),
           input("m (micro-batches)", s.job.micro_batches),
           leaf("F (forward of the critical rank, one micro-batch)",
                seconds(s.answer.time.stage_forward[stage]), "calibrated", "time of its programs"),
           leaf("BW (backward, all of it)", seconds(s.answer.time.stage_backward[stage]),
                "calibrated", "time of its programs")}};
}

Explanation explain_exposed(const Scene& s, const char* axis, Seconds value, const char* formula) {
  return {
      std::string("time.exposed.") + axis,
      seconds(value),
      formula,
      "collective model, docs/MODEL.md; overlap shares of framework " + s.job.spec->framework.name,
      kind_of_traffic(s),
      {}};
}

Explanation explain_step(const Scene& s) {
  const TimeAnswer& t = s.answer.time;
  Explanation e{
      "time.step",
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
  e.inputs.push_back({"time.launch",
                      seconds(t.launch),
                      "m * ((G^n + Q^n)^(1/n) - G) + per step",
                      "host costs of framework " + s.job.spec->framework.name + ": " +
                          s.job.spec->framework.source,
                      "calibrated",
                      {}});
  e.inputs.push_back({"time.optimizer",
                      seconds(t.optimizer),
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

Explanation explain_stage(const Scene& s, int rank) {
  const MemoryAnswer& m = s.answer.memory;
  const auto stage_index = static_cast<std::size_t>(rank);
  const memory::StageMemory& stage = m.stages[stage_index];
  const std::string which = rank == m.peak_stage ? "worst stage" : "stage " + std::to_string(rank);
  const memory::StateRules rules = state_rules(s.job);
  Explanation e{
      "memory.allocated_peak",
      gibibytes(stage.allocated),
      "parameters + gradients + optimizer + activations + transient + workspace, " + which,
      "docs/MODEL.md, memory",
      "analytic",
      {}};
  e.inputs.push_back(input(
      rank == m.peak_stage ? "stage (pipeline rank at the peak)" : "stage (pipeline rank)", rank));
  e.inputs.push_back({"memory.parameters",
                      gibibytes(stage.parameters),
                      "P * bytes / shards",
                      "arXiv 1910.02054 section 3.1",
                      "analytic",
                      {input("P (local parameters)", s.answer.parameters.per_stage[stage_index]),
                       leaf("bytes a parameter", text("%g B", rules.dense.parameter), "analytic",
                            "precision of the job")}});
  e.inputs.push_back({"memory.gradients",
                      gibibytes(stage.gradients),
                      "P * bytes / shards",
                      "main gradients of framework " + s.job.spec->framework.name,
                      "analytic",
                      {leaf("bytes a parameter", text("%g B", rules.dense.gradient), "analytic",
                            "optimizer.main_gradient")}});
  e.inputs.push_back({"memory.optimizer",
                      gibibytes(stage.optimizer),
                      "P * bytes / D",
                      "arXiv 1910.02054 section 3.1",
                      "analytic",
                      {leaf("bytes a parameter", text("%g B", rules.dense.optimizer), "analytic",
                            "master copy and both moments"),
                       leaf("D (ranks that share it, dense)", count(rules.dense.optimizer_shards),
                            "input", "sharding of the job"),
                       leaf("D (experts)", count(rules.expert.optimizer_shards), "input",
                            "sharding of the job")}});
  Explanation activations{"memory.activations",
                          gibibytes(stage.activations),
                          "sum of kept tensors * micro-batches in flight",
                          "lifetimes of the lowered programs; schedule",
                          "analytic",
                          {leaf("micro-batches in flight", text("%.3g", stage.in_flight),
                                "analytic", "the schedule at the peak")}};
  const memory::StageInput in = rank_input(s.job, rank, s.w);
  for (const memory::Holder& h : memory::holders(s.w.lowered.programs, in, 16)) {
    activations.inputs.push_back(leaf(std::string(ops::name_of(h.module)) + "." + h.name,
                                      gibibytes(h.bytes), "analytic",
                                      "kept from forward to backward, all in flight"));
  }
  e.inputs.push_back(std::move(activations));
  e.inputs.push_back({"memory.transient",
                      gibibytes(stage.transient),
                      "alive at the peak beyond what is kept, in " +
                          std::string(stage.peak_program) + ", " +
                          std::string(ops::name_of(stage.peak_module)),
                      "lifetimes of the lowered programs",
                      "analytic",
                      {}});
  const auto& overheads = s.job.spec->framework.memory;
  const std::string profile = "framework " + s.job.spec->framework.name;
  e.inputs.push_back(leaf("memory.workspace", gibibytes(overheads.workspace), "assumed",
                          "library workspaces of " + profile));
  Explanation reserved{"memory.reserved_peak",
                       gibibytes(stage.reserved),
                       "(allocated + shards of gradients apart) * (1 + reserve) + flat buffers of the step",
                       "docs/model/memory.md, outside the live tensors",
                       "calibrated",
                       {}};
  reserved.inputs.push_back(std::move(e));
  const bool expandable = overheads.expandable_segments;
  reserved.inputs.push_back(
      leaf("reserve",
           text("%g", expandable ? overheads.expandable_fraction : overheads.reserve_fraction),
           "calibrated",
           std::string("fragmentation and caches of the allocator with ") +
               (expandable ? "expandable" : "fixed") + " segments, " + profile));
  Explanation device{"memory.device_peak",
                     gibibytes(stage.device),
                     "reserved + context + communicators, " + which,
                     "docs/MODEL.md, memory",
                     "analytic",
                     {}};
  device.inputs.push_back(std::move(reserved));
  device.inputs.push_back(leaf("memory.context", gibibytes(overheads.context), "assumed",
                               "CUDA or HIP context of " + profile));
  device.inputs.push_back(leaf("memory.communication", gibibytes(stage.communication), "assumed",
                               "communicator buffers of " + profile));
  return device;
}

Explanation explain_least_of(const Scene& s, int rank) {
  const memory::StageMemory& stage = s.answer.memory.stages[static_cast<std::size_t>(rank)];
  const auto& overheads = s.job.spec->framework.memory;
  const std::string profile = "framework " + s.job.spec->framework.name;
  return {"memory.least_peak",
          gibibytes(stage.least),
          "allocated * (1 + pressed) + context + communicators, no more than the device's peak",
          "docs/model/memory.md, the allocator",
          "calibrated",
          {leaf("memory.allocated_peak", gibibytes(stage.allocated), "analytic",
                "lifetimes of the lowered programs"),
           leaf("pressed", text("%g", overheads.pressed_fraction), "calibrated",
                "what segments with a live block hold beside it when all others were given back, " +
                    profile),
           leaf("memory.context", gibibytes(overheads.context), "assumed",
                "CUDA or HIP context of " + profile),
           leaf("memory.communication", gibibytes(stage.communication), "assumed",
                "communicator buffers of " + profile)}};
}

// Of the rank that needs most: the one `fits` asks for.
Explanation explain_least(const Scene& s) {
  const auto& stages = s.answer.memory.stages;
  const auto worst = std::max_element(
      stages.begin(), stages.end(),
      [](const memory::StageMemory& x, const memory::StageMemory& y) { return x.least < y.least; });
  return explain_least_of(s, static_cast<int>(worst - stages.begin()));
}

Explanation explain_memory(const Scene& s) { return explain_stage(s, s.answer.memory.peak_stage); }

// Context and library workspaces, which the JSON answer gives as one.
Explanation explain_framework(const Scene& s, int rank) {
  const auto& overheads = s.job.spec->framework.memory;
  const std::string profile = "framework " + s.job.spec->framework.name;
  return {"memory.framework",
          gibibytes(s.answer.memory.stages[static_cast<std::size_t>(rank)].framework),
          "context + workspace",
          profile,
          "assumed",
          {leaf("memory.context", gibibytes(overheads.context), "assumed",
                "CUDA or HIP context of " + profile),
           leaf("memory.workspace", gibibytes(overheads.workspace), "assumed",
                "library workspaces of " + profile)}};
}

// The most loaded rank of an expert-parallel group.
Explanation explain_load(const Scene& s) {
  const ops::LoadSpread spread = spread_of(s.job);
  return {"memory.routing.most_loaded",
          text("%.4f", ops::mean_of_most(spread, s.job.parallel.ep)),
          "mean of the largest of e loads of mean 1 and variance v + c",
          "src/eratos/ops/load.h",
          "analytic",
          {input("e (expert-parallel ranks)", s.job.parallel.ep),
           leaf("v (variance of popularity, a rank)", text("%.4g", spread.popularity), "assumed",
                "moe.skew ^ 2 * (e - 1) / (E - 1)"),
           leaf("c (variance of chance, a rank)", text("%.4g", spread.chance), "analytic",
                "(e - 1)(E - k) / (n k (E - 1))")}};
}

Explanation explain_oom(const Scene& s) {
  const RoutingAnswer& r = s.answer.memory.routing;
  if (r.even) {
    return {"memory.oom_probability",
            s.answer.memory.fits ? "0" : "1",
            "device_peak <= capacity * (1 - margin)",
            "moe.routing is balanced, or there are no experts: every rank receives the same",
            "analytic",
            {explain_memory(s)}};
  }
  const auto peak = [&](const char* key, Bytes value, const char* what) {
    return leaf(key, gibibytes(value), "analytic", what);
  };
  return {"memory.oom_probability",
          text("%.4g", r.run_oom),
          "1 - product over stages of P(load <= room) ^ e, room left by capacity * (1 - margin)",
          "src/eratos/projection/routing.h",
          "analytic",
          {explain_load(s), input("steps of a run", r.run_steps),
           leaf("memory.routing.step.oom_probability", text("%.4g", r.step_oom), "analytic",
                "the same, one step"),
           peak("memory.routing.step.p50", r.step_p50, "half of all steps stay below"),
           peak("memory.routing.step.p99", r.step_p99, "99 of 100 steps stay below"),
           peak("memory.routing.run.p50", r.run_p50, "half of all runs stay below"),
           peak("memory.routing.run.p99", r.run_p99, "99 of 100 runs stay below"),
           explain_memory(s)}};
}

Explanation explain_fits(const Scene& s) {
  const MemoryAnswer& m = s.answer.memory;
  if (!m.routing.even) {
    return {"memory.fits",  m.fits ? "true" : "false", "oom_probability of a run <= 0.01",
            "definition",   "analytic",                {explain_oom(s)}};
  }
  return {"memory.fits",
          m.fits ? "true" : "false",
          "least_peak <= capacity * (1 - margin)",
          "definition",
          "analytic",
          {explain_least(s),
           leaf("memory.capacity", gibibytes(m.capacity), "input",
                "memory.visible_bytes of " + s.job.spec->cluster.accelerator.name + ": " +
                    s.job.spec->cluster.accelerator.source),
           leaf("memory.margin", text("%g", m.margin), "input", "--memory-margin"),
           leaf("memory.peak_stage", count(m.peak_stage), "analytic",
                "the pipeline rank whose device peak is highest")}};
}

Explanation explain_bubble_ratio(const Scene& s) {
  return {"time.bubble_ratio",
          text("%.4g", s.answer.time.bubble_ratio()),
          "bubble / step",
          "definition",
          "analytic",
          {explain_bubble(s),
           leaf("time.step", seconds(s.answer.time.step), "calibrated", "docs/MODEL.md, step"),
           leaf("time.critical_stage", count(s.answer.time.critical_stage), "analytic",
                "the pipeline rank that the parts of the step are told of")}};
}

Explanation explain_rate(const Scene& s) {
  const auto& b = s.job.spec->batch;
  return {"throughput.tokens_per_s",
          text("%.4g tokens/s", s.answer.throughput.tokens_per_s),
          "samples_per_s * sequence",
          "definition",
          "analytic",
          {input("sequence (tokens)", b.sequence),
           {"throughput.samples_per_s",
            text("%.4g sequences/s", s.answer.throughput.samples_per_s),
            "global / step",
            "definition",
            "analytic",
            {input("global (sequences a step)", b.global), explain_step(s)}}}};
}

// FLOPs a second as the model needs them, and as the hardware does them.
Explanation explain_hfu(const Scene& s) {
  const ThroughputAnswer& t = s.answer.throughput;
  const auto& spec = *s.job.spec;
  const FlopsPerSecond peak = spec.cluster.accelerator.peak_of(job::gemm_dtype(spec.precision));
  return {"throughput.hfu",
          text("%.4f", t.hfu),
          "hardware_tflops_per_gpu / peak",
          "arXiv 2205.05198 section 4",
          "analytic",
          {{"throughput.hardware_tflops_per_gpu",
            text("%.1f TFLOP/s", t.hardware_flops_per_gpu.value * 1e-12),
            "FLOPs of all matrix work of a step, recomputed passes included / step / W",
            "the lowered programs",
            "analytic",
            {}},
           {"throughput.model_tflops_per_gpu",
            text("%.1f TFLOP/s", t.model_flops_per_gpu.value * 1e-12),
            "tokens_per_s_per_gpu * model FLOPs a token",
            "docs/MODEL.md, conventions",
            "analytic",
            {explain_tokens(s)}},
           leaf("peak", text("%.1f TFLOP/s", peak.value * 1e-12), "input",
                spec.cluster.accelerator.source)}};
}

Explanation explain_confidence(const Scene& s) {
  const Confidence& c = s.answer.confidence;
  const auto band = [&](const char* key, std::string value, const char* formula) {
    return leaf(key, std::move(value), "calibrated", std::string(formula) + ": " + c.basis);
  };
  return {"confidence",
          c.basis,
          "projected / (1 + 90th percentile of the error) to projected / (1 + 10th)",
          "errors of published runs projected without their group, data/residuals.csv",
          "calibrated",
          {band("confidence.step[0]", seconds(c.step.first), "shortest step of the band"),
           band("confidence.step[1]", seconds(c.step.second), "longest step of the band"),
           band("confidence.peak[0]", gibibytes(c.peak.first), "least memory of the band"),
           band("confidence.peak[1]", gibibytes(c.peak.second), "most memory of the band")}};
}

Explanation explain_active(const Scene& s) {
  const model::Architecture& a = s.job.spec->model;
  Explanation e{"parameters.active",
                count(s.answer.parameters.active),
                "total - weights of the experts that a token does not visit",
                a.source,
                "analytic",
                {leaf("parameters.total", count(s.answer.parameters.total), "analytic", a.source)}};
  for (std::size_t i = 0; i < s.answer.parameters.per_stage.size(); ++i) {
    e.inputs.push_back(
        {"parameters.per_stage[" + std::to_string(i) + "]",
         count(s.answer.parameters.per_stage[i]),
         "local weights of one rank of the stage: its layers, cut over tp, etp and ep",
         "the lowered programs",
         "analytic",
         {}});
  }
  return e;
}

Explanation explain_parameters(const Scene& s) {
  return {"parameters.total",
          count(s.answer.parameters.total),
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

constexpr std::array<Key, 16> kKeys{{{"throughput.tokens_per_s_per_gpu", explain_tokens},
                                     {"throughput.mfu", explain_mfu},
                                     {"time.step", explain_step},
                                     {"time.compute", explain_compute},
                                     {"time.bubble", explain_bubble},
                                     {"memory.device_peak", explain_memory},
                                     {"memory.least_peak", explain_least},
                                     {"parameters.total", explain_parameters},
                                     {"parameters.active", explain_active},
                                     {"memory.fits", explain_fits},
                                     {"memory.oom_probability", explain_oom},
                                     {"memory.routing.most_loaded", explain_load},
                                     {"time.bubble_ratio", explain_bubble_ratio},
                                     {"throughput.tokens_per_s", explain_rate},
                                     {"throughput.hfu", explain_hfu},
                                     {"confidence", explain_confidence}}};

// "time.step_s" and "time.step" are one key: the JSON's names carry the unit, behind the name,
// before an index ("confidence.step_s[0]") or on the group ("time.by_module_s.qkv").
std::string without_unit(std::string key) {
  if (key.find("per_s") != std::string::npos) return key;
  for (const std::string suffix : {"_bytes", "_s"}) {
    for (std::size_t at = key.find(suffix); at != std::string::npos;
         at = key.find(suffix, at + 1)) {
      const std::size_t end = at + suffix.size();
      if (end == key.size() || key[end] == '[' || key[end] == '.') key.erase(at, suffix.size());
    }
  }
  return key;
}

// The index and the rest of "PREFIX[i].rest".
struct Indexed {
  int index = 0;
  std::string rest;
};
std::optional<Indexed> indexed(const std::string& key, const std::string& prefix) {
  if (key.rfind(prefix + '[', 0) != 0) return std::nullopt;
  const char* begin = key.data() + prefix.size() + 1;
  const char* end = key.data() + key.size();
  Indexed out;
  const auto [at, error] = std::from_chars(begin, end, out.index);
  if (error != std::errc() || at == end || *at != ']') return std::nullopt;
  out.rest.assign(at + 1, end);
  return out;
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
  for (const char* more : {"parameters.per_stage[i]",
                           "memory.stages[i].parameters",
                           "memory.stages[i].activations",
                           "memory.stages[i].held",
                           "memory.stages[i].device",
                           "memory.framework",
                           "memory.capacity",
                           "memory.margin",
                           "memory.peak_stage",
                           "time.critical_stage",
                           "time.by_module.MODULE",
                           "throughput.samples_per_s",
                           "throughput.model_tflops_per_gpu",
                           "throughput.hardware_tflops_per_gpu",
                           "confidence.step[0]",
                           "confidence.peak[0]",
                           "time.launch",
                           "time.optimizer",
                           "time.exposed.tp",
                           "time.exposed.cp",
                           "time.exposed.ep",
                           "time.exposed.pp",
                           "time.exposed.dp",
                           "memory.parameters",
                           "memory.gradients",
                           "memory.optimizer",
                           "memory.activations",
                           "memory.transient",
                           "memory.workspace",
                           "memory.allocated_peak",
                           "memory.reserved_peak",
                           "memory.context",
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
    return fault({{},
                  scene.answer.warnings.empty() ? "the job has no projection"
                                                : scene.answer.warnings.front().message,
                  "see `eratos check`",
                  ""});
  }
  // One rank's bytes: the same tree as the worst one's.
  if (const auto stage = indexed(wanted, "memory.stages");
      stage && stage->rest.rfind('.', 0) == 0) {
    const auto ranks = static_cast<int>(scene.answer.memory.stages.size());
    if (stage->index < 0 || stage->index >= ranks) {
      return fault({{}, "`" + key + "` is no stage of 0.." + std::to_string(ranks - 1), "", ""});
    }
    const memory::StageMemory& at =
        scene.answer.memory.stages[static_cast<std::size_t>(stage->index)];
    std::string name = stage->rest.substr(1);
    if (name == "peak" || name == "reserved" || name == "device") {
      name = (name == "peak" ? "allocated" : name) + "_peak";
    }
    if (name == "framework") return explain_framework(scene, stage->index);
    if (name == "least") return explain_least_of(scene, stage->index);
    if (name == "stage") return input(key.c_str(), stage->index);
    if (name == "held") {
      return leaf(key, gibibytes(at.held), "analytic",
                  "saved tensors of the micro-batches in flight, as a forward leaves them");
    }
    if (name == "in_flight_micro_batches") {
      return leaf(key, text("%.4g", at.in_flight), "analytic", "the schedule at the rank's peak");
    }
    if (name == "waiting_micro_batches") {
      return leaf(key, text("%.4g", at.waiting), "analytic",
                  "the schedule at the rank's peak: between input and weight gradient");
    }
    const Explanation tree = explain_stage(scene, stage->index);
    if (const Explanation* found = find_node(tree, "memory." + name)) return *found;
  }
  if (wanted == "memory.framework") return explain_framework(scene, scene.answer.memory.peak_stage);
  for (std::size_t m = 0; m < scene.answer.time.by_module.size(); ++m) {
    const auto module = static_cast<ops::Module>(m);
    if (wanted == "time.by_module." + std::string(ops::name_of(module))) {
      return explain_module_time(scene, module);
    }
  }
  for (const Key& k : kKeys) {
    const Explanation tree = k.explain(scene);
    if (const Explanation* found = find_node(tree, wanted)) return *found;
  }
  const std::vector<std::string> known = explainable_keys();
  const std::string near = nearest_name(wanted, known);
  std::string all;
  for (const std::string& k : known) all += (all.empty() ? "" : ", ") + k;
  return fault(
      {{},
       "unknown key `" + key + "`" + (near.empty() ? "" : "; did you mean `" + near + "`?"),
       "explainable keys are " + all,
       ""});
}

}  // namespace eratos::projection
