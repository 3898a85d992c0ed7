#include "eratos/projection/hybrid.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>

#include <gtest/gtest.h>

#include "eratos/projection/compose.h"
#include "eratos/projection/plan.h"
#include "eratos/projection/time.h"
#include "small_jobs.h"

namespace eratos::projection {
namespace {

using calibration::Measured;
using calibration::MeasuredPiece;
using calibration::Piece;
using calibration::PieceKind;

MeasuredPiece took(const Piece& piece, double seconds) {
  MeasuredPiece m;
  m.piece = piece;
  m.median = Seconds{seconds};
  m.minimum = m.median;
  return m;
}

// A file that holds what `seconds` says of every piece of the job's plan: 0 leaves it out.
Measured measured_by(SmallJob& job, int ranks,
                     const std::function<double(const PlannedPiece&)>& seconds) {
  const Plan plan = plan_of(job.checked, job.calibration, {Bytes{0}, ranks}, *job.w);
  Measured out;
  out.provenance.device = "NVIDIA H100 80GB HBM3";
  out.provenance.device_kind = "cuda";
  out.provenance.ranks = ranks;
  for (const PlannedPiece& p : plan.pieces) {
    const double s = seconds(p);
    if (s > 0) out.pieces.push_back(took(p.piece, s));
  }
  return out;
}

HybridProjection answer(SmallJob& job, const Measured& m) {
  return project(job.checked, job.calibration, m, {}, *job.w);
}

double share(const HybridProjection& p, Origin o) {
  return p.hybrid.share[static_cast<std::size_t>(o)];
}

bool is_kernel(const PlannedPiece& p) {
  return p.piece.kind() != PieceKind::block && p.piece.kind() != PieceKind::memory;
}

std::unique_ptr<SmallJob> dense() {
  return small_job("llama3.1-8b", "h100-sxm-1x8", {1, 32, 4096}, {.tp = 2, .pp = 2});
}

// Every kernel and exchange at the model's own time is the simulation.
TEST(Hybrid, TheModelsOwnTimesGiveTheSimulation) {
  for (const auto& job :
       {dense(),
        small_job("llama3.1-8b", "h100-sxm-1x8", {1, 32, 4096},
                  {.tp = 4, .sequence_parallel = true}),
        small_job("mixtral-8x7b", "h100-sxm-4x8", {1, 64, 4096}, {.pp = 4, .ep = 8})}) {
    const Measured m = measured_by(
        *job, 8, [](const PlannedPiece& p) { return is_kernel(p) ? p.modelled.value : 0; });
    const HybridProjection p = answer(*job, m);
    EXPECT_NEAR(p.projection.time.step / p.simulated.time.step, 1, 1e-9);
    EXPECT_NEAR(p.projection.time.compute / p.simulated.time.compute, 1, 1e-9);
    EXPECT_GT(share(p, Origin::measured), 0.85);
    EXPECT_NEAR(std::accumulate(p.hybrid.share.begin(), p.hybrid.share.end(), 0.0), 1, 1e-12);
    EXPECT_DOUBLE_EQ(p.hybrid.unattributed.value, 0);
  }
}

// The same for models of every kind of mixer and feed-forward, and for cuts of every kind.
TEST(Hybrid, TheModelsOwnTimesGiveTheSimulationOfEveryKindOfModel) {
  struct Case {
    const char* model;
    parallel::ParallelSpec parallel;
    const char* recipe;
  };
  const Case cases[] = {{"deepseek-v2-lite", {.ep = 8}, "bf16"},
                        {"deepseek-v3", {.ep = 8}, "fp8"},
                        {"qwen3-next-80b-a3b", {.ep = 8}, "bf16"},
                        {"gpt-oss-20b", {.ep = 8}, "bf16"},
                        {"gemma2-9b", {.tp = 2}, "bf16"},
                        {"nemotron-h-8b", {.tp = 2}, "bf16"},
                        {"llama3.1-8b", {.tp = 2, .cp = 2}, "bf16"},
                        {"llama3.1-8b", {.pp = 2, .vpp = 4}, "bf16"},
                        {"llama3.1-8b", {.tp = 8, .sequence_parallel = true}, "fp8"}};
  int legal = 0;
  for (const Case& c : cases) {
    auto job = std::make_unique<SmallJob>();
    const auto model = reader::load_model(c.model);
    ASSERT_TRUE(model) << c.model;
    job->spec.model = *model;
    job->spec.framework = *reader::load_framework("megatron");
    job->spec.cluster = *reader::load_cluster("h100-sxm-4x8");
    job->spec.batch = {1, 64, 4096};
    job->spec.parallel = c.parallel;
    if (c.recipe == std::string("fp8")) job->spec.precision = job::Recipe::fp8_blockwise;
    job->check();
    ++legal;
    const Measured m = measured_by(
        *job, 32, [](const PlannedPiece& p) { return is_kernel(p) ? p.modelled.value : 0; });
    const HybridProjection p = answer(*job, m);
    EXPECT_NEAR(p.projection.time.step / p.simulated.time.step, 1, 1e-9) << c.model;
    EXPECT_GT(share(p, Origin::measured), 0.35) << c.model;  // launches are the host's
    EXPECT_NEAR(std::accumulate(p.hybrid.share.begin(), p.hybrid.share.end(), 0.0), 1, 1e-12);
  }
  EXPECT_EQ(legal, 9);
}

TEST(Hybrid, TwiceTheTimesIsTwiceTheCompute) {
  const auto job = dense();
  const Measured m = measured_by(
      *job, 8, [](const PlannedPiece& p) { return is_kernel(p) ? 2 * p.modelled.value : 0; });
  const HybridProjection p = answer(*job, m);
  const double kappa = job->spec.framework.overlap.contention;
  // Nothing hides behind this job's compute, so contention adds nothing.
  ASSERT_GE(kappa, 0);
  EXPECT_NEAR(p.projection.time.compute / p.simulated.time.compute, 2, 1e-9);
  EXPECT_NEAR(p.projection.time.exposed.tp / p.simulated.time.exposed.tp, 2, 1e-9);
}

TEST(Hybrid, NothingMeasuredIsTheSimulationAndSaysSo) {
  const auto job = dense();
  Measured m;
  m.provenance.device = "NVIDIA H100";
  m.provenance.device_kind = "cuda";
  const HybridProjection p = answer(*job, m);
  EXPECT_DOUBLE_EQ(p.projection.time.step.value, p.simulated.time.step.value);
  EXPECT_DOUBLE_EQ(share(p, Origin::modelled), 1);
  EXPECT_DOUBLE_EQ(p.hybrid.narrowing, 1);
  EXPECT_DOUBLE_EQ(p.projection.confidence.step.first.value,
                   p.simulated.confidence.step.first.value);
  EXPECT_TRUE(std::any_of(p.projection.warnings.begin(), p.projection.warnings.end(),
                          [](const Warning& w) { return w.code == "nothing-measured-matches"; }));
}

// One product of bf16 measured at 1.2 times the model. w = 1 * 0.09 / (0.09 + 0.01) = 0.9: every
// other product takes exp(0.9 ln 1.2) = 1.178322 of its model.
TEST(Hybrid, OnePointCalibratesItsFamilyByTheStatedRule) {
  const auto job = dense();
  prepare(job->checked, *job->w);
  const Pricing pricing = make_pricing(job->checked, job->calibration);
  ops::Op other;
  other.work = ops::Gemm{.m = 512, .n = 512, .k = 512, .dtype = DType::bf16};
  const Piece piece = *piece_of(other, nullptr, job->checked, 1);
  Measured m;
  m.pieces.push_back(took(piece, 1.2 * price(other, pricing)));
  MeasuredPrices prices(job->checked, pricing, m, *job->w);
  EXPECT_EQ(prices.price(other, nullptr).origin, Origin::measured);
  ops::Op asked;
  asked.work = ops::Gemm{.m = 4096, .n = 4096, .k = 4096, .dtype = DType::bf16};
  const Priced p = prices.price(asked, nullptr);
  EXPECT_EQ(p.origin, Origin::calibrated);
  EXPECT_NEAR(p.seconds / price(asked, pricing), std::exp(0.9 * std::log(1.2)), 1e-12);
  // s = 0.1, (1 - w) T^2 = 0.1 * 0.09.
  EXPECT_NEAR(p.error, std::sqrt(0.01 + 0.009), 1e-12);
  // Another format is another family.
  asked.work = ops::Gemm{.m = 4096, .n = 4096, .k = 4096, .dtype = DType::fp32};
  EXPECT_EQ(prices.price(asked, nullptr).origin, Origin::modelled);
}

// An elementwise kernel is a straight line in its bytes: 3 of 2..4 MB, at ratios 1.2 and 1.4,
// is 1.3 times the model.
TEST(Hybrid, BetweenTwoNeighboursTheRatioIsTheirMeanByThatSize) {
  const auto job = dense();
  prepare(job->checked, *job->w);
  const Pricing pricing = make_pricing(job->checked, job->calibration);
  const auto copy = [](double bytes) {
    ops::Op op;
    op.pass = ops::Pass::step;
    op.work = ops::Elementwise{Bytes{bytes}, ops::ElementwiseClass::streaming};
    return op;
  };
  Measured m;
  for (const auto& [bytes, ratio] :
       {std::pair{2e6, 1.2}, std::pair{4e6, 1.4}, std::pair{2e7, 2.0}}) {
    const ops::Op op = copy(bytes);
    m.pieces.push_back(took(*piece_of(op, nullptr, job->checked, 1), ratio * price(op, pricing)));
  }
  MeasuredPrices prices(job->checked, pricing, m, *job->w);
  const Priced p = prices.price(copy(3e6), nullptr);
  EXPECT_EQ(p.origin, Origin::interpolated);
  EXPECT_NEAR(p.seconds / price(copy(3e6), pricing), 1.3, 1e-12);
  ASSERT_EQ(prices.interpolations().size(), 1U);
  EXPECT_NE(prices.interpolations()[0].below.find("b2000000"), std::string::npos);
  // 4 and 20 MB are more than a factor 4 apart.
  EXPECT_EQ(prices.price(copy(8e6), nullptr).origin, Origin::calibrated);
}

// A product's time has steps, a wave of tiles each. Between two sizes it is interpolated exactly
// where the model's own curve is within 5 % of the line between them.
TEST(Hybrid, WhereTheModelBendsNothingIsInterpolated) {
  const auto job = dense();
  prepare(job->checked, *job->w);
  const Pricing pricing = make_pricing(job->checked, job->calibration);
  const auto product = [](double rows) {
    ops::Op op;
    op.work = ops::Gemm{.m = rows, .n = 4096, .k = 4096, .dtype = DType::bf16};
    return op;
  };
  constexpr double kLow = 512;
  constexpr double kHigh = 2048;
  Measured m;
  for (const double rows : {kLow, kHigh}) {
    const ops::Op op = product(rows);
    m.pieces.push_back(took(*piece_of(op, nullptr, job->checked, 1), price(op, pricing)));
  }
  MeasuredPrices prices(job->checked, pricing, m, *job->w);
  int bends = 0;
  int straight = 0;
  for (double rows = kLow + 64; rows < kHigh; rows += 64) {
    const double model = price(product(rows), pricing);
    const double low = price(product(kLow), pricing);
    const double chord =
        low + (rows - kLow) / (kHigh - kLow) * (price(product(kHigh), pricing) - low);
    const bool bent = std::abs(chord - model) > 0.05 * model;
    (bent ? bends : straight) += 1;
    EXPECT_EQ(prices.price(product(rows), nullptr).origin,
              bent ? Origin::calibrated : Origin::interpolated)
        << rows;
  }
  EXPECT_GT(bends, 0);
  EXPECT_GT(straight, 0);
}

// 15 samples between 11 and 26 of them, at 11 and 26 ms: 15 ms. 11 * (15 / 11) is not 15 in
// doubles.
TEST(Hybrid, ABlockIsInterpolatedBetweenAnyTwoNumbersOfSamples) {
  const auto job = small_job("llama3.1-8b", "h100-sxm-1x8", {15, 60, 4096},
                             {.tp = 2, .sequence_parallel = true});
  const auto is_layer = [](const PlannedPiece& p) {
    return p.id.find("block/layer/forward") == 0 ? 1.0 : 0;
  };
  Measured m = measured_by(*job, 1, is_layer);
  ASSERT_EQ(m.pieces.size(), 1U);
  const MeasuredPiece asked = m.pieces[0];
  m.pieces.clear();
  for (const double samples : {11.0, 26.0}) {
    MeasuredPiece& each = m.pieces.emplace_back(asked);
    auto& block = std::get<calibration::BlockPiece>(each.piece.work);
    block.tokens = samples * 4096;
    block.shard_tokens = samples * 2048;
    each.median = Seconds{samples * 1e-3};
  }
  const HybridProjection p = answer(*job, m);
  ASSERT_EQ(p.hybrid.spans.size(), 1U);
  EXPECT_EQ(p.hybrid.spans[0].origin, Origin::interpolated);
  EXPECT_NEAR(p.hybrid.spans[0].measured.value, 15e-3, 1e-12);
  EXPECT_EQ(p.hybrid.interpolations.size(), 1U);
  // Shards that are not cut as the job's are another module.
  std::get<calibration::BlockPiece>(m.pieces[0].piece.work).shard_tokens = 0;
  EXPECT_TRUE(answer(*job, m).hybrid.spans.empty());
}

// Eight H100s are one domain: what 16 ranks took crossed a network, and says nothing of its links.
TEST(Hybrid, ExchangesOfMoreRanksThanADomainHasSayNothingOfOne) {
  const auto job = dense();
  const auto of_ranks = [](double ranks) {
    Measured m;
    m.pieces.push_back(
        took({calibration::CollectivePiece{ops::CollectiveKind::all_reduce, ranks, 67108864},
              DType::fp32},
             1));
    return m;
  };
  prepare(job->checked, *job->w);
  const Pricing pricing = make_pricing(job->checked, job->calibration);
  const Measured within = of_ranks(8);
  EXPECT_EQ(MeasuredPrices(job->checked, pricing, within, *job->w).families().size(), 1U);
  const Measured across = of_ranks(16);
  EXPECT_TRUE(MeasuredPrices(job->checked, pricing, across, *job->w).families().empty());
}

// A layer measured at 1.5 times its kernels takes that, forward and backward; the difference is
// nobody's, and the modules keep their kernels' times.
TEST(Hybrid, AMeasuredBlockReplacesItsKernelsAndTheRestIsUnattributed) {
  const auto job = dense();
  double layer = 0;
  const Measured m = measured_by(*job, 1, [&](const PlannedPiece& p) {
    const bool is_layer = p.id.find("block/layer") == 0;
    if (is_layer) layer += p.modelled.value;
    return is_layer ? 1.5 * p.modelled.value : 0;
  });
  const HybridProjection p = answer(*job, m);
  const double layers = 16 * 16;  // of a stage, and micro-batches: 32 sequences of 2 replicas
  EXPECT_NEAR(p.hybrid.unattributed.value, 0.5 * layer * layers, 1e-9 * layer * layers);
  EXPECT_NEAR((p.projection.time.compute - p.simulated.time.compute).value, 0.5 * layer * layers,
              1e-9 * layer * layers);
  ASSERT_EQ(p.hybrid.spans.size(), 2U);
  EXPECT_DOUBLE_EQ(p.hybrid.spans[0].count, layers);
  constexpr auto kMlpIn = static_cast<std::size_t>(ops::Module::mlp_in);
  EXPECT_NEAR(p.projection.time.by_module[kMlpIn] / p.simulated.time.by_module[kMlpIn], 1, 1e-9);
  EXPECT_GT(share(p, Origin::measured), 0.5);
  EXPECT_LT(p.hybrid.narrowing, 1);
  EXPECT_NEAR(std::accumulate(p.hybrid.share.begin(), p.hybrid.share.end(), 0.0), 1, 1e-12);
}

// Halves of a layer stand for it where it was not measured whole.
TEST(Hybrid, HalvesOfALayerStandForIt) {
  const auto job = dense();
  const Measured m = measured_by(*job, 1, [](const PlannedPiece& p) {
    const bool half = p.id.find("block/mlp") == 0 || p.id.find("block/attention") == 0;
    return half ? p.modelled.value : 0;
  });
  const HybridProjection p = answer(*job, m);
  EXPECT_EQ(p.hybrid.spans.size(), 4U);
  EXPECT_NEAR(p.projection.time.compute / p.simulated.time.compute, 1, 1e-9);
}

// Launches and a layer's Python are inside a measured module. With a host that would take ten times
// the device it is still the host that sets the pace.
TEST(Hybrid, TheHostIsNotAddedToAMeasuredBlock) {
  const auto job = dense();
  job->spec.framework.host.overlap_exponent = 1;  // device and host one after the other
  const auto whole_layers = [](const PlannedPiece& p) {
    return p.id.find("block/") == 0 && p.id.find("/mlp/") == std::string::npos &&
                   p.id.find("/attention/") == std::string::npos
               ? p.modelled.value
               : 0;
  };
  const Measured m = measured_by(*job, 1, whole_layers);
  HybridProjection p = answer(*job, m);
  const framework::HostCosts& host = job->spec.framework.host;
  // What is no part of a module: sends that block, and a micro-batch's own Python.
  const double left =
      2 * 16 * (host.per_micro_batch + host.per_blocking_send).value + host.per_step.value;
  EXPECT_NEAR(p.projection.time.launch.value, left, 1e-9);
  EXPECT_GT(p.simulated.time.launch.value, 1.1 * left);
  job->spec.framework.host.per_layer = Seconds{0.1};
  p = answer(*job, m);
  // 16 layers of 0.1 s, forward and backward, 16 micro-batches.
  EXPECT_GE(p.projection.time.step.value, 16 * 0.1 * 2 * 16);
}

// Two sizes of an all-reduce on 2 ranks at 3 times the model's fixed part and 2 times the rest: 4
// ranks take as much of theirs.
TEST(Hybrid, LinksFittedOnFewRanksPriceLargerGroups) {
  const auto job = dense();
  prepare(job->checked, *job->w);
  const Pricing pricing = make_pricing(job->checked, job->calibration);
  const auto model = [&](int ranks, double bytes) {
    collective::GroupPlacement at;
    at.size = ranks;
    at.members.push_back(ranks);
    return collective::time_of(ops::CollectiveKind::all_reduce, Bytes{bytes}, at, pricing.links)
        .value;
  };
  const auto slower = [&](int ranks, double bytes) {
    return 3 * model(ranks, 1) + 2 * (model(ranks, bytes) - model(ranks, 1));
  };
  Measured m;
  for (const double bytes : {1e6, 1e8}) {
    const calibration::CollectivePiece piece{ops::CollectiveKind::all_reduce, 2, bytes};
    m.pieces.push_back(took({piece, DType::fp32}, slower(2, bytes)));
  }
  MeasuredPrices prices(job->checked, pricing, m, *job->w);
  collective::GroupPlacement four;
  four.size = 4;
  four.members.push_back(4);
  const Priced p = prices.link(ops::CollectiveKind::all_reduce, Bytes{1e7}, four);
  EXPECT_EQ(p.origin, Origin::calibrated);
  EXPECT_NEAR(p.seconds, slower(4, 1e7), 1e-9);
  const Priced other = prices.link(ops::CollectiveKind::all_gather, Bytes{1e7}, four);
  EXPECT_EQ(other.origin, Origin::modelled);
}

// The weights' gradients apart from the rest: kernels at the model's own times are the simulation,
// and a measured backward is cut as the model cuts it.
TEST(Hybrid, ABackwardInHalvesIsOneMeasuredBackward) {
  const auto job = dense();
  job->spec.schedule.algorithm = "zb-h1";
  job->check();
  const Measured kernels = measured_by(
      *job, 8, [](const PlannedPiece& p) { return is_kernel(p) ? p.modelled.value : 0; });
  HybridProjection p = answer(*job, kernels);
  EXPECT_NEAR(p.projection.time.step / p.simulated.time.step, 1, 1e-9);
  const Measured layers = measured_by(*job, 1, [](const PlannedPiece& piece) {
    return piece.id.find("block/layer") == 0 ? 2 * piece.modelled.value : 0;
  });
  p = answer(*job, layers);
  double both = 0;
  for (const SpanRow& s : p.hybrid.spans) both += (s.measured - s.kernels).value * s.count;
  EXPECT_NEAR(both, p.hybrid.unattributed.value, 1e-12);
  EXPECT_NEAR((p.projection.time.compute - p.simulated.time.compute).value, both, 1e-6 * both);
}

// A layer that is recomputed in full, measured without: one more forward in its backward.
TEST(Hybrid, FullRecomputationIsOneMoreForward) {
  const auto plain = dense();
  double forward = 0;
  double backward = 0;
  const Measured m = measured_by(*plain, 1, [&](const PlannedPiece& p) {
    if (p.id.find("block/layer") != 0) return 0.0;
    const bool first = p.id.find("/forward/") != std::string::npos;
    (first ? forward : backward) = 1.3 * p.modelled.value;
    return 1.3 * p.modelled.value;
  });
  const auto again = dense();
  again->spec.recompute.granularity = job::Granularity::full;
  again->check();
  const HybridProjection p = answer(*again, m);
  ASSERT_EQ(p.hybrid.spans.size(), 2U);
  EXPECT_NEAR(p.hybrid.spans[0].measured.value, forward, 1e-12);
  EXPECT_NEAR(p.hybrid.spans[1].measured.value, backward + forward, 1e-12);
}

// What was restored adds up to the step.
TEST(Hybrid, RestoredTermsSumToTheStep) {
  for (const auto& job :
       {dense(), small_job("mixtral-8x7b", "h100-sxm-4x8", {1, 64, 4096}, {.pp = 4, .ep = 8})}) {
    const Measured m = measured_by(*job, 1, [](const PlannedPiece& p) { return p.modelled.value; });
    const HybridProjection p = answer(*job, m);
    double sum = 0;
    for (const RestoredTerm& t : p.hybrid.restored) {
      EXPECT_FALSE(t.how.empty());
      EXPECT_GE(t.seconds.value, -1e-12) << t.what;
      sum += t.seconds.value;
    }
    EXPECT_NEAR(sum / p.projection.time.step.value, 1, 1e-9);
  }
}

// A device that held 10 % more than the model says, 25 % of it in reserve, and 1 GB of context
// more.
TEST(Hybrid, MemoryIsAnchoredByTheSmallJob) {
  const auto job = dense();
  Plan plan = plan_of(job->checked, job->calibration, {}, *job->w);
  job::CheckedJob small;
  ASSERT_TRUE(job::check(plan.small.spec, small).empty());
  const MemoryAnswer model = project(small, job->calibration, {}, *job->w).memory;
  const Bytes context = model.device_peak - model.reserved_peak;
  Measured m;
  m.provenance.device_kind = "cuda";
  m.provenance.device = "NVIDIA H100";
  for (const PlannedPiece& p : plan.pieces) {
    if (p.piece.kind() != PieceKind::memory) continue;
    MeasuredPiece piece = took(p.piece, 0);
    piece.peak = model.allocated_peak * 1.1;
    piece.reserved = piece.peak * 1.25;
    piece.context = context + Bytes{1e9};
    m.pieces.push_back(piece);
  }
  const HybridProjection p = answer(*job, m);
  const MemoryAnchor& a = p.hybrid.memory;
  ASSERT_EQ(a.phases, 4);
  const MemoryAnswer& target = p.projection.memory;
  const double own = model.reserved_peak / model.allocated_peak;
  const Bytes beside = target.device_peak - target.reserved_peak;
  EXPECT_NEAR(a.device_peak.value,
              (target.reserved_peak * (1.25 / own) + beside + Bytes{1e9}).value, 1);
  EXPECT_NEAR(a.upper_bound.value,
              (target.reserved_peak * (1.25 / own * 1.1) + beside + Bytes{1e9}).value, 1);
}

TEST(Hybrid, AnotherPartOlderSoftwareAndNoiseAreSaid) {
  const auto job = dense();
  Measured m = measured_by(*job, 1, [](const PlannedPiece& p) { return p.modelled.value; });
  m.provenance.device = "NVIDIA A100-SXM4-80GB";
  m.provenance.date_utc = "2020-01-02T03:04:05Z";
  m.provenance.noisy = true;
  job->spec.framework.generation = "2026.06";
  const HybridProjection p = answer(*job, m);
  const auto said = [&](const char* code) {
    const auto& all = p.projection.warnings;
    return std::any_of(all.begin(), all.end(), [&](const Warning& w) { return w.code == code; });
  };
  EXPECT_TRUE(said("measured-on-another-part"));
  EXPECT_TRUE(said("measured-with-other-software"));
  EXPECT_TRUE(said("measured-on-a-noisy-machine"));
  m.provenance = {};
  m.provenance.device = "NVIDIA H100 80GB HBM3";
  m.provenance.device_kind = "cuda";
  const HybridProjection fine = answer(*job, m);
  EXPECT_TRUE(std::none_of(fine.projection.warnings.begin(), fine.projection.warnings.end(),
                           [](const Warning& w) { return w.code.find("measured-") == 0; }));
}

}  // namespace
}  // namespace eratos::projection
