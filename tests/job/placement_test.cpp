// Hand-worked: which layers stand on which virtual stage.
#include <gtest/gtest.h>

#include <vector>

#include "eratos/job/job.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

std::vector<int> layers_of(const job::JobSpec& spec) {
  job::CheckedJob out;
  const Diagnostics faults = job::check(spec, out);
  EXPECT_TRUE(faults.empty()) << text_of(faults);
  std::vector<int> layers;
  int next = 0;
  for (const job::VirtualStage& s : out.stages) {
    EXPECT_EQ(s.first_layer, next);
    next += s.layers;
    layers.push_back(s.layers);
  }
  if (!out.stages.empty()) {
    EXPECT_TRUE(out.stages[0].embedding);
    EXPECT_TRUE(out.stages.back().output);
  }
  return layers;
}

std::string field_of(const job::JobSpec& spec) {
  job::CheckedJob out;
  const Diagnostics faults = job::check(spec, out);
  return faults.size() == 1 ? faults[0].field : text_of(faults);
}

using Layers = std::vector<int>;

job::JobSpec pipeline(int layers, int pp, int vpp = 1) {
  Sizes n{layers, 512, 8, 8, 64, 1024, 32000};
  job::JobSpec spec = job_of(llama(n), pp, {1, 4 * pp, 1024});
  spec.parallel.pp = pp;
  spec.parallel.vpp = vpp;
  return spec;
}

TEST(Placement, EvenStages) {
  EXPECT_EQ(layers_of(pipeline(56, 4)), (Layers{14, 14, 14, 14}));
  EXPECT_EQ(layers_of(pipeline(8, 2, 2)), (Layers{2, 2, 2, 2}));
  EXPECT_EQ(field_of(pipeline(61, 4)), "parallel.pp");
  EXPECT_EQ(field_of(pipeline(12, 4, 2)), "parallel.vpp");
}

// Llama 3.1 405B counts its embedding and loss as layers: 126 + 2 = 128 slots.
TEST(Placement, EmbeddingAndLossCountAsLayers) {
  job::JobSpec spec = pipeline(126, 8, 2);
  spec.layout.embedding_counts = true;
  spec.layout.output_counts = true;
  Layers wanted(16, 8);
  wanted.front() = wanted.back() = 7;
  EXPECT_EQ(layers_of(spec), wanted);
}

// Megatron divides each rank's layers into its chunks: 10 on the first, 6 on the last.
TEST(Placement, UnevenEnds) {
  job::JobSpec spec = pipeline(32, 4, 2);
  spec.layout.first_stage_layers = 10;
  spec.layout.last_stage_layers = 6;
  EXPECT_EQ(layers_of(spec), (Layers{5, 4, 4, 3, 5, 4, 4, 3}));
  spec.layout.first_stage_layers = 9;
  EXPECT_EQ(field_of(spec), "parallel.layout");
  spec.parallel.vpp = 1;
  spec.layout.first_stage_layers = 5;
  spec.layout.last_stage_layers = 0;
  EXPECT_EQ(layers_of(spec), (Layers{5, 9, 9, 9}));
  spec.layout.first_stage_layers = 33;
  EXPECT_EQ(field_of(spec), "parallel.layout");
}

TEST(Placement, ExplicitLayouts) {
  job::JobSpec spec = pipeline(7, 2, 2);
  spec.layout.stages = {
      {1, 0, true, false}, {3, 0, false, false}, {3, 0, false, false}, {0, 0, false, true}};
  EXPECT_EQ(layers_of(spec), (Layers{1, 3, 3, 0}));
  spec.layout.stages[3].layers = 1;
  EXPECT_EQ(field_of(spec), "parallel.layout");
  spec.layout.stages.pop_back();
  EXPECT_EQ(field_of(spec), "parallel.layout");
}

TEST(Placement, PredictionModulesStandWhereTheLayoutSays) {
  job::JobSpec spec = pipeline(4, 2);
  spec.model.mtp_layers = 1;
  job::CheckedJob out;
  ASSERT_TRUE(job::check(spec, out).empty());
  EXPECT_EQ(out.stages[1].mtp, 1);  // with the output, unless said otherwise
  spec.layout.stages = {{4, 1, true, false}, {0, 0, false, true}};
  ASSERT_TRUE(job::check(spec, out).empty());
  EXPECT_EQ(out.stages[0].mtp, 1);
  EXPECT_EQ(out.stages[1].mtp, 0);
  spec.mtp = false;
  spec.layout.stages[0].mtp = 0;
  ASSERT_TRUE(job::check(spec, out).empty());
  EXPECT_EQ(out.stages[1].mtp, 0);
}

// What Megatron asserts of an explicit layout (pipeline_parallel_layer_layout.py), nothing
// repaired.
TEST(Placement, LayoutsThatMegatronRefuses) {
  using Stages = std::vector<job::StageLayout>;
  const struct {
    const char* why;
    Stages stages;
    int mtp;
    bool train_mtp;
  } cases[] = {
      {"0 embeddings (E)", {{2, 0}, {2, 0, false, true}}, 0, true},
      {"0 outputs (L)", {{2, 0, true}, {2, 0}}, 0, true},
      {"2 embeddings (E)", {{2, 0, true}, {2, 0, true, true}}, 0, true},
      {"2 outputs (L)", {{2, 0, true, true}, {2, 0, false, true}}, 0, true},
      {"1 embeddings (E), not on the first stage", {{2, 0}, {2, 0, true, true}}, 0, true},
      {"1 outputs (L), not on the last stage", {{2, 0, true, true}, {2, 0}}, 0, true},
      {"places 3 layers, the model has 4", {{2, 0, true}, {1, 0, false, true}}, 0, true},
      {"places 5 layers, the model has 4", {{2, 0, true}, {3, 0, false, true}}, 0, true},
      {"places 1 prediction layers (m), the job trains 0",
       {{2, 0, true}, {2, 1, false, true}},
       0,
       true},
      {"places 1 prediction layers (m), the job trains 0",
       {{2, 0, true}, {2, 1, false, true}},
       1,
       false},
      {"places 0 prediction layers (m), the job trains 1",
       {{2, 0, true}, {2, 0, false, true}},
       1,
       true},
      {"places 2 prediction layers (m), the job trains 1",
       {{2, 0, true}, {2, 2, false, true}},
       1,
       true},
      {"a decoder layer (t) after a prediction layer (m)",
       {{2, 1, true}, {2, 0, false, true}},
       1,
       true},
      {"prediction layers (m) on two stages", {{4, 1, true}, {0, 1, false, true}}, 2, true},
      {"prediction layers (m) on stage 1, before the last chunk of its rank",
       {{2, 0, true}, {2, 1}, {0, 0}, {0, 0, false, true}},
       1,
       true},
  };
  for (const auto& c : cases) {
    job::JobSpec spec = pipeline(4, 2, static_cast<int>(c.stages.size()) / 2);
    spec.model.mtp_layers = c.mtp;
    spec.mtp = c.train_mtp;
    spec.layout.stages = c.stages;
    job::CheckedJob out;
    const Diagnostics faults = job::check(spec, out);
    ASSERT_EQ(faults.size(), 1u) << c.why << "\n" << text_of(faults);
    EXPECT_EQ(faults[0].field, "parallel.layout");
    EXPECT_NE(faults[0].message.find(c.why), std::string::npos) << faults[0].message;
    EXPECT_FALSE(faults[0].cure.empty());
  }
}

// Megatron's transformer_config.py: a layout, uneven ends and counted embeddings exclude each
// other.
TEST(Placement, TheSplitIsSaidOnce) {
  job::JobSpec spec = pipeline(4, 2);
  spec.layout.first_stage_layers = 3;
  EXPECT_EQ(layers_of(spec), (Layers{3, 1}));
  spec.layout.output_counts = true;
  EXPECT_EQ(field_of(spec), "parallel.first_stage_layers");
  spec.layout = {};
  spec.layout.stages = {{2, 0, true}, {2, 0, false, true}};
  spec.layout.embedding_counts = true;
  EXPECT_EQ(field_of(spec), "parallel.layout");
  spec.layout.embedding_counts = false;
  spec.layout.last_stage_layers = 2;
  EXPECT_EQ(field_of(spec), "parallel.layout");
}

// Megatron asks for layers that a stage does not have where units do not divide it.
TEST(Placement, RecomputedUnitsDivideEveryStage) {
  job::JobSpec spec = pipeline(12, 2);
  spec.recompute.granularity = job::Granularity::full;
  for (const int units : {1, 2, 3, 6}) {
    spec.recompute.layers = units;
    EXPECT_EQ(layers_of(spec), (Layers{6, 6}));
  }
  for (const int units : {4, 7, 12}) {
    spec.recompute.layers = units;
    EXPECT_EQ(field_of(spec), "recompute.layers") << units;
  }
  spec.layout.stages = {{8, 0, true}, {4, 0, false, true}};
  spec.recompute.layers = 4;
  EXPECT_EQ(layers_of(spec), (Layers{8, 4}));
  spec.recompute.layers = 8;
  EXPECT_EQ(field_of(spec), "recompute.layers");
  // `block` stops at the stage's end, and a list names its layers.
  spec.recompute.method = job::RecomputeMethod::block;
  EXPECT_EQ(layers_of(spec), (Layers{8, 4}));
  spec.recompute.method = job::RecomputeMethod::uniform;
  spec.recompute.layer_ids = {0, 3};
  EXPECT_EQ(layers_of(spec), (Layers{8, 4}));
}

TEST(Placement, TooManyVirtualStages) {
  job::JobSpec spec = pipeline(2048, 2, 1024);
  EXPECT_EQ(field_of(spec), "parallel.pp");
}

// nanotron deals blocks in order and closes a stage once the cost so far reaches its share: a layer
// costs 4 h^2 + 3 h f, the output layer V h. Layers on the first stage for p = 2, 4, 8, 16, 32 as
// its published runs must have had them.
TEST(Placement, ByCost) {
  const struct {
    double hidden, ffn, vocab;
    int layers;
    Layers first;
  } models[] = {{2048, 8192, 131072, 16, {10, 5, 3, 2, 1}},
                {3072, 8192, 131072, 28, {16, 8, 4, 2, 1}},
                {4096, 14336, 131072, 32, {18, 9, 5, 3, 2}},
                {8192, 28672, 131072, 80, {41, 21, 11, 6, 3}}};
  for (const auto& m : models) {
    for (std::size_t i = 0; i < m.first.size(); ++i) {
      const int pp = 2 << i;
      const int heads = static_cast<int>(m.hidden / 128);
      job::JobSpec spec =
          job_of(llama({m.layers, m.hidden, heads, heads, 128, m.ffn, m.vocab}), pp, {1, pp, 1024});
      spec.parallel.pp = pp;
      spec.framework.pipeline_split = framework::PipelineSplit::cost;
      const Layers layers = layers_of(spec);
      EXPECT_EQ(layers.front(), m.first[i]) << m.hidden << " pp " << pp;
      int sum = 0;
      for (const int n : layers) sum += n;
      EXPECT_EQ(sum, m.layers);
    }
  }
}

// Embedding, 40 layers, norm and output are 43 modules: on 4 stages 11, 11, 11 and 10 of them. 63 modules
// on 16 stages: 15 of four and one of three, which has the norm, the output and one layer.
TEST(Placement, ByModules) {
  const auto dealt = [](int layers, int pp) {
    job::JobSpec spec =
        job_of(llama({layers, 5120, 40, 40, 128, 13824, 128000}), pp, {1, pp, 1024});
    spec.parallel.pp = pp;
    spec.framework.pipeline_split = framework::PipelineSplit::modules;
    return layers_of(spec);
  };
  EXPECT_EQ(dealt(40, 4), (Layers{10, 11, 11, 8}));
  EXPECT_EQ(dealt(40, 1), (Layers{40}));
  Layers sixteen(16, 4);
  sixteen.front() = 3;
  sixteen.back() = 1;
  EXPECT_EQ(dealt(60, 16), sixteen);
}

}  // namespace
}  // namespace eratos::judges
