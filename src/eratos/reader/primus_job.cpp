#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/reader/fields.h"
#include "eratos/reader/maxtext.h"
#include "eratos/reader/megatron_job.h"
#include "eratos/reader/nemo.h"
#include "eratos/reader/primus.h"
#include "eratos/reader/torchtitan.h"

namespace eratos::reader {

namespace {

Result<JobRead> of_megatron(const PrimusConfig& config) {
  const text::Node* adapters = text::find_at(config.keys, "lora.enabled");
  if (adapters != nullptr && adapters->raw() == "true") {
    return fault({.where = adapters->where(),
                  .message = "LoRA fine-tuning is not modelled yet",
                  .cure = "set lora.enabled: false",
                  .field = "lora"});
  }
  return job_from_megatron(config.keys, {.format = "Primus experiment (Megatron)",
                                         .framework = "primus-megatron",
                                         .name = config.name,
                                         .model = config.model,
                                         .preset_root = config.preset_root,
                                         .name_at = config.name_at,
                                         .model_at = config.model_at});
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
