#include "eratos/lower/program_set.h"

#include <cmath>
#include <variant>

#include "eratos/base/check.h"
#include "eratos/lower/lower.h"
#include "eratos/lower/passes.h"
#include "eratos/model/block.h"

namespace eratos::lower {

namespace {

constexpr std::uint16_t kAbsent = 0xffff;

job::ModuleSet selected_modules(const job::RecomputeSpec& r) {
  if (r.modules.any()) return r.modules;
  job::ModuleSet core;
  core.set(static_cast<std::size_t>(ops::Module::core_attention));
  return core;
}

// Calls visit(kept, given) for every input of a program, until one says no. Those that most often
// differ from one candidate of a search to the next stand first.
// What a pass or a layer reads of a job stands here, or it reads the default.
template <class Inputs, class Visit>
bool every_input(Inputs& kept, const job::CheckedJob& job, double load, Visit visit) {
  using job::Granularity;
  using parallel::Sharding;
  const job::JobSpec& s = *job.spec;
  const parallel::ParallelSpec& p = job.parallel;
  const framework::FrameworkProfile& f = s.framework;
  auto& k = kept.spec;
  auto& kp = kept.job.parallel;
  // Sharding puts gathers into programs where parameters are cut; pp is in them where the vocabulary is.
  const bool whole = p.sharding == Sharding::zero3 || p.sharding == Sharding::hsdp;
  const bool cut = p.output_layer != parallel::OutputLayer::last_stage;
  // Whether a layer is recomputed in full is a matter of Variant.
  const bool selective = s.recompute.granularity == Granularity::selective;
  return visit(kp.tp, p.tp) && visit(kp.cp, p.cp) && visit(kp.ep, p.ep) && visit(kp.etp, p.etp) &&
         visit(k.batch.micro, s.batch.micro) && visit(k.batch.sequence, s.batch.sequence) &&
         visit(kept.load, load) && visit(k.precision, s.precision) &&
         visit(kp.sequence_parallel, p.sequence_parallel) && visit(kp.cp_kind, p.cp_kind) &&
         visit(kp.sharding, whole ? p.sharding : Sharding::none) &&
         visit(kp.hsdp_group, whole ? p.hsdp_group : 0) && visit(kp.dp, whole ? p.dp : 1) &&
         visit(kp.output_layer, p.output_layer) && visit(kp.pp, cut ? p.pp : 1) &&
         visit(k.recompute.granularity, selective ? Granularity::selective : Granularity::none) &&
         visit(k.recompute.modules, s.recompute.modules) && visit(k.recompute.kept, s.recompute.kept) &&
         visit(k.recompute.alternate, s.recompute.alternate) && visit(k.overlap.tp, s.overlap.tp) &&
         visit(k.overlap.moe_a2a, s.overlap.moe_a2a) && visit(k.attention, s.attention) &&
         visit(k.loss_fused, s.loss_fused) && visit(k.routing.dispatcher, s.routing.dispatcher) &&
         visit(k.routing.capacity_factor, s.routing.capacity_factor) &&
         visit(k.routing.pad_to_capacity, s.routing.pad_to_capacity) &&
         visit(k.routing.row_multiple, s.routing.row_multiple) &&
         visit(k.offload.activations, s.offload.activations) &&
         visit(k.batch.packed_length, s.batch.packed_length) &&
         visit(k.narrow.parameter_gather, s.narrow.parameter_gather) &&
         visit(k.narrow.attention, s.narrow.attention) &&
         visit(k.narrow.output_layer, s.narrow.output_layer) &&
         visit(k.gradient_reduce_bf16, s.gradient_reduce_bf16) &&
         visit(k.hidden_dropout, s.hidden_dropout) &&
         visit(k.attention_dropout, s.attention_dropout) && visit(k.graph_share, s.graph_share) &&
         visit(k.lora, s.lora) && visit(kept.job.padded_vocab, job.padded_vocab) &&
         visit(k.model.hidden, s.model.hidden) &&
         visit(k.model.tie_embeddings, s.model.tie_embeddings) &&
         visit(k.model.position, s.model.position) &&
         visit(k.model.max_positions, s.model.max_positions) &&
         visit(k.model.embedding_norm, s.model.embedding_norm) &&
         visit(k.model.embedding_scale, s.model.embedding_scale) &&
         visit(k.model.final_soft_cap, s.model.final_soft_cap) &&
         visit(k.model.head_bias, s.model.head_bias) && visit(k.model.norm, s.model.norm) &&
         visit(k.model.mtp_kind, s.model.mtp_kind) && visit(k.model.blocks, s.model.blocks) &&
         visit(k.model.pattern, s.model.pattern) && visit(k.framework.fusions, f.fusions) &&
         visit(k.framework.saved, f.saved) && visit(k.framework.loss, f.loss) &&
         visit(k.framework.state, f.state) && visit(k.framework.overlap, f.overlap) &&
         visit(k.framework.kernel, f.kernel) &&
         visit(k.cluster.accelerator.any_layout_fp8, s.cluster.accelerator.any_layout_fp8);
}

struct Same {
  template <class T>
  bool operator()(const T& kept, const T& given) const {
    return kept == given;
  }
};

struct Keep {
  template <class T>
  bool operator()(T& kept, const T& given) const {
    kept = given;
    return true;
  }
};

layer::OutputSpec output_spec(const job::CheckedJob& job) {
  const model::Architecture& a = job.spec->model;
  return {a.hidden, job.padded_vocab, a.tie_embeddings, a.norm, a.final_soft_cap, a.head_bias,
          a.streams()};
}

layer::EmbeddingSpec embedding_spec(const job::CheckedJob& job) {
  const model::Architecture& a = job.spec->model;
  double positions = 0;
  if (a.position == layer::Position::learned) {
    positions = a.max_positions > 0 ? a.max_positions : job.spec->batch.sequence;
  }
  return {a.hidden, job.padded_vocab, positions, a.embedding_norm, a.norm, a.embedding_scale,
          a.streams()};
}

void recompute_whole(ops::Program& p, const job::JobSpec& spec) {
  const job::RecomputeSpec& r = spec.recompute;
  if (r.kept.any() || r.alternate) {
    apply_policy(p, r, spec.framework.saved.recompute_stops_early);
  } else {
    apply_full_recompute(p, spec.framework.saved.recompute_stops_early);
  }
}

void recompute(ops::Program& p, const job::JobSpec& spec, bool full) {
  if (full) {
    recompute_whole(p, spec);
  } else if (spec.recompute.granularity == job::Granularity::selective) {
    apply_selective_recompute(p, selected_modules(spec.recompute));
  }
}

// What a layer is, before its numbers' formats and its memory are settled.
void settle(const job::JobSpec& spec, const layer::LayerContext& c, ops::Program& p) {
  if (spec.lora.on()) apply_lora(p, spec.lora, c);
  apply_packing(p, spec.batch.packed_length);
}

void lower_kind(const job::JobSpec& spec, const layer::LayerContext& c, std::size_t kind,
                Variant variant, ops::Program& p) {
  model::lower_block(spec.model.blocks[kind], c, spec.model.hidden, p);
  settle(spec, c, p);
  if (!variant.wide) apply_precision(p, spec);
  recompute(p, spec, variant.full);
  if (variant.offloaded) {
    apply_offload(p, spec.offload.activations.any() ? spec.offload.activations
                                                    : ~job::ModuleSet{});
  }
}

void lower_mtp(const job::CheckedJob& job, const layer::LayerContext& c, bool full, ops::Program& p) {
  const job::JobSpec& spec = *job.spec;
  model::lower_mtp(spec.model.mtp_block(), output_spec(job), c, spec.model.hidden, p);
  settle(spec, c, p);
  apply_precision(p, spec);
  recompute(p, spec, full);
}

// What a share does beside the layer itself, where it has barriers.
//   Both   Its input arrives in fp32 with another column, is copied out of that and cast: 4 + 4 and 4 + 2
//          bytes an element. S takes the softmax of its own share; after the barrier every probability is
//          corrected for the others' maximum and sum: read and written once more, in fp32, before T's
//          products. Interlaced shares exchange both before they take it.
//   One    S multiplies the probabilities too, and T multiplies them again once corrected: each takes a
//          16-bit copy of its own, 4 + 2 bytes a logit more. The other half of the input's gradient is the
//          labels' rows of the table: fetched (2 + 2 bytes an element), masked (2), zeros handed on in its
//          place (2); between the exchanges the first half is scaled (2 + 2), the other taken off (4 + 2).
// Source: arXiv 2411.05288, section 4; sail-sg/VocabularyParallelism, VocabParallelOutput,
// receive_lm_head_input, reduce_lm_head_res_alg2
void add_barrier_work(const job::CheckedJob& job, double logits, double hidden, ops::Program& p) {
  const parallel::OutputLayer output = job.parallel.output_layer;
  if (output == parallel::OutputLayer::interlaced) return;
  const auto streaming = [&](ops::Pass pass, double bytes, double launches) {
    ops::Op op;
    op.pass = pass;
    op.module = ops::Module::loss;
    op.work = ops::Elementwise{Bytes{bytes}, ops::ElementwiseClass::streaming, launches};
    return op;
  };
  const bool one = output == parallel::OutputLayer::one_barrier;
  p.forward.insert(p.forward.begin(), streaming(ops::Pass::forward, 14 * hidden, 2));
  p.backward.insert(p.backward.begin(),
                    streaming(one ? ops::Pass::wgrad : ops::Pass::dgrad, 8 * logits, 1));
  if (!one) return;
  p.backward.insert(p.backward.begin(), streaming(ops::Pass::dgrad, 6 * logits + 18 * hidden, 6));
}

// Both vocabulary layers cut over all pipeline ranks: every rank has the same share, the vocabulary
// padded to a multiple of p. Source: arXiv 2411.05288, sections 3 and 4.
double share_of(const job::CheckedJob& job) {
  return std::ceil(job.padded_vocab / job.parallel.pp / job.parallel.tp) * job.parallel.tp;
}

void lower_embedding(const job::CheckedJob& job, const layer::LayerContext& c, bool share,
                     ops::Program& p) {
  layer::EmbeddingSpec embedding = embedding_spec(job);
  if (share) {
    embedding.vocab = share_of(job);
    embedding.positions /= job.parallel.pp;  // Assumes: a position table is cut as well
  }
  model::lower_embedding(embedding, c, p);
  settle(*job.spec, c, p);
}

// Assumes: each rank applies the final norm to the broadcast input of its share itself.
void lower_output(const job::CheckedJob& job, const layer::LayerContext& c, bool own, bool share,
                  ops::Program& p) {
  layer::OutputSpec output = output_spec(job);
  if (share) output.vocab = share_of(job);
  model::lower_output(output, c, own, p);
  if (share) {
    add_barrier_work(job, output.vocab * c.tokens() / c.tp, c.tokens() * output.hidden, p);
  }
  settle(*job.spec, c, p);
  if (!share && job.spec->narrow.output_layer) apply_precision(p, *job.spec);
}

void lower_program(const ProgramInputs& inputs, double load, const ProgramId& id, ops::Program& p) {
  p.clear();
  const job::CheckedJob& job = inputs.job;
  const layer::LayerContext c = context_of(job, load);
  switch (id.role) {
    case Role::embedding:
    case Role::embedding_share:
      lower_embedding(job, c, id.role == Role::embedding_share, p);
      break;
    case Role::layer:
      lower_kind(*job.spec, c, id.kind, id.variant, p);
      break;
    case Role::mtp:
      lower_mtp(job, c, id.variant.full, p);
      break;
    case Role::output:
    case Role::output_share:
      lower_output(job, c, id.own, id.role == Role::output_share, p);
      break;
  }
  apply_overlap(p, *job.spec);
  apply_sharding(p, job);
}

}  // namespace

bool ProgramSet::is_of(const job::CheckedJob& job, double load) const {
  return filled_ && every_input(inputs_, job, load, Same{});
}

void ProgramSet::start(const job::CheckedJob& job, double load) {
  every_input(inputs_, job, load, Keep{});
  inputs_.job.spec = &inputs_.spec;
  filled_ = true;
  ids_.clear();
  others_.fill(kAbsent);
  for (auto& places : layers_) {
    places.clear();
    for (std::size_t kind = 0; kind < inputs_.spec.model.blocks.size(); ++kind) {
      places.push_back(kAbsent);
    }
  }
}

void ProgramSet::start_like(const ProgramSet& other, const job::CheckedJob& job, double load,
                            ops::LoweredJob& out) {
  start(job, load);
  for (const ProgramId& id : other.ids_) find(id, out);
}

std::uint16_t& ProgramSet::place_of(const ProgramId& id) {
  switch (id.role) {
    case Role::layer:
      return layers_[id.variant.index()][id.kind];
    case Role::embedding:
      return others_[0];
    case Role::mtp:
      return others_[id.variant.full ? 1 : 2];
    case Role::output:
      return others_[id.own ? 3 : 4];
    case Role::embedding_share:
      return others_[5];
    case Role::output_share:
      return others_[id.own ? 6 : 7];
  }
  return others_[0];
}

std::uint16_t ProgramSet::find(const ProgramId& id, ops::LoweredJob& out) {
  std::uint16_t& place = place_of(id);
  if (place != kAbsent) return place;
  ERATOS_CHECK(ids_.size() < kAbsent);
  place = static_cast<std::uint16_t>(ids_.size());
  ids_.push_back(id);
  if (out.programs.size() < ids_.size()) out.programs.emplace_back();
  lower_program(inputs_, inputs_.load, id, out.programs[place]);
  out.program_count = ids_.size();
  return place;
}

bool ProgramSet::routes(std::size_t i) const {
  const model::Architecture& a = inputs_.spec.model;
  const ProgramId& id = ids_[i];
  if (id.role != Role::layer && id.role != Role::mtp) return false;
  const layer::BlockSpec& block = id.role == Role::mtp ? a.mtp_block() : a.blocks[id.kind];
  return std::holds_alternative<layer::MoeSpec>(block.feed_forward);
}

void ProgramSet::lower_at(double load, std::size_t i, ops::Program& out) const {
  lower_program(inputs_, load, ids_[i], out);
}

}  // namespace eratos::lower
