// Layers chosen stage by stage against every choice there is, each projected by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../projection/spread.h"
#include "eratos/base/rng.h"
#include "eratos/base/units.h"
#include "eratos/calibration/calibration.h"
#include "eratos/job/job.h"
#include "eratos/lower/program_set.h"
#include "eratos/memory/memory.h"
#include "eratos/model/architecture.h"
#include "eratos/ops/stage.h"
#include "eratos/parallel/parallel.h"
#include "eratos/projection/projection.h"
#include "eratos/projection/time.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/sayable.h"
#include "eratos/search/axes.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/layer_plans.h"
#include "eratos/search/layers.h"
#include "eratos/search/space.h"
#include "search/jobs.h"

namespace eratos::search {
namespace {

// Every way to write `layers` as `ranks` parts of `least` or more.
std::vector<std::vector<int>> deals_of(int layers, int ranks, int least_of_last) {
  std::vector<std::vector<int>> out;
  std::vector<int> parts(static_cast<std::size_t>(ranks), 1);
  const auto rest = [&](auto self, std::size_t i, int left) -> void {
    if (i + 1 == parts.size()) {
      if (left < least_of_last) return;
      parts[i] = left;
      out.push_back(parts);
      return;
    }
    for (int n = 1; n <= left; ++n) {
      parts[i] = n;
      self(self, i + 1, left - n);
    }
  };
  rest(rest, 0, layers);
  return out;
}

job::LayoutSpec layout_of(const job::JobSpec& s, const std::vector<int>& deal) {
  job::LayoutSpec out;
  for (const int n : deal) out.stages.push_back({n, 0, false, false});
  out.stages.front().embedding = true;
  out.stages.back().output = true;
  if (s.mtp) out.stages.back().mtp = s.model.mtp_layers;
  return out;
}

// A few layers of a drawn job's model on one to four ranks; nothing where that is no legal job.
std::optional<job::JobSpec> small_job(const job::JobSpec& from, Rng& rng) {
  job::JobSpec s = from;
  const int layers = 3 + static_cast<int>(rng.below(4));
  if (s.model.layers() < layers) return std::nullopt;
  const std::size_t first = rng.below(static_cast<std::size_t>(s.model.layers() - layers + 1));
  s.model.pattern.assign(from.model.pattern.begin() + static_cast<std::ptrdiff_t>(first),
                         from.model.pattern.begin() + static_cast<std::ptrdiff_t>(first) + layers);
  s.parallel.pp = 1 + static_cast<int>(rng.below(4));
  s.parallel.vpp = 1;
  s.schedule = {};
  if (s.parallel.pp > 1 && rng.below(5) == 0) s.schedule.algorithm = "gpipe";
  s.routing.balance = job::Balance::balanced;
  s.recompute = {};
  if (rng.below(4) == 0) s.offload.layers = 1 + static_cast<int>(rng.below(3));
  if (rng.below(4) == 0) s.narrow.bf16_first_layers = 1;
  const int rest = s.parallel.tp * s.parallel.cp * s.parallel.pp;
  if (s.cluster.gpus() % rest != 0) return std::nullopt;
  s.batch.global = s.batch.micro * (s.cluster.gpus() / rest) * (1 + static_cast<int>(rng.below(9)));
  if (layers < s.parallel.pp) return std::nullopt;
  s.layout = layout_of(s, deals_of(layers, s.parallel.pp, 1)[0]);
  if (Layers::refusal(s)) return std::nullopt;
  return s;
}

job::RecomputeSpec some_layers(unsigned set, int layers) {
  job::RecomputeSpec r;
  for (int i = 0; i < layers; ++i) {
    if ((set >> i & 1U) != 0) r.layer_ids.push_back(i);
  }
  if (!r.layer_ids.empty()) r.granularity = job::Granularity::full;
  return r;
}

struct Judge {
  const calibration::Calibration& calibration;
  projection::WorkspacePtr workspace = projection::make_workspace();
  std::unique_ptr<job::CheckedJob> checked = std::make_unique<job::CheckedJob>();

  projection::Projection of(const job::JobSpec& s) {
    const Diagnostics faults = job::check(s, *checked);
    EXPECT_TRUE(faults.empty()) << (faults.empty() ? "" : to_text(faults[0]));
    return projection::project(*checked, calibration, {}, *workspace);
  }
};

LayerPlan plan_of(const job::JobSpec& s, const LayerMode& mode, bool deals,
                  const calibration::Calibration& calibration) {
  Layers layers(s, mode, deals, calibration, {});
  while (layers.advance()) {
  }
  EXPECT_EQ(layers.lower_bound(), layers.plan().step);
  return layers.plan();
}

job::JobSpec with(const LayerPlan& plan, job::JobSpec s) {
  s.recompute = plan.recompute;
  s.layout = plan.layout;
  return s;
}

// Hundreds of small jobs: no split and no set of layers is faster than the plan, and the plan is what
// its job projects to.
TEST(Layers, EqualBruteForce) {
  projection::Spread spread(91);
  Rng rng(92);
  int answered = 0;
  int recomputed = 0;
  int nothing = 0;
  for (int i = 0; answered + nothing < 400; ++i) {
    const projection::DrawnJob drawn = spread.next();
    std::optional<job::JobSpec> small = small_job(drawn.spec, rng);
    if (!small) continue;
    job::JobSpec& s = *small;
    Judge judge{spread.calibrations[drawn.part]};
    const int layers = s.model.layers();
    const int least_of_last = s.mtp && s.model.mtp_layers > 0 ? 0 : 1;
    const auto deals = deals_of(layers, s.parallel.pp, least_of_last);
    // A limit between what the job needs with nothing and with everything recomputed.
    const Bytes most = judge.of(s).memory.least_peak;
    s.recompute = some_layers(~0U, layers);
    const Bytes least = judge.of(s).memory.least_peak;
    s.recompute = {};
    s.cluster.accelerator.memory_visible =
        (least + (most - least) * (1.15 * rng.uniform() - 0.1)) / 0.95;
    double best = StageSearch::kNever;
    std::vector<int> best_deal;
    unsigned best_set = 0;
    for (const std::vector<int>& deal : deals) {
      for (unsigned set = 0; set < 1U << layers; ++set) {
        job::JobSpec one = s;
        one.layout = layout_of(s, deal);
        one.recompute = some_layers(set, layers);
        const projection::Projection p = judge.of(one);
        if (p.memory.fits && p.time.step.value < best) {
          best = p.time.step.value;
          best_deal = deal;
          best_set = set;
        }
      }
    }
    const LayerPlan plan = plan_of(s, {}, true, judge.calibration);
    if (best == StageSearch::kNever) {
      ASSERT_TRUE(plan.stages.empty()) << s.model.name;
      ++nothing;
      continue;
    }
    ASSERT_FALSE(plan.stages.empty()) << s.model.name;
    const projection::Projection mine = judge.of(with(plan, s));
    ASSERT_TRUE(mine.memory.fits) << s.model.name;
    ASSERT_EQ(mine.time.step.value, plan.step) << s.model.name;
    // Layers that are alike are added up in another order.
    ASSERT_NEAR(plan.step / best, 1, 1e-11)
        << s.model.name << " " << s.framework.name << " pp " << s.parallel.pp << ", best deal "
        << testing::PrintToString(best_deal) << " set " << best_set << ", plan "
        << testing::PrintToString(plan.recompute.layer_ids) << " block " << plan.recompute.layers
        << " offloaded " << s.offload.layers;
    ++answered;
    if (plan.recompute.granularity == job::Granularity::full) ++recomputed;
  }
  EXPECT_GT(answered, 200);
  EXPECT_GT(recomputed, 80);
  EXPECT_GT(nothing, 5);
}

// What the header assumes of a layer that is recomputed, over every architecture of the catalogue and
// every framework.
TEST(Layers, ARecomputedLayerTakesLongerAndKeepsLess) {
  projection::Spread spread(95);
  const auto checked = std::make_unique<job::CheckedJob>();
  int kinds = 0;
  for (int i = 0; i < 1500; ++i) {
    projection::DrawnJob drawn = spread.next();
    job::JobSpec& s = drawn.spec;
    s.parallel.vpp = 1;
    s.schedule = {};
    s.recompute = {};
    if (!job::check(s, *checked).empty()) continue;
    const projection::Pricing pricing =
        projection::make_pricing(*checked, spread.calibrations[drawn.part]);
    lower::ProgramSet set;
    set.start(*checked, 1);
    ops::LoweredJob lowered;
    for (std::size_t kind = 0; kind < s.model.blocks.size(); ++kind) {
      std::vector<memory::ProgramMemory> held(2);
      std::vector<projection::ProgramTime> times(2);
      for (std::size_t full = 0; full < 2; ++full) {
        const std::uint16_t at = set.find({.role = lower::Role::layer,
                                           .kind = static_cast<std::uint8_t>(kind),
                                           .variant = {.full = full == 1}},
                                          lowered);
        const ops::Program& p = lowered.programs[at];
        memory::walk(p, s.framework.memory.allocator_rounding, false, held[full]);
        projection::time_program(p, pricing, false, times[full]);
      }
      const std::string name = s.model.name + " " + s.framework.name;
      EXPECT_LE(held[1].saved, held[0].saved) << name;
      EXPECT_GE(held[1].backward_peak - held[1].saved,
                max(held[0].forward_peak, held[0].backward_peak) - held[0].saved)
          << name;
      EXPECT_GE(times[1].backward.device(), times[0].backward.device()) << name;
      EXPECT_GE(times[1].backward.kernels, times[0].backward.kernels) << name;
      EXPECT_EQ(times[1].forward.device(), times[0].forward.device()) << name;
      ++kinds;
    }
  }
  EXPECT_GT(kinds, 1500);
}

// `first`: as many of each stage; `all`: a set of modules on every layer, its split alone chosen.
TEST(Layers, TheOtherModesEqualBruteForce) {
  projection::Spread spread(97);
  Rng rng(98);
  int answered = 0;
  while (answered < 120) {
    const projection::DrawnJob drawn = spread.next();
    std::optional<job::JobSpec> small = small_job(drawn.spec, rng);
    if (!small) continue;
    job::JobSpec& s = *small;
    s.offload.layers = 0;
    Judge judge{spread.calibrations[drawn.part]};
    s.cluster.accelerator.memory_visible =
        judge.of(s).memory.least_peak * ((0.7 + 0.4 * rng.uniform()) / 0.95);
    const bool first = rng.below(2) == 0;
    LayerMode mode{first ? LayerMode::What::first : LayerMode::What::all, {}};
    mode.recompute.granularity = first || rng.below(2) == 0 ? job::Granularity::full
                                                            : job::Granularity::selective;
    // Layers by their numbers, wherever they stand.
    const bool some = !first && mode.recompute.granularity == job::Granularity::full &&
                      rng.below(2) == 0;
    for (int i = 1; some && i < s.model.layers(); i += 2) mode.recompute.layer_ids.push_back(i);
    double best = StageSearch::kNever;
    for (const std::vector<int>& deal :
         deals_of(s.model.layers(), s.parallel.pp, s.mtp && s.model.mtp_layers > 0 ? 0 : 1)) {
      for (int k = 0; k <= (first ? s.model.layers() : 0); ++k) {
        job::JobSpec one = s;
        one.layout = layout_of(s, deal);
        one.recompute = mode.recompute;
        if (first) one.recompute.method = job::RecomputeMethod::block;
        if (first) one.recompute.layers = k;
        const projection::Projection p = judge.of(one);
        if (p.memory.fits) best = std::min(best, p.time.step.value);
      }
    }
    const LayerPlan plan = plan_of(s, mode, true, judge.calibration);
    ASSERT_EQ(plan.stages.empty(), best == StageSearch::kNever) << s.model.name;
    if (plan.stages.empty()) continue;
    const projection::Projection mine = judge.of(with(plan, s));
    ASSERT_TRUE(mine.memory.fits);
    ASSERT_EQ(plan.recompute.layer_ids, mode.recompute.layer_ids);
    ASSERT_EQ(mine.time.step.value, plan.step) << s.model.name;
    ASSERT_NEAR(plan.step / best, 1, 1e-11) << s.model.name;
    ++answered;
  }
}

// Llama 3.1 8B on four stages of which the first holds four micro-batches: with less memory the first
// stages recompute more, and the answer is never faster for it.
TEST(Layers, LessMemoryIsNeverFaster) {
  job::JobSpec s = job_of("llama3.1-8b", "h100-sxm-1x8", 64);
  s.parallel.pp = 4;
  s.batch.sequence = 8192;
  const calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
  double before = 0;
  int recomputed = 0;
  std::ptrdiff_t most = 0;
  for (const double room : {75.0, 55.0, 47.0, 43.0, 39.0, 35.0}) {
    s.cluster.accelerator.memory_visible = gib(room / 0.95);
    const LayerPlan plan = plan_of(s, {}, true, calibration);
    ASSERT_FALSE(plan.stages.empty()) << room;
    EXPECT_GE(plan.step, before) << room;
    before = plan.step;
    if (plan.recompute.granularity == job::Granularity::full) ++recomputed;
    const auto again = [&](std::size_t stage) {
      return std::count(plan.stages[stage].full.begin(), plan.stages[stage].full.end(), 1);
    };
    EXPECT_GE(again(0), most) << room;
    EXPECT_GE(again(0), again(3)) << room;
    most = again(0);
    int layers = 0;
    for (const StagePlan& stage : plan.stages) {
      EXPECT_EQ(stage.first, layers);
      layers += static_cast<int>(stage.full.size());
      // The first ones of a stage.
      EXPECT_TRUE(std::is_sorted(stage.full.rbegin(), stage.full.rend()));
    }
    EXPECT_EQ(layers, 32);
  }
  EXPECT_GE(recomputed, 4);
  EXPECT_GE(most, 6);
}

// What a framework's file cannot say is no mode: Primus takes any layers, Megatron-LM the first of
// every stage, torchtitan every second, third or fourth.
TEST(Layers, ModesAreWhatTheFrameworksFileSays) {
  const auto modes_of = [](const char* framework, LayerFreedom& freedom) {
    job::JobSpec s = job_of("llama3.1-8b", "h100-sxm-1x8", 64);
    s.framework = *reader::load_framework(framework);
    std::vector<std::string> words;
    for (const AxisFacts& f : kAxisFacts) {
      if (f.id != AxisId::recompute && f.id != AxisId::split)
        words.push_back(std::string(f.name) + "=job");
    }
    auto space = space_of(s, words);
    EXPECT_TRUE(space);
    reader::keep_sayable(*space);
    freedom = reader::layer_freedom(*space, reader::target_of(s.framework));
    return layer_modes(*space, freedom);
  };
  const auto apart = [](const std::vector<LayerMode>& modes) {
    return std::count_if(modes.begin(), modes.end(), [](const LayerMode& m) {
      return m.what == LayerMode::What::all && !m.recompute.layer_ids.empty();
    });
  };
  LayerFreedom freedom;
  const std::vector<LayerMode> primus = modes_of("primus-megatron", freedom);
  EXPECT_TRUE(freedom.sets && freedom.splits);
  EXPECT_EQ(primus[0].what, LayerMode::What::each);
  EXPECT_EQ(apart(primus), 0);
  const std::vector<LayerMode> megatron = modes_of("megatron", freedom);
  EXPECT_TRUE(!freedom.sets && !freedom.every && freedom.splits);
  EXPECT_EQ(megatron[0].what, LayerMode::What::first);
  EXPECT_EQ(apart(megatron), 0);
  const std::vector<LayerMode> titan = modes_of("torchtitan", freedom);
  EXPECT_TRUE(!freedom.sets && freedom.every);
  EXPECT_EQ(titan[0].what, LayerMode::What::all);
  EXPECT_EQ(apart(titan), 3);
}

struct Large {
  const char* model;
  const char* cluster;
  int tp;
  int pp;
  int ep;
  int global;
  double margins[3];
};

// The plan beside every recomputation that treats stages alike: none, each set of modules, full, and
// the first K layers of every stage, on even and on balanced stages.
TEST(Layers, AtLeastAsGoodAsEveryUniformOrBlockChoice) {
  const Large larges[] = {{"llama3.1-70b", "h100-sxm-8x8", 4, 8, 1, 128, {0.05, 0.2, 0.35}},
                          {"llama3.1-405b", "h100-sxm-128x8", 8, 16, 1, 512, {0.05, 0.2, 0.3}},
                          {"deepseek-v3", "h100-sxm-128x8", 1, 16, 64, 4096, {0.05, 0.2, 0.3}}};
  for (const Large& l : larges) {
    job::JobSpec s = job_of(l.model, l.cluster, l.global);
    s.framework = *reader::load_framework("primus-megatron");
    s.parallel.tp = l.tp;
    s.parallel.sequence_parallel = l.tp > 1;
    s.parallel.pp = l.pp;
    s.parallel.ep = l.ep;
    s.batch.sequence = model::is_moe(s.model) ? 4096 : 8192;
    if (model::is_moe(s.model)) s.routing.dispatcher = job::Dispatcher::deepep;
    std::vector<std::string> words{"recompute=none,full", "split=balanced", "rest=job"};
    for (int k = 1; k <= s.model.layers() / s.parallel.pp + 1; ++k)
      words[0] += ",full:" + std::to_string(k);
    auto space = space_of(s, words);
    ASSERT_TRUE(space);
    for (const Value& v : default_values(*space, AxisId::recompute)) {
      const auto& r = space->recomputes[static_cast<std::size_t>(v.number)];
      if (r.granularity == job::Granularity::selective) {
        space->axes[static_cast<std::size_t>(AxisId::recompute)].push_back(v);
      }
    }
    const calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
    int better = 0;
    for (const double margin : l.margins) {
      const projection::Options options{margin};
      Evaluator evaluator(*space, calibration, options);
      double alike = StageSearch::kNever;
      for (std::uint64_t i = 0; i < space->raw(); ++i) {
        const projection::Projection p = evaluator.project(candidate_at(*space, i));
        if (p.memory.fits) alike = std::min(alike, p.time.step.value);
      }
      const Space open = without_layers(*space, {});
      const std::vector<LayerMode> modes = layer_modes(*space, {});
      LayerPlans plans(open, modes, {}, 1, calibration, options);
      while (plans.advance()) {
      }
      ASSERT_TRUE(plans.counts().proven);
      ASSERT_EQ(plans.top().size(), 1U) << l.model << " " << margin;
      EXPECT_LE(plans.top()[0].plan.step, alike) << l.model << " " << margin;
      if (plans.top()[0].plan.step < alike * 0.999) ++better;
    }
    EXPECT_EQ(better, 3) << l.model;
  }
}

}  // namespace
}  // namespace eratos::search
