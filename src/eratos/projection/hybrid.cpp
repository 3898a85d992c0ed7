#include "eratos/projection/hybrid.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <variant>

#include "eratos/lower/lower.h"
#include "eratos/projection/compose.h"
#include "eratos/projection/plan.h"
#include "eratos/projection/state.h"

namespace eratos::projection {

namespace {

using calibration::Measured;
using calibration::MeasuredPiece;
using calibration::MemoryPiece;

constexpr std::array<ChunkPass, 4> kPasses{ChunkPass::forward, ChunkPass::backward,
                                           ChunkPass::input_gradient, ChunkPass::weight_gradient};

std::array<double, 4> counts_by_pass(const PassCounts& n) {
  return {n.forward, n.backward, n.input_gradient, n.weight_gradient};
}

// Calls see(program, pass, times) for everything that a rank runs in a step.
template <class See>
void each_run(const job::CheckedJob& job, const Workspace& w, int rank, See see) {
  for (int part = 0; part < lower::parts_of(job); ++part) {
    const auto counts = counts_by_pass(counts_of(job, w, rank, part));
    for (const ops::StageItem& item : lower::part_of(job, w.lowered, rank, part).items) {
      for (std::size_t p = 0; p < kPasses.size(); ++p) {
        if (counts[p] > 0) see(item.program, kPasses[p], counts[p] * item.repeat);
      }
    }
  }
}

// What was known of each part of a rank's step.
struct StepOrigins {
  OriginTime compute;
  std::array<OriginTime, 7> streams;
  OriginTime optimizer;
  OriginTime reduction;  // once-a-step exchanges
  OriginTime send;
};

StepOrigins origins_of(const job::CheckedJob& job, const Pricing& pricing, const Workspace& w,
                       int rank) {
  StepOrigins out;
  MeasuredPrices& prices = *pricing.measured;
  each_run(job, w, rank, [&](std::size_t program, ChunkPass pass, double times) {
    const PassOrigin& o = prices.origin(program, pass);
    out.compute.add(o.compute, times);
    for (std::size_t s = 0; s < out.streams.size(); ++s) out.streams[s].add(o.streams[s], times);
  });
  prices.own(owned_parameters(job, w, rank));
  for (const ops::Op& op : w.lowered.step_ops[static_cast<std::size_t>(rank)]) {
    const bool exchange =
        std::holds_alternative<ops::Collective>(op.work) && op.stream == ops::Stream::dp;
    (exchange ? out.reduction : out.optimizer).add(prices.price(op, nullptr), 1);
  }
  if (job.parallel.pp > 1) {
    collective::GroupPlacement pair;
    pair.size = 2;
    const int stride = parallel::group_of(job.parallel, Axis::pp).stride;
    for (const hardware::NetworkLevel& level : job.spec->cluster.levels) {
      pair.members.push_back(stride < level.gpus ? 2 : 1);
    }
    if (pair.members.empty()) pair.members.push_back(2);
    pair.members.back() = 2;
    out.send.add(prices.link(ops::CollectiveKind::send_recv, w.lowered.stages[0].send, pair), 1);
  }
  return out;
}

// Adds `seconds`, split as `like` is; where `like` knows nothing they are modelled.
void add_like(double seconds, const OriginTime& like, OriginTime& to) {
  const double all = like.total();
  if (all <= 0) {
    to.add(Priced{seconds, Origin::modelled, 0}, 1);
  } else {
    to.add(like, seconds / all);
  }
}

// The parts of the critical rank's step by origin. Idle time follows from the passes.
OriginTime step_by_origin(const StepOrigins& o, const TimeAnswer& t) {
  const auto stream = [&](ops::Stream s) -> const OriginTime& {
    return o.streams[static_cast<std::size_t>(s)];
  };
  OriginTime out;
  add_like(t.compute.value, o.compute, out);
  add_like(t.exposed.tp.value, stream(ops::Stream::tp), out);
  add_like(t.exposed.cp.value, stream(ops::Stream::cp), out);
  add_like(t.exposed.ep.value, stream(ops::Stream::ep), out);
  OriginTime data = stream(ops::Stream::dp);
  data.add(o.reduction, 1);
  add_like(t.exposed.dp.value, data, out);
  add_like(t.exposed.pp.value, o.send, out);
  add_like(t.exposed.host.value, OriginTime{}, out);
  OriginTime passes = out;
  add_like(t.launch.value, OriginTime{}, out);
  add_like(t.launch.value, OriginTime{}, passes);
  add_like(t.optimizer.value, o.optimizer, out);
  add_like(t.bubble.value, passes, out);
  return out;
}

void answer_shares(const OriginTime& step, HybridAnswer& out) {
  const double all = step.total();
  if (all <= 0) return;
  double sum = 0;
  for (std::size_t o = 0; o < kOrigins; ++o) {
    out.share[o] = step.seconds[o] / all;
    out.error[o] = step.seconds[o] > 0 ? step.error[o] / step.seconds[o] : 0;
    if (o + 1 < kOrigins) sum += out.share[o];
  }
  // What is not known otherwise is modelled: rounding leaves no gap.
  out.share[kOrigins - 1] = std::max(0.0, 1 - sum);
}

// The step's band, narrower by what is known better than the model knows it.
void narrow_band(const Projection& simulated, HybridAnswer& answer, Projection& p) {
  const double step = simulated.time.step.value;
  const auto& [low, high] = simulated.confidence.step;
  if (step <= 0 || !(high.value > low.value)) return;
  const double half = (high.value - low.value) / (2 * step);
  constexpr auto kModelled = static_cast<std::size_t>(Origin::modelled);
  answer.error[kModelled] = half;
  double variance = 0;
  for (std::size_t o = 0; o < kOrigins; ++o) {
    // Nothing that was learned makes an answer worse than its model.
    const double error = std::min(half, answer.error[o]);
    variance += std::pow(answer.share[o] * error, 2);
  }
  answer.narrowing = std::min(1.0, std::sqrt(variance) / half);
  const double scale = answer.narrowing * p.time.step.value / step;
  p.confidence.step = {p.time.step - (simulated.time.step - low) * scale,
                       p.time.step + (high - simulated.time.step) * scale};
}

void answer_spans(const job::CheckedJob& job, const MeasuredPrices& prices, const Workspace& w,
                  int rank, HybridAnswer& out) {
  for (const Span& s : prices.spans()) {
    SpanRow row;
    row.module = w.lowered.programs[s.program].name;
    row.id = s.id;
    row.backward = s.backward;
    row.measured = Seconds{s.measured};
    row.kernels = Seconds{s.kernels};
    row.origin = s.origin;
    each_run(job, w, rank, [&](std::size_t program, ChunkPass pass, double times) {
      if (program != s.program) return;
      // A backward in two halves is one run.
      const bool whole = pass == ChunkPass::backward || pass == ChunkPass::input_gradient;
      if (s.backward ? whole : pass == ChunkPass::forward) row.count += times;
    });
    if (row.count <= 0) continue;
    out.unattributed += (row.measured - row.kernels) * row.count;
    out.spans.push_back(std::move(row));
  }
}

// From one pass of one of each block to the whole step. The critical rank's parts, so they sum to
// it.
void answer_restored(const job::CheckedJob& job, const MeasuredPrices& prices, const Workspace& w,
                     const TimeAnswer& t, HybridAnswer& out) {
  const int rank = t.critical_stage;
  double layers = 0;
  std::vector<std::size_t> kinds;
  for (int part = 0; part < lower::parts_of(job); ++part) {
    for (const ops::StageItem& item : lower::part_of(job, w.lowered, rank, part).items) {
      layers += item.repeat;
      if (std::find(kinds.begin(), kinds.end(), item.program) == kinds.end()) {
        kinds.push_back(item.program);
      }
    }
  }
  double one_block = 0;
  for (const std::size_t kind : kinds) {
    for (const ChunkPass pass : {ChunkPass::forward, ChunkPass::backward}) {
      one_block += prices.origin(kind, pass).compute.total();
    }
  }
  const double m = job.micro_batches;
  const double passes = t.compute.value + t.launch.value;
  const double one_batch = passes / m;
  const auto term = [&](const char* what, double from, double to, Seconds s, const char* how) {
    if (from != to || s.value > 0) out.restored.push_back({what, from, to, s, how});
  };
  const parallel::ParallelSpec& p = job.parallel;
  term("blocks", 0, static_cast<double>(kinds.size()), Seconds{one_block},
       "one pass of each distinct block, as measured or priced");
  term("layers", static_cast<double>(kinds.size()), layers, Seconds{one_batch - one_block},
       "each block's time, times its layers on the critical rank");
  term("micro-batches", 1, m, Seconds{passes - one_batch}, "each takes what one takes");
  const int ranks = std::max(1, out.provenance.ranks);
  const auto from = [&](int degree) { return static_cast<double>(std::min(ranks, degree)); };
  term("tensor", from(p.tp), p.tp, t.exposed.tp, "exchanges by the links, less what hides");
  term("context", from(p.cp), p.cp, t.exposed.cp, "keys exchanged by the links, less what hides");
  term("experts", from(p.ep), p.ep, t.exposed.ep, "all-to-all by the links, less what hides");
  term("pipeline", 1, p.pp, t.bubble + t.exposed.pp, "the schedule, simulated with these passes");
  term("data", 1, p.dp, t.exposed.dp, "reduction and gathers by the links, less what hides");
  term("optimizer", 1, 1, t.optimizer, "once a step, over the parameters of a rank");
  term("host copies", 1, 1, t.exposed.host, "over the host's link, less what hides");
}

// The small job of a file's memory phases: downscaled to its ranks, with as many layers and as long
// a sequence as the phases say.
std::optional<job::JobSpec> small_job(const job::CheckedJob& job, const MemoryPiece& piece,
                                      const calibration::Calibration& calibration, int ranks,
                                      Workspace& w) {
  Downscaled small = downscale(job, calibration, {Bytes{0}, ranks}, w);
  if (!small.legal) return std::nullopt;
  job::JobSpec spec = std::move(small.spec);
  // What a device ran as one piece of work is no larger than this.
  constexpr double kMostLayers = 10'000;
  constexpr double kMostTokens = 1e9;
  const double sequences = piece.layer.tokens / piece.layer.sequence;
  const bool sane = piece.layers >= 1 && piece.layers <= kMostLayers && sequences >= 1 &&
                    piece.layer.tokens <= kMostTokens;
  if (!sane) return std::nullopt;
  spec.model.pattern.resize(static_cast<std::size_t>(piece.layers), spec.model.pattern.front());
  const int dp = std::max(1, spec.batch.global / std::max(1, spec.batch.micro));
  spec.batch.sequence = static_cast<int>(piece.layer.sequence);
  spec.batch.micro = static_cast<int>(sequences);
  spec.batch.global = dp * spec.batch.micro;
  return spec;
}

void answer_memory(const job::CheckedJob& job, const calibration::Calibration& calibration,
                   const Measured& measured, const Options& options, Workspace& w,
                   const MemoryAnswer& target, MemoryAnchor& out) {
  std::vector<const MeasuredPiece*> phases;
  for (const MeasuredPiece& m : measured.pieces) {
    if (m.piece.kind() == calibration::PieceKind::memory && m.peak.value > 0) phases.push_back(&m);
  }
  if (phases.empty()) return;
  const auto& first = std::get<MemoryPiece>(phases.front()->piece.work);
  const auto spec = small_job(job, first, calibration, std::max(1, measured.provenance.ranks), w);
  if (!spec) return;
  job::CheckedJob small;
  if (!job::check(*spec, small).empty()) return;
  std::string why;
  for (const calibration::Piece& piece : memory_pieces(small, w, why)) {
    const std::string id = calibration::id_of(piece);
    for (const MeasuredPiece* m : phases) {
      if (calibration::id_of(m->piece) != id) continue;
      ++out.phases;
      out.measured_allocated = max(out.measured_allocated, m->peak);
      out.measured_reserved = max(out.measured_reserved, m->reserved);
      out.measured_context = max(out.measured_context, m->context);
    }
  }
  if (out.phases == 0) return;
  const Projection p = project(small, calibration, options, w);
  out.modelled_allocated = p.memory.allocated_peak;
  out.modelled_reserved = p.memory.reserved_peak;
  out.modelled_context = p.memory.device_peak - p.memory.reserved_peak;
  // What the allocator holds of what is allocated, and what stands beside it.
  const bool reserves = out.measured_reserved.value > 0;
  const double own = out.modelled_reserved / out.modelled_allocated;
  const double reserve = reserves ? out.measured_reserved / out.measured_allocated : own;
  const Bytes more =
      out.measured_context.value > 0 ? out.measured_context - out.modelled_context : Bytes{0};
  const Bytes beside = target.device_peak - target.reserved_peak;
  out.device_peak = target.reserved_peak * (reserve / own) + beside + more;
  const double excess = std::max(1.0, out.measured_allocated / out.modelled_allocated);
  out.upper_bound =
      target.reserved_peak * (std::max(1.0, reserve / own) * excess) + beside + max(more, Bytes{0});
}

std::string letters_of(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool kept = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (kept) out += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

// Months from "2026.06" or "2026-06-..." ; 0 where it is none.
int months_of(const std::string& text) {
  if (text.size() < 7 || (text[4] != '.' && text[4] != '-')) return 0;
  int out = 0;
  for (const std::size_t i : {0U, 1U, 2U, 3U, 5U, 6U}) {
    if (text[i] < '0' || text[i] > '9') return 0;
  }
  for (std::size_t i = 0; i < 4; ++i) out = out * 10 + (text[i] - '0');
  return out * 12 + (text[5] - '0') * 10 + (text[6] - '0');
}

// Assumes: software changes enough in a year for its kernels to be others.
constexpr int kSameGenerationMonths = 12;

void warn(const job::CheckedJob& job, const HybridAnswer& h, Projection& out) {
  const calibration::MeasuredProvenance& p = h.provenance;
  const std::string& part = job.spec->cluster.accelerator.name;
  const auto add = [&](const char* code, std::string message) {
    out.warnings.push_back({code, std::move(message)});
  };
  if (!measured_on(p, part)) {
    add("measured-on-another-part",
        "measurements are of " + (p.device.empty() ? std::string("an unnamed device") : p.device) +
            ", the job runs on " + part);
  }
  const int ran = months_of(p.date_utc);
  const int generation = months_of(job.spec->framework.generation);
  if (ran > 0 && generation > 0 && std::abs(ran - generation) > kSameGenerationMonths) {
    add("measured-with-other-software", "measured " + p.date_utc.substr(0, 10) + " with libtorch " +
                                            p.libtorch + ", the framework is of " +
                                            job.spec->framework.generation);
  }
  if (p.noisy) {
    add("measured-on-a-noisy-machine", "something else ran on the machine while it was measured");
  }
  if (h.matched == 0 && h.families.empty()) {
    add("nothing-measured-matches",
        "no measured piece is of this job or of a kind of its kernels: all of it is modelled");
  }
  if (h.memory.phases > 0 && h.memory.upper_bound > out.memory.capacity) {
    add("measured-peak-may-not-fit",
        "the small job's measured peaks allow for more than the accelerator has");
  }
}

}  // namespace

bool measured_on(const calibration::MeasuredProvenance& p, const std::string& part) {
  const std::string word = letters_of(part.substr(0, part.find('-')));
  if (p.device_kind == "cpu") return word.find("cpu") != std::string::npos;
  return letters_of(p.device).find(word) != std::string::npos;
}

HybridProjection project(const job::CheckedJob& job, const calibration::Calibration& calibration,
                         const Measured& measured, const Options& options, Workspace& w) {
  HybridProjection out;
  HybridAnswer& h = out.hybrid;
  h.provenance = measured.provenance;
  h.pieces = measured.pieces.size();
  out.simulated = project(job, calibration, options, w);
  prepare_for_answer(job, w);
  const Pricing model = make_pricing(job, calibration);
  MeasuredPrices prices(job, model, measured, w);
  Pricing pricing = model;
  pricing.measured = &prices;
  out.projection = answer_of(job, calibration, pricing, options, w);
  if (out.projection.time.step.value <= 0) return out;
  // Memory at an uneven load leaves other programs behind.
  prepare_for_answer(job, w);
  const TimeAnswer& time = out.projection.time;
  const StepOrigins origins = origins_of(job, pricing, w, time.critical_stage);
  answer_shares(step_by_origin(origins, time), h);
  narrow_band(out.simulated, h, out.projection);
  answer_spans(job, prices, w, time.critical_stage, h);
  answer_restored(job, prices, w, time, h);
  for (const auto& [name, family] : prices.families()) {
    if (family.used) h.families.push_back(family);
  }
  h.interpolations = prices.interpolations();
  h.matched = prices.matched();
  answer_memory(job, calibration, measured, options, w, out.projection.memory, h.memory);
  warn(job, h, out.projection);
  return out;
}

}  // namespace eratos::projection
