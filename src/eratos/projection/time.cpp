#include "eratos/projection/time.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "eratos/kernel/kernel.h"
#include "eratos/projection/measured_prices.h"

namespace eratos::projection {

namespace {

constexpr std::size_t kStreams = 7;

// Rate of a scan's products, small chunks in Triton kernels, against grouped products of a library.
// Source: this project's fit of 36 published steps of Nemotron-H and Nemotron-3 (0.15 to 0.3), which
// agrees with four of a gated delta net on MI300X.
constexpr double kScanRate = 0.25;

std::size_t index_of(ops::Module m) { return static_cast<std::size_t>(m); }

// Which ops of a backward a pass runs.
enum class Half : std::uint8_t { both, input_gradient, weight_gradient };

bool runs(const ops::Op& op, Half half) {
  if (half == Half::both) return true;
  return (op.pass == ops::Pass::wgrad) == (half == Half::weight_gradient);
}

// Local experts that a grouped product's Python goes through: in forward, and once for both products of
// its backward. Source: NVIDIA/TransformerEngine pytorch/module/grouped_linear.py, a list of weights,
// quantizers, operands and main gradients each.
double experts_of(const ops::Op& op) {
  const auto* g = std::get_if<ops::Gemm>(&op.work);
  return g != nullptr && g->experts && op.pass != ops::Pass::wgrad ? g->groups : 0.0;
}

template <class Prices>
void time_pass(const std::vector<ops::Op>& list, const Pricing& pricing, Half half,
               const Prices& prices, PassTime& out) {
  out = PassTime{};
  std::array<double, kStreams> communication{};
  std::array<double, kStreams> overlappable{};  // weighted by time
  std::array<ops::Module, kStreams> owner{};
  const job::ModuleSet& graphed = pricing.job->spec->graph_modules;
  for (const ops::Op& op : list) {
    if (!runs(op, half)) continue;
    const OpPrice priced = prices(op);
    const double t = priced.seconds;
    if (const auto* c = std::get_if<ops::Collective>(&op.work)) {
      const auto s = static_cast<std::size_t>(op.stream);
      communication[s] += t;
      overlappable[s] += t * c->overlappable;
      owner[s] = op.module;
    } else if (const auto* h = std::get_if<ops::HostCopy>(&op.work)) {
      const auto s = static_cast<std::size_t>(ops::Stream::host);
      communication[s] += t;
      overlappable[s] += t * h->overlappable;
      owner[s] = op.module;
    } else {
      out.compute += t;
      if (priced.launched && !graphed.test(index_of(op.module))) {
        out.kernels += op.kernels;
        out.experts += experts_of(op);
      }
      out.flops += op.flops().value;
    }
    out.module[index_of(op.module)] += t;
  }
  const double kappa = pricing.job->spec->framework.overlap.contention;
  double room = out.compute;
  double slowed = 0;
  double* exposed[] = {nullptr, &out.tp, &out.cp, &out.ep, &out.dp, nullptr, &out.copies};
  for (std::size_t s = 0; s < kStreams; ++s) {
    if (communication[s] <= 0 || exposed[s] == nullptr) continue;
    // A weighted mean of shares: at most 1, rounding aside.
    const double share = std::min(1.0, overlappable[s] / communication[s]);
    const double hidden = share * std::min(room, communication[s]);
    *exposed[s] = communication[s] - hidden;
    out.module[index_of(owner[s])] -= hidden;
    room -= hidden;
    out.hidden += hidden;
    out.may_hide += share * communication[s];
    slowed += kappa * hidden;
  }
  out.compute += slowed;
}

}  // namespace

void add(PassTime& to, const PassTime& from, double times) {
  to.compute += from.compute * times;
  to.tp += from.tp * times;
  to.cp += from.cp * times;
  to.ep += from.ep * times;
  to.dp += from.dp * times;
  to.copies += from.copies * times;
  to.hidden += from.hidden * times;
  to.may_hide += from.may_hide * times;
  to.kernels += from.kernels * times;
  to.experts += from.experts * times;
  to.flops += from.flops * times;
  for (std::size_t i = 0; i < kModules; ++i) to.module[i] += from.module[i] * times;
}

namespace {

// A pass of one MoE layer on the host, beyond its launches. `staged`: the layer has shared experts, which
// the all-to-all dispatcher runs between its own stages on a stream of theirs. Source: NVIDIA/Megatron-LM
// core/transformer/moe/token_dispatcher.py and shared_experts.py (moe_shared_expert_overlap). Counts of
// rows alone cost it nothing that shows: they come to the host beside the router (cuda_dtoh_stream).
double moe_layer_host(const job::JobSpec& spec, bool overlap, bool staged) {
  const framework::HostCosts& host = spec.framework.host;
  double seconds = host.per_moe_layer.value;
  if (!spec.graph_modules.test(index_of(ops::Module::router))) seconds += host.per_moe_router.value;
  if (staged && spec.routing.dispatcher == job::Dispatcher::alltoall) {
    seconds += host.per_moe_wait.value;
  }
  if (overlap) seconds += host.per_moe_overlap.value;
  return seconds;
}

// What a layer costs the host where tensor parallelism meets several nodes: for each node beyond the
// first that one group spans, and for each rank where the job has a pipeline too.
double across_nodes(const job::CheckedJob& job) {
  const job::JobSpec& spec = *job.spec;
  const auto& p = job.parallel;
  if (p.tp < 2 || spec.cluster.nodes < 2) return 0;
  const double together = tp_ranks_together(job);
  const double further =
      (p.tp / together - 1) * spec.framework.host.per_layer_tp_each_node.value;
  if (p.pp < 2) return together * further;
  return p.tp * (spec.framework.host.per_layer_tp_across_nodes.value + 2 * further);
}

// Whether the host waits for every collective of a tensor-parallel group that spans nodes, so that it is
// never ahead of the device: what one does then adds to what the other does. With a pipeline the floor of
// `per_layer_tp_across_nodes` is there whatever the device does, and hides it.
// Source: this project, 90 runs of the Ultra-Scale Playbook at tp 16 and 32 without a pipeline: time a
// micro-batch is a straight line in its sequences (1B, tp 16, 128 GPUs: 131, 157, 190, 255, 395, 622 ms
// at 1, 2, 4, 8, 16, 32), where the longer of two would be flat and then steep.
bool takes_turns(const Pricing& pricing) {
  const auto& p = pricing.job->parallel;
  const bool waits = pricing.job->spec->framework.host.per_layer_tp_each_node.value > 0;
  return waits && p.pp == 1 && p.tp > tp_ranks_together(*pricing.job);
}

// n of (device^n + host^n)^(1/n).
double overlap_exponent(const Pricing& pricing) {
  const framework::HostCosts& host = pricing.job->spec->framework.host;
  if (takes_turns(pricing)) return 1;
  const bool waits = pricing.job->parallel.tp > 1 && host.tp_overlap_exponent > 0;
  return waits ? host.tp_overlap_exponent : host.overlap_exponent;
}

}  // namespace

double tp_ranks_together(const job::CheckedJob& job) {
  return std::max(1, parallel::members_in_domain(parallel::group_of(job.parallel, Axis::tp),
                                                 job.spec->cluster.gpus_per_node));
}

double layer_host(const job::CheckedJob& job) {
  return job.spec->framework.host.per_layer.value + across_nodes(job);
}

Pricing make_pricing(const job::CheckedJob& job, const calibration::Calibration& calibration) {
  const job::JobSpec& spec = *job.spec;
  Pricing p;
  p.job = &job;
  p.kernels = kernel::make_context(spec.cluster.accelerator, calibration.part, spec.framework.kernel,
                                   spec.framework.attention_kernel, kernel::Setting::in_training);
  p.links = collective::make_context(spec.cluster, calibration.part, spec.framework.kernel);
  price_for(job, p);
  return p;
}

void price_for(const job::CheckedJob& job, Pricing& pricing) {
  pricing.job = &job;
  for (std::size_t a = 0; a < pricing.placements.size(); ++a) {
    pricing.placements[a] = collective::place(
        parallel::group_of(job.parallel, static_cast<Axis>(a)), job.spec->cluster);
  }
}

bool hiding_pays(const framework::FrameworkProfile& profile) {
  const framework::OverlapRules& r = profile.overlap;
  const auto is_share = [](double x) { return x >= 0 && x <= 1; };
  return is_share(r.contention) && is_share(r.tp_share) && is_share(r.ep_share) &&
         is_share(r.dp_share) && is_share(r.pp_exposed) &&
         profile.host.per_moe_overlap.value >= 0 && profile.host.per_blocking_send.value >= 0;
}

namespace {

// Of the link's nominal rate. Source: 55.4 of 63 GB/s over PCIe 5, 359 to 377 of 450 GB/s over
// NVLink-C2C (stas00/ml-engineering@744d01e compute/accelerator).
constexpr double kHostLinkShare = 0.85;
// A node's processors update 1e9 parameters by Adam in 0.22 to 0.26 s.
// Source: arXiv 2101.06840 (ZeRO-Offload), CPU-Adam's latency table.
// Assumes: every node's host does as well, and its ranks share it evenly.
constexpr double kHostUpdatesPerSecond = 4e9;

double host_seconds(const ops::HostCopy& copy, const Pricing& pricing) {
  const hardware::ClusterSpec& cluster = pricing.job->spec->cluster;
  const double link = cluster.accelerator.host_link.value * kHostLinkShare;
  const double moved = link > 0 ? copy.bytes.value / link : 0.0;
  return moved + copy.updated * cluster.gpus_per_node / kHostUpdatesPerSecond;
}

}  // namespace

double price(const ops::Op& op, const Pricing& pricing) {
  if (const auto* g = std::get_if<ops::Gemm>(&op.work)) {
    const double t = kernel::time_of(*g, pricing.kernels).value;
    return op.module == ops::Module::scan ? t / kScanRate : t;
  }
  if (const auto* a = std::get_if<ops::Attention>(&op.work)) {
    return kernel::time_of(*a, pricing.kernels).value;
  }
  if (const auto* e = std::get_if<ops::Elementwise>(&op.work)) {
    return op.kernels == 0 ? 0.0 : kernel::time_of(*e, pricing.kernels).value;
  }
  if (const auto* h = std::get_if<ops::HostCopy>(&op.work)) return host_seconds(*h, pricing);
  const auto& c = *std::get_if<ops::Collective>(&op.work);
  const auto& placement = pricing.placements[static_cast<std::size_t>(c.axis)];
  return collective::time_of(c, placement, pricing.links).value * c.repeats;
}

namespace {

template <class Prices>
void time_with(const ops::Program& program, const Pricing& pricing, bool split,
               const Prices& prices, ProgramTime& out) {
  time_pass(program.forward, pricing, Half::both, prices, out.forward);
  time_pass(program.backward, pricing, Half::both, prices, out.backward);
  if (split) {
    time_pass(program.backward, pricing, Half::input_gradient, prices, out.input_gradient);
    time_pass(program.backward, pricing, Half::weight_gradient, prices, out.weight_gradient);
  }
  out.layer = program.input != ops::kNoTensor && program.output != ops::kNoTensor;
  out.moe = false;
  out.shared = false;
  for (const ops::Op& op : program.forward) {
    out.moe = out.moe || op.module == ops::Module::router;
    out.shared = out.shared || op.module == ops::Module::shared_expert;
  }
  out.recomputed = 0;
  if (pricing.job->spec->recompute.granularity != job::Granularity::selective) return;
  job::ModuleSet again;
  for (const ops::Op& op : program.backward) {
    if (op.pass == ops::Pass::recompute) again.set(index_of(op.module));
  }
  again &= ~pricing.job->spec->graph_modules;
  out.recomputed = static_cast<double>(again.count());
}

}  // namespace

void time_program(const ops::Program& program, const Pricing& pricing, bool split,
                  ProgramTime& out) {
  const auto model = [&](const ops::Op& op) { return OpPrice{price(op, pricing), true}; };
  time_with(program, pricing, split, model, out);
}

void time_program(const ops::Program& program, const Pricing& pricing,
                  const std::function<OpPrice(const ops::Op&)>& prices, ProgramTime& out) {
  time_with(program, pricing, true, prices, out);
}

namespace {

const PassTime& pass_of(const ProgramTime& p, ChunkPass pass) {
  switch (pass) {
    case ChunkPass::forward:
      return p.forward;
    case ChunkPass::backward:
      return p.backward;
    case ChunkPass::input_gradient:
      return p.input_gradient;
    case ChunkPass::weight_gradient:
      return p.weight_gradient;
  }
  return p.forward;
}

// Device and host at work beside one another.
double beside(double device, double host, double n) {
  const double larger = std::max(device, host);
  if (larger <= 0) return 0;
  const double t =
      larger * std::pow(std::pow(device / larger, n) + std::pow(host / larger, n), 1.0 / n);
  return std::max(t, device);
}

}  // namespace

// Beside one another is a norm where the exponent is at least 1, and no sum of norms is below the norm of
// the sum. Where a tensor-parallel group spans nodes the host's time depends on the pipeline.
double least_time(const ChunkTime& pass, const Pricing& pricing) {
  const job::CheckedJob& job = *pricing.job;
  const double kept = 1.0 - job.spec->framework.overlap.contention;
  const double device = pass.sum.device() + kept * (pass.sum.hidden - pass.sum.may_hide);
  const double n = overlap_exponent(pricing);
  if (n < 1 || job.parallel.tp > tp_ranks_together(job)) return device;
  return beside(device, pass.host, n);
}

bool sends_block(const job::CheckedJob& job) {
  const framework::OverlapRules& rules = job.spec->framework.overlap;
  const bool interleaved = parallel::chunks_of(job.parallel) > 1;
  return !job.spec->overlap.p2p || (rules.pp_interleaved_only && !interleaved);
}

namespace {

// What the host goes through in a pass of one chunk.
struct HostWork {
  double kernels = 0;
  double experts = 0;
  double layers = 0;
  double moe_layers[2] = {0, 0};  // layers with experts, without shared ones and with
  double recomputed = 0;

  void add(const ProgramTime& p, ChunkPass pass, double times) {
    if (pass == ChunkPass::weight_gradient) return;
    if (p.layer) layers += times;
    if (p.moe) moe_layers[p.shared ? 1 : 0] += times;
    if (pass != ChunkPass::forward) recomputed += times * p.recomputed;
  }
};

double host_seconds(const HostWork& work, ChunkPass pass, double per_layer, bool moe_overlap,
                    const job::JobSpec& spec) {
  const framework::HostCosts& host = spec.framework.host;
  return (work.kernels * host.per_kernel.value + work.experts * host.per_local_expert.value +
          work.moe_layers[0] * moe_layer_host(spec, moe_overlap, false) +
          work.moe_layers[1] * moe_layer_host(spec, moe_overlap, true) +
          work.recomputed * host.per_recompute.value) *
             (1.0 - spec.graph_share) +
         work.layers * per_layer +
         (pass == ChunkPass::weight_gradient ? 0.0 : host.per_micro_batch.value);
}

// Measured modules have their launches in them: the host's part of those stands beside what is
// left, and sets the pace only where the job's own framework takes longer for all of the pass.
ChunkTime time_measured_chunk(const ops::StageProgram& stage, const ProgramTime* programs,
                              ChunkPass pass, const Pricing& pricing) {
  const job::JobSpec& spec = *pricing.job->spec;
  ChunkTime out;
  HostWork beside_device;
  HostWork all;
  double spanned = 0;
  for (const ops::StageItem& item : stage.items) {
    const ProgramTime& p = programs[item.program];
    const PassOrigin& origin = pricing.measured->origin(item.program, pass);
    add(out.sum, pass_of(p, pass), item.repeat);
    spanned += origin.spanned * item.repeat;
    all.kernels += origin.kernels * item.repeat;
    all.experts += origin.experts * item.repeat;
    all.add(p, pass, item.repeat);
    if (!origin.whole) beside_device.add(p, pass, item.repeat);
  }
  if (pass == ChunkPass::weight_gradient && all.kernels <= 0) return out;
  beside_device.kernels = out.sum.kernels;
  beside_device.experts = out.sum.experts;
  const double per_layer = layer_host(*pricing.job);
  const bool moe_overlap = spec.overlap.moe_a2a;
  out.host = host_seconds(beside_device, pass, per_layer, moe_overlap, spec);
  out.duration = beside(out.sum.device(), out.host, overlap_exponent(pricing));
  if (spanned > 0) {
    out.duration = std::max(out.duration, host_seconds(all, pass, per_layer, moe_overlap, spec));
  }
  out.longest = out.duration;
  return out;
}

}  // namespace

ChunkTime time_chunk(const ops::StageProgram& stage, const ProgramTime* programs, ChunkPass pass,
                     const Pricing& pricing) {
  if (pricing.measured != nullptr) return time_measured_chunk(stage, programs, pass, pricing);
  const auto& spec = *pricing.job->spec;
  ChunkTime out;
  HostWork work;
  for (const ops::StageItem& item : stage.items) {
    const ProgramTime& p = programs[item.program];
    add(out.sum, pass_of(p, pass), item.repeat);
    work.add(p, pass, item.repeat);
  }
  if (pass == ChunkPass::weight_gradient && out.sum.kernels <= 0) return out;
  work.kernels = out.sum.kernels;
  work.experts = out.sum.experts;
  const double per_layer = layer_host(*pricing.job);
  out.host =
      host_seconds(work, pass, per_layer, spec.overlap.moe_a2a && !pricing.any_overlap, spec);
  const double n = overlap_exponent(pricing);
  out.duration = beside(out.sum.device(), out.host, n);
  out.longest = out.duration;
  if (pricing.any_overlap && (out.sum.hidden > 0 || spec.overlap.moe_a2a)) {
    const double slowed = spec.framework.overlap.contention * out.sum.hidden;
    out.longest = beside(out.sum.device() - slowed + out.sum.hidden,
                         host_seconds(work, pass, per_layer, spec.overlap.moe_a2a, spec), n);
  }
  return out;
}

}  // namespace eratos::projection
