// The intermediate representation: what one rank does for one micro-batch, as a flat list of
// operations over a table of tensors. It is the one description of a job that memory, time,
// FLOPs, trace and report read; none of them works out a shape of its own.
//
// Letters: T tokens of the rank's micro-batch, h hidden, m n k a GEMM's sizes (C[m,n] = A[m,k]B[k,n]).
// Worked example: a column-parallel linear of Llama 3.1 8B at tp 2, T = 8192 tokens is
//   forward  Gemm{m=8192, n=14336, k=4096}   (gate and up together, 28672/2 columns)
//   dgrad    Gemm{m=8192, n=4096, k=14336}
//   wgrad    Gemm{m=14336, n=4096, k=8192}
// each 2*m*n*k = 962 GFLOP.
//
// It is a record, not a compiler: no attribute bags, no shape inference, no rewriting engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "eratos/base/axis.h"
#include "eratos/base/dtype.h"
#include "eratos/base/inplace_vector.h"
#include "eratos/base/units.h"
#include "eratos/ops/fanout.h"

namespace eratos::ops {

// The part of the network an op or tensor belongs to: rows of the per-module tables, and the
// units that selective recompute can name.
enum class Module : std::uint8_t {
  embedding,
  norm,
  qkv,            // query, key, value projections (Megatron linear_qkv)
  mla_down,       // MLA down projections
  mla_up,         // MLA up projections (Megatron recompute module mla_up_proj)
  rotary,
  core_attention, // softmax(QK^T)V (Megatron recompute module core_attn)
  attention_out,  // output projection (linear_proj)
  mixer_in,       // projections into a state-space or linear-attention mixer
  mixer_gate,     // the narrow half of its low-rank gates, held whole (Kimi Delta Attention)
  convolution,    // its short causal convolution
  scan,           // its recurrence, chunk by chunk (with gates and the gated norm)
  mixer_out,      // its output projection
  mlp_in,         // linear_fc1
  activation,     // dense MLP's non-linearity
  mlp_out,        // linear_fc2
  router,
  latent,         // projections into and out of the experts' latent width
  dispatch,       // permute and send to experts
  expert_in,
  expert_activation,  // Megatron recompute module moe_act
  expert_out,
  combine,        // send back and unpermute
  shared_expert,
  residual,
  output_layer,
  loss,
  mtp,
  adapter,        // LoRA's two small products beside a frozen linear
  quantize,
  offload,        // activations copied to the host and back
  gradient_reduce,
  parameter_gather,
  gradient_norm,
  optimizer,
  count_,
};
std::string_view name_of(Module m);

enum class Pass : std::uint8_t { forward, recompute, dgrad, wgrad, step };
std::string_view name_of(Pass p);

enum class Stream : std::uint8_t { compute, tp, cp, ep, dp, pp, host };

using TensorId = std::uint16_t;
inline constexpr TensorId kNoTensor = 0xffff;

// A buffer of one micro-batch on one rank.
struct Tensor {
  const char* name = "";  // a string literal
  double elements = 0;    // local elements: what this rank holds
  DType dtype = DType::bf16;
  Module module = Module::residual;
  bool saved = false;       // held from its forward op to its last backward op
  bool gemm_input = false;  // read by a matrix product: fp8 recipes keep it in 8 bits
  double scale_bytes = 0;   // of block scales, an element
  bool offloaded = false;   // saved on the host: not here between forward and backward

  Bytes bytes() const { return Bytes{elements * (bytes_per_element(dtype) + scale_bytes)}; }
};

// C[m,n] = A[m,k] B[k,n], `groups` times; m counts the rows of all groups together.
struct Gemm {
  double m = 0;
  double n = 0;
  double k = 0;
  double groups = 1;
  DType dtype = DType::bf16;
  bool accumulate_fp32 = false;  // adds into an fp32 buffer (fused weight-gradient accumulation)
  bool experts = false;          // a group is an expert: some stacks launch them one by one
  bool strided = false;          // groups of one size at even strides: a plain product's rate

  Flops flops() const { return Flops{2.0 * m * n * k}; }
};

// Keys that a query sees on average, of `seq_kv` positions before masking. Causal: half of them (the
// convention of every count of FLOPs). Causal with a window of w keys, itself included: the first w
// queries see 1..w, the rest w: w - w(w-1)/(2s), never more than without a window.
// Worked example: s 4096, w 128: 126.0 of 2048 keys.
constexpr double visible_keys(double seq_kv, bool causal, double window) {
  const double all = seq_kv * (causal ? 0.5 : 1.0);
  if (window <= 0 || window >= seq_kv) return all;
  const double seen = window - window * (window - 1) / (2 * seq_kv);
  return seen < all ? seen : all;
}

// softmax(Q K^T) V of `batch` sequences, seen by one rank.
struct Attention {
  double batch = 0;
  double seq_q = 0;   // query positions on this rank (sequence / cp)
  double seq_kv = 0;  // key positions each query may see before masking
  double heads = 0;   // query heads on this rank
  double kv_heads = 0;
  double head_dim = 0;    // of Q and K
  double v_head_dim = 0;  // of V
  bool causal = true;
  bool backward = false;
  DType dtype = DType::bf16;
  double window = 0;   // keys a query sees at most, itself included; 0: no window
  bool sinks = false;  // one learned logit a head beside the keys

  double keys() const { return visible_keys(seq_kv, causal, window); }

  // Forward 2*b*heads*sq*keys*(d + dv) over the keys a query sees; backward 2.5 times (five products
  // against two). Source: arXiv 2307.08691 (FlashAttention-2), section 4.1.
  Flops flops() const {
    const double pairs = batch * heads * seq_q * keys();
    const double forward = 2.0 * pairs * (head_dim + v_head_dim);
    return Flops{backward ? 2.5 * forward : forward};
  }
};

enum class ElementwiseClass : std::uint8_t {
  streaming,      // activations, residual adds, rotary, casts
  norm_forward,
  norm_backward,  // a second pass reduces the weight gradient
  permute,        // gather and scatter of rows
  cross_entropy,
  optimizer,
};

// An op limited by memory traffic: norms, activations, copies, permutations, reductions.
struct Elementwise {
  Bytes traffic;  // minimum bytes read and written
  ElementwiseClass kind = ElementwiseClass::streaming;
  double launches = 1;  // kernels one after another, each with a start of its own
};

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  send_recv,
};
std::string_view name_of(CollectiveKind k);

// bytes: the larger of the two buffers of one rank (all-gather: the gathered one), as nccl-tests
// counts; for all_to_all what one rank holds before sending, its own share included (a token of a
// known fanout once for each rank that it goes to); for send_recv what one rank sends.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Axis axis = Axis::tp;
  Bytes bytes;
  // Share of its time that may run beside compute of the same pass, 0 (blocking) to 1. Set by
  // the overlap pass from the framework profile and the job's switches.
  double overlappable = 0;
  // all_to_all of tokens that go once to each node and are copied on inside it. Unknown: every copy
  // travels by itself.
  Fanout fanout;
  double repeats = 1;  // so many messages of these bytes, one after the other
};

// Bytes over the link to the host, and parameters that the host's processors update meanwhile.
struct HostCopy {
  Bytes bytes;
  double overlappable = 0;  // share of its time that may run beside compute of the same pass
  double updated = 0;       // parameters
};

using Work = std::variant<Gemm, Attention, Elementwise, Collective, HostCopy>;

struct Op {
  Work work;
  Pass pass = Pass::forward;
  Module module = Module::residual;
  Stream stream = Stream::compute;
  std::uint16_t kernels = 1;  // device kernels the host launches for it
  InplaceVector<TensorId, 8> reads;
  InplaceVector<TensorId, 4> writes;

  // Matrix FLOPs (0 for the rest); recomputed ones count as hardware, not model, FLOPs.
  Flops flops() const;
};

// A weight as this rank holds it.
struct Parameter {
  const char* name = "";
  double elements = 0;  // local
  Module module = Module::residual;
  bool expert = false;      // reduced over edp instead of dp x cp
  bool matrix = true;       // takes part in matrix products (norms and biases do not)
  bool embedding = false;   // input embedding or output layer
  double copies = 1;        // equal matrices counted in `elements` (local experts)
  bool replicated = false;  // held whole by every tensor-parallel rank, not cut over them
  bool narrow = false;      // its products run in 8 or 4 bits: held in that format as well
  bool frozen = false;      // not trained: no gradient, no optimizer state
};

// The most tensors a program may have: passes and the walk of lifetimes hold tables of that size.
inline constexpr std::size_t kMaxTensors = 1024;

// One distinct block: a transformer layer of one kind, the embedding, the head, ...
// `backward` holds dgrad, wgrad and recompute ops in the order they run.
struct Program {
  const char* name = "";
  std::vector<Tensor> tensors;
  std::vector<Op> forward;
  std::vector<Op> backward;
  std::vector<Parameter> parameters;
  TensorId input = kNoTensor;
  TensorId output = kNoTensor;

  void clear();  // keeps capacity: a warmed-up program allocates nothing
};

// Sum of the bytes of saved tensors: what one micro-batch holds between forward and backward.
Bytes saved_bytes(const Program& p);
// Local parameter elements, all or experts only.
double parameter_elements(const Program& p, bool experts_only = false);
// Readable text, one line a tensor and an op.
std::string to_text(const Program& p);

}  // namespace eratos::ops
