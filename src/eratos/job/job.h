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
  // Sequences are packed from parts that do not see one another: the length of the part that a
  // token lies in, on average over tokens (sum of squares / sum of the lengths). 0: one part.
  int packed_length = 0;
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

// What a narrow recipe leaves wide, and how parameters travel under it.
struct NarrowSpec {
  int bf16_first_layers = 0;  // layers whose products stay in 16 bits
  int bf16_last_layers = 0;
  // Parameters are stored in the recipe's format instead of 16 bits (Megatron fp8_param_gather).
  bool parameter_gather = false;
  bool attention = false;     // its products run in 8 bits too (Megatron fp8_dot_product_attention)
  bool output_layer = false;  // and those of the output layer (Megatron fp8_output_proj)
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
  // full, less what a policy keeps (data/recompute_policies.csv): results of products, attention and
  // exchanges of the modules `kept`, and, `alternate`, of every second matrix product.
  std::string policy;
  ModuleSet kept;
  bool alternate = false;
};

struct OptimizerSpec {
  std::string kind = "adam";
  DType main_parameter = DType::fp32;  // master copy; ignored when parameters are fp32
  DType main_gradient = DType::fp32;
  DType exp_avg = DType::fp32;
  DType exp_avg_sq = DType::fp32;
  bool precision_aware = false;
};

// Low-rank adapters beside frozen linears: y = W x + (alpha / rank) B A x. Source: arXiv 2106.09685.
struct LoraSpec {
  int rank = 0;  // 0: no adapters, everything is trained
  double alpha = 32;
  double dropout = 0;  // of the adapters' input
  ModuleSet targets;   // modules with adapters

  bool on() const { return rank > 0; }

  friend bool operator==(const LoraSpec&, const LoraSpec&) = default;
};

// What is kept on the host between uses, and crosses the host's link for it.
struct OffloadSpec {
  double optimizer = 0;  // share of the optimizer's state, updated by the host's processors
  ModuleSet activations;  // kept tensors of these modules; none named: of all
  int layers = 0;         // of the first n layers of each rank; 0: of all, where modules are named

  bool any_activations() const { return activations.any() || layers > 0; }
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
  parallel::OutputLayer output_layer = parallel::OutputLayer::last_stage;
  // Activations a rank may hold, in micro-batches of its layers, for a schedule that fits its order to
  // a limit; 0: that schedule's own default.
  int activation_limit = 0;
  // Every rank takes its optimizer step as soon as its own work is done; what all must agree on is
  // checked afterwards, so that one step runs into the next. Source: arXiv 2401.10241, section 4.
  bool post_validation = false;
};

using layer::Dispatcher;

// How evenly the router spreads tokens over experts (ops/load.h).
enum class Balance : std::uint8_t {
  balanced,  // every expert gets the same rows, as benchmarks force it
  random,    // every token's experts as likely as any others: rows differ by chance alone
  skewed,    // some experts are more popular than others, by `skew`
};

struct RoutingSpec {
  Dispatcher dispatcher = Dispatcher::alltoall;
  double capacity_factor = 0;    // 0: dropless
  bool pad_to_capacity = false;  // rows of zeros up to the capacity, so that shapes never change
  int row_multiple = 0;  // each rank sends each expert a multiple of so many rows; 0: what comes
  Balance balance = Balance::balanced;
  double skew = 0;  // standard deviation of the experts' popularity against its mean
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
  NarrowSpec narrow;
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
  ModuleSet graph_modules;    // modules whose launches are all inside graphs
  LoraSpec lora;
  OffloadSpec offload;
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
  InplaceVector<VirtualStage, kMaxVirtualStages> stages;  // in the model's order

  const VirtualStage& stage(int rank, int chunk) const {
    return stages[static_cast<std::size_t>(parallel::stage_of(parallel, rank, chunk))];
  }
};

// Every rule of legality, all faults at once, each with its field path and cure.
// On success `out` is filled and the list is empty; nothing is allocated then.
Diagnostics check(const JobSpec& spec, CheckedJob& out);

// Names as the normalised job spells them.
std::string_view name_of(Recipe r);
std::string_view name_of(Granularity g);
std::string_view name_of(Dispatcher d);
std::string_view name_of(Balance b);
std::string_view name_of(parallel::Sharding s);
std::string_view name_of(parallel::CpKind k);

// The format of linear layers' matrix products under a recipe, and of activations.
DType gemm_dtype(Recipe r);
// Rows of an expert that a narrow recipe's products want a multiple of; 1 in 16 bits.
// Source: NVIDIA/Megatron-LM core/fp8_utils.py, get_fp8_align_size; core/fp4_utils.py, get_fp4_align_size
// (128 for the fused cast with its Hadamard transform).
int row_multiple(Recipe r);
DType activation_dtype(Recipe r);

// How a recipe makes its operands narrow, in bytes an element of the 16-bit tensor.
struct CastRule {
  double traffic = 0;      // read and written, both copies (along rows and along columns)
  double scale_bytes = 0;  // block scales of one copy; tensor-wide scales weigh nothing
  int kernels = 0;
  double gathered_bytes = 2;  // a parameter on the wire under narrow.parameter_gather
  double maximum = 0;         // of the traffic, a first read that finds the tensor's maximum
  bool tensor_scale = false;  // one scale a tensor: one copy is the other's transpose
};
CastRule cast_rule(Recipe r);
inline bool is_narrow(Recipe r) { return cast_rule(r).kernels > 0; }

// Copies of an operand that a part's products need: one where they read either layout.
int copies_of(Recipe r, const hardware::AcceleratorSpec& part);
// Bytes an element that a cast on this part reads and writes.
double cast_traffic(Recipe r, const hardware::AcceleratorSpec& part);

// How a framework holds gradients under a recipe, where the job says nothing. Source: Megatron-LM
// training/arguments.py (accumulate_allreduce_grads_in_fp32 follows from bf16, not from fp16).
DType default_gradient(const framework::FrameworkProfile& profile, Recipe recipe);

// How gradients are held between micro-batches: where products add into the buffer that is reduced,
// the reduction's format is the buffer's. Source: Megatron-LM
// core/distributed/param_and_grad_buffer.py (grad_dtype follows grad_reduce_in_fp32).
DType held_gradient(const JobSpec& spec);

// The modules that LoRA may stand beside: the linear layers.
ModuleSet lora_modules();

}  // namespace eratos::job
