#include "eratos/projection/pieces.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <variant>

#include "eratos/layer/dispatch.h"
#include "eratos/lower/lower.h"

namespace eratos::projection {

namespace {

using calibration::AttentionPiece;
using calibration::BlockPiece;
using calibration::BlockWhat;
using calibration::CollectivePiece;
using calibration::ElementwisePiece;
using calibration::ElementwiseWhat;
using calibration::GemmPiece;
using calibration::Piece;
using calibration::PiecePass;
using ops::ElementwiseClass;
using ops::Module;

PiecePass pass_of(ops::Pass pass) {
  switch (pass) {
    case ops::Pass::forward:
    case ops::Pass::recompute:
      return PiecePass::forward;
    case ops::Pass::dgrad:
      return PiecePass::dgrad;
    case ops::Pass::wgrad:
      return PiecePass::wgrad;
    case ops::Pass::step:
      return PiecePass::step;
  }
  return PiecePass::forward;
}

// A product outside of a layer is one as a forward has it.
PiecePass product_pass(ops::Pass pass) {
  const PiecePass p = pass_of(pass);
  return p == PiecePass::step ? PiecePass::forward : p;
}

GemmPiece gemm_piece(const ops::Gemm& g, ops::Pass pass) {
  const bool grouped = g.groups > 1;
  return {.pass = product_pass(pass),
          .m = g.m,
          .n = g.n,
          .k = g.k,
          .groups = grouped ? g.groups : 1,
          .accumulate = g.accumulate_fp32,
          .experts = g.experts && grouped,
          .strided = grouped && (g.strided || !g.experts),
          .rows = {}};
}

AttentionPiece attention_piece(const ops::Attention& a) {
  return {.pass = a.backward ? PiecePass::backward : PiecePass::forward,
          .batch = a.batch,
          .seq_q = a.seq_q,
          .seq_kv = a.seq_kv,
          .heads = a.heads,
          .kv_heads = a.kv_heads,
          .head_dim = a.head_dim,
          .v_head_dim = a.v_head_dim,
          .causal = a.causal,
          .window = a.window,
          .sinks = a.sinks};
}

bool whole_norm(const ops::Op& op, const job::JobSpec& spec) {
  if (spec.framework.fusions.norm || spec.model.norm.kind == layer::NormKind::layernorm)
    return true;
  return std::get_if<ops::Elementwise>(&op.work)->kind == ElementwiseClass::norm_forward;
}

bool gated(const job::JobSpec& spec) {
  for (const layer::BlockSpec& block : spec.model.blocks) {
    if (const auto* m = std::get_if<layer::MlpSpec>(&block.feed_forward)) return m->gated;
    if (const auto* m = std::get_if<layer::MoeSpec>(&block.feed_forward)) return m->gated;
  }
  return true;
}

ElementwiseWhat what_of(const ops::Op& op, const job::JobSpec& spec) {
  const auto& e = *std::get_if<ops::Elementwise>(&op.work);
  const framework::Fusions& fused = spec.framework.fusions;
  switch (e.kind) {
    case ElementwiseClass::norm_forward:
    case ElementwiseClass::norm_backward:
      return whole_norm(op, spec) ? ElementwiseWhat::norm : ElementwiseWhat::copy;
    case ElementwiseClass::permute:
      return ElementwiseWhat::permute;
    case ElementwiseClass::cross_entropy:
      return ElementwiseWhat::cross_entropy;
    case ElementwiseClass::optimizer:
      return op.module == Module::optimizer ? ElementwiseWhat::optimizer : ElementwiseWhat::copy;
    case ElementwiseClass::streaming:
      break;
  }
  const bool activation = op.module == Module::activation || op.module == Module::expert_activation;
  if (activation && (fused.activation || !gated(spec))) {
    return gated(spec) ? ElementwiseWhat::swiglu : ElementwiseWhat::gelu;
  }
  if (op.module == Module::rotary && fused.rotary) return ElementwiseWhat::rotary;
  if (op.module == Module::residual) return ElementwiseWhat::residual;
  if (op.module == Module::router && fused.router) return ElementwiseWhat::router;
  // A recurrence is no stream of its bytes.
  if (op.module == Module::scan) return ElementwiseWhat::other;
  return ElementwiseWhat::copy;
}

struct Shape {
  double rows = 1;
  double width = 0;
};

// Elements as rows of tokens, where they are; else as one row.
Shape shape_of_elements(double elements, std::initializer_list<double> rows) {
  for (const double r : rows) {
    if (r > 0 && elements >= r && std::fmod(elements, r) == 0) return {r, elements / r};
  }
  return {1, elements};
}

// The tensor that an op is about: the largest that it writes, or else reads.
const ops::Tensor* subject_of(const ops::Op& op, const ops::Program* program) {
  if (program == nullptr) return nullptr;
  const ops::Tensor* found = nullptr;
  const auto look = [&](const auto& ids) {
    for (const ops::TensorId id : ids) {
      const ops::Tensor& t = program->tensors[id];
      if (found == nullptr || t.elements > found->elements) found = &t;
    }
  };
  look(op.writes);
  if (found == nullptr) look(op.reads);
  return found;
}

// Indices are moved as numbers of the activations' format are: the bytes are what counts.
DType format_of(const ops::Tensor& t, DType activation) {
  const bool number = t.dtype == DType::fp32 || t.dtype == DType::fp16 || t.dtype == DType::bf16;
  return number ? t.dtype : activation;
}

double expert_rows_of(const job::CheckedJob& job) {
  for (const layer::BlockSpec& block : job.spec->model.blocks) {
    const auto* m = std::get_if<layer::MoeSpec>(&block.feed_forward);
    if (m != nullptr) return layer::route_sizes(*m, lower::context_of(job)).rows;
  }
  return 0;
}

Piece elementwise_piece(const ops::Op& op, const ops::Program* program, const job::CheckedJob& job,
                        double owned_parameters) {
  const auto& e = *std::get_if<ops::Elementwise>(&op.work);
  ElementwisePiece out;
  out.what = what_of(op, *job.spec);
  out.pass = pass_of(op.pass);
  out.bytes = std::round(e.traffic.value);
  out.launches = e.launches;
  const layer::LayerContext c = lower::context_of(job);
  if (const ops::Tensor* t = subject_of(op, program)) {
    const Shape shape =
        shape_of_elements(t->elements, {c.shard_tokens(), c.tokens(), expert_rows_of(job)});
    out.rows = shape.rows;
    out.width = shape.width;
    return {out, format_of(*t, c.activation)};
  }
  if (out.what == ElementwiseWhat::optimizer) {
    out.rows = owned_parameters;
    out.width = 1;
    return {out, job.spec->optimizer.main_parameter};
  }
  return {out, c.activation};
}

}  // namespace

std::optional<Piece> piece_of(const ops::Op& op, const ops::Program* program,
                              const job::CheckedJob& job, int members, double owned_parameters) {
  if (const auto* g = std::get_if<ops::Gemm>(&op.work)) {
    if (op.module == Module::scan) return std::nullopt;
    return Piece{gemm_piece(*g, op.pass), g->dtype};
  }
  if (const auto* a = std::get_if<ops::Attention>(&op.work)) {
    return Piece{attention_piece(*a), a->dtype};
  }
  if (const auto* e = std::get_if<ops::Elementwise>(&op.work)) {
    if (op.kernels == 0 || e->traffic.value <= 0) return std::nullopt;
    return elementwise_piece(op, program, job, owned_parameters);
  }
  if (const auto* c = std::get_if<ops::Collective>(&op.work)) {
    if (members < 2 || c->fanout.known() || c->bytes.value <= 0) return std::nullopt;
    return Piece{CollectivePiece{c->kind, static_cast<double>(members), c->bytes.value},
                 DType::fp32};
  }
  return std::nullopt;
}

namespace {

ops::Pass op_pass(PiecePass pass) {
  switch (pass) {
    case PiecePass::forward:
      return ops::Pass::forward;
    case PiecePass::dgrad:
    case PiecePass::backward:
      return ops::Pass::dgrad;
    case PiecePass::wgrad:
      return ops::Pass::wgrad;
    case PiecePass::step:
      return ops::Pass::step;
  }
  return ops::Pass::forward;
}

ElementwiseClass class_of(ElementwiseWhat what, PiecePass pass) {
  switch (what) {
    case ElementwiseWhat::norm:
      return pass == PiecePass::forward ? ElementwiseClass::norm_forward
                                        : ElementwiseClass::norm_backward;
    case ElementwiseWhat::permute:
      return ElementwiseClass::permute;
    case ElementwiseWhat::cross_entropy:
      return ElementwiseClass::cross_entropy;
    case ElementwiseWhat::optimizer:
      return ElementwiseClass::optimizer;
    default:
      return ElementwiseClass::streaming;
  }
}

}  // namespace

std::optional<ops::Op> op_of(const Piece& piece) {
  ops::Op op;
  if (const auto* g = std::get_if<GemmPiece>(&piece.work)) {
    op.pass = op_pass(g->pass);
    op.work = ops::Gemm{.m = g->m,
                        .n = g->n,
                        .k = g->k,
                        .groups = g->groups,
                        .dtype = piece.dtype,
                        .accumulate_fp32 = g->accumulate,
                        .experts = g->experts,
                        .strided = g->strided};
  } else if (const auto* a = std::get_if<AttentionPiece>(&piece.work)) {
    op.pass = op_pass(a->pass);
    op.work = ops::Attention{.batch = a->batch,
                             .seq_q = a->seq_q,
                             .seq_kv = a->seq_kv,
                             .heads = a->heads,
                             .kv_heads = a->kv_heads,
                             .head_dim = a->head_dim,
                             .v_head_dim = a->v_head_dim,
                             .causal = a->causal,
                             .backward = a->pass == PiecePass::backward,
                             .dtype = piece.dtype,
                             .window = a->window,
                             .sinks = a->sinks};
  } else if (const auto* e = std::get_if<ElementwisePiece>(&piece.work)) {
    op.pass = op_pass(e->pass);
    op.work = ops::Elementwise{Bytes{e->bytes}, class_of(e->what, e->pass), e->launches};
  } else if (const auto* c = std::get_if<CollectivePiece>(&piece.work)) {
    op.work = ops::Collective{.kind = c->what, .axis = Axis::tp, .bytes = Bytes{c->bytes}};
  } else {
    return std::nullopt;
  }
  return op;
}

namespace {

std::string_view word_of(layer::ActivationKind kind) {
  switch (kind) {
    case layer::ActivationKind::silu:
      return "silu";
    case layer::ActivationKind::gelu:
      return "gelu";
    case layer::ActivationKind::relu:
      return "relu";
    case layer::ActivationKind::squared_relu:
      return "squared_relu";
  }
  return "";
}

std::string_view word_of(layer::Position position) {
  switch (position) {
    case layer::Position::none:
      return "none";
    case layer::Position::rotary:
      return "rotary";
    case layer::Position::learned:
      return "learned";
    case layer::Position::alibi:
      return "alibi";
  }
  return "";
}

std::string_view word_of(layer::NormKind kind) {
  return kind == layer::NormKind::rmsnorm ? "rmsnorm" : "layernorm";
}

// What keeps any block of the job from being a module of its own; "" where nothing does.
std::string job_reason(const job::JobSpec& spec, const job::CheckedJob& job) {
  if (job::is_narrow(spec.precision)) return "a narrow recipe's casts are the framework's own";
  if (spec.lora.on()) return "adapters beside frozen weights";
  if (spec.hidden_dropout > 0 || spec.attention_dropout > 0) return "dropout";
  if (job.parallel.cp > 1) return "attention in pieces of the sequence exchanges keys as it goes";
  if (spec.model.streams() > 1) return "several residual streams";
  if (spec.recompute.granularity == job::Granularity::full && !spec.recompute.policy.empty()) {
    return "recomputation by a policy";
  }
  return "";
}

std::string mixer_reason(const layer::BlockSpec& block) {
  const auto* a = std::get_if<layer::AttentionSpec>(&block.mixer);
  if (a == nullptr) return "its mixer is not plain attention";
  if (a->out_bias) return "a bias on the output projection";
  if (a->chunk > 0 || a->sinks || a->soft_cap > 0) return "attention with chunks, sinks or a cap";
  if (a->shared_kv || a->value_norm || a->output_gate)
    return "attention with shared or gated values";
  if (a->qk_norm_full || (a->qk_norm && !a->qk_norm_weight)) return "norms over all heads";
  if (a->rotary_share < 1) return "rotary over a share of the head";
  return "";
}

std::string feed_forward_reason(const layer::BlockSpec& block, const job::CheckedJob& job) {
  if (const auto* m = std::get_if<layer::MlpSpec>(&block.feed_forward)) {
    return m->bias ? "biases in the feed-forward" : "";
  }
  const auto* m = std::get_if<layer::MoeSpec>(&block.feed_forward);
  if (m == nullptr) return "no feed-forward";
  if (m->bias || m->shared_gate || m->own_norms || m->latent > 0) return "experts with extras";
  if (job.spec->routing.dispatcher == layer::Dispatcher::einsum) return "routing by products";
  if (job.parallel.etp > 1) return "experts cut over ranks";
  return "";
}

std::string block_reason(const layer::BlockSpec& block, const job::CheckedJob& job) {
  if (block.parallel || !block.pre_norm || block.post_norm ||
      block.norm.bias != (block.norm.kind == layer::NormKind::layernorm)) {
    return "norms and branches in another order";
  }
  if (const std::string why = mixer_reason(block); !why.empty()) return why;
  return feed_forward_reason(block, job);
}

// What all blocks of a job have in common.
BlockPiece frame_of_blocks(const job::CheckedJob& job) {
  const job::JobSpec& spec = *job.spec;
  const layer::LayerContext c = lower::context_of(job);
  BlockPiece out;
  out.tokens = c.tokens();
  out.shard_tokens = c.shard_tokens() < c.tokens() ? c.shard_tokens() : 0;
  out.sequence = c.sequence / c.cp;
  out.hidden = spec.model.hidden;
  out.norm = word_of(spec.model.norm.kind);
  out.tp = job.parallel.tp;
  return out;
}

void describe_mixer(const layer::AttentionSpec& a, const job::CheckedJob& job, BlockPiece& out) {
  const int tp = job.parallel.tp;
  out.heads = static_cast<double>(a.heads) / tp;
  out.kv_heads = std::max(1.0, static_cast<double>(a.kv_heads) / tp);
  out.head_dim = a.head_dim;
  out.window = a.window;
  out.qkv_bias = a.qkv_bias;
  out.qk_norm = a.qk_norm;
  out.position = word_of(a.position);
  out.attention = job.spec->attention == layer::AttentionKernel::flash ? "flash" : "unfused";
}

void describe_feed_forward(const layer::BlockSpec& block, const job::CheckedJob& job,
                           BlockPiece& out) {
  if (const auto* m = std::get_if<layer::MlpSpec>(&block.feed_forward)) {
    out.ffn = m->ffn / job.parallel.tp;
    out.gated = m->gated;
    out.activation = word_of(m->activation);
    return;
  }
  const auto& m = *std::get_if<layer::MoeSpec>(&block.feed_forward);
  const layer::RouteSizes size = layer::route_sizes(m, lower::context_of(job));
  out.ffn = size.expert_width;
  out.experts = size.local_experts;
  out.all_experts = m.experts;
  out.top_k = m.top_k;
  out.expert_rows = size.rows;
  out.shared_ffn = m.shared_ffn / job.parallel.tp;
  out.gated = m.gated;
  out.activation = word_of(m.activation);
  out.ep = job.parallel.ep;
}

// One past the first residual op: where the mixer's half ends in forward, the feed-forward's in
// backward.
std::size_t first_half(const std::vector<ops::Op>& list) {
  const auto at = std::find_if(list.begin(), list.end(), [](const ops::Op& op) {
    return op.module == Module::residual && op.pass != ops::Pass::recompute;
  });
  return at == list.end() ? list.size() : static_cast<std::size_t>(at - list.begin()) + 1;
}

BlockPieces pieces_of(BlockPiece block, DType dtype) {
  block.pass = PiecePass::forward;
  BlockPieces out;
  out.forward = {block, dtype};
  block.pass = PiecePass::backward;
  out.backward = {block, dtype};
  return out;
}

// Takes the halves' own fields out of a layer's.
BlockPiece mixer_half(BlockPiece b) {
  b.what = BlockWhat::attention;
  b.ffn = b.experts = b.all_experts = b.top_k = b.expert_rows = b.shared_ffn = 0;
  b.gated = true;
  b.activation.clear();
  b.ep = 1;
  return b;
}
BlockPiece feed_forward_half(BlockPiece b) {
  b.what = b.experts > 0 ? BlockWhat::moe : BlockWhat::mlp;
  b.heads = b.kv_heads = b.head_dim = b.window = 0;
  b.qkv_bias = b.qk_norm = false;
  b.position.clear();
  b.attention.clear();
  return b;
}

std::vector<BlockPieces> layer_blocks(const ops::Program& program, const lower::ProgramId& id,
                                      const job::CheckedJob& job) {
  const layer::BlockSpec& block = job.spec->model.blocks[id.kind];
  const DType dtype = job::activation_dtype(job.spec->precision);
  BlockPiece whole = frame_of_blocks(job);
  whole.norm = word_of(block.norm.kind);
  describe_mixer(std::get<layer::AttentionSpec>(block.mixer), job, whole);
  describe_feed_forward(block, job, whole);
  whole.recompute = id.variant.full ? "full" : "none";
  const std::size_t forward = first_half(program.forward);
  const std::size_t backward = first_half(program.backward);
  BlockPieces all = pieces_of(whole, dtype);
  all.forward_end = program.forward.size();
  all.backward_end = program.backward.size();
  whole.recompute = "none";
  BlockPieces mixer = pieces_of(mixer_half(whole), dtype);
  mixer.forward_end = forward;
  mixer.backward_begin = backward;
  mixer.backward_end = program.backward.size();
  BlockPieces fed = pieces_of(feed_forward_half(whole), dtype);
  fed.forward_begin = forward;
  fed.forward_end = program.forward.size();
  fed.backward_end = backward;
  return {all, mixer, fed};
}

}  // namespace

std::vector<BlockPieces> blocks_of(const ops::Program& program, const lower::ProgramId& id,
                                   const job::CheckedJob& job, std::string& why) {
  const job::JobSpec& spec = *job.spec;
  why = job_reason(spec, job);
  if (!why.empty()) return {};
  BlockPiece block = frame_of_blocks(job);
  const auto whole = [&] {
    BlockPieces out = pieces_of(block, job::activation_dtype(spec.precision));
    out.forward_end = program.forward.size();
    out.backward_end = program.backward.size();
    return std::vector<BlockPieces>{out};
  };
  block.vocab = job.padded_vocab / job.parallel.tp;
  switch (id.role) {
    case lower::Role::layer:
      why = block_reason(spec.model.blocks[id.kind], job);
      return why.empty() ? layer_blocks(program, id, job) : std::vector<BlockPieces>{};
    case lower::Role::embedding:
      if (spec.model.embedding_norm || spec.model.embedding_scale) why = "a scaled embedding";
      block.what = BlockWhat::embedding;
      block.norm.clear();
      block.position = word_of(spec.model.position);
      return why.empty() ? whole() : std::vector<BlockPieces>{};
    case lower::Role::output:
      if (spec.model.final_soft_cap > 0 || spec.model.head_bias) why = "a capped or biased head";
      block.what = BlockWhat::head;
      return why.empty() ? whole() : std::vector<BlockPieces>{};
    case lower::Role::mtp:
      why = "a prediction module";
      return {};
    case lower::Role::embedding_share:
    case lower::Role::output_share:
      why = "a share of a vocabulary layer";
      return {};
  }
  return {};
}

}  // namespace eratos::projection
