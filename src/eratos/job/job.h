// One training run, complete: everything a projection depends on, and nothing else.
//
// JobSpec is what a reader fills; check() names every fault at once or hands out a CheckedJob,
// which adds what follows from it: data-parallel degrees, micro-batches, and which layers stand
// on which virtual stage.
//
// Letters: W accelerators, dp = W/(tp*cp*pp), m = global / (micro*dp) micro-batches a pipeline.
// Worked example: Mixtral 8x22B, pp 4, ep 8 on mi355x-8x8: W 64, dp 16, global 128, micro 2: m = 4.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/base/inplace_vector.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/layer/context.h"
#include "eratos/model/architecture.h"
#include "eratos/ops/ops.h"
#include "eratos/parallel/parallel.h"

namespace eratos::job {

struct BatchSpec {
  int micro = 1;     // sequences a micro-batch and data-parallel rank
  int global = 1;    // sequences a step
  int sequence = 1;  // tokens
};

enum class Recipe : std::uint8_t {
  fp32,
  bf16,
  fp16,
  fp8_delayed,
  fp8_current,
  fp8_blockwise,
  mxfp8,
  mxfp4,
  nvfp4,
};

enum class Granularity : std::uint8_t { none, selective, full };
enum class RecomputeMethod : std::uint8_t { uniform, block };

using ModuleSet = std::bitset<static_cast<std::size_t>(ops::Module::count_)>;

struct RecomputeSpec {
  Granularity granularity = Granularity::none;
  RecomputeMethod method = RecomputeMethod::uniform;
  // uniform: layers a checkpointed unit; block: first n layers of each *virtual* stage
  // (Megatron-LM transformer_block.py). 0 with `block` is no recompute.
  int layers = 1;
  ModuleSet modules;           // selective: which modules; empty means core_attention
  // Activation-level modules whose output is dropped too and made again (Megatron's
  // output-discarding checkpoint: norm, activation, moe activation, mla_up).
  std::vector<int> layer_ids;  // full: exactly these layers (Primus recompute_layer_ids)
};

struct OptimizerSpec {
  std::string kind = "adam";
  DType main_parameter = DType::fp32;  // master copy; ignored when parameters are fp32
  DType main_gradient = DType::fp32;
  DType exp_avg = DType::fp32;
  DType exp_avg_sq = DType::fp32;
  bool precision_aware = false;
};

struct OverlapSpec {
  bool grad_reduce = true;
  bool param_gather = true;
  bool tp = false;
  bool moe_a2a = false;
  bool p2p = true;
};

struct ScheduleSpec {
  std::string algorithm = "auto";  // auto: the framework's own choice
  int group_size = 0;              // micro-batches a group of interleaving; 0: pp
};

enum class Dispatcher : std::uint8_t { alltoall, allgather, deepep, hybridep };

struct RoutingSpec {
  Dispatcher dispatcher = Dispatcher::alltoall;
  double capacity_factor = 0;  // 0: dropless
};

// One virtual stage of an explicit layout, in virtual-stage order (chunk-major: stage r + c*pp).
struct StageLayout {
  int layers = 0;
  int mtp = 0;
  bool embedding = false;
  bool output = false;
};

struct LayoutSpec {
  std::vector<StageLayout> stages;  // empty: dealt out by the framework's rule
  int first_stage_layers = 0;       // Megatron decoder_first_pipeline_num_layers; 0: not given
  int last_stage_layers = 0;
  bool embedding_counts = false;  // account_for_embedding_in_pipeline_split
  bool output_counts = false;     // account_for_loss_in_pipeline_split
  std::string text;               // as the user wrote it
};

struct JobSpec {
  std::string name;
  model::Architecture model;
  parallel::ParallelSpec parallel;  // dp is filled by check()
  LayoutSpec layout;
  BatchSpec batch;
  Recipe precision = Recipe::bf16;
  bool gradient_reduce_bf16 = false;
  RecomputeSpec recompute;
  OptimizerSpec optimizer;
  OverlapSpec overlap;
  ScheduleSpec schedule;
  RoutingSpec routing;
  layer::AttentionKernel attention = layer::AttentionKernel::flash;
  bool loss_fused = true;
  double hidden_dropout = 0;
  double attention_dropout = 0;
  bool mtp = true;            // train the model's MTP modules
  double graph_share = 0;     // share of launches inside CUDA/HIP graphs, 0 to 1
  framework::FrameworkProfile framework;
  hardware::ClusterSpec cluster;
};

struct VirtualStage {
  int first_layer = 0;
  int layers = 0;
  int mtp = 0;
  bool embedding = false;
  bool output = false;
};

inline constexpr std::size_t kMaxVirtualStages = 1024;

// A legal job and what follows from it. Holds a pointer to the spec it was made from.
struct CheckedJob {
  const JobSpec* spec = nullptr;
  parallel::ParallelSpec parallel;  // with dp
  int micro_batches = 0;
  double padded_vocab = 0;
  InplaceVector<VirtualStage, kMaxVirtualStages> stages;  // chunk c of rank r at [c*pp + r]

  const VirtualStage& stage(int rank, int chunk) const {
    return stages[static_cast<std::size_t>(chunk * parallel.pp + rank)];
  }
};

// Every rule of legality, all faults at once, each with its field path and cure.
// On success `out` is filled and the list is empty; nothing is allocated then.
Diagnostics check(const JobSpec& spec, CheckedJob& out);

// Names as the normalised job spells them.
std::string_view name_of(Recipe r);
std::string_view name_of(Granularity g);
std::string_view name_of(Dispatcher d);
std::string_view name_of(parallel::Sharding s);
std::string_view name_of(parallel::CpKind k);

// The format of linear layers' matrix products under a recipe, and of activations.
DType gemm_dtype(Recipe r);
DType activation_dtype(Recipe r);

}  // namespace eratos::job
