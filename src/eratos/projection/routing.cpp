#include "eratos/projection/routing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <variant>

#include "eratos/lower/lower.h"
#include "eratos/projection/compose.h"
#include "eratos/projection/state.h"

namespace eratos::projection {

namespace {

// A run is said to fit when it runs out of memory less often than this.
constexpr double kAllowed = 0.01;

const layer::MoeSpec* experts_of(const model::Architecture& a) {
  for (const layer::BlockSpec& block : a.blocks) {
    if (const auto* moe = std::get_if<layer::MoeSpec>(&block.feed_forward)) return moe;
  }
  return nullptr;
}

// P(load <= x) of a Gamma load of mean 1 and this variance: load_at() the other way round.
double load_below(double variance, double x) {
  if (x <= 0) return 0;
  return ops::normal_below((std::cbrt(x) - 1 + variance / 9) * 3 / std::sqrt(variance));
}

struct Scene {
  std::array<StageLoad, job::kMaxVirtualStages> stages{};
  int count = 0;
  ops::LoadSpread spread;
  int ranks = 1;
  double replicas = 1;
  int micro_batches = 1;
};

// Probability that no rank of the job exceeds `limit` in `steps` steps.
double job_stays_below(Bytes limit, const Scene& scene, double steps) {
  double all = 1;
  for (int i = 0; i < scene.count && all > 0; ++i) {
    const StageLoad& stage = scene.stages[static_cast<std::size_t>(i)];
    const double windows =
        scene.replicas * steps * std::max(1.0, scene.micro_batches / stage.in_flight);
    all *= stays_below(limit, stage, scene.spread, scene.ranks, windows);
  }
  return all;
}

// The bytes that the job stays below with probability p.
Bytes quantile(double p, const Scene& scene, double steps) {
  double low = 0;
  double high = 0;
  for (int i = 0; i < scene.count; ++i) {
    const StageLoad& stage = scene.stages[static_cast<std::size_t>(i)];
    const Bytes slope = stage.kept + stage.transient;
    const double most = 1 + 12 * std::sqrt(scene.spread.variance()) + 12 * scene.spread.variance();
    low = std::max(low, (stage.even - slope).value);
    high = std::max(high, (stage.even + slope * most).value);
  }
  for (int i = 0; i < 28; ++i) {
    const double middle = 0.5 * (low + high);
    if (job_stays_below(Bytes{middle}, scene, steps) < p) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return Bytes{high};
}

double expert_layers(const job::CheckedJob& job, const Workspace& w, int rank) {
  double layers = 0;
  for (int part = 0; part < parallel::chunks_of(job.parallel); ++part) {
    for (const ops::StageItem& item : lower::part_of(job, w.lowered, rank, part).items) {
      const std::vector<ops::Op>& ops = w.lowered.programs[item.program].forward;
      const bool moe = std::any_of(ops.begin(), ops.end(), [](const ops::Op& op) {
        return op.module == ops::Module::router;
      });
      if (moe) layers += item.repeat;
    }
  }
  return layers;
}

// Bytes of every rank at load 1, and what is added up to a load that hardly any rank exceeds.
void measure(const job::CheckedJob& job, Workspace& w, Scene& out) {
  const memory::StateRules state = state_rules(job);
  const memory::StageInput frame = frame_of(job);
  const double reach = 3 * std::sqrt(out.spread.variance()) + out.spread.variance();
  std::array<memory::StageMemory, 2> at{};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& programs = memory_at(i == 0 ? 1.0 : 1.0 + reach, w, w.active->loaded[i]);
    for (int rank = 0; rank < job.parallel.pp; ++rank) {
      StageLoad& stage = out.stages[static_cast<std::size_t>(rank)];
      rank_memory(job, state, frame, rank, programs, w, at[i]);
      const memory::StageMemory& m = at[i];
      if (i == 0) {
        stage = {m.device, m.activations, m.transient, expert_layers(job, w, rank),
                 std::max(1.0, m.in_flight)};
        continue;
      }
      const Bytes added = (m.device - stage.even) / reach;
      const double kept = (m.activations - stage.kept).value;
      const double whole = kept + (m.transient - stage.transient).value;
      const double share = whole > 0 ? std::clamp(kept / whole, 0.0, 1.0) : 1.0;
      stage.kept = added * share;
      stage.transient = added * (1 - share);
    }
  }
  out.count = job.parallel.pp;
}

}  // namespace

ops::LoadSpread spread_of(const job::CheckedJob& job) {
  const job::JobSpec& spec = *job.spec;
  const layer::MoeSpec* experts = experts_of(spec.model);
  if (experts == nullptr || spec.routing.balance == job::Balance::balanced ||
      spec.routing.pad_to_capacity) {
    return {};
  }
  ops::Routing routing;
  routing.experts = experts->experts;
  routing.chosen = experts->top_k;
  routing.ranks = job.parallel.ep;
  routing.tokens = lower::context_of(job).shard_tokens() * job.parallel.ep * job.parallel.etp;
  routing.skew = spec.routing.skew;
  routing.capacity = spec.routing.capacity_factor;
  return ops::load_spread(routing);
}

double stays_below(Bytes limit, const StageLoad& stage, const ops::LoadSpread& spread, int ranks,
                   double windows) {
  const Bytes slope = stage.kept + stage.transient;
  if (slope.value <= 0 || stage.layers <= 0) return stage.even <= limit ? 1 : 0;
  const double k = stage.kept / slope;
  const double t = stage.transient / slope;
  const double draws = stage.layers * stage.in_flight;
  const double stays = spread.popularity * ((k * k + 2 * k * t) / stage.layers + t * t);
  const double fresh = std::sqrt(spread.chance * ((k * k + 2 * k * t) / draws + t * t));
  // The load that fills what `limit` leaves.
  const double room = 1 + (limit - stage.even) / slope;
  if (spread.largest > 0 && room >= spread.largest) return 1;
  double one = 0;
  if (stays <= 0) {
    const double above = 0.5 * std::erfc((room - spread.mean) / fresh * 0.7071067811865476);
    one = std::exp(windows * std::log1p(-above));
  } else {
    const ops::Largest most = ops::largest_of_normals(windows);
    const double varies = stays + fresh * fresh * most.variance;
    one = load_below(varies / (spread.mean * spread.mean),
                     (room - fresh * most.mean) / spread.mean);
  }
  return std::pow(std::clamp(one, 0.0, 1.0), ranks);
}

void uneven_memory(const job::CheckedJob& job, const ops::LoadSpread& spread, const Options& options,
                   bool briefly, Workspace& w, RoutingAnswer& out) {
  Scene scene;
  scene.spread = spread;
  scene.ranks = job.parallel.ep;
  scene.micro_batches = job.micro_batches;
  scene.replicas = static_cast<double>(job.parallel.world()) /
                   (job.parallel.pp * job.parallel.ep * job.parallel.etp);
  measure(job, w, scene);
  const Bytes capacity =
      job.spec->cluster.accelerator.memory_visible * (1.0 - options.memory_margin);
  out.even = false;
  out.step_p50 = quantile(0.5, scene, 1);
  out.run_oom = 1 - job_stays_below(capacity, scene, out.run_steps);
  if (!briefly) {
    out.most = ops::mean_of_most(spread, job.parallel.ep);
    out.step_p99 = quantile(0.99, scene, 1);
    out.run_p50 = quantile(0.5, scene, out.run_steps);
    out.run_p99 = quantile(0.99, scene, out.run_steps);
    out.step_oom = 1 - job_stays_below(capacity, scene, 1);
  }
  // The table is drawn where its highest stage is the median peak.
  out.at_peak = spread.largest > 0 ? spread.largest : 1e300;
  for (int i = 0; i < scene.count; ++i) {
    const StageLoad& stage = scene.stages[static_cast<std::size_t>(i)];
    const Bytes slope = stage.kept + stage.transient;
    if (slope.value > 0) {
      out.at_peak = std::min(out.at_peak, 1 + (out.step_p50 - stage.even) / slope);
    }
  }
  out.at_peak = std::min(std::max(out.at_peak, 0.0), 1e6);
}

bool enough(const RoutingAnswer& routing) { return routing.run_oom <= kAllowed; }

}  // namespace eratos::projection
