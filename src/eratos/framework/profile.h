// What a training framework does differently, as data: which kernels it fuses, what it keeps for
// the backward pass, how it holds gradients, what it hides, and what its host costs.
//
// No room asks for a framework's *name*; layers and passes ask for these fields. The instances
// are the files in data/frameworks, each number with its source.
//
// Letters: T tokens of a rank's micro-batch, V vocabulary on this rank.
#pragma once

#include <string>
#include <vector>

#include "eratos/base/dtype.h"
#include "eratos/base/units.h"

namespace eratos::framework {

// How the kernels of a layer are cut, which decides what autograd keeps.
struct Fusions {
  bool norm = true;        // one kernel; keeps its input and one statistic a token
  // The norm before a narrow product writes the narrow operand itself where the scale is known,
  // and finds the maximum for the cast where it is not.
  bool norm_cast = false;
  // RMS norms without weights (of residual streams, of each query head) are one kernel; else casts
  // and products of torch in fp32, which keep the cast.
  bool unweighted_norm = true;
  bool activation = true;  // one kernel; keeps its input only (besides what the next GEMM keeps)
  bool rotary = true;      // in place or fused; keeps nothing but the (constant) tables
  bool softmax = true;     // only for unfused attention: scale, mask and softmax in one kernel
  bool residual = true;    // bias, dropout and add in one kernel
  bool qkv = true;         // one GEMM for Q, K and V
  bool gate_up = true;     // one GEMM for gate and up
  bool router = false;     // top-k, softmax and permutation map in fused kernels
  bool permute = false;    // permutation as one kernel instead of index_select / sort / scatter
  bool grouped_gemm = true;  // all local experts in one launch
  bool grouped_cast = true;  // a narrow recipe casts all local experts' rows in one launch
  // Experts' gated activation and the mxfp8 cast of what it writes are epilogues of the grouped
  // product before them, where all launches are in graphs and the part has mxfp8 products.
  bool expert_epilogue = false;

  friend bool operator==(const Fusions&, const Fusions&) = default;
};

// What is kept beyond the minimum that backward needs.
struct SavedSets {
  bool eager_norm_square = false;  // RMSNorm written out: mean() keeps the squares (torch 1.x)
  // A grouped product wants its experts' weights in one buffer: a copy each pass, held for backward.
  bool stacked_expert_weights = false;
  // Where no row is dropped, experts' rows stand in buffers for the worst case, every row of every rank of
  // the group, and all but the products pass over them whole (JAX: shapes are fixed at compilation).
  bool worst_case_rows = false;
  // A recomputed layer is made again only up to the last op that keeps something for backward
  // (torch.utils.checkpoint without reentrance).
  bool recompute_stops_early = false;
  bool moe_probs_in_activation = true;  // router weights multiply the expert activation, so the
                                        // expert output need not be kept
  // Column-parallel linears under sequence parallelism keep the gathered input (all T tokens)
  // instead of gathering again in backward.
  bool gathered_input = false;
  // Multi-head attention splits one joined, contiguous copy of Q, K and V: the value is a view of it
  // and keeps the whole of it, beside the rotated Q and K. Grouped queries are copied one by one.
  bool value_in_joined_qkv = false;
  // What a stage sends on is kept until its backward begins (DeepSpeed's pipeline buffers), where
  // Megatron-LM frees its data once it is sent.
  bool stage_outputs = false;

  friend bool operator==(const SavedSets&, const SavedSets&) = default;
};

// The loss and the logits before it.
struct LossBuffers {
  bool fused_by_default = true;
  bool keeps_logits = true;       // the logits live until the loss's backward
  bool gradient_in_place = true;  // the gradient overwrites the loss's own buffer
  // Every tensor-parallel rank gathers the logits of the whole vocabulary and runs the loss on them.
  bool gathers_logits = false;
  // The fused loss runs the output layer and itself on pieces of the tokens, so many that the logits of
  // one take no more than the hidden states of all: V/h of them.
  bool fused_in_pieces = false;
  // Bytes a logit live at the worst moment of the loss, gradient included, in all buffers
  // together, when unfused / fused.
  double unfused_bytes_per_logit = 0;
  double fused_bytes_per_logit = 0;
  // Traffic in bytes a logit, all passes together.
  double unfused_traffic_per_logit = 0;
  double fused_traffic_per_logit = 0;

  friend bool operator==(const LossBuffers&, const LossBuffers&) = default;
};

// Gradients, parameters, optimizer.
struct StateRules {
  DType gradient = DType::fp32;      // held between micro-batches (main gradients)
  bool narrow_fp16_gradient = false;  // under the fp16 recipe they are held, and reduced, in fp16
  DType moments = DType::fp32;       // of the optimizer, where the job says nothing
  bool wgrad_fused_accumulation = true;  // GEMM adds into the main gradient: no transient
  // One 16-bit tensor per distinct weight shape stands in for the gradient that the fused product
  // does not return, is cached and never freed (TransformerEngine).
  bool gradient_placeholders = false;
  // The 16-bit gradient of every parameter lives beside the main gradient where gradients are reduced
  // over ranks (buckets of PyTorch's DDP).
  bool keeps_narrow_gradient = false;
  // Under a pipeline a whole stage's 16-bit gradients stand beside all that its micro-batches keep,
  // until the main gradient has taken them up behind the backward (nanotron).
  bool narrow_gradient_in_pipeline = false;
  bool contiguous_gradient_buffer = true;  // allocated once, whole, for the job's life
  bool zero1_all_reduce = false;  // ZeRO-1 all-reduces gradients whole instead of scattering them
  bool zero1_overlaps = true;  // ZeRO-1's gradients and parameters may travel beside compute
  // Unsharded gradients are reduced in buckets of so many bytes as backward makes them; 0: not cut.
  double reduce_bucket_bytes = 0;
  // The stored parameter is the fp32 one and its own master; 16-bit copies live only while a unit
  // is gathered (PyTorch FSDP mixed precision).
  bool stores_fp32_parameters = false;
  bool master_weights = true;        // fp32 copy beside 16-bit parameters
  bool gradient_reduce_fp32 = true;
  // Temporary bytes per owned parameter during the optimizer step (unfused updates).
  double step_bytes_per_parameter = 0;
  // The same in an fp32 copy of a partition's 16-bit gradients, which is one flat buffer: nothing that
  // activations left behind is as large, so it is reserved on top (docs/model/memory.md).
  double step_flat_bytes_per_parameter = 0;
  // ZeRO-3: unsharded units alive at once (the one computing and those prefetched).
  double gathered_units = 2;
  // Under pipeline parallelism they all stay gathered from the first forward to the last backward, and
  // gradients whole, in the format of their reduction, until the last micro-batch (torch FSDP2).
  bool gathered_in_pipeline = false;
  // So are the layers of a model with experts, in any job.
  bool gathered_with_experts = false;
  // Gradients are reduced once a step: until the last micro-batch their sums stay whole beside the
  // shards, in so many bytes a parameter. 0: reduced behind every micro-batch.
  double deferred_gradient_bytes = 0;
  // Parameters gathered in this format.
  DType gather_dtype = DType::bf16;

  friend bool operator==(const StateRules&, const StateRules&) = default;
};

// What is held outside the caching allocator's live tensors.
struct MemoryOverheads {
  Bytes context;               // CUDA/HIP context, libraries, modules
  Bytes communicator;          // one communicator's buffers and scratch
  Bytes all_to_all_peer;       // buffers towards each peer of an all-to-all, of all its channels
  Bytes allocator_rounding;    // granularity of one block
  // Reserved beyond allocated, as shares of allocated: with segments of fixed size, with expandable
  // ones, and when a request was refused and every segment without a live block was given back.
  double reserve_fraction = 0;
  double expandable_fraction = 0;
  double pressed_fraction = 0;
  bool expandable_segments = false;  // unless the job says otherwise
  double hidden_buffers = 0;   // buffers of T x h that tensor parallelism keeps for good (tp > 1)
  // Passes of a layer that the host may be ahead of the device: what tensor parallelism's collectives
  // read stays until the device has reached them (projection/compose.h, lagging_buffers).
  double lagging_layers = 0;
  // On more nodes than these the host is never ahead; nor in a pipeline whose tensor-parallel groups
  // span more nodes than those. 0: on any.
  double lagging_nodes = 0;
  double lagging_group_nodes = 0;
  Bytes workspace;             // GEMM workspaces and the like, inside the allocator
  Bytes buckets;               // of gradient reduction and prefetch, inside the allocator (dp > 1)
};

// The host as a stream of its own.
struct HostCosts {
  Seconds per_kernel;          // enqueue of one eager kernel
  Seconds per_layer;           // fixed cost of a layer and pass, beyond its kernels
  // Added per layer and tensor-parallel rank where a job of several nodes has both pp and tp; and for
  // each node beyond the first that one group spans, times its ranks (without pp: those of a node).
  Seconds per_layer_tp_across_nodes;
  Seconds per_layer_tp_each_node;
  Seconds per_micro_batch;     // per stage and pass
  // Added to a pass whose sends block: the host waits for the device at each exchange, and what it
  // enqueues next begins late.
  Seconds per_blocking_send;
  Seconds per_step;
  // Under ZeRO-1, a piece of a parameter tensor: gathered parameters are copied out one by one, and
  // each of the ranks that shared the update has a piece of every tensor.
  Seconds per_gathered_piece;
  Seconds per_moe_layer;         // a pass of an eager MoE layer, on top of per_layer
  Seconds per_moe_router;        // of it eager routing and preprocessing: gone where they are in graphs
  Seconds per_moe_wait;          // added where shared experts run between the stages of alltoall
  Seconds per_local_expert;      // of a grouped product's forward, or of its backward, and expert it holds
  Seconds per_recompute;         // of a module made again by itself, in a layer's backward
  Seconds per_moe_overlap;       // added where exchange runs beside another micro-batch's compute
  // Device and host combine as t = (g^n + q^n)^(1/n).
  double overlap_exponent = 6;
  // n where ranks of a tensor-parallel group wait for one another: a collective begins when the last of
  // their hosts has enqueued it. 0: as overlap_exponent.
  double tp_overlap_exponent = 0;
};

// What share of communication the framework can run beside compute, and what that costs.
struct OverlapRules {
  double tp_share = 0;         // of tensor-parallel traffic, when the job turns it on
  double tp_backward_share = 0;  // of a column-parallel linear's backward traffic, always (it can
                                 // run beside the dgrad and wgrad products)
  double dp_share = 0;         // of gradient and parameter traffic
  double fsdp_share = 0;       // of ZeRO-3 gathers and scatters
  double ep_share = 0;         // of all-to-all, when on
  double pp_exposed = 0;       // share of send/receive that is not hidden
  bool pp_interleaved_only = false;  // only interleaved schedules hide any of it
  // Tensor-parallel ranks hold the same tensor at a stage's end: each sends one t-th of it, and the
  // next stage's ranks gather the parts among themselves. Source: arXiv 2104.04473, section 4.1.
  bool pp_scattered = false;
  double contention = 0;       // compute lost per second of hidden communication

  friend bool operator==(const OverlapRules&, const OverlapRules&) = default;
};

// Efficiency inside a training step against the isolated kernel.
struct KernelFactors {
  double matrix = 1;           // multiplies the part's in-training matrix rate
  double narrow_matrix = 1;    // once more, of 8- and 4-bit products: a library of its time
  double attention = 1;
  double memory_bound = 1;
  double collective = 1;       // multiplies link rates
  double network_decay = 0;    // x in eta * (2 / nodes)^x for groups across nodes
  double scatter_add = 1;      // traffic of rows added into tokens by atomics (fusions.permute off)
                               // against that of reading and writing each once
  double attention_sinks = 1;  // attention with learned sinks against the same without
  // The communication library has no reduce-scatter: all is reduced, and each rank keeps its part (gloo).
  bool reduce_scatter_by_all_reduce = false;
  Seconds per_group;           // least time of one group of a grouped product: stacks that launch
                               // a product for each group cannot go below it

  friend bool operator==(const KernelFactors&, const KernelFactors&) = default;
};

// Which pipeline schedules it runs.
struct ScheduleRules {
  std::vector<std::string> offered;  // by the names of parallel/schedules.h; empty: not known
  // Of schedules that run the weights' gradients apart: may they recompute, and may data-parallel
  // traffic run beside them?
  bool split_recompute = true;
  bool split_dp_overlap = true;
};

// How layers are dealt to pipeline stages when the user says nothing.
enum class PipelineSplit {
  even,  // the same number on each; refused when it does not divide
  cost,  // by cumulative cost of the blocks, output layer included (nanotron build_model)
  // Embedding, layers, final norm and output layer count one each; where their number does not
  // divide, the first stages have one more. Source: Aleph-Alpha/scaling
  // core/nn/parallel_module/pipeline_partitioning.py (pipe_partition_uniform).
  modules,
};

struct FrameworkProfile {
  std::string name;        // "megatron"
  std::string generation;  // "2026.06"
  std::vector<std::string> aliases;
  Fusions fusions;
  SavedSets saved;
  LossBuffers loss;
  StateRules state;
  MemoryOverheads memory;
  HostCosts host;
  OverlapRules overlap;
  KernelFactors kernel;
  ScheduleRules schedules;
  PipelineSplit pipeline_split = PipelineSplit::even;
  int vocab_divisible_by = 1;  // vocabulary padded to a multiple of this times tp
  std::string attention_kernel = "flash2";  // row family in the calibration's attention table
  std::string source;
};

}  // namespace eratos::framework
