#include "eratos/projection/downscale.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <variant>

#include "eratos/layer/mixers.h"

namespace eratos::projection {

namespace {

using layer::AttentionSpec;
using layer::BlockSpec;

// What is left of a width that `cut` ranks share.
void cut_heads(int cut, int& heads, int& kv_heads) {
  heads /= cut;
  kv_heads = std::max(1, kv_heads / cut);
}

// The shapes that one rank of a tensor-parallel group of `cut` has, as a whole block.
bool cut_block(int cut, BlockSpec& block) {
  if (cut == 1) return true;
  if (auto* a = std::get_if<AttentionSpec>(&block.mixer)) {
    cut_heads(cut, a->heads, a->kv_heads);
  } else if (auto* m = std::get_if<layer::MlaSpec>(&block.mixer)) {
    m->heads /= cut;
  } else if (layer::has_mixer(block)) {
    return false;
  }
  if (auto* m = std::get_if<layer::MlpSpec>(&block.feed_forward)) m->ffn /= cut;
  if (auto* m = std::get_if<layer::MoeSpec>(&block.feed_forward)) m->shared_ffn /= cut;
  return true;
}

// The layers of the pipeline rank that has most, by kind.
std::vector<std::uint8_t> fullest_rank(const job::CheckedJob& job) {
  std::vector<std::uint8_t> most;
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    std::vector<std::uint8_t> here;
    for (int chunk = 0; chunk < parallel::chunks_of(job.parallel); ++chunk) {
      const job::VirtualStage& at = job.stage(rank, chunk);
      for (int n = 0; n < at.layers; ++n) {
        here.push_back(job.spec->model.pattern[static_cast<std::size_t>(at.first_layer + n)]);
      }
    }
    if (here.size() > most.size()) most = std::move(here);
  }
  return most;
}

std::vector<std::uint8_t> one_of_each(const std::vector<std::uint8_t>& pattern) {
  std::vector<std::uint8_t> out;
  for (const std::uint8_t kind : pattern) {
    if (std::find(out.begin(), out.end(), kind) == out.end()) out.push_back(kind);
  }
  return out;
}

// The largest divisor of `degree` below it.
int next_divisor(int degree) {
  for (int d = degree / 2; d > 1; --d) {
    if (degree % d == 0) return d;
  }
  return 1;
}

class Reducer {
 public:
  Reducer(const job::CheckedJob& job, Downscaled& out) : job_(job), out_(out) {
    out.spec = *job.spec;
  }

  // Degrees that the ranks at hand hold.
  void to_ranks(int ranks) {
    pipeline();
    const parallel::ParallelSpec& p = job_.parallel;
    int tp = p.tp;
    int ep = p.ep;
    const auto world = [&] { return std::lcm(tp, ep * p.etp); };
    while (world() > ranks && ep > 1) ep = next_divisor(ep);
    while (world() > ranks && tp > 1) tp = next_divisor(tp);
    const int etp = world() > ranks ? 1 : p.etp;
    const int all = std::lcm(tp, ep * etp);
    data(all / tp);
    context();
    experts(ep, etp);
    tensor(tp);
    place(all);
    micro_batches(all / tp);
  }

  bool layers() {
    std::vector<std::uint8_t> one = one_of_each(out_.spec.model.pattern);
    const double had = out_.spec.model.layers();
    if (one.size() == out_.spec.model.pattern.size()) return false;
    out_.spec.model.pattern = std::move(one);
    recompute();
    step("layers", had, out_.spec.model.layers(), "every layer",
         "each block's own time and bytes, times its layers");
    return true;
  }

  bool halve(const char* what, int& value, int least, const char* restored, const char* how) {
    if (value / 2 < least || value % 2 != 0) return false;
    const int had = value;
    value /= 2;
    if (!out_.steps.empty() && out_.steps.back().what == what) {
      out_.steps.back().to = value;
    } else {
      step(what, had, value, restored, how);
    }
    return true;
  }
  bool sequence() {
    return halve("sequence", out_.spec.batch.sequence, 64, "the sequence's length",
                 "products along their rows, attention by its model");
  }
  bool micro_batch() {
    const int dp = out_.spec.batch.global / out_.spec.batch.micro;
    const bool done = halve("micro-batch", out_.spec.batch.micro, 1, "sequences of a micro-batch",
                            "products along their rows");
    out_.spec.batch.global = dp * out_.spec.batch.micro;
    return done;
  }

 private:
  void step(const char* what, double from, double to, const char* restored, const char* how) {
    if (from != to) out_.steps.push_back({what, from, to, restored, how});
  }

  void pipeline() {
    parallel::ParallelSpec& p = out_.spec.parallel;
    step("pipeline", job_.parallel.pp, 1, "stages, their bubble, sends and micro-batches in flight",
         "the schedule, simulated with each stage's measured passes");
    if (job_.parallel.pp == 1) return;
    out_.spec.model.pattern = fullest_rank(job_);
    out_.spec.mtp = false;
    p.pp = 1;
    p.vpp = 1;
    p.placement = parallel::Placement::looped;
    p.output_layer = parallel::OutputLayer::last_stage;
    out_.spec.layout = {};
    out_.spec.schedule = {};
    recompute();
  }

  // Layers by number are those that are left.
  void recompute() {
    std::vector<int>& ids = out_.spec.recompute.layer_ids;
    const int layers = out_.spec.model.layers();
    std::erase_if(ids, [&](int id) { return id >= layers; });
    if (!job_.spec->recompute.layer_ids.empty() && ids.empty()) ids.push_back(0);
    out_.spec.recompute.layers = std::min(out_.spec.recompute.layers, std::max(1, layers));
    out_.spec.offload.layers = std::min(out_.spec.offload.layers, layers);
  }

  void data(int dp) {
    step("data", job_.parallel.dp, dp, "gradients reduced, state gathered and cut over replicas",
         "collectives by the link model, beside the passes they hide behind");
    parallel::ParallelSpec& p = out_.spec.parallel;
    p.hsdp_group = 0;
    if (dp == 1) p.sharding = parallel::Sharding::none;
    if (p.sharding == parallel::Sharding::hsdp) p.sharding = parallel::Sharding::zero3;
  }

  void context() {
    step("context", job_.parallel.cp, 1, "keys of the other ranks' positions",
         "attention by its model, the exchange by the link model");
    out_.spec.batch.sequence /= job_.parallel.cp;
    out_.spec.parallel.cp = 1;
  }

  void experts(int ep, int etp) {
    const parallel::ParallelSpec& p = job_.parallel;
    step("experts", p.ep, ep,
         "the exchange of tokens, and copies of a token beyond the experts left",
         "all-to-all by the link model; experts a rank stay, products along their rows");
    out_.spec.parallel.ep = ep;
    out_.spec.parallel.etp = etp;
    for (BlockSpec& block : out_.spec.model.blocks) {
      auto* m = std::get_if<layer::MoeSpec>(&block.feed_forward);
      if (m == nullptr) continue;
      m->experts = std::max(1, m->experts / (p.ep / ep));
      m->ffn /= p.etp / etp;
      if (p.ep == ep) continue;
      m->top_k = std::min(m->top_k, m->experts);
      m->groups = 1;
      m->top_groups = 1;
    }
  }

  void tensor(int tp) {
    const int cut = job_.parallel.tp / tp;
    step("tensor", job_.parallel.tp, tp, "exchanges of activations between the ranks of a layer",
         "collectives by the link model; each rank's own heads and widths stay");
    out_.spec.parallel.tp = tp;
    if (tp == 1) out_.spec.parallel.sequence_parallel = false;
    out_.spec.model.vocab = job_.padded_vocab / cut;
    for (BlockSpec& block : out_.spec.model.blocks) {
      if (cut_block(cut, block)) continue;
      out_.legal = false;
      out_.why = "a mixer whose share of a tensor-parallel rank is no mixer of its own";
    }
  }

  void place(int ranks) {
    hardware::ClusterSpec& cluster = out_.spec.cluster;
    cluster.nodes = 1;
    cluster.gpus_per_node = ranks;
    if (cluster.levels.empty()) return;
    hardware::NetworkLevel inner = cluster.levels[0];
    inner.gpus = ranks;
    cluster.levels.clear();
    cluster.levels.push_back(inner);
  }

  void micro_batches(int dp) {
    step("micro-batches", job_.micro_batches, 1, "the other micro-batches of a step",
         "each takes what one takes");
    out_.spec.batch.global = out_.spec.batch.micro * dp;
  }

  const job::CheckedJob& job_;
  Downscaled& out_;
};

// Does the small job fit? Or is it none?
void look(const calibration::Calibration& calibration, Workspace& w, Downscaled& out) {
  job::CheckedJob checked;
  const Diagnostics faults = job::check(out.spec, checked);
  if (!faults.empty()) {
    out.legal = false;
    out.why = faults.front().message;
    return;
  }
  const Projection p = project(checked, calibration, {}, w);
  out.fits = p.memory.fits;
  out.needed = p.memory.device_peak;
}

}  // namespace

Downscaled downscale(const job::CheckedJob& job, const calibration::Calibration& calibration,
                     const Devices& devices, Workspace& w) {
  Downscaled out;
  Reducer reducer(job, out);
  reducer.to_ranks(std::max(1, devices.ranks));
  if (devices.memory.value > 0) out.spec.cluster.accelerator.memory_visible = devices.memory;
  if (out.legal) look(calibration, w, out);
  bool (Reducer::*const rules[])() = {&Reducer::layers, &Reducer::sequence, &Reducer::micro_batch};
  for (const auto rule : rules) {
    while (out.legal && !out.fits && (reducer.*rule)()) look(calibration, w, out);
  }
  return out;
}

}  // namespace eratos::projection
