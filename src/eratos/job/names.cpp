// Spellings of the normalised job, and the formats a recipe implies.
#include "eratos/job/job.h"

namespace eratos::job {

std::string_view name_of(Recipe r) {
  switch (r) {
    case Recipe::fp32:
      return "fp32";
    case Recipe::bf16:
      return "bf16";
    case Recipe::fp16:
      return "fp16";
    case Recipe::fp8_delayed:
      return "fp8-delayed";
    case Recipe::fp8_current:
      return "fp8-current";
    case Recipe::fp8_blockwise:
      return "fp8-blockwise";
    case Recipe::mxfp8:
      return "mxfp8";
    case Recipe::mxfp4:
      return "mxfp4";
    case Recipe::nvfp4:
      return "nvfp4";
  }
  return "?";
}

std::string_view name_of(Granularity g) {
  switch (g) {
    case Granularity::none:
      return "none";
    case Granularity::selective:
      return "selective";
    case Granularity::full:
      return "full";
  }
  return "?";
}

std::string_view name_of(Balance b) {
  switch (b) {
    case Balance::balanced:
      return "balanced";
    case Balance::random:
      return "random";
    case Balance::skewed:
      return "skewed";
  }
  return "?";
}

std::string_view name_of(Dispatcher d) {
  switch (d) {
    case Dispatcher::alltoall:
      return "alltoall";
    case Dispatcher::allgather:
      return "allgather";
    case Dispatcher::deepep:
      return "deepep";
    case Dispatcher::hybridep:
      return "hybridep";
    case Dispatcher::einsum:
      return "einsum";
  }
  return "?";
}

std::string_view name_of(parallel::Sharding s) {
  switch (s) {
    case parallel::Sharding::none:
      return "none";
    case parallel::Sharding::zero1:
      return "zero1";
    case parallel::Sharding::zero2:
      return "zero2";
    case parallel::Sharding::zero3:
      return "zero3";
    case parallel::Sharding::hsdp:
      return "hsdp";
  }
  return "?";
}

std::string_view name_of(parallel::CpKind k) {
  switch (k) {
    case parallel::CpKind::p2p:
      return "p2p";
    case parallel::CpKind::all_gather:
      return "all_gather";
    case parallel::CpKind::a2a:
      return "a2a";
  }
  return "?";
}

int row_multiple(Recipe r) {
  if (!is_narrow(r)) return 1;
  if (gemm_dtype(r) == DType::fp4) return 128;
  return r == Recipe::mxfp8 ? 32 : 16;
}

DType gemm_dtype(Recipe r) {
  switch (r) {
    case Recipe::fp32:
      return DType::fp32;
    case Recipe::fp16:
      return DType::fp16;
    case Recipe::bf16:
      return DType::bf16;
    case Recipe::fp8_delayed:
    case Recipe::fp8_current:
    case Recipe::fp8_blockwise:
    case Recipe::mxfp8:
      return DType::fp8;
    case Recipe::mxfp4:
    case Recipe::nvfp4:
      return DType::fp4;
  }
  return DType::bf16;
}

// Both copies are written: products along K need the operand of the weight gradient the other way
// round, and block scales run along K.
// delayed    read 2, write 1 + 1; the scale is the last steps' maximum.
// current    a first read finds the maximum.
// blockwise  1 x 128 blocks with fp32 scales, 4/128 B an element and copy.
// mxfp8      blocks of 32 with 1-byte scales; each product's scales are swizzled (read and written
//            once more) by a kernel of its own.
// nvfp4      a first read finds the tensor's maximum; blocks of 16 with 1-byte scales, swizzled.
// mxfp4      blocks of 32 with 1-byte scales.
// Source: NVIDIA/TransformerEngine common/transpose/cast_transpose.h, common/recipe/__init__.py
// (block sizes) and common/swizzle; NVIDIA, "Pretraining LLMs with NVFP4", arXiv 2509.25149; OCP
// Microscaling Formats 1.0. Parameters of mxfp8 are gathered in 16 bits and cast on arrival, since
// neither copy can be made from the other: Megatron-LM reuse_grad_buf_for_mxfp8_param_ag.
CastRule cast_rule(Recipe r) {
  switch (r) {
    case Recipe::fp8_delayed:
      return {4.0, 0, 1, 1, 0, true};
    case Recipe::fp8_current:
      return {6.0, 0, 2, 1, 2, true};
    case Recipe::fp8_blockwise:
      return {4.0 + 2 * 4.0 / 128, 4.0 / 128, 1, 1 + 4.0 / 128};
    case Recipe::mxfp8:
      return {4.0 + 3 * 2.0 / 32, 1.0 / 32, 3, 2};
    case Recipe::mxfp4:
      return {3.0 + 2.0 / 32, 1.0 / 32, 1, 2};
    case Recipe::nvfp4:
      return {5.0 + 3 * 2.0 / 16, 1.0 / 16, 4, 2, 2};
    default:
      return {};
  }
}

// Source: NVIDIA/TransformerEngine pytorch/utils.py (is_non_tn_fp8_gemm_supported).
int copies_of(Recipe r, const hardware::AcceleratorSpec& part) {
  return cast_rule(r).tensor_scale && part.any_layout_fp8 ? 1 : 2;
}

double cast_traffic(Recipe r, const hardware::AcceleratorSpec& part) {
  return cast_rule(r).traffic - (2 - copies_of(r, part)) * bytes_per_element(gemm_dtype(r));
}

DType default_gradient(const framework::FrameworkProfile& profile, Recipe recipe) {
  return recipe == Recipe::fp16 && profile.state.narrow_fp16_gradient ? DType::fp16
                                                                      : profile.state.gradient;
}

DType held_gradient(const JobSpec& spec) {
  const bool narrow = spec.gradient_reduce_bf16 && spec.framework.state.wgrad_fused_accumulation &&
                      spec.optimizer.main_gradient == DType::fp32 &&
                      activation_dtype(spec.precision) != DType::fp32;
  return narrow ? activation_dtype(spec.precision) : spec.optimizer.main_gradient;
}

ModuleSet lora_modules() {
  using ops::Module;
  ModuleSet out;
  for (const Module m : {Module::qkv, Module::mla_down, Module::mla_up, Module::attention_out,
                         Module::mlp_in, Module::mlp_out, Module::expert_in, Module::expert_out,
                         Module::shared_expert, Module::output_layer}) {
    out.set(static_cast<std::size_t>(m));
  }
  return out;
}

DType activation_dtype(Recipe r) {
  if (r == Recipe::fp32) return DType::fp32;
  if (r == Recipe::fp16) return DType::fp16;
  return DType::bf16;
}

}  // namespace eratos::job
