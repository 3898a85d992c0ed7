#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/reader/fields.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/reader/maxtext.h"
#include "eratos/reader/megatron_job.h"
#include "eratos/reader/nemo.h"
#include "eratos/reader/primus.h"
#include "eratos/reader/primus_lora.h"
#include "eratos/reader/torchtitan.h"

namespace eratos::reader {

text::Node primus_lora_of(const job::LoraSpec& spec) {
  using text::Node;
  Node out = Node::mapping();
  out.set("enabled", Node::boolean(true));
  out.set("dim", Node::integer(spec.rank));
  out.set("alpha", Node::number(spec.alpha));
  out.set("dropout", Node::number(spec.dropout));
  Node targets = Node::sequence();
  for (const PrimusLinear& linear : kPrimusLinears) {
    if (spec.targets.test(static_cast<std::size_t>(linear.dense)) ||
        spec.targets.test(static_cast<std::size_t>(linear.expert))) {
      targets.append(Node::string(std::string(linear.name)));
    }
  }
  out.set("target_modules", std::move(targets));
  return out;
}

namespace {

Result<void> add_lora(const text::Node& lora, JobRead& out) {
  Diagnostics bad;
  Fields fields(&lora, "lora", bad);
  job::LoraSpec& spec = out.job.lora;
  spec.rank = 32;
  fields.read("dim", spec.rank);
  fields.read("alpha", spec.alpha);
  fields.read("dropout", spec.dropout);
  if (spec.rank < 1)
    fields.fail("dim", "`lora.dim` is no rank of 1 or more", "or lora.enabled: false");
  if (!(spec.dropout >= 0 && spec.dropout < 1)) {
    fields.fail("dropout", "`lora.dropout` is no probability below 1");
  }
  if (!bad.empty()) return faults(std::move(bad));
  const bool experts = model::is_moe(out.job.model);
  const text::Node* targets = lora.find("target_modules");
  for (const auto& linear : kPrimusLinears) {
    bool named = targets == nullptr;
    if (targets != nullptr && targets->is_sequence()) {
      for (const text::Node& item : targets->items()) named = named || item.raw() == linear.name;
    }
    if (!named) continue;
    spec.targets.set(static_cast<std::size_t>(linear.dense));
    if (experts) spec.targets.set(static_cast<std::size_t>(linear.expert));
  }
  const text::Node written = job_to_node(out.job);
  for_each_value(*written.find("lora"), "lora",
                 [&](const std::string& path, const text::Node& value) {
                   out.report.provenance[path] = {.value = shown(value),
                                                  .origin = Origin::user,
                                                  .where = lora.where(),
                                                  .rule = "the adapters' block"};
                 });
  out.report.provenance.erase("lora");
  return {};
}

Result<JobRead> of_megatron(const PrimusConfig& config) {
  auto out = job_from_megatron(config.keys, {.format = "Primus experiment (Megatron)",
                                             .framework = "primus-megatron",
                                             .name = config.name,
                                             .model = config.model,
                                             .preset_root = config.preset_root,
                                             .name_at = config.name_at,
                                             .model_at = config.model_at});
  const text::Node* on = text::find_at(config.keys, "lora.enabled");
  if (out && on != nullptr && on->raw() == "true") {
    if (auto added = add_lora(*config.keys.find("lora"), *out); !added)
      return faults(added.error());
  }
  return out;
}

Result<JobRead> of_torchtitan(const PrimusConfig& config) {
  return read_torchtitan(config.keys, {.format = "Primus experiment (torchtitan)",
                                       .name = config.name,
                                       .preset_root = config.preset_root,
                                       .compiled = "primus-torchtitan"});
}

Result<JobRead> of_maxtext(const PrimusConfig& config) {
  return read_maxtext(config.keys, {.format = "Primus experiment (MaxText)",
                                    .name = config.name,
                                    .preset_root = config.preset_root});
}

Result<JobRead> of_bridge(const PrimusConfig& config) {
  return job_from_nemo(config.keys, {.format = "Primus experiment (Megatron-Bridge)",
                                     .framework = "megatron-bridge",
                                     .name = config.name,
                                     .model = config.model,
                                     .preset_root = config.preset_root,
                                     .name_at = config.name_at,
                                     .model_at = config.model_at});
}

constexpr struct {
  std::string_view framework;
  Result<JobRead> (*read)(const PrimusConfig& config);
} kBackends[] = {
    {"megatron", of_megatron}, {"light-megatron", of_megatron}, {"torchtitan", of_torchtitan},
    {"maxtext", of_maxtext},   {"megatron_bridge", of_bridge},
};

// Backends that train something else.
constexpr struct {
  std::string_view framework;
  std::string_view what;
} kOthers[] = {
    {"diffusion", "diffusion models"},
    {"maxdiffusion", "diffusion models"},
    {"hummingbirdxt", "diffusion models"},
    {"nemo_automodel", "diffusion models"},
    {"torchrec_dlrm", "recommenders"},
    {"torchrec", "recommenders"},
    {"dlrm", "recommenders"},
    {"dlrm_v4", "recommenders"},
};

}  // namespace

std::optional<Diagnostic> backend_fault(const std::string& framework, const Location& at) {
  std::vector<std::string> known;
  for (const auto& [name, read] : kBackends) {
    if (framework == name) return std::nullopt;
    known.emplace_back(name);
  }
  for (const auto& [name, what] : kOthers) {
    if (framework != name) continue;
    return Diagnostic{.where = at,
                      .message = "`" + framework + "` trains " + std::string(what) +
                                 ": not a language-model pre-training job",
                      .cure = "read are " + list_of(known)};
  }
  return Diagnostic{.where = at,
                    .message = "Primus experiments for `" + framework + "` are not known",
                    .cure = suggestion(framework, known)};
}

Result<JobRead> primus_job(const PrimusConfig& config) {
  for (const auto& [framework, read] : kBackends) {
    if (config.framework == framework) return read(config);
  }
  return fault(*backend_fault(config.framework, config.framework_at));
}

}  // namespace eratos::reader
