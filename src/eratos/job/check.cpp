// Every rule of legality, one function a subject. Each fault names the field, the values and the
// cure; a legal job allocates nothing here.
#include <cmath>
#include <cstdlib>
#include <variant>

#include "eratos/job/job.h"
#include "eratos/job/optimizer.h"
#include "eratos/job/placement.h"
#include "eratos/layer/legality.h"
#include "eratos/layer/mixers.h"
#include "eratos/layer/mlp.h"
#include "eratos/layer/moe.h"
#include "eratos/layer/output.h"
#include "eratos/ops/load.h"
#include "eratos/parallel/schedules.h"

namespace eratos::job {

namespace {

using layer::number;
using layer::reject;
using parallel::Sharding;

void check_positive(const JobSpec& s, Diagnostics& faults) {
  const struct {
    const char* field;
    double value;
  } fields[] = {{"parallel.tp", static_cast<double>(s.parallel.tp)},
                {"parallel.pp", static_cast<double>(s.parallel.pp)},
                {"parallel.vpp", static_cast<double>(s.parallel.vpp)},
                {"parallel.cp", static_cast<double>(s.parallel.cp)},
                {"parallel.ep", static_cast<double>(s.parallel.ep)},
                {"parallel.etp", static_cast<double>(s.parallel.etp)},
                {"batch.micro", static_cast<double>(s.batch.micro)},
                {"batch.global", static_cast<double>(s.batch.global)},
                {"batch.sequence", static_cast<double>(s.batch.sequence)},
                // Not given is 0; a negative count is no count.
                {"parallel.first_stage_layers", s.layout.first_stage_layers < 0 ? -1.0 : 1.0},
                {"parallel.last_stage_layers", s.layout.last_stage_layers < 0 ? -1.0 : 1.0}};
  for (const auto& f : fields) {
    if (f.value < 1) {
      reject(faults, f.field, std::string(f.field) + "=" + number(f.value) + " is not positive",
             "give a value of at least 1");
    }
  }
  if (s.model.layers() < 1 || s.model.hidden < 1 || s.model.vocab < 1) {
    reject(faults, "model", "the architecture has no layers, hidden size or vocabulary",
           "name a catalogue model or give layers, hidden and vocab");
  }
  if (s.cluster.gpus() < 1) {
    reject(faults, "cluster", "the cluster has no accelerators", "name one, e.g. h100-sxm-16x8");
  }
  for (const hardware::NetworkLevel& level : s.cluster.levels) {
    // Some parts' makers publish nothing beyond the pod.
    if (!(level.bandwidth.value > 0)) {
      reject(
          faults, "cluster",
          "the network that joins the " + number(level.gpus) + " accelerators of " +
              s.cluster.name + " has no known bandwidth",
          "use at most one scale-up domain, or a cluster file that gives the network's bandwidth");
    }
  }
}

void check_degrees(const JobSpec& s, CheckedJob& out, Diagnostics& faults) {
  const int world = s.cluster.gpus();
  // A double first: three large degrees exceed every integer.
  const double product = static_cast<double>(s.parallel.tp) * s.parallel.cp * s.parallel.pp;
  const long long dense = product > world ? 0 : static_cast<long long>(product);
  if (dense == 0 || world % dense != 0) {
    reject(faults, "parallel.tp",
           "tp*cp*pp=" + number(product) + " does not divide the " + number(world) +
               " accelerators of " + s.cluster.name,
           "choose degrees whose product divides " + number(world) + ", or another --nodes");
  } else {
    out.parallel = s.parallel;
    out.parallel.dp = static_cast<int>(world / dense);
  }
  const bool moe = model::is_moe(s.model);
  if (!moe && (s.parallel.ep > 1 || s.parallel.etp > 1)) {
    reject(faults, "parallel.ep", "ep=" + number(s.parallel.ep) + " for a model without experts",
           "set parallel.ep: 1 and parallel.etp: 1");
  }
  if (moe && s.routing.dispatcher == Dispatcher::einsum && s.routing.capacity_factor <= 0) {
    reject(faults, "moe.capacity_factor", "einsum gives every expert a fixed number of places",
           "give a capacity factor, or another dispatcher");
  }
  if (s.routing.row_multiple < 0) {
    reject(faults, "moe.row_multiple", "a multiple of " + number(s.routing.row_multiple) + " rows",
           "give a multiple of at least 1, or leave it out");
  }
  if (moe) {
    const double experts = static_cast<double>(s.parallel.ep) * s.parallel.etp * s.parallel.pp;
    const long long expert = experts > world ? 0 : static_cast<long long>(experts);
    if (expert == 0 || world % expert != 0) {
      reject(faults, "parallel.ep",
             "ep*etp*pp=" + number(experts) + " does not divide the " + number(world) +
                 " accelerators",
             "choose ep and etp whose product with pp divides " + number(world));
    }
  }
  if (s.parallel.vpp > 1 && s.parallel.pp == 1) {
    reject(faults, "parallel.vpp",
           "vpp=" + number(s.parallel.vpp) + " without pipeline parallelism",
           "set parallel.vpp: 1 or raise parallel.pp");
  }
  const bool hsdp = s.parallel.sharding == Sharding::hsdp;
  const bool secondary = s.parallel.sharding == Sharding::zero3 && s.parallel.hsdp_group != 0;
  if ((hsdp || secondary) && out.parallel.dp > 0) {
    const int ranks = out.parallel.dp * out.parallel.cp;
    if (s.parallel.hsdp_group < 1 || ranks % s.parallel.hsdp_group != 0) {
      reject(faults, "sharding.group",
             "the sharding group of " + number(s.parallel.hsdp_group) +
                 " does not divide the dp*cp=" + number(ranks) + " ranks",
             "choose a group that divides " + number(ranks));
    }
  }
}

void check_global_batch(const JobSpec& s, CheckedJob& out, Diagnostics& faults) {
  const int dp = out.parallel.dp;
  const long long slice = static_cast<long long>(s.batch.micro) * dp;
  if (s.batch.global % slice != 0) {
    reject(
        faults, "batch.global",
        "batch.global=" + number(s.batch.global) + " is not a multiple of micro*dp = " +
            number(s.batch.micro) + "*" + number(dp) + " = " + number(static_cast<double>(slice)),
        "choose a multiple of " + number(static_cast<double>(slice)) + ", or another micro-batch");
    return;
  }
  out.micro_batches = static_cast<int>(s.batch.global / slice);
}

void check_sequence(const JobSpec& s, Diagnostics& faults) {
  const long long cut = s.parallel.cp > 1 ? 2LL * s.parallel.cp : 1;
  if (s.batch.sequence % cut != 0) {
    reject(faults, "parallel.cp",
           "cp=" + number(s.parallel.cp) + " cuts the sequence of " + number(s.batch.sequence) +
               " into " + number(static_cast<double>(cut)) +
               " balanced pieces, which do not divide it",
           "choose a sequence that is a multiple of " + number(static_cast<double>(cut)));
  } else if (s.parallel.sequence_parallel &&
             (static_cast<long long>(s.batch.sequence) / s.parallel.cp) % s.parallel.tp != 0) {
    reject(faults, "parallel.sequence_parallel",
           "tp=" + number(s.parallel.tp) + " does not divide the rank's sequence of " +
               number(static_cast<double>(s.batch.sequence) / s.parallel.cp),
           "choose another sequence length, or turn sequence_parallel off");
  }
}

void check_numerics(const JobSpec& s, Diagnostics& faults) {
  const DType format = gemm_dtype(s.precision);
  if (s.cluster.accelerator.peak_of(format).value <= 0) {
    reject(faults, "precision.recipe",
           s.cluster.accelerator.name + " has no " + std::string(eratos::name_of(format)) +
               " matrix products",
           "choose a precision that the part has");
  }
  const NarrowSpec& narrow = s.narrow;
  const int wide = narrow.bf16_first_layers + narrow.bf16_last_layers;
  if (narrow.bf16_first_layers < 0 || narrow.bf16_last_layers < 0 || wide > s.model.layers()) {
    reject(faults, "precision.bf16_first_layers",
           number(narrow.bf16_first_layers) + " first and " + number(narrow.bf16_last_layers) +
               " last layers in bf16 of " + number(s.model.layers()),
           "keep at most as many layers wide as there are");
  }
  if (is_narrow(s.precision)) return;
  if (wide > 0 || narrow.parameter_gather) {
    reject(faults, wide > 0 ? "precision.bf16_first_layers" : "precision.parameter_gather",
           "precision " + std::string(name_of(s.precision)) + " has no 8- or 4-bit products",
           "use an fp8, mxfp8, mxfp4 or nvfp4 recipe, or leave this out");
  }
}

// Two places behind the point.
std::string hundredths(double v) {
  const auto whole = static_cast<long long>(std::lround(v * 100));
  const std::string cents = number(static_cast<double>(std::abs(whole % 100)));
  return (v < 0 ? "-" : "") + number(static_cast<double>(std::abs(whole / 100))) + '.' +
         (cents.size() < 2 ? "0" : "") + cents;
}

void check_routing(const JobSpec& s, Diagnostics& faults) {
  const RoutingSpec& r = s.routing;
  const bool skewed = r.balance == Balance::skewed;
  if (!skewed && r.skew != 0) {
    reject(faults, "moe.skew",
           "a skew of " + hundredths(r.skew) + " under routing " + std::string(name_of(r.balance)),
           "set moe.routing: skewed, or leave the skew out");
    return;
  }
  if (!skewed) return;
  for (const layer::BlockSpec& block : s.model.blocks) {
    const auto* moe = std::get_if<layer::MoeSpec>(&block.feed_forward);
    if (moe == nullptr || moe->experts < 1 || moe->top_k < 1) continue;
    const double most = ops::largest_skew(moe->experts, moe->top_k);
    if (r.skew > 0 && r.skew <= most) continue;
    reject(faults, "moe.skew",
           "a skew of " + hundredths(r.skew) + ": with " + number(moe->top_k) + " of " +
               number(moe->experts) + " experts it lies above 0 and at most at " + hundredths(most),
           "give the standard deviation of the experts' loads against their mean, e.g. 0.3, or set "
           "moe.routing: random");
    return;
  }
}

void check_optimizer(const JobSpec& s, Diagnostics& faults) {
  const OptimizerKind* kind = find_optimizer(s.optimizer.kind);
  if (kind == nullptr) {
    reject(faults, "optimizer.kind", "optimizer " + s.optimizer.kind + " is not known",
           "use adam, adam8bit, sgd, lion, adafactor, muon or lamb");
    return;
  }
  if (!kind->shards && s.parallel.sharding != Sharding::none) {
    reject(faults, "optimizer.kind",
           s.optimizer.kind + " updates whole matrices, sharding.stage " +
               std::string(name_of(s.parallel.sharding)) + " cuts them",
           "set sharding.stage: none, or use adam");
  }
  if (s.offload.optimizer < 0 || s.offload.optimizer > 1) {
    reject(faults, "offload.optimizer", "a share of " + number(s.offload.optimizer),
           "give a share from 0 to 1");
  }
  if (s.offload.layers < 0) {
    reject(faults, "offload.layers", "offload.layers=" + number(s.offload.layers),
           "give 0 (all) or more layers");
  }
  const bool crosses = s.offload.optimizer > 0 || s.offload.any_activations();
  if (crosses && s.cluster.accelerator.host_link.value <= 0) {
    reject(
        faults, "offload",
        "the link between " + s.cluster.accelerator.name + " and its host has no known bandwidth",
        "give host_link_bytes_per_s in an accelerator file, or drop the offload");
  }
}

void check_lora(const JobSpec& s, Diagnostics& faults) {
  const LoraSpec& lora = s.lora;
  if (lora.rank < 0) {
    reject(faults, "lora.rank", "lora.rank=" + number(lora.rank), "give 1 or more, or lora: null");
  }
  if (!lora.on()) return;
  if (lora.targets.none() || (lora.targets & ~lora_modules()).any()) {
    reject(faults, "lora.modules",
           lora.targets.none() ? "LoRA beside no module" : "LoRA beside a module without a matrix",
           "name linears: qkv, attention_out, mlp_in, mlp_out, expert_in, expert_out, ...");
  }
  if (lora.rank % s.parallel.tp != 0) {
    reject(faults, "lora.rank",
           "tp=" + number(s.parallel.tp) + " does not divide the rank " + number(lora.rank),
           "choose a multiple of " + number(s.parallel.tp));
  }
}

void check_packing(const JobSpec& s, Diagnostics& faults) {
  if (s.batch.packed_length < 0 || s.batch.packed_length > s.batch.sequence) {
    reject(faults, "batch.packed_length",
           "parts of " + number(s.batch.packed_length) + " tokens in a sequence of " +
               number(s.batch.sequence),
           "give a length from 1 to the sequence's, or leave it out");
  }
}

// Beyond it a simulation would take seconds and gigabytes. Ten million actions are a hundred times
// the longest published pipeline.
constexpr double kMostActions = 1e7;

void check_schedule_size(const JobSpec& s, const CheckedJob& out, Diagnostics& faults) {
  const double actions = 2.0 * s.parallel.pp * s.parallel.vpp * out.micro_batches;
  if (actions > kMostActions) {
    reject(faults, "batch.global",
           number(out.micro_batches) + " micro-batches over pp*vpp=" +
               number(static_cast<double>(s.parallel.pp) * s.parallel.vpp) + " stages are " +
               number(actions) + " actions",
           "choose at most " + number(kMostActions) +
               ": a smaller global batch or larger micro-batches");
  }
  if (s.schedule.group_size < 0 ||
      (s.parallel.vpp > 1 && s.schedule.group_size > 0 && s.schedule.group_size < s.parallel.pp)) {
    reject(faults, "schedule.group_size",
           "groups of " + number(s.schedule.group_size) +
               " micro-batches on pp=" + number(s.parallel.pp) + " ranks",
           "give pp or more, or leave it out");
  }
}

// "1f1b, zb-h1 or zbv": those that take `vpp` chunks, or all with 0.
std::string schedule_names(int vpp) {
  std::string all = "auto";
  for (const parallel::ScheduleFacts& f : parallel::kScheduleFacts) {
    if (f.name == "none") continue;
    if (vpp > 0 && (vpp < f.least_vpp || (f.most_vpp > 0 && vpp > f.most_vpp))) continue;
    all += ", " + std::string(f.name);
  }
  if (const std::size_t comma = all.rfind(", "); comma != std::string::npos) {
    all.replace(comma, 2, " or ");
  }
  return all;
}

// Takes the placement of stages from the schedule. What an order itself forbids (micro-batches too
// few, an odd pp) is the schedule's to say: projection::schedule_faults().
void check_schedule(const JobSpec& s, CheckedJob& out, Diagnostics& faults) {
  const std::string& a = s.schedule.algorithm;
  out.parallel.placement = parallel::Placement::looped;
  out.parallel.output_layer = s.schedule.output_layer;
  if (s.schedule.activation_limit < 0) {
    reject(faults, "schedule.activation_limit",
           "schedule.activation_limit=" + number(s.schedule.activation_limit),
           "give the micro-batches a rank may hold, or leave it out");
  }
  const bool cut = s.schedule.output_layer != parallel::OutputLayer::last_stage;
  if (cut && s.parallel.pp == 1) {
    reject(faults, "schedule.output_layer", "an output layer cut over pipeline ranks, but pp=1",
           "raise parallel.pp, or set schedule.output_layer: last-stage");
  }
  if (cut && s.mtp && s.model.mtp_layers > 0) {
    reject(
        faults, "schedule.output_layer",
        "an output layer cut over pipeline ranks with multi-token prediction: no published method "
        "has both",
        "set schedule.output_layer: last-stage, or train without MTP");
  }
  if (a == "auto") {
    if (cut && s.parallel.vpp > 1) {
      reject(faults, "schedule.output_layer",
             "interleaved-1f1b keeps the output layer on the last stage",
             "set parallel.vpp: 1 for 1f1b, or schedule.algorithm: v-half with vpp: 2");
    }
    return;
  }
  const parallel::ScheduleFacts* facts = parallel::find_schedule_facts(a);
  if (facts == nullptr) {
    std::vector<std::string> known{"auto"};
    for (const parallel::ScheduleFacts& f : parallel::kScheduleFacts) known.emplace_back(f.name);
    const std::string near = nearest_name(a, known);
    reject(faults, "schedule.algorithm", "unknown schedule `" + a + "`",
           near.empty() ? "use " + schedule_names(0) : "did you mean `" + near + "`?");
    return;
  }
  if (a == "none" && s.parallel.pp > 1) {
    reject(faults, "schedule.algorithm", "schedule none with pp=" + number(s.parallel.pp),
           "use " + schedule_names(s.parallel.vpp));
    return;
  }
  if (s.parallel.pp == 1) {
    // Orders that every framework falls back from without a word; the others are asked for on
    // purpose.
    if (facts->splits_backward) {
      reject(faults, "schedule.algorithm", a + " orders a pipeline, but pp=1",
             "raise parallel.pp, or use auto");
    }
    return;
  }
  if (s.parallel.vpp < facts->least_vpp) {
    reject(faults, "schedule.algorithm",
           a + " needs " + number(facts->least_vpp) + (facts->most_vpp == 0 ? " or more" : "") +
               " chunks a rank, vpp=" + number(s.parallel.vpp),
           "set parallel.vpp: " + number(facts->least_vpp) + ", or use " +
               schedule_names(s.parallel.vpp));
    return;
  }
  if (facts->most_vpp > 0 && s.parallel.vpp > facts->most_vpp) {
    reject(faults, "schedule.algorithm",
           a + " has " +
               (facts->most_vpp == 1 ? "one chunk" : number(facts->most_vpp) + " chunks") +
               " a rank, vpp=" + number(s.parallel.vpp),
           "set parallel.vpp: " + number(facts->most_vpp) + ", or use " +
               schedule_names(s.parallel.vpp));
    return;
  }
  if (cut && !facts->cuts_output) {
    reject(faults, "schedule.output_layer", a + " keeps the output layer on the last stage",
           "set schedule.output_layer: last-stage, or use 1f1b or v-half");
  }
  out.parallel.placement = facts->placement;
}

void check_recompute(const JobSpec& s, Diagnostics& faults) {
  if (s.recompute.granularity != Granularity::full) return;
  if (s.recompute.layers < 0) {
    reject(faults, "recompute.layers", "recompute.layers=" + number(s.recompute.layers),
           "give 0 or more layers");
  }
  for (const int id : s.recompute.layer_ids) {
    if (id < 0 || id >= s.model.layers()) {
      reject(faults, "recompute.layer_ids",
             "layer " + number(id) + " is not one of 0.." + number(s.model.layers() - 1),
             "list layers that exist");
    }
  }
  if (s.recompute.method == RecomputeMethod::uniform && s.recompute.layers == 0 &&
      s.recompute.layer_ids.empty()) {
    reject(faults, "recompute.layers", "uniform recomputation of units of 0 layers",
           "give 1 or more, or recompute.granularity: none");
  }
}

void check_layers(const JobSpec& s, const CheckedJob& out, Diagnostics& faults) {
  for (const layer::BlockSpec& block : s.model.blocks) {
    layer::check_mixer(block.mixer, out.parallel, faults);
    if (const auto* m = std::get_if<layer::MlpSpec>(&block.feed_forward)) {
      layer::check_mlp(*m, out.parallel, faults);
    } else if (const auto* moe = std::get_if<layer::MoeSpec>(&block.feed_forward)) {
      layer::check_moe(*moe, out.parallel, faults);
    }
  }
  const layer::OutputSpec head{s.model.hidden, out.padded_vocab, s.model.tie_embeddings,
                               s.model.norm};
  layer::check_output(head, out.parallel, faults);
  if (s.model.position == layer::Position::learned && s.model.max_positions > 0 &&
      s.batch.sequence > s.model.max_positions) {
    reject(faults, "batch.sequence",
           "sequence " + number(s.batch.sequence) + " exceeds the " +
               number(s.model.max_positions) + " learned positions",
           "choose at most " + number(s.model.max_positions));
  }
}

// Two blocks can share a fault (every layer has the same heads): say it once.
void drop_repeats(Diagnostics& faults) {
  Diagnostics kept;
  for (Diagnostic& d : faults) {
    bool seen = false;
    for (const Diagnostic& k : kept) seen = seen || (k.message == d.message && k.field == d.field);
    if (!seen) kept.push_back(std::move(d));
  }
  faults = std::move(kept);
}

}  // namespace

Diagnostics check(const JobSpec& spec, CheckedJob& out) {
  Diagnostics faults;
  out.spec = &spec;
  out.parallel = spec.parallel;
  out.parallel.dp = 0;
  out.micro_batches = 0;
  check_positive(spec, faults);
  if (!faults.empty()) return faults;
  const double multiple = static_cast<double>(spec.framework.vocab_divisible_by) *
                          (spec.framework.vocab_divisible_by > 1 ? spec.parallel.tp : 1);
  out.padded_vocab = std::ceil(spec.model.vocab / multiple) * multiple;
  check_degrees(spec, out, faults);
  if (out.parallel.dp > 0) check_global_batch(spec, out, faults);
  check_sequence(spec, faults);
  check_numerics(spec, faults);
  check_routing(spec, faults);
  check_optimizer(spec, faults);
  check_lora(spec, faults);
  check_packing(spec, faults);
  check_schedule(spec, out, faults);
  check_schedule_size(spec, out, faults);
  check_recompute(spec, faults);
  check_layers(spec, out, faults);
  Diagnostics placement;
  place_layers(spec, out, placement);
  for (Diagnostic& d : placement) faults.push_back(std::move(d));
  if (faults.size() > 1) drop_repeats(faults);
  return faults;
}

}  // namespace eratos::job
