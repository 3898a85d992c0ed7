// Primus's block of adapters, for reading and writing alike.
#pragma once

#include <string_view>

#include "eratos/job/job.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

// Names: Primus configs/modules/megatron/sft_trainer.yaml, target_modules. A linear of the MLP is
// one of the experts where there are some.
struct PrimusLinear {
  std::string_view name;
  ops::Module dense;
  ops::Module expert;
};
inline constexpr PrimusLinear kPrimusLinears[] = {
    {"linear_qkv", ops::Module::qkv, ops::Module::qkv},
    {"linear_proj", ops::Module::attention_out, ops::Module::attention_out},
    {"linear_fc1", ops::Module::mlp_in, ops::Module::expert_in},
    {"linear_fc2", ops::Module::mlp_out, ops::Module::expert_out},
};

// What Primus would understand of a job's adapters; its own names beside the nearest of ours.
text::Node primus_lora_of(const job::LoraSpec& spec);

}  // namespace eratos::reader
