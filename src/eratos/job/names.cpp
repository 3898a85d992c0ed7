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

DType activation_dtype(Recipe r) {
  if (r == Recipe::fp32) return DType::fp32;
  if (r == Recipe::fp16) return DType::fp16;
  return DType::bf16;
}

}  // namespace eratos::job
