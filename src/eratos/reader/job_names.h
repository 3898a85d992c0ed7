// Spellings of the normalised job, for reading and writing alike.
#pragma once

#include <string>

#include "eratos/job/job.h"
#include "eratos/reader/fields.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

inline constexpr Name<job::Recipe> kRecipes[] = {
    {"fp32", job::Recipe::fp32},
    {"bf16", job::Recipe::bf16},
    {"fp16", job::Recipe::fp16},
    {"fp8-delayed", job::Recipe::fp8_delayed},
    {"fp8-current", job::Recipe::fp8_current},
    {"fp8-blockwise", job::Recipe::fp8_blockwise},
    {"mxfp8", job::Recipe::mxfp8},
    {"mxfp4", job::Recipe::mxfp4},
    {"nvfp4", job::Recipe::nvfp4},
};
inline constexpr Name<job::Granularity> kGranularities[] = {
    {"none", job::Granularity::none},
    {"selective", job::Granularity::selective},
    {"full", job::Granularity::full},
};
inline constexpr Name<job::RecomputeMethod> kMethods[] = {
    {"uniform", job::RecomputeMethod::uniform},
    {"block", job::RecomputeMethod::block},
};
inline constexpr Name<job::Dispatcher> kDispatchers[] = {
    {"alltoall", job::Dispatcher::alltoall},
    {"allgather", job::Dispatcher::allgather},
    {"deepep", job::Dispatcher::deepep},
    {"hybridep", job::Dispatcher::hybridep},
    {"einsum", job::Dispatcher::einsum},
};
inline constexpr Name<job::Balance> kBalances[] = {
    {"balanced", job::Balance::balanced},
    {"random", job::Balance::random},
    {"skewed", job::Balance::skewed},
};
inline constexpr Name<parallel::Sharding> kShardings[] = {
    {"none", parallel::Sharding::none},   {"zero1", parallel::Sharding::zero1},
    {"zero2", parallel::Sharding::zero2}, {"zero3", parallel::Sharding::zero3},
    {"hsdp", parallel::Sharding::hsdp},
};
inline constexpr Name<parallel::OutputLayer> kOutputLayerNames[] = {
    {"last-stage", parallel::OutputLayer::last_stage},
    {"two-barriers", parallel::OutputLayer::two_barriers},
    {"one-barrier", parallel::OutputLayer::one_barrier},
    {"interlaced", parallel::OutputLayer::interlaced},
};
inline constexpr Name<parallel::CpKind> kCpKinds[] = {
    {"p2p", parallel::CpKind::p2p},
    {"all_gather", parallel::CpKind::all_gather},
    {"a2a", parallel::CpKind::a2a},
};
inline constexpr Name<layer::AttentionKernel> kAttentionKernels[] = {
    {"flash", layer::AttentionKernel::flash},
    {"unfused", layer::AttentionKernel::unfused},
};
inline constexpr Name<parallel::Axis> kOrderAxes[] = {
    {"tp", parallel::Axis::tp}, {"cp", parallel::Axis::cp}, {"ep", parallel::Axis::ep},
    {"dp", parallel::Axis::dp}, {"pp", parallel::Axis::pp},
};
inline constexpr Name<bool> kReduceFormats[] = {{"fp32", false}, {"bf16", true}};

// Linears that LoRA stands beside where nothing is said: all four of a dense layer.
// Source: NVIDIA-NeMo/Megatron-Bridge peft/lora.py (target_modules).
inline job::ModuleSet default_lora_targets() {
  job::ModuleSet out;
  for (const ops::Module m : {ops::Module::qkv, ops::Module::attention_out, ops::Module::mlp_in,
                              ops::Module::mlp_out}) {
    out.set(static_cast<std::size_t>(m));
  }
  return out;
}

// The spelling of `value`, as a string node.
template <class E, std::size_t N>
text::Node spelled(E value, const Name<E> (&names)[N]) {
  for (const auto& [name, each] : names) {
    if (each == value) return text::Node::string(std::string(name));
  }
  return text::Node::null();
}

}  // namespace eratos::reader
