#include "eratos/reader/megatron_job.h"
#include "eratos/reader/primus.h"

namespace eratos::reader {

Result<JobRead> primus_job(const PrimusConfig& config) {
  if (config.framework != "megatron" && config.framework != "light-megatron") {
    return fault({.where = config.keys.where(),
                  .message = "Primus experiments for `" + config.framework + "` are not read yet",
                  .cure = "framework: megatron is"});
  }
  const text::Node* stage = config.keys.find("stage");
  const bool post = config.trainer.find("post") != std::string::npos ||
                    (stage != nullptr && stage->raw() == "sft");
  if (post) {
    return fault({.where = stage == nullptr ? config.keys.where() : stage->where(),
                  .message = "`" + config.trainer + "` is post-training (" +
                             (stage == nullptr ? std::string("no stage said") : stage->raw()) +
                             "), which is not modelled yet",
                  .cure = "pre_trainer experiments are"});
  }
  return job_from_megatron(config.keys, {.format = "Primus experiment (Megatron)",
                                         .framework = "primus-megatron",
                                         .name = config.name,
                                         .model = config.model,
                                         .preset_root = config.preset_root,
                                         .name_at = config.name_at,
                                         .model_at = config.model_at});
}

}  // namespace eratos::reader
