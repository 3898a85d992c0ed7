#include "eratos/lower/lower.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "eratos/base/check.h"
#include "eratos/job/optimizer.h"
#include "eratos/lower/step.h"

namespace eratos::lower {

namespace {

// Layer `n` of virtual stage `i`. Without interleaving the first `layers` of a rank; over several
// chunks as many, spaced evenly, as chunks differ in what they hold: the first of them is in flight
// most. Of ten layers, two: the third and the eighth.
bool offloaded(const job::CheckedJob& job, std::size_t i, int n) {
  const job::OffloadSpec& o = job.spec->offload;
  if (!o.any_activations()) return false;
  if (o.layers == 0) return true;
  int position = n;  // among the rank's layers
  int all = 0;
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    int earlier = 0;
    bool here = false;
    for (int chunk = 0; chunk < parallel::chunks_of(job.parallel); ++chunk) {
      const int stage = parallel::stage_of(job.parallel, rank, chunk);
      if (stage == static_cast<int>(i)) {
        here = true;
        position = n + earlier;
      }
      earlier += job.stages[static_cast<std::size_t>(stage)].layers;
    }
    if (here) all = earlier;
  }
  if (parallel::chunks_of(job.parallel) == 1 || all == 0) return position < o.layers;
  const auto before = [&](int p) { return (2 * p * o.layers + all) / (2 * all); };
  return before(position + 1) > before(position);
}

bool kept_wide(const job::JobSpec& spec, int layer) {
  return layer < spec.narrow.bf16_first_layers ||
         layer >= spec.model.layers() - spec.narrow.bf16_last_layers;
}

// Megatron-LM checkpoints the prediction modules with `uniform` and skips them with `block`.
// Source: Megatron-LM core/transformer/multi_token_prediction.py (_checkpointed_forward).
bool recomputes_mtp(const job::RecomputeSpec& r) {
  return r.granularity == job::Granularity::full && r.layer_ids.empty() &&
         r.method == job::RecomputeMethod::uniform;
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

// `full(layer, n)`: is the stage's n-th layer recomputed in full?
template <class Full>
void fill_stage(const job::CheckedJob& job, std::size_t i, const job::VirtualStage& at, Full full,
                ProgramSet& set, ops::LoweredJob& out) {
  const job::JobSpec& spec = *job.spec;
  const bool cut = job.parallel.output_layer != parallel::OutputLayer::last_stage;
  ops::StageProgram& stage = out.stages[i];
  stage.items.clear();
  if (at.embedding && !cut) append(stage, set.find({.role = Role::embedding}, out));
  for (int n = 0; n < at.layers; ++n) {
    const int layer = at.first_layer + n;
    const std::uint8_t kind = spec.model.pattern[static_cast<std::size_t>(layer)];
    const Variant variant{full(layer, n), kept_wide(spec, layer), offloaded(job, i, n)};
    append(stage, set.find({.role = Role::layer, .kind = kind, .variant = variant}, out));
  }
  for (int n = 0; n < at.mtp; ++n) {
    const Variant variant{.full = recomputes_mtp(spec.recompute)};
    append(stage, set.find({.role = Role::mtp, .variant = variant}, out));
  }
  if (at.output && !cut) {
    // A tied table is held once where both ends share a rank.
    const bool one_rank =
        job.parallel.pp == 1 || job.parallel.placement == parallel::Placement::vee;
    const bool own = !spec.model.tie_embeddings || !one_rank;
    append(stage, set.find({.role = Role::output, .own = own}, out));
  }
}

// Where both vocabulary layers are cut over all pipeline ranks, every rank has the same share.
void lower_shares(const job::CheckedJob& job, const layer::LayerContext& c, ProgramSet& set,
                  ops::LoweredJob& out) {
  const job::JobSpec& spec = *job.spec;
  const std::uint16_t first = set.find({.role = Role::embedding_share}, out);
  const std::uint16_t last =
      set.find({.role = Role::output_share, .own = !spec.model.tie_embeddings}, out);
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    ops::StageProgram& stage = out.shares[static_cast<std::size_t>(rank)];
    append(stage, first);
    append(stage, last);
    stage.send = bytes_of(c.shard_tokens() * spec.model.hidden, c.activation);
  }
}

bool same_items(const job::CheckedJob& job, const ops::LoweredJob& lowered, int a, int b) {
  for (int part = 0; part < parts_of(job); ++part) {
    const auto& x = part_of(job, lowered, a, part).items;
    const auto& y = part_of(job, lowered, b, part).items;
    const auto same = [](const ops::StageItem& i, const ops::StageItem& j) {
      return i.program == j.program && i.repeat == j.repeat;
    };
    if (x.size() != y.size() || !std::equal(x.begin(), x.end(), y.begin(), same)) return false;
  }
  return true;
}

}  // namespace

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

void lower_stage(const job::CheckedJob& job, std::size_t i, const job::VirtualStage& at,
                 std::span<const std::uint8_t> full, ProgramSet& set, ops::LoweredJob& out) {
  ERATOS_CHECK(full.size() == static_cast<std::size_t>(at.layers));
  out.program_count = set.size();
  fill_stage(
      job, i, at, [&](int, int n) { return full[static_cast<std::size_t>(n)] != 0; }, set, out);
}

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

void lower_stages(const job::CheckedJob& job, ProgramSet& set, ops::LoweredJob& out) {
  const job::JobSpec& spec = *job.spec;
  const layer::LayerContext c = context_of(job);
  out.program_count = set.size();
  const std::size_t stages = job.stages.size();
  if (out.stages.size() < stages) out.stages.resize(stages);
  out.stage_count = stages;
  const bool cut = job.parallel.output_layer != parallel::OutputLayer::last_stage;
  const double boundary = c.shard_tokens() * spec.model.hidden * spec.model.streams();

  for (std::size_t i = 0; i < stages; ++i) {
    const job::VirtualStage& at = job.stages[i];
    out.stages[i].send = i + 1 < stages ? bytes_of(boundary, c.activation) : Bytes{0};
    fill_stage(
        job, i, at,
        [&](int layer, int n) { return recomputed_in_full(spec.recompute, layer, n); }, set, out);
  }

  const auto ranks = static_cast<std::size_t>(job.parallel.pp);
  if (out.shares.size() < ranks) out.shares.resize(ranks);
  for (ops::StageProgram& share : out.shares) share.items.clear();
  if (cut) lower_shares(job, c, set, out);
  out.rank_count = ranks;
}

bool steps_as_before(const job::CheckedJob& job, const ops::LoweredJob& lowered, int rank) {
  return rank > 0 && same_items(job, lowered, rank, rank - 1);
}

void lower_step(const job::CheckedJob& job, const ops::LoweredJob& lowered, int rank,
                std::vector<ops::Op>& out) {
  out.clear();
  step_ops(job, rank_parameters(job, lowered, rank), out);
  const job::OptimizerKind* optimizer = job::find_optimizer(job.spec->optimizer.kind);
  if (optimizer == nullptr || !optimizer->orthogonalised) return;
  for (int part = 0; part < parts_of(job); ++part) {
    for (const ops::StageItem& item : part_of(job, lowered, rank, part).items) {
      orthogonalise(lowered.programs[item.program], item.repeat, out);
    }
  }
}

void lower_steps(const job::CheckedJob& job, ops::LoweredJob& out) {
  const std::size_t ranks = out.rank_count;
  if (out.step_ops.size() < ranks) out.step_ops.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    if (steps_as_before(job, out, static_cast<int>(r))) {
      out.step_ops[r] = out.step_ops[r - 1];
    } else {
      lower_step(job, out, static_cast<int>(r), out.step_ops[r]);
    }
  }
}

void lower(const job::CheckedJob& job, ProgramSet& set, ops::LoweredJob& out) {
  lower_stages(job, set, out);
  lower_steps(job, out);
}

void lower(const job::CheckedJob& job, ops::LoweredJob& out, double load) {
  ProgramSet set;
  set.start(job, load);
  lower(job, set, out);
}

}  // namespace eratos::lower
