#include "eratos/job/placement.h"

#include <algorithm>
#include <variant>

#include "eratos/layer/legality.h"
#include "eratos/layer/mixers.h"

namespace eratos::job {

namespace {

using layer::number;
using layer::reject;

void number_layers(CheckedJob& out) {
  int next = 0;
  for (VirtualStage& stage : out.stages) {
    stage.first_layer = next;
    next += stage.layers;
  }
}

// Megatron refuses two answers to the same question.
// Source: Megatron-LM core/transformer/transformer_config.py (__post_init__, PP layout).
void check_one_split(const LayoutSpec& layout, Diagnostics& faults) {
  const bool ends = layout.first_stage_layers > 0 || layout.last_stage_layers > 0;
  const bool counted = layout.embedding_counts || layout.output_counts;
  const bool stages = !layout.stages.empty();
  if ((ends ? 1 : 0) + (counted ? 1 : 0) + (stages ? 1 : 0) < 2) return;
  const char* field = !ends                           ? "parallel.embedding_counts"
                      : layout.first_stage_layers > 0 ? "parallel.first_stage_layers"
                                                      : "parallel.last_stage_layers";
  reject(faults, stages ? "parallel.layout" : field,
         std::string("the split of layers is said twice: ") + (stages ? "layout" : "") +
             (stages && ends ? ", " : "") +
             (ends ? "first_stage_layers or last_stage_layers" : "") +
             (counted ? ", embedding_counts or output_counts" : ""),
         "keep one of them");
}

// Prediction modules stand together, after every layer, in the last chunk of their rank.
void check_predictions(const JobSpec& spec, Diagnostics& faults) {
  const auto& stages = spec.layout.stages;
  const int wanted = spec.mtp ? spec.model.mtp_layers : 0;
  const int last_chunk = spec.parallel.pp * (spec.parallel.vpp - 1);
  int placed = 0;
  int on_stage = -1;
  bool apart = false;
  bool layer_behind = false;
  for (int i = 0; i < static_cast<int>(stages.size()); ++i) {
    const StageLayout& s = stages[static_cast<std::size_t>(i)];
    if (s.layers > 0 && on_stage >= 0) layer_behind = true;
    if (s.mtp == 0) continue;
    if (on_stage >= 0) apart = true;
    on_stage = i;
    placed += s.mtp;
  }
  if (placed != wanted) {
    const bool untrained = spec.model.mtp_layers > 0 && !spec.mtp;
    reject(faults, "parallel.layout",
           "the layout places " + number(placed) + " prediction layers (m), the job trains " +
               number(wanted),
           wanted > 0  ? "write `m` " + number(wanted) + " times before `L`, or mtp.train: false"
           : untrained ? "leave `m` out, or set mtp.train: true"
                       : "leave `m` out");
  }
  if (apart || layer_behind || (on_stage >= 0 && on_stage < last_chunk)) {
    reject(faults, "parallel.layout",
           layer_behind ? "a decoder layer (t) after a prediction layer (m)"
           : apart      ? "prediction layers (m) on two stages"
                        : "prediction layers (m) on stage " + number(on_stage) +
                         ", before the last chunk of its rank",
           "write every `m` on one of the last pp=" + number(spec.parallel.pp) +
               " stages, after the last `t`");
  }
}

void place_explicit(const JobSpec& spec, CheckedJob& out, Diagnostics& faults) {
  const int p = spec.parallel.pp;
  const int v = spec.parallel.vpp;
  const auto& stages = spec.layout.stages;
  if (static_cast<int>(stages.size()) != p * v) {
    reject(faults, "parallel.layout",
           "the layout has " + number(static_cast<double>(stages.size())) +
               " stages, pp*vpp=" + number(p * v),
           "write pp*vpp stages, or set vpp to stages / pp");
    return;
  }
  int layers = 0;
  int embeddings = 0;
  int outputs = 0;
  for (const StageLayout& s : stages) {
    out.stages.push_back({0, s.layers, s.mtp, s.embedding, s.output});
    layers += s.layers;
    embeddings += s.embedding ? 1 : 0;
    outputs += s.output ? 1 : 0;
  }
  if (embeddings != 1 || !stages.front().embedding) {
    reject(faults, "parallel.layout",
           "the layout places " + number(embeddings) + " embeddings (E)" +
               (embeddings == 1 ? ", not on the first stage" : ""),
           "write one `E`, first on the first stage");
  }
  if (outputs != 1 || !stages.back().output) {
    reject(faults, "parallel.layout",
           "the layout places " + number(outputs) + " outputs (L)" +
               (outputs == 1 ? ", not on the last stage" : ""),
           "write one `L`, last on the last stage");
  }
  if (layers != spec.model.layers()) {
    reject(faults, "parallel.layout",
           "the layout places " + number(layers) + " layers, the model has " +
               number(spec.model.layers()),
           "make the layout's t counts add up to " + number(spec.model.layers()));
  }
  check_predictions(spec, faults);
}

// Per pipeline rank, then cut into v equal chunks.
void place_uneven(const JobSpec& spec, CheckedJob& out, Diagnostics& faults) {
  const int p = spec.parallel.pp;
  const int v = spec.parallel.vpp;
  const int first = spec.layout.first_stage_layers;
  const int last = spec.layout.last_stage_layers;
  int rest = spec.model.layers();
  int even = p;
  if (first > 0) {
    rest -= first;
    --even;
  }
  if (last > 0) {
    rest -= last;
    --even;
  }
  if (rest < 0 || even < 0 || (even == 0 && rest != 0) || (even > 0 && rest % (even * v) != 0) ||
      first % v != 0 || last % v != 0) {
    reject(faults, "parallel.layout",
           number(spec.model.layers()) + " layers with " + number(first) + " on the first and " +
               number(last) + " on the last of pp=" + number(p) +
               " stages do not divide into vpp=" + number(v) + " chunks",
           "change the first or last stage's layers, pp or vpp");
    return;
  }
  for (int chunk = 0; chunk < v; ++chunk) {
    for (int rank = 0; rank < p; ++rank) {
      int layers = even > 0 ? rest / even / v : 0;
      if (rank == 0 && first > 0) layers = first / v;
      if (rank == p - 1 && last > 0) layers = last / v;
      out.stages.push_back({0, layers, 0, false, false});
    }
  }
}

void place_even(const JobSpec& spec, CheckedJob& out, Diagnostics& faults) {
  const int stages = spec.parallel.pp * spec.parallel.vpp;
  const int slots = spec.model.layers() + (spec.layout.embedding_counts ? 1 : 0) +
                    (spec.layout.output_counts ? 1 : 0);
  if (slots % stages != 0) {
    reject(faults, spec.parallel.vpp > 1 ? "parallel.vpp" : "parallel.pp",
           number(slots) +
               (slots == spec.model.layers() ? " layers" : " layers (embedding and loss counted)") +
               " do not divide into pp*vpp=" + number(stages) + " stages",
           "choose pp and vpp whose product divides " + number(slots) +
               ", or say the stages with parallel.layout");
    return;
  }
  for (int i = 0; i < stages; ++i) {
    int layers = slots / stages;
    if (i == 0 && spec.layout.embedding_counts) --layers;
    if (i == stages - 1 && spec.layout.output_counts) --layers;
    out.stages.push_back({0, layers, 0, false, false});
  }
}

// Weights of one layer's matrices: what nanotron calls its compute cost.
double layer_cost(const layer::BlockSpec& block) {
  double cost = 0;
  if (const auto* a = std::get_if<layer::AttentionSpec>(&block.mixer)) {
    cost += 4.0 * a->heads * a->head_dim * a->hidden;
  } else {
    cost += layer::mixer_work(block.mixer, 0, true).weights;
  }
  if (const auto* m = std::get_if<layer::MlpSpec>(&block.feed_forward))
    cost += 3.0 * m->ffn * m->hidden;
  return cost;
}

// Blocks in order are given to the current stage, which is left once the cumulative cost reaches
// its share of the whole; the output layer counts with vocabulary * hidden. Where a share is met
// exactly, the published 1B model (20 layers' cost in all) had run with 10 and 5 layers on the first of
// 2 and 4 stages: both its peaks and its rates say so.
void place_by_cost(const JobSpec& spec, CheckedJob& out) {
  const int stages = spec.parallel.pp * spec.parallel.vpp;
  double total = out.padded_vocab * spec.model.hidden;
  for (const std::uint8_t kind : spec.model.pattern) total += layer_cost(spec.model.blocks[kind]);
  for (int i = 0; i < stages; ++i) out.stages.push_back({});
  double cumulative = 0;
  int stage = 0;
  for (const std::uint8_t kind : spec.model.pattern) {
    out.stages[static_cast<std::size_t>(stage)].layers += 1;
    cumulative += layer_cost(spec.model.blocks[kind]);
    if (cumulative >= total * (stage + 1) / stages && stage + 1 < stages) ++stage;
  }
}

// Modules in order: embedding, layers, final norm, output layer.
void place_by_modules(const JobSpec& spec, CheckedJob& out) {
  constexpr int kBefore = 1;
  constexpr int kBehind = 2;
  const int stages = spec.parallel.pp * spec.parallel.vpp;
  const int layers = spec.model.layers();
  const int modules = kBefore + layers + kBehind;
  int begin = 0;
  for (int i = 0; i < stages; ++i) {
    const int end = begin + modules / stages + (i < modules % stages ? 1 : 0);
    const int first = std::clamp(begin - kBefore, 0, layers);
    out.stages.push_back({0, std::clamp(end - kBefore, 0, layers) - first, 0, false, false});
    begin = end;
  }
}

// Uniform recomputation checkpoints units of n consecutive layers of a virtual stage; Megatron asks
// for layer n*k + n - 1 of the last unit, and fails where the stage does not have it. Prediction
// modules are units of their own.
// Source: Megatron-LM core/transformer/transformer_block.py (_checkpointed_forward).
void check_units(const JobSpec& spec, const CheckedJob& out, Diagnostics& faults) {
  const RecomputeSpec& r = spec.recompute;
  if (r.granularity != Granularity::full || r.method != RecomputeMethod::uniform || r.layers < 1 ||
      !r.layer_ids.empty()) {
    return;
  }
  for (std::size_t i = 0; i < out.stages.size(); ++i) {
    const int layers = out.stages[i].layers;
    if (layers % r.layers == 0) continue;
    reject(faults, "recompute.layers",
           "units of " + number(r.layers) + " layers do not divide the " + number(layers) +
               " layers of virtual stage " + number(static_cast<double>(i)),
           "choose a divisor of every stage's layers, or recompute.method: block");
    return;
  }
}

}  // namespace

void place_layers(const JobSpec& spec, CheckedJob& out, Diagnostics& faults) {
  out.stages.clear();
  const double stages = static_cast<double>(spec.parallel.pp) * spec.parallel.vpp;
  if (stages > static_cast<double>(kMaxVirtualStages)) {
    reject(faults, "parallel.pp", "pp*vpp=" + number(stages) + " virtual stages",
           "choose at most " + number(static_cast<double>(kMaxVirtualStages)));
    return;
  }
  check_one_split(spec.layout, faults);
  if (!faults.empty()) return;
  if (!spec.layout.stages.empty()) {
    place_explicit(spec, out, faults);
    if (!faults.empty()) return;
    number_layers(out);
    check_units(spec, out, faults);
    return;
  }
  if (spec.layout.first_stage_layers > 0 || spec.layout.last_stage_layers > 0) {
    place_uneven(spec, out, faults);
  } else if (spec.framework.pipeline_split == framework::PipelineSplit::cost) {
    place_by_cost(spec, out);
  } else if (spec.framework.pipeline_split == framework::PipelineSplit::modules) {
    place_by_modules(spec, out);
  } else {
    place_even(spec, out, faults);
  }
  if (out.stages.empty()) return;
  out.stages[0].embedding = true;
  out.stages.back().output = true;
  if (spec.mtp) out.stages.back().mtp = spec.model.mtp_layers;
  number_layers(out);
  check_units(spec, out, faults);
}

}  // namespace eratos::job
