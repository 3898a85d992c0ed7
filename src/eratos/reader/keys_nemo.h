// NeMo's and Megatron-Bridge's keys, and Megatron's arguments of the same meaning: here `field` is
// a key of megatron_job.h.
// Source: NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/training/config.py, NVIDIA/Megatron-LM
// megatron/core/transformer/transformer_config.py; NVIDIA/NeMo
// examples/nlp/language_modeling/conf/megatron_gpt_config.yaml.
#pragma once

#include "eratos/reader/key_rows.h"

namespace eratos::reader {

// What is in the groups `model`, `train`, `optimizer`, `ddp`, `dataset`, `mixed_precision` under
// another name than Megatron's argument.
inline constexpr KeyRow kNemoKeys[] = {
    {"model.num_moe_experts", "num_experts"},
    {"model.encoder_seq_length", "seq_length"},
    {"model.activations_checkpoint_granularity", "recompute_granularity"},
    {"model.activations_checkpoint_method", "recompute_method"},
    {"model.activations_checkpoint_num_layers", "recompute_num_layers"},
    {"model.share_embeddings_and_output_weights", "untie_embeddings_and_output_weights", Say::copy,
     "true=false,false=true"},
    {"model.gated_linear_unit", "swiglu"},
    {"model.activation", "swiglu", Say::copy, "*swiglu=true,*=false"},
    {"model.normalization", "normalization", Say::copy, "rmsnorm=RMSNorm,layernorm*=LayerNorm"},
    {"model.bias", "add_bias_linear"},
    {"model.qkv_bias", "add_qkv_bias"},
    {"model.position_embedding_type", "position_embedding_type", Say::copy,
     "rope=rope,yarn=yarn,learned_absolute=learned_absolute,none=none"},
    {"model.megatron_amp_O2", "bf16", Say::nothing, kKernel},
    {"model.cross_entropy_fusion_impl", "cross_entropy_fusion_impl"},
    {"model.moe_shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"},
    {"model.optim.name", "use_distributed_optimizer", Say::copy, "distributed*=true,*=false"},
    {"model.mcore_gpt", "", Say::nothing, kKernel},
    {"dataset.sequence_length", "seq_length"},
    {"dataset.seq_length", "seq_length"},
    {"optimizer.use_distributed_optimizer", "use_distributed_optimizer"},
    {"ddp.use_distributed_optimizer", "use_distributed_optimizer"},
    {"ddp.overlap_grad_reduce", "overlap_grad_reduce"},
    {"ddp.overlap_param_gather", "overlap_param_gather"},
    {"ddp.grad_reduce_in_fp32", "accumulate_allreduce_grads_in_fp32"},
    {"ddp.use_megatron_fsdp", "use_megatron_fsdp"},
    {"ddp.data_parallel_sharding_strategy", "data_parallel_sharding_strategy"},
    {"comm_overlap.tp_comm_overlap", "tp_comm_overlap"},
    {"trainer.precision", "bf16", Say::copy, "bf16*=true,*=false"},
};

// Groups whose other keys are Megatron's under their own name.
inline constexpr std::string_view kNemoGroups[] = {"model",        "train",     "optimizer",
                                                   "ddp",          "dataset",   "dist",
                                                   "comm_overlap", "tokenizer", "checkpoint"};

}  // namespace eratos::reader
