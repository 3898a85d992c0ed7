#include "eratos/lower/lower.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "eratos/job/optimizer.h"
#include "eratos/lower/passes.h"
#include "eratos/lower/step.h"
#include "eratos/model/block.h"

namespace eratos::lower {

namespace {

constexpr std::uint16_t kAbsent = 0xffff;

// The next spare program of the table, cleared.
std::uint16_t take(ops::LoweredJob& out) {
  if (out.program_count == out.programs.size()) out.programs.emplace_back();
  out.programs[out.program_count].clear();
  return static_cast<std::uint16_t>(out.program_count++);
}

// What makes two layers of one kind different programs.
struct Variant {
  bool full = false;       // recomputed in full
  bool wide = false;       // of a narrow recipe's first and last layers
  bool offloaded = false;  // its kept tensors go to the host

  std::size_t index() const {
    return (full ? 1u : 0u) + (wide ? 2u : 0u) + (offloaded ? 4u : 0u);
  }
};

struct Table {
  // By block kind, and by Variant::index().
  std::array<InplaceVector<std::uint16_t, 32>, 8> layer;
  std::uint16_t embedding = kAbsent;
  std::uint16_t output = kAbsent;
  std::uint16_t mtp = kAbsent;
};

job::ModuleSet selected_modules(const job::RecomputeSpec& r) {
  if (r.modules.any()) return r.modules;
  job::ModuleSet core;
  core.set(static_cast<std::size_t>(ops::Module::core_attention));
  return core;
}

void finish(ops::Program& p, const job::CheckedJob& job) {
  apply_overlap(p, *job.spec);
  apply_sharding(p, job);
}

void recompute_whole(ops::Program& p, const job::JobSpec& spec) {
  const job::RecomputeSpec& r = spec.recompute;
  if (r.kept.any() || r.alternate) {
    apply_policy(p, r);
  } else {
    apply_full_recompute(p, spec.framework.saved.recompute_stops_early);
  }
}

// What a layer is, before its numbers' formats and its memory are settled.
void settle(const job::JobSpec& spec, const layer::LayerContext& c, ops::Program& p) {
  if (spec.lora.on()) apply_lora(p, spec.lora, c);
  apply_packing(p, spec.batch.packed_length);
}

void lower_kind(const job::CheckedJob& job, const layer::LayerContext& c, std::size_t kind, Variant variant,
                ops::Program& p) {
  const job::JobSpec& spec = *job.spec;
  model::lower_block(spec.model.blocks[kind], c, spec.model.hidden, p);
  settle(spec, c, p);
  if (!variant.wide) apply_precision(p, spec);
  if (variant.full) {
    recompute_whole(p, spec);
  } else if (spec.recompute.granularity == job::Granularity::selective) {
    apply_selective_recompute(p, selected_modules(spec.recompute));
  }
  if (variant.offloaded) {
    apply_offload(p, spec.offload.activations.any() ? spec.offload.activations
                                                    : ~job::ModuleSet{});
  }
  finish(p, job);
}

// Layer `n` of virtual stage `i`.
bool offloaded(const job::CheckedJob& job, std::size_t i, int n) {
  const job::OffloadSpec& o = job.spec->offload;
  if (!o.any_activations()) return false;
  if (o.layers == 0) return true;
  int position = n;  // among the rank's layers
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    int earlier = 0;
    for (int chunk = 0; chunk < parallel::chunks_of(job.parallel); ++chunk) {
      const int stage = parallel::stage_of(job.parallel, rank, chunk);
      if (stage == static_cast<int>(i)) return position + earlier < o.layers;
      earlier += job.stages[static_cast<std::size_t>(stage)].layers;
    }
  }
  return position < o.layers;
}

bool kept_wide(const job::JobSpec& spec, int layer) {
  return layer < spec.narrow.bf16_first_layers ||
         layer >= spec.model.layers() - spec.narrow.bf16_last_layers;
}

bool recomputed_in_full(const job::RecomputeSpec& r, int layer, int position_in_stage) {
  if (r.granularity != job::Granularity::full) return false;
  if (!r.layer_ids.empty()) {
    return std::find(r.layer_ids.begin(), r.layer_ids.end(), layer) != r.layer_ids.end();
  }
  // Assumes: `uniform` keeps every layer's input, as with units of one layer; larger units keep one
  // input a unit and hold all layers of a unit at once in backward.
  if (r.method == job::RecomputeMethod::uniform) return true;
  return position_in_stage < r.layers;
}

// Megatron-LM checkpoints the prediction modules with `uniform` and skips them with `block`.
// Source: Megatron-LM core/transformer/multi_token_prediction.py (_checkpointed_forward).
bool recomputes_mtp(const job::RecomputeSpec& r) {
  return r.granularity == job::Granularity::full && r.layer_ids.empty() &&
         r.method == job::RecomputeMethod::uniform;
}

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

void append(ops::StageProgram& stage, std::uint16_t program) {
  if (!stage.items.empty() && stage.items.back().program == program) {
    stage.items.back().repeat += 1;
    return;
  }
  // A pattern that alternates more often than a stage can list: merge with the earlier run. Room is
  // left for programs that are still to come, such as the head.
  constexpr std::size_t kRoom = 8;
  if (stage.items.size() + kRoom >= stage.items.capacity()) {
    for (ops::StageItem& item : stage.items) {
      if (item.program == program) {
        item.repeat += 1;
        return;
      }
    }
  }
  stage.items.push_back({program, 1});
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
// Assumes: each rank applies the final norm to the broadcast input itself.
void lower_shares(const job::CheckedJob& job, const layer::LayerContext& c, ops::LoweredJob& out) {
  const job::JobSpec& spec = *job.spec;
  const double share = std::ceil(job.padded_vocab / job.parallel.pp / job.parallel.tp) * job.parallel.tp;
  layer::EmbeddingSpec embedding = embedding_spec(job);
  embedding.vocab = share;
  embedding.positions /= job.parallel.pp;  // Assumes: a position table is cut as well
  layer::OutputSpec output = output_spec(job);
  output.vocab = share;
  const std::uint16_t first = take(out);
  model::lower_embedding(embedding, c, out.programs[first]);
  const std::uint16_t last = take(out);
  model::lower_output(output, c, !spec.model.tie_embeddings, out.programs[last]);
  add_barrier_work(job, share * c.tokens() / c.tp, c.tokens() * spec.model.hidden,
                   out.programs[last]);
  for (const std::uint16_t program : {first, last}) {
    settle(spec, c, out.programs[program]);
    finish(out.programs[program], job);
  }
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    ops::StageProgram& stage = out.shares[static_cast<std::size_t>(rank)];
    append(stage, first);
    append(stage, last);
    stage.send = bytes_of(c.shard_tokens() * spec.model.hidden, c.activation);
  }
}

}  // namespace

int parts_of(const job::CheckedJob& job) {
  const bool cut = job.parallel.output_layer != parallel::OutputLayer::last_stage;
  return parallel::chunks_of(job.parallel) + (cut ? 1 : 0);
}

const ops::StageProgram& part_of(const job::CheckedJob& job, const ops::LoweredJob& lowered, int rank,
                                 int part) {
  if (part == parallel::chunks_of(job.parallel)) return lowered.shares[static_cast<std::size_t>(rank)];
  return lowered.stages[static_cast<std::size_t>(parallel::stage_of(job.parallel, rank, part))];
}

layer::LayerContext context_of(const job::CheckedJob& job, double load) {
  const job::JobSpec& spec = *job.spec;
  layer::LayerContext c;
  c.sequences = spec.batch.micro;
  c.sequence = spec.batch.sequence;
  c.tp = job.parallel.tp;
  c.cp = job.parallel.cp;
  c.ep = job.parallel.ep;
  c.etp = job.parallel.etp;
  c.sequence_parallel = job.parallel.sequence_parallel && job.parallel.tp > 1;
  c.cp_kind = job.parallel.cp_kind;
  c.attention = spec.attention;
  c.activation = job::activation_dtype(spec.precision);
  c.loss_fused = spec.loss_fused;
  c.dispatcher = spec.routing.dispatcher;
  c.capacity_factor = spec.routing.capacity_factor;
  c.pad_to_capacity = spec.routing.pad_to_capacity;
  c.row_multiple = spec.routing.row_multiple;
  c.load = load;
  c.hidden_dropout = spec.hidden_dropout;
  c.attention_dropout = spec.attention_dropout;
  c.frozen = spec.lora.on();
  c.profile = &spec.framework;
  return c;
}

void lower(const job::CheckedJob& job, ops::LoweredJob& out, double load) {
  const job::JobSpec& spec = *job.spec;
  const layer::LayerContext c = context_of(job, load);
  out.program_count = 0;
  Table table;
  for (std::size_t kind = 0; kind < spec.model.blocks.size(); ++kind) {
    for (auto& programs : table.layer) programs.push_back(kAbsent);
  }
  const std::size_t stages = job.stages.size();
  if (out.stages.size() < stages) out.stages.resize(stages);
  out.stage_count = stages;
  const bool cut = job.parallel.output_layer != parallel::OutputLayer::last_stage;
  const double boundary = c.shard_tokens() * spec.model.hidden * spec.model.streams();

  for (std::size_t i = 0; i < stages; ++i) {
    const job::VirtualStage& at = job.stages[i];
    ops::StageProgram& stage = out.stages[i];
    stage.items.clear();
    stage.send = i + 1 < stages ? bytes_of(boundary, c.activation) : Bytes{0};
    if (at.embedding && !cut) {
      if (table.embedding == kAbsent) {
        table.embedding = take(out);
        model::lower_embedding(embedding_spec(job), c, out.programs[table.embedding]);
        settle(spec, c, out.programs[table.embedding]);
        finish(out.programs[table.embedding], job);
      }
      append(stage, table.embedding);
    }
    for (int n = 0; n < at.layers; ++n) {
      const int layer = at.first_layer + n;
      const std::size_t kind = spec.model.pattern[static_cast<std::size_t>(layer)];
      const bool full = recomputed_in_full(spec.recompute, layer, n);
      const Variant variant{full, kept_wide(spec, layer), offloaded(job, i, n)};
      std::uint16_t& program = table.layer[variant.index()][kind];
      if (program == kAbsent) {
        program = take(out);
        lower_kind(job, c, kind, variant, out.programs[program]);
      }
      append(stage, program);
    }
    for (int n = 0; n < at.mtp; ++n) {
      if (table.mtp == kAbsent) {
        table.mtp = take(out);
        ops::Program& p = out.programs[table.mtp];
        model::lower_mtp(spec.model.mtp_block(), output_spec(job), c,
                         spec.model.hidden, p);
        settle(spec, c, p);
        apply_precision(p, spec);
        if (recomputes_mtp(spec.recompute)) {
          recompute_whole(p, spec);
        } else if (spec.recompute.granularity == job::Granularity::selective) {
          apply_selective_recompute(p, selected_modules(spec.recompute));
        }
        finish(p, job);
      }
      append(stage, table.mtp);
    }
    if (at.output && !cut) {
      if (table.output == kAbsent) {
        table.output = take(out);
        // A tied table is held once where both ends share a rank.
        const bool one_rank =
            job.parallel.pp == 1 || job.parallel.placement == parallel::Placement::vee;
        const bool own = !spec.model.tie_embeddings || !one_rank;
        model::lower_output(output_spec(job), c, own, out.programs[table.output]);
        settle(spec, c, out.programs[table.output]);
        if (spec.narrow.output_layer) apply_precision(out.programs[table.output], spec);
        finish(out.programs[table.output], job);
      }
      append(stage, table.output);
    }
  }

  const auto ranks = static_cast<std::size_t>(job.parallel.pp);
  if (out.shares.size() < ranks) out.shares.resize(ranks);
  for (ops::StageProgram& share : out.shares) share.items.clear();
  if (cut) lower_shares(job, c, out);
  if (out.step_ops.size() < ranks) out.step_ops.resize(ranks);
  out.rank_count = ranks;
  for (std::size_t r = 0; r < ranks; ++r) {
    out.step_ops[r].clear();
    step_ops(job, rank_parameters(job, out, static_cast<int>(r)), out.step_ops[r]);
    const job::OptimizerKind* optimizer = job::find_optimizer(spec.optimizer.kind);
    if (optimizer == nullptr || !optimizer->orthogonalised) continue;
    for (int part = 0; part < parts_of(job); ++part) {
      for (const ops::StageItem& item : part_of(job, out, static_cast<int>(r), part).items) {
        orthogonalise(out.programs[item.program], item.repeat, out.step_ops[r]);
      }
    }
  }
}

}  // namespace eratos::lower
