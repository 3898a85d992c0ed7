#include "eratos/reader/truth.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/pattern_table.h"
#include "eratos/reader/truth_layout.h"
#include "eratos/reader/truth_words.h"
#include "eratos/text/yaml.h"

namespace eratos::reader {
namespace {

constexpr const char* kHeader =
    "id,gpu,num_gpus,gpus_per_node,framework,model,precision,seq_len,mbs,gbs,tp,cp,pp,vpp,ep,etp,"
    "dp,sharding,recompute,sequence_parallel,schedule,overlap,attention,moe_comm,cuda_graphs,"
    "tokens_per_s_per_gpu,tflops_per_gpu,flops_convention,step_time_s,mfu,peak_memory_gb,notes,"
    "suspect\n";

text::CsvTable table_of(const std::string& rows) {
  auto table = text::parse_csv(kHeader + rows, "runs.csv");
  EXPECT_TRUE(table.has_value());
  return *std::move(table);
}

tl::expected<Run, Unusable> read_one(const std::string& row, const std::string& models = "") {
  static const std::vector<text::Node> kNone;
  std::vector<text::Node> trees;
  if (!models.empty()) trees.push_back(*text::parse_yaml(models, "models.yaml"));
  const text::CsvTable table = table_of(row);
  auto reader = RunReader::make(table, models.empty() ? kNone : trees);
  EXPECT_TRUE(reader.has_value());
  return reader->read(0);
}

// A run of the Ultra-Scale Playbook as published: 16 H100, tp 1, pp 2, so dp 8.
const std::string kNanotron =
    "nanotron-1b-n2-dp8-tp1-pp2-mbs1-z1,h100-sxm,16,8,nanotron v0.5,nanotron-1b,bf16,4096,1,256,"
    "1,1,2,,,,8,zero1,none,false,1f1b,,flash-attn-2 varlen causal,,,36497,,model,,0.416,19.4,"
    "memory in GiB,\n";

TEST(Truth, ReadsANanotronRun) {
  const auto run = read_one(kNanotron);
  ASSERT_TRUE(run.has_value()) << run.error().reason << ": " << run.error().detail;
  EXPECT_EQ(run->name.family, "nanotron");
  EXPECT_EQ(run->name.line, 2);
  EXPECT_EQ(run->spec.framework.name, "nanotron");
  EXPECT_EQ(run->spec.cluster.name, "aws-p5-2x8");
  EXPECT_EQ(run->spec.cluster.gpus(), 16);
  EXPECT_EQ(run->spec.parallel.pp, 2);
  EXPECT_EQ(run->spec.parallel.dp, 8);
  EXPECT_EQ(run->spec.parallel.sharding, parallel::Sharding::zero1);
  EXPECT_EQ(run->spec.batch.global, 256);
  EXPECT_EQ(run->spec.schedule.algorithm, "1f1b");
  EXPECT_EQ(run->measured.from, SpeedFrom::tokens_per_s_per_gpu);
  EXPECT_EQ(run->measured.tokens_per_s_per_gpu, 36497);
  EXPECT_EQ(run->measured.mfu, 0.416);
  EXPECT_EQ(run->measured.memory, gib(19.4));
  EXPECT_EQ(run->measured.memory_kind, MemoryKind::allocated);
  EXPECT_TRUE(run->measured.first_stage);
}

TEST(Truth, AStepTimeGivesTokens) {
  // 256 sequences of 4096 in 2 s on 16 GPUs: 256 * 4096 / (2 * 16) = 32,768 tokens/s/GPU.
  const auto run =
      read_one("x,h100-sxm,16,8,megatron-lm,llama2-7b,bf16,4096,1,256,1,,2,,,,,,,,,,,,,,,,2,,,,\n");
  ASSERT_TRUE(run.has_value()) << run.error().reason;
  EXPECT_EQ(run->measured.from, SpeedFrom::step_time_s);
  EXPECT_EQ(run->measured.tokens_per_s_per_gpu, 32768);
  EXPECT_EQ(run->spec.parallel.cp, 1);
  EXPECT_EQ(run->spec.parallel.sharding, parallel::Sharding::none);
}

struct Refusal {
  std::string row;
  std::string reason;
  std::string detail;
};

TEST(Truth, NamesWhatIsMissingOrNotModelled) {
  const std::string figures = ",,,,,,,,,1000,,,,,,,\n";
  const std::vector<Refusal> cases{
      {"x,h100-sxm,8,8,megatron-lm,llama2-7b,bf16,4096,1,,1,1,1,,,,8" + figures, "gbs not stated",
       ""},
      {"x,h100-sxm,8,8,megatron-lm,llama2-7b,bf16,4096,,8,1,1,1,,,,8" + figures, "mbs not stated",
       ""},
      {"x,h100-sxm,,8,megatron-lm,llama2-7b,bf16,4096,1,8,1,1,1,,,,8" + figures,
       "num_gpus not stated", ""},
      {"x,h100-sxm,8,8,megatron-lm,llama2-7b,bf16,4096,1,8,3,1,1,,,," + figures,
       "degrees contradict", "8 GPUs do not divide by tp x pp x cp"},
      {"x,h100-sxm,8,8,megatron-lm,llama2-7b,bf16,4096,1,8,2,1,1,,,,8" + figures,
       "degrees contradict", "dp is stated as 8, the others leave 4"},
      {"x,h100-sxm,8,8,megatron-lm,llama2-7b,fp6,4096,1,8,1,1,1,,,,8" + figures,
       "precision not modelled", "precision fp6"},
      {"x,h100-sxm,8,8,mesh-tensorflow,llama2-7b,bf16,4096,1,8,1,1,1,,,,8" + figures,
       "framework without a profile",
       "unknown framework `mesh-tensorflow`; `eratos list frameworks` shows the known ones"},
      {"x,h100-sxm,8,8,maxtext (JAX),llama2-7b,bf16,4096,1,8,1,1,1,,,,8,hsdp,,,,,,,,1000,,,,,,,\n",
       "shard group not stated", ""},
      {"x,tpu-v5e,8,8,megatron-lm,llama2-7b,bf16,4096,1,8,1,1,1,,,,8" + figures,
       "out of scope: tpu", "tpu-v5e"},
      {"x,h100-sxm,8,8,megatron-lm,llama2-7b,bf16,4096,four,8,1,1,1,,,,8" + figures,
       "unreadable number", "`mbs` is `four`"},
      {"x,h100-sxm,8,8,megatron-lm,llama2-7b,bf16,4096,1,8,1,1,1,,,,8,,,,zb-9p,,,,,1000,,,,,,,\n",
       "schedule not modelled", "schedule zb-9p"},
      {"x,h100-sxm,8,8,megatron-lm,llama2-7b,bf16,4096,1,8,1,1,1,,,,8,,,,,,,,,,,,,,,,\n",
       "nothing measured that can be compared", ""},
  };
  for (const Refusal& c : cases) {
    const auto run = read_one(c.row);
    ASSERT_FALSE(run.has_value()) << c.row;
    EXPECT_EQ(run.error().reason, c.reason) << c.row;
    EXPECT_EQ(run.error().detail, c.detail) << c.row;
  }
}

TEST(Truth, ArchitecturesOfTheRunsComeBeforeTheCatalogue) {
  const std::string row =
      "x,h100-sxm,8,8,megatron-lm,llama2-7b,bf16,4096,1,8,1,1,1,,,,8,,,,,,,,,1000,,,,,,,\n";
  const auto run = read_one(row,
                            "models:\n  llama2-7b: {layers: 2, hidden: 1024, ffn: 4096, heads: 8, "
                            "kv_heads: 8, head_dim: 128, vocab: 32000, gated_mlp: true}\n");
  ASSERT_TRUE(run.has_value()) << run.error().detail;
  EXPECT_EQ(run->spec.model.layers(), 2);
  EXPECT_EQ(run->spec.model.name, "llama2-7b");

  const auto unknown = read_one(row, "models:\n  llama2-7b: {incomplete: true, gated_mlp: true}\n");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().reason, "architecture incomplete");
}

TEST(Truth, LayoutStringsInTheNotesDecideTheStages) {
  // 16 virtual stages over pp 8: vpp 2, and the last one holds head and loss only.
  const auto run = read_one(
      "x,h100-sxm,8,8,megatron-lm,deepseek-v3,bf16,4096,1,8,1,1,8,,1,1,1,,,,,,,,,1000,,,,,,"
      "first; pp layout Et*4|(t*4|)*14tmL; last,\n");
  ASSERT_TRUE(run.has_value()) << run.error().detail;
  EXPECT_EQ(run->spec.parallel.vpp, 2);
  ASSERT_EQ(run->spec.layout.stages.size(), 16U);
  EXPECT_EQ(run->spec.layout.stages[0].layers, 4);
  EXPECT_TRUE(run->spec.layout.stages[15].output);
  EXPECT_TRUE(run->spec.mtp);
  // A layout that places no prediction layer was run without: Megatron refuses it otherwise.
  const auto without = read_one(
      "x,h100-sxm,8,8,megatron-lm,deepseek-v3,bf16,4096,1,8,1,1,8,,1,1,1,,,,,,,,,1000,,,,,,"
      "first; pp layout Et*4|(t*4|)*14tL; last,\n");
  ASSERT_TRUE(without.has_value()) << without.error().detail;
  EXPECT_FALSE(without->spec.mtp);
}

TEST(Truth, OffloadInTheNotes) {
  const std::string row =
      "x,h100-sxm,8,8,megatron-lm,llama2-7b,bf16,4096,1,8,1,1,1,,,,8,,,,,,,,,1000,,,,,,";
  EXPECT_TRUE(read_one(row + "offload off,\n").has_value());
  EXPECT_TRUE(read_one(row + "activation offload ratio 0,\n").has_value());
  const auto none = read_one(row + "activation offload ratio alpha 0.00 to CPU,\n");
  ASSERT_TRUE(none.has_value()) << none.error().detail;
  EXPECT_FALSE(none->spec.offload.any_activations());
  const auto ratio = read_one(row + "activation offload ratio alpha 0.63,\n");
  ASSERT_TRUE(ratio.has_value()) << ratio.error().detail;
  EXPECT_EQ(ratio->spec.offload.layers, 20);  // of 32
  EXPECT_FALSE(read_one(row + "parameters offloaded to disk,\n").has_value());
  const auto host = read_one(row + "CPU-offloaded AdamW,\n");
  ASSERT_TRUE(host.has_value()) << host.error().detail;
  EXPECT_EQ(host->spec.offload.optimizer, 1);
}

TEST(Truth, NotesChangeTheJobOrRefuseIt) {
  const std::string figures = ",zero1,none,,1f1b,,,,,1000,,,,,,";
  const auto row = [&](const std::string& id, const std::string& notes) {
    return id + ",a100-80g,8,8,megatron-lm,llama2-7b,bf16,4096,1,8,1,1,8,,,,1" + figures + notes +
           ",\n";
  };
  // Llama 2 7B: w = 32000 / (12 * 4096 + 2 * 4096) = 0.56; even stages of 4 are best (4.56; one
  // layer less on the last gives 5).
  const auto even = read_one(row("others-vocabpar-x", "layers redistributed"));
  ASSERT_TRUE(even.has_value()) << even.error().detail;
  ASSERT_EQ(even->spec.layout.stages.size(), 8U);
  EXPECT_EQ(even->spec.layout.stages[0].layers, 4);
  EXPECT_EQ(even->spec.layout.stages[7].layers, 4);

  for (const auto& [note, output] :
       {std::pair{"vocabulary layers split over the pipeline, forward optimisation",
                  parallel::OutputLayer::two_barriers},
        std::pair{"vocabulary layers split, forward and backward optimisation",
                  parallel::OutputLayer::one_barrier},
        std::pair{"interlaced pipeline, synchronous", parallel::OutputLayer::interlaced}}) {
    const auto split = read_one(row("others-vocabpar-x", '"' + std::string(note) + '"'));
    ASSERT_TRUE(split.has_value()) << split.error().detail;
    EXPECT_EQ(split->spec.schedule.output_layer, output) << note;
    EXPECT_EQ(split->spec.optimizer.main_gradient, DType::fp16);
    EXPECT_EQ(split->spec.hidden_dropout, 0.1);
  }
  // Post-validation belongs to the zero-bubble rows of a source, not to its 1F1B.
  const std::string validated = "optimizer post-validation on (zero-bubble rows)";
  const auto whole = read_one(row("others-zerobubble-x", validated));
  ASSERT_TRUE(whole.has_value()) << whole.error().detail;
  EXPECT_FALSE(whole->spec.schedule.post_validation);

  // Fine-tuning: which linears have adapters, how long the packed parts are, what the host holds.
  const auto lora = read_one(row("nvb-x-lora-y", "cpu activation offload of 20 layers"));
  ASSERT_TRUE(lora.has_value()) << lora.error().detail;
  EXPECT_EQ(lora->spec.lora.rank, 16);
  EXPECT_EQ(lora->spec.lora.targets.count(), 1u);
  EXPECT_TRUE(lora->spec.lora.targets.test(static_cast<std::size_t>(ops::Module::qkv)));
  EXPECT_EQ(lora->spec.batch.packed_length, 256);
  EXPECT_EQ(lora->spec.offload.layers, 20);
  const auto sft = read_one(row("nvb-x-sft-y", ""));
  EXPECT_FALSE(sft->spec.lora.on());
  EXPECT_EQ(sft->spec.batch.packed_length, 256);

  EXPECT_TRUE(read_one(row("nvb-x", ""))->spec.gradient_reduce_bf16);
  EXPECT_FALSE(read_one(row("x", ""))->spec.gradient_reduce_bf16);
}

TEST(TruthLayout, RedistributedByHand) {
  job::JobSpec spec;
  spec.model.hidden = 3072;
  spec.model.vocab = 131072;
  spec.model.pattern.assign(32, 0);
  spec.batch.sequence = 2048;
  spec.parallel.pp = 8;
  const job::LayoutSpec layout = redistributed(spec);
  std::vector<int> layers;
  for (const job::StageLayout& stage : layout.stages) layers.push_back(stage.layers);
  EXPECT_EQ(layers, (std::vector<int>{4, 4, 4, 4, 5, 5, 5, 1}));
  EXPECT_TRUE(layout.stages.front().embedding);
  EXPECT_TRUE(layout.stages.back().output);
}

TEST(Truth, AMissingColumnIsAFault) {
  const auto table = text::parse_csv("id,gpu,numgpus\nx,y,8\n", "runs.csv");
  const std::vector<text::Node> none;
  const auto reader = RunReader::make(*table, none);
  ASSERT_FALSE(reader.has_value());
  EXPECT_GT(reader.error().size(), 5U);
}

// What data/run_defaults.csv fills: MaxText's mesh, and a batch by a rank's micro-batches.
TEST(Truth, DefaultsFillWhatARowLeavesOut) {
  const auto jax = read_one(
      "amd-dsv3-jax-x,mi355x,64,8,maxtext,deepseek-v3,bf16,4096,4,256,,,,,,,,hsdp,full,,,,,"
      "\"dense matmul, capacity factor 1.25 (drops tokens)\",,961.1,,,,,,,\n");
  ASSERT_TRUE(jax.has_value()) << jax.error().reason;
  EXPECT_EQ(jax->spec.parallel.tp, 1);
  EXPECT_EQ(jax->spec.parallel.ep, 8);
  EXPECT_EQ(jax->spec.parallel.hsdp_group, 64);
  EXPECT_EQ(jax->spec.routing.dispatcher, job::Dispatcher::einsum);
  EXPECT_EQ(jax->spec.routing.capacity_factor, 1.25);
  const auto lite = read_one(
      "amd-moepkg-dsv2lite-x,mi355x,8,8,primus-megatron,deepseek-v2-lite,bf16,4096,2,,1,1,1,,8,,8,"
      "zero1,none,,,,,alltoall,,21028.2,,,,,,,\n");
  ASSERT_TRUE(lite.has_value()) << lite.error().reason;
  EXPECT_EQ(lite->spec.batch.global, 2 * 8 * 8);
}

// 698.46 TFLOP/s at 349.23 GFLOP a token, as the source counts, are 2,000 tokens/s.
TEST(Truth, ASourcesOwnCountGivesTokens) {
  const auto run = read_one(
      "amd-dsv4-xlsx-r99,mi355x,32,8,primus-megatron,deepseek-v4-flash,bf16,4096,1,256,1,1,4,,8,,8,"
      "zero1,none,,1f1b,,,,,,698.46,model,,,,,\n");
  ASSERT_TRUE(run.has_value()) << run.error().reason;
  EXPECT_EQ(run->measured.from, SpeedFrom::tokens_per_s_per_gpu);
  EXPECT_NEAR(run->measured.tokens_per_s_per_gpu, 2000, 1e-6);
}

TEST(TruthWords, Recompute) {
  job::RecomputeSpec r;
  EXPECT_EQ(read_recompute("", 4, r), "");
  EXPECT_EQ(r.granularity, job::Granularity::none);

  EXPECT_EQ(read_recompute("full (block, 21 of 80 layers)", 4, r = {}), "");
  EXPECT_EQ(r.granularity, job::Granularity::full);
  EXPECT_EQ(r.method, job::RecomputeMethod::block);
  EXPECT_EQ(r.layers, 21);

  EXPECT_EQ(read_recompute("full, 32 of 61 layers (block, 1 layer per virtual stage)", 4, r = {}),
            "");
  EXPECT_EQ(r.layers, 1);

  EXPECT_EQ(read_recompute("full, 9 of 61 layers by id 0,1,2,4,6,8,10,12,14", 4, r = {}), "");
  EXPECT_EQ(r.layer_ids, (std::vector<int>{0, 1, 2, 4, 6, 8, 10, 12, 14}));

  EXPECT_EQ(read_recompute("full (uniform, 5 layers per checkpoint)", 4, r = {}), "");
  EXPECT_EQ(r.method, job::RecomputeMethod::uniform);
  EXPECT_EQ(r.layers, 5);

  EXPECT_EQ(read_recompute("selective: layernorm moe_act", 4, r = {}), "");
  EXPECT_EQ(r.granularity, job::Granularity::selective);
  EXPECT_TRUE(r.modules.test(static_cast<std::size_t>(ops::Module::norm)));
  EXPECT_TRUE(r.modules.test(static_cast<std::size_t>(ops::Module::expert_activation)));
  EXPECT_EQ(r.modules.count(), 2U);

  EXPECT_EQ(read_recompute("selective (op-level policy of torchtitan)", 4, r = {}), "");
  EXPECT_EQ(r.policy, "op-level");
  EXPECT_TRUE(r.alternate);
  EXPECT_TRUE(r.kept.test(static_cast<std::size_t>(ops::Module::core_attention)));
  EXPECT_EQ(read_recompute("selective: every other layer", 5, r = {}), "");
  EXPECT_EQ(r.granularity, job::Granularity::full);
  EXPECT_EQ(r.layer_ids, (std::vector<int>{0, 2, 4}));
  EXPECT_NE(read_recompute("selective: something else", 4, r = {}), "");
  EXPECT_EQ(
      read_recompute("full, 3 layers (sheet says 3; whether per stage or in all is not stated)", 43,
                     r = {}),
      "");
  EXPECT_EQ(r.method, job::RecomputeMethod::block);
  EXPECT_EQ(r.layers, 3);
  EXPECT_NE(read_recompute("full, 3 layers (whether per stage or in all is not stated)", 4, r = {}),
            "");
}

TEST(TruthLayout, BalancedStagesDifferByOneLayer) {
  job::JobSpec spec;
  spec.parallel.pp = 4;
  const auto layers_of = [&](int layers) {
    spec.model.pattern.assign(static_cast<std::size_t>(layers), 0);
    std::vector<int> out;
    for (const auto& stage : balanced(spec).stages) out.push_back(stage.layers);
    return out;
  };
  EXPECT_EQ(layers_of(9), (std::vector<int>{2, 3, 2, 2}));
  EXPECT_EQ(layers_of(10), (std::vector<int>{2, 3, 3, 2}));
  EXPECT_EQ(layers_of(11), (std::vector<int>{3, 3, 3, 2}));
  // Prediction modules stand with the output, as without a layout.
  spec.model.mtp_layers = 1;
  EXPECT_EQ(balanced(spec).stages[3].mtp, 1);
  EXPECT_EQ(balanced(spec).stages[2].mtp, 0);
  EXPECT_EQ(redistributed(spec).stages[3].mtp, 1);
  spec.mtp = false;
  EXPECT_EQ(balanced(spec).stages[3].mtp, 0);
}

// Megatron-Bridge deepseek_v3.py, layout_map: 61 layers as 4 x 15 + 1, 8 x 7 + 5, 16 x 3 + 13.
TEST(TruthLayout, TheLastStageTakesTheRest) {
  job::JobSpec spec;
  spec.model.pattern.assign(61, 0);
  spec.model.mtp_layers = 1;
  const auto ends_of = [&](int pp) {
    spec.parallel.pp = pp;
    const auto layout = rest_last(spec);
    return layout ? std::vector<int>{layout->stages.front().layers, layout->stages.back().layers,
                                     layout->stages.back().mtp}
                  : std::vector<int>{};
  };
  EXPECT_EQ(ends_of(16), (std::vector<int>{4, 1, 1}));
  EXPECT_EQ(ends_of(8), (std::vector<int>{8, 5, 1}));
  EXPECT_EQ(ends_of(4), (std::vector<int>{16, 13, 1}));
  EXPECT_TRUE(ends_of(32).empty());  // 2 x 31 > 61
}

TEST(TruthWords, Graphs) {
  const auto read = [](const char* words, const char* notes = "") {
    job::JobSpec spec;
    read_graphs(words, notes, spec);
    return spec;
  };
  const auto has = [](const job::JobSpec& spec, ops::Module m) {
    return spec.graph_modules.test(static_cast<std::size_t>(m));
  };
  EXPECT_EQ(read("full_iteration scope=").graph_share, 1);
  EXPECT_EQ(read("none").graph_share, 0);
  const job::JobSpec parts = read("transformer_engine scope=attn+moe_router+moe_preprocess");
  EXPECT_EQ(parts.graph_share, 0);
  EXPECT_TRUE(has(parts, ops::Module::qkv));
  EXPECT_TRUE(has(parts, ops::Module::router));
  EXPECT_FALSE(has(parts, ops::Module::scan));
  EXPECT_FALSE(has(parts, ops::Module::expert_in));
  EXPECT_TRUE(has(read("transformer_engine"), ops::Module::scan));
  const job::JobSpec noted = read("", "force-balanced; TE cuda graph moe_router+moe_preprocess; attn");
  EXPECT_TRUE(has(noted, ops::Module::router));
  EXPECT_FALSE(has(noted, ops::Module::qkv));
  EXPECT_TRUE(has(read("", "cuda graphs for attention and mamba"), ops::Module::qkv));
}

TEST(TruthWords, ShardGroups) {
  EXPECT_EQ(shard_group_in("FSDP group 128, DP 4"), 128);
  EXPECT_EQ(shard_group_in("Megatron-FSDP, shard group 64; more"), 64);
  EXPECT_EQ(shard_group_in("shard group not said"), 0);
}

TEST(Truth, FrameworkByIdAndNotes) {
  const std::string row =
      "x,h100-sxm,8,8,torchtitan,llama2-7b,bf16,4096,1,8,1,1,1,,,,8,zero3,,,,,,,,1000,,,,,,";
  EXPECT_EQ(read_one(row + "FSDP2 eager,\n")->spec.framework.name, "torchtitan-eager");
  EXPECT_EQ(read_one(row + "torch.compile,\n")->spec.framework.name, "torchtitan");
  const auto old = read_one(
      "x,h100-sxm,8,8,nemo-1.0 (24.07),llama2-7b,bf16,4096,1,8,1,1,1,,,,8,,,,,,,,,1000,,,,,,,\n");
  ASSERT_TRUE(old.has_value());
  EXPECT_EQ(old->spec.framework.generation, "2024.06");
  // A user's own file names profiles, with a generation or for the newest.
  const std::string rest = ",llama2-7b,bf16,4096,1,8,1,1,1,,,,8,,,,,,,,,1000,,,,,,,\n";
  const auto newest = read_one("x,h100-sxm,8,8,megatron" + rest);
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->spec.framework.generation, load_framework("megatron")->generation);
  const auto named = read_one("x,h100-sxm,8,8,megatron@2025.06" + rest);
  ASSERT_TRUE(named.has_value());
  EXPECT_EQ(named->spec.framework.generation, "2025.06");
}

TEST(TruthWords, OverlapPrecisionAttention) {
  job::OverlapSpec o;
  read_overlap("grad-reduce param-gather tp-comm pp-p2p", o);
  EXPECT_TRUE(o.grad_reduce && o.param_gather && o.tp && o.p2p);
  EXPECT_FALSE(o.moe_a2a);
  read_overlap("none (the guide turns every overlap off)", o);
  EXPECT_FALSE(o.grad_reduce || o.param_gather || o.tp || o.p2p || o.moe_a2a);

  job::Recipe recipe{};
  EXPECT_EQ(read_precision("fp8-hybrid", "", recipe), "");
  EXPECT_EQ(recipe, job::Recipe::fp8_delayed);
  EXPECT_EQ(read_precision("fp8-hybrid", "tensorwise scaling", recipe), "");
  EXPECT_EQ(recipe, job::Recipe::fp8_current);

  EXPECT_EQ(read_attention("unfused (Megatron fused softmax)"), layer::AttentionKernel::unfused);
  EXPECT_EQ(read_attention("flash-attn-2"), layer::AttentionKernel::flash);
}

TEST(PatternTable, Globs) {
  EXPECT_TRUE(matches("nanotron*", "Nanotron v0.5"));
  EXPECT_TRUE(matches("*llm-foundry*", "llm-foundry (Composer + FSDP)"));
  EXPECT_TRUE(matches("a*b*c", "aXbbYc"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_FALSE(matches("a*b", "acbd"));
  EXPECT_FALSE(matches("", "a"));
  const PatternTable families("families");
  const auto line = families.find("others-simumax-b200-x");
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(families.cell(*line, "family"), "simumax");
}

}  // namespace
}  // namespace eratos::reader
