#include "eratos/reader/primus.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "eratos/reader/job_yaml.h"
#include "eratos/reader/read_job.h"
#include "eratos/reader/set_value.h"
#include "eratos/text/dump.h"
#include "expect.h"

namespace eratos::reader {
namespace {

namespace fs = std::filesystem;

const std::string kData = std::string(ERATOS_SOURCE_DIR) + "/tests/data/primus/";
const std::string kExperiments = kData + "examples/megatron/configs/";

PrimusConfig resolved(const std::string& path, const Environment& environment = {}) {
  const text::Node root = good(text::parse_yaml_file(path), path);
  return good(resolve_primus(root, path, environment), path);
}

JobRead read(const std::string& name, const Environment& environment = {}) {
  return good(read_job(kExperiments + name, environment), name);
}

// A checkout of its own: the presets of tests/data, and experiments that a test writes.
class Checkout : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::temp_directory_path() /
            ("eratos-primus-" + std::string(info->name()) + "-" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_ / "examples");
    fs::copy(kData + "primus", root_ / "primus", fs::copy_options::recursive);
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string write(const std::string& name, const std::string& text) const {
    const fs::path path = root_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  // An experiment with these lines among the overrides.
  std::string experiment(const std::string& overrides,
                         const std::string& model = "llama3.1_8B") const {
    std::string lines;
    std::string line;
    for (const char c : overrides) {
      if (!line.empty() || c != '\n') line += c;
      if (c == '\n') {
        lines += "      " + line;
        line.clear();
      }
    }
    return write("examples/exp.yaml",
                 "work_group: a\nuser_name: b\nexp_name: test\nworkspace: ./output\n"
                 "modules:\n  pre_trainer:\n    framework: megatron\n    config: pre_trainer.yaml\n"
                 "    model: " +
                     model + ".yaml\n    overrides:\n      seq_length: 4096\n" + lines);
  }
  std::string bad(const std::string& overrides, const std::string& model = "llama3.1_8B") const {
    return faults_of(read_job(experiment(overrides, model), Environment{}));
  }
  job::JobSpec job(const std::string& overrides, const std::string& model = "llama3.1_8B") const {
    return good(read_job(experiment(overrides, model), Environment{}), overrides).job;
  }

  fs::path root_;
};

TEST(PrimusResolve, EveryCaseResolvesToTheListedValues) {
  const text::Node expected = good(text::parse_yaml_file(kData + "expected.yaml"));
  int cases = 0;
  int keys = 0;
  for (const text::Entry& each : expected.entries()) {
    const PrimusConfig config = resolved(kData + each.key);
    EXPECT_EQ(static_cast<std::int64_t>(config.keys.size()),
              good(each.value.find("resolved_keys")->as_int64()))
        << each.key;
    for (const text::Entry& key : each.value.find("keys")->entries()) {
      const text::Node* found = config.keys.find(key.key);
      if (key.value.is_null()) {
        EXPECT_TRUE(found == nullptr || found->is_null()) << each.key << ": " << key.key;
      } else {
        ASSERT_NE(found, nullptr) << each.key << ": " << key.key;
        EXPECT_EQ(*found, key.value) << each.key << ": " << key.key;
      }
      ++keys;
    }
    ++cases;
  }
  EXPECT_EQ(cases, 8);
  EXPECT_GT(keys, 450);
}

TEST(PrimusResolve, PlacesPointIntoThePresets) {
  const PrimusConfig config =
      resolved(kExperiments + "MI355X/mixtral_8x22B_v0.1-BF16-pretrain.yaml");
  const Location layers = config.keys.find("num_layers")->where();
  EXPECT_TRUE(layers.file.ends_with("primus/configs/models/megatron/mixtral_8x22B_v0.1.yaml"));
  EXPECT_EQ(layers.line, 6);
  EXPECT_TRUE(config.keys.find("micro_batch_size")->where().file.ends_with("pretrain.yaml"));
}

TEST(PrimusJob, Mixtral) {
  const JobRead read_back = read("MI355X/mixtral_8x22B_v0.1-BF16-pretrain.yaml");
  const job::JobSpec& job = read_back.job;
  EXPECT_EQ(job.model.layers(), 56);
  EXPECT_EQ(job.parallel.pp, 4);
  EXPECT_EQ(job.parallel.vpp, 1);
  EXPECT_EQ(job.parallel.ep, 8);
  EXPECT_EQ(job.batch.micro, 2);
  EXPECT_EQ(job.batch.global, 128);
  EXPECT_EQ(job.recompute.granularity, job::Granularity::full);
  EXPECT_EQ(job.recompute.method, job::RecomputeMethod::block);
  EXPECT_EQ(job.recompute.layers, 0);
  EXPECT_EQ(job.parallel.sharding, parallel::Sharding::zero1);
  EXPECT_EQ(job.optimizer.main_gradient, DType::fp32);
  EXPECT_EQ(job.routing.dispatcher, job::Dispatcher::alltoall);
  EXPECT_TRUE(job.loss_fused);
  EXPECT_FALSE(job.framework.state.wgrad_fused_accumulation);
  EXPECT_EQ(model::count_parameters(job.model).total, 140620634112.0);
  EXPECT_FALSE(read_back.has_cluster);
  const auto& pp = read_back.report.provenance.at("parallel.pp");
  EXPECT_EQ(pp.origin, Origin::user);
  EXPECT_EQ(pp.value, "4");
  EXPECT_EQ(pp.where.line, 43);
  EXPECT_EQ(read_back.report.provenance.at("model.layers").origin, Origin::preset);
  EXPECT_EQ(read_back.report.provenance.at("optimizer.main_gradient").origin, Origin::derived);
  EXPECT_TRUE(read_back.report.warnings.empty());
  bool found = false;
  for (const UnusedKey& key : read_back.report.unused) {
    if (key.key != "wandb_project") continue;
    found = true;
    EXPECT_EQ(key.reason, "logging: not part of a step");
    EXPECT_EQ(key.where.line, 12);
  }
  EXPECT_TRUE(found);
}

TEST(PrimusJob, MixtralWithTwoChunksIsLegal) {
  ReadOptions options;
  options.cluster = "mi355x-8x8";
  options.sets = {"parallel.vpp=2", "batch.global=1024"};
  const JobRead out =
      good(read_job(kExperiments + "MI355X/mixtral_8x22B_v0.1-BF16-pretrain.yaml", options));
  EXPECT_EQ(out.job.parallel.vpp, 2);
  job::CheckedJob checked;
  EXPECT_EQ(text_of(job::check(out.job, checked)), "");
  EXPECT_EQ(checked.micro_batches, 32);  // 1024 / (2 * 64 / 4)
}

TEST(PrimusJob, DeepSeekLayoutDecidesTheChunks) {
  const JobRead out = read("MI355X/deepseek_v3-FP8-pretrain.yaml");
  EXPECT_EQ(out.job.parallel.pp, 16);
  EXPECT_EQ(out.job.parallel.vpp, 2);
  ASSERT_EQ(out.job.layout.stages.size(), 32u);
  int layers = 0;
  for (const job::StageLayout& stage : out.job.layout.stages) layers += stage.layers;
  EXPECT_EQ(layers, 61);
  EXPECT_TRUE(out.job.layout.stages.back().output);
  EXPECT_EQ(out.job.precision, job::Recipe::fp8_delayed);
  EXPECT_EQ(out.job.recompute.layer_ids.size(), 21u);
  EXPECT_EQ(out.job.recompute.layer_ids.back(), 51);
  EXPECT_EQ(out.job.optimizer.main_gradient, DType::bf16);
  EXPECT_TRUE(out.job.gradient_reduce_bf16);
  EXPECT_TRUE(out.job.optimizer.precision_aware);
  EXPECT_EQ(out.job.routing.dispatcher, job::Dispatcher::deepep);
  EXPECT_EQ(out.report.provenance.at("moe.dispatcher").rule,
            "use_turbo_deepep: replaces moe_token_dispatcher_type at run time");
  EXPECT_TRUE(std::holds_alternative<layer::MlaSpec>(out.job.model.blocks.front().mixer));
  EXPECT_EQ(out.job.model.mtp_layers, 1);
  EXPECT_EQ(out.job.model.pattern[2], 0);
  EXPECT_EQ(out.job.model.pattern[3], 1);
  EXPECT_EQ(out.report.provenance.at("parallel.vpp").origin, Origin::derived);
}

TEST(PrimusJob, QwenHasFourChunks) {
  const JobRead out = read("MI355X/qwen3_235B_A22B-BF16-pretrain.yaml");
  EXPECT_EQ(out.job.parallel.vpp, 4);
  EXPECT_EQ(out.job.recompute.layers, 3);
  EXPECT_EQ(out.job.batch.global, 8192);
  EXPECT_FALSE(out.job.framework.fusions.activation);
  EXPECT_TRUE(out.job.framework.fusions.permute);
  const auto& attention = std::get<layer::AttentionSpec>(out.job.model.blocks[0].mixer);
  EXPECT_EQ(attention.kv_heads, 4);
  EXPECT_EQ(attention.head_dim, 128);
  EXPECT_TRUE(attention.qk_norm);
  // The tokenizer has 151,669 entries, the checkpoint 151,936: two matrices of 4,096 columns.
  EXPECT_EQ(model::count_parameters(out.job.model, 151936).total, 235093634560.0);
}

TEST(PrimusJob, Llama70bIsFsdp) {
  const JobRead out = read("MI355X/llama3.1_70B-BF16-pretrain.yaml");
  EXPECT_EQ(out.job.parallel.sharding, parallel::Sharding::zero3);
  EXPECT_EQ(out.job.recompute.layers, 30);
  EXPECT_TRUE(out.job.overlap.param_gather);
  EXPECT_EQ(model::count_parameters(out.job.model).total, 70553706496.0);
}

TEST(PrimusJob, Mxfp8ReducesInBf16) {
  const JobRead out = read("MI355X/llama3.1_8B-MXFP8-pretrain.yaml");
  EXPECT_EQ(out.job.precision, job::Recipe::mxfp8);
  EXPECT_EQ(out.job.optimizer.main_gradient, DType::bf16);
  EXPECT_EQ(out.job.batch.micro, 6);
  EXPECT_EQ(model::count_parameters(out.job.model).total, 8030261248.0);
}

TEST(PrimusJob, Mi300Twin) {
  const JobRead out = read("MI300X/llama3.1_8B-BF16-pretrain.yaml");
  EXPECT_EQ(out.job.batch.micro, 2);
  EXPECT_EQ(out.job.batch.global, 128);
}

TEST(PrimusJob, AdaptersAreRead) {
  const JobRead out = read("MI355X/deepseek_v2_lite-BF16-sft-packed.yaml");
  EXPECT_TRUE(out.job.lora.on());
  EXPECT_TRUE(out.job.lora.targets.test(static_cast<std::size_t>(ops::Module::attention_out)));
  EXPECT_TRUE(out.report.provenance.contains("lora.rank"));
}

TEST(PrimusJob, EveryJobSurvivesItsNormalisedForm) {
  for (const char* name :
       {"MI355X/mixtral_8x22B_v0.1-BF16-pretrain.yaml", "MI355X/deepseek_v3-FP8-pretrain.yaml",
        "MI355X/qwen3_235B_A22B-BF16-pretrain.yaml", "MI355X/llama3.1_70B-BF16-pretrain.yaml"}) {
    const JobRead out = read(name);
    const std::string written = text::to_yaml(job_to_node(out.job));
    const job::JobSpec again = good(decode_job(yaml(written)), written);
    EXPECT_EQ(text::to_yaml(job_to_node(again)), written);
    EXPECT_EQ(again.model.pattern, out.job.model.pattern);
  }
}

TEST(PrimusEnvironment, ReplacesAndTypesAgain) {
  const JobRead out = read("MI355X/deepseek_v3-FP8-pretrain.yaml",
                           {{"PRIMUS_TP", "2"}, {"PRIMUS_SEQ_LENGTH", "8192"}});
  EXPECT_EQ(out.job.parallel.tp, 2);
  EXPECT_EQ(out.job.parallel.etp, 2);
  EXPECT_EQ(out.job.batch.sequence, 8192);
}

TEST(PrimusEnvironment, ExpertTensorParallelismFollowsSetTp) {
  JobRead out = read("MI355X/mixtral_8x22B_v0.1-BF16-pretrain.yaml");
  good(apply_sets(out, {"parallel.tp=2"}));
  EXPECT_EQ(out.job.parallel.etp, 2);
  good(apply_sets(out, {"parallel.tp=4", "parallel.etp=1"}));
  EXPECT_EQ(out.job.parallel.etp, 1);
}

TEST(Environment, Substitution) {
  text::Node tree = yaml(
      "a: ${TP:1}\nb: x${TP:1}y${PP}\nc: ${F}\nd: ${ON:no}\ne: ${NULL:null}\nf: ${EMPTY:7}\n"
      "g: [\"${TP}\", plain]\nh: \"${OCTAL}\"\ni: ${UPPER:TRUE}\nj: ${UNSET}\n");
  substitute(tree, {{"TP", "4"}, {"PP", "2"}, {"F", "1e-5"}, {"EMPTY", ""}, {"OCTAL", "010"}});
  EXPECT_EQ(tree.find("a")->scalar_kind(), text::ScalarKind::integer);
  EXPECT_EQ(tree.find("a")->raw(), "4");
  EXPECT_EQ(tree.find("b")->raw(), "x4y2");
  EXPECT_EQ(tree.find("c")->scalar_kind(), text::ScalarKind::floating);
  EXPECT_EQ(tree.find("d")->scalar_kind(), text::ScalarKind::string);
  EXPECT_EQ(tree.find("e")->scalar_kind(), text::ScalarKind::string);
  EXPECT_EQ(tree.find("f")->raw(), "");
  EXPECT_EQ(good(tree.find("g")->items()[0].as_int64()), 4);
  EXPECT_EQ(good(tree.find("h")->as_int64()), 10);
  EXPECT_TRUE(good(tree.find("i")->as_bool()));
  EXPECT_EQ(open_placeholders(tree.find("j")->raw()), (std::vector<std::string>{"UNSET"}));
}

TEST_F(Checkout, UnsetVariablesThatMatterAreListedTogether) {
  const std::string all =
      bad("tensor_model_parallel_size: ${TP}\nmicro_batch_size: ${MBS}\n"
          "train_data_path: ${DATA}\n");
  EXPECT_NE(all.find("environment variable `TP` is not set; `tensor_model_parallel_size` needs it"),
            std::string::npos)
      << all;
  EXPECT_NE(all.find("environment variable `MBS`"), std::string::npos) << all;
  EXPECT_EQ(all.find("DATA"), std::string::npos) << all;
  EXPECT_NE(all.find("exp.yaml:12:35"), std::string::npos) << all;
}

TEST_F(Checkout, UnsetPathsAreIgnored) {
  EXPECT_EQ(job("train_data_path: ${DATA}\nsave: ${SAVE_DIR}/x\n").batch.sequence, 4096);
}

TEST_F(Checkout, MissingPresetNamesThePathTried) {
  const std::string all = bad("", "llama3.1_8");
  EXPECT_NE(all.find("there is no preset `llama3.1_8.yaml`: tried "), std::string::npos) << all;
  EXPECT_NE(all.find("primus/configs/models/megatron/llama3.1_8.yaml; did you mean "
                     "`llama3.1_8B.yaml`?"),
            std::string::npos)
      << all;
  EXPECT_NE(all.find("exp.yaml:9:12"), std::string::npos) << all;
}

TEST_F(Checkout, NoCheckoutAtAll) {
  const std::string path = experiment("");
  fs::remove_all(root_ / "primus");
  const std::string all = faults_of(read_job(path, Environment{}));
  EXPECT_NE(all.find("no presets for `model: llama3.1_8B.yaml`: none of the folders"),
            std::string::npos)
      << all;
}

TEST_F(Checkout, PresetsStayInsideTheirFolder) {
  EXPECT_NE(bad("", "../../../../etc/passwd").find("leads out of"), std::string::npos);
}

TEST_F(Checkout, ExtendsMergesInOrderAndItselfLast) {
  write("examples/a.yaml", "m: {x: 1, y: 1, list: [1, 2]}\n");
  write("examples/b.yaml", "m: {y: 2, z: 2}\n");
  const std::string path =
      write("examples/c.yaml",
            "extends: [a.yaml, b.yaml]\nwork_group: a\nuser_name: b\nexp_name: c\nworkspace: d\n"
            "m: {z: null, list: [3]}\nmodules:\n  pre_trainer:\n    framework: megatron\n"
            "    num_layers: 4\n");
  const PrimusConfig config = [&] {
    const text::Node root = good(text::parse_yaml_file(path));
    // Without presets the module is flat, so that only `extends` is looked at.
    text::Node flat = root;
    flat.find("modules")->find("pre_trainer")->set("model", text::Node::string("none"));
    return good(resolve_primus(flat, path, {}));
  }();
  EXPECT_EQ(config.name, "c");
  EXPECT_EQ(config.keys.find("num_layers")->raw(), "4");
}

TEST_F(Checkout, ExtendsCycleShowsItsChain) {
  write("examples/a.yaml", "extends: b.yaml\n");
  write("examples/b.yaml", "extends: [c.yaml]\n");
  write("examples/c.yaml", "extends: a.yaml\n");
  const std::string path =
      write("examples/top.yaml", "extends: a.yaml\nexp_name: x\nmodules: {pre_trainer: {}}\n");
  const std::string all = faults_of(read_job(path, Environment{}));
  EXPECT_NE(all.find("`extends` goes in a circle: a.yaml -> b.yaml -> c.yaml -> a.yaml"),
            std::string::npos)
      << all;
  EXPECT_NE(all.find("c.yaml:1:10"), std::string::npos) << all;
}

TEST_F(Checkout, ExtendsItself) {
  const std::string path =
      write("examples/top.yaml", "extends: top.yaml\nexp_name: x\nmodules: {pre_trainer: {}}\n");
  EXPECT_NE(faults_of(read_job(path, Environment{})).find("top.yaml -> top.yaml"),
            std::string::npos);
}

TEST_F(Checkout, MissingParent) {
  const std::string path =
      write("examples/top.yaml", "extends: gone.yaml\nexp_name: x\nmodules: {pre_trainer: {}}\n");
  EXPECT_NE(faults_of(read_job(path, Environment{})).find("but there is no "), std::string::npos);
}

TEST_F(Checkout, DuplicateKeys) {
  const std::string all = bad("micro_batch_size: 1\nmicro_batch_size: 2\n");
  EXPECT_NE(all.find("micro_batch_size"), std::string::npos) << all;
  EXPECT_NE(all.find("exp.yaml:13"), std::string::npos) << all;
}

TEST_F(Checkout, UnknownKeyIsSuggested) {
  const std::string all = bad("tensor_model_paralel_size: 2\nnew_flag_of_tomorrow: 1\n");
  EXPECT_NE(all.find("exp.yaml:12:7: error: unknown key `tensor_model_paralel_size`; did you mean "
                     "`tensor_model_parallel_size`?"),
            std::string::npos)
      << all;
  EXPECT_EQ(all.find("tomorrow"), std::string::npos) << all;
}

TEST_F(Checkout, NewKeyIsAWarning) {
  const JobRead out =
      good(read_job(experiment("new_flag_of_tomorrow: 1\nHSA_X: 1\n"), Environment{}));
  ASSERT_EQ(out.report.warnings.size(), 1u);
  EXPECT_EQ(out.report.warnings[0].code, "unknown-key");
}

TEST_F(Checkout, ContradictorySharding) {
  EXPECT_NE(bad("use_torch_fsdp2: true\nuse_distributed_optimizer: true\n")
                .find("Megatron refuses both together"),
            std::string::npos);
  EXPECT_NE(bad("use_distributed_optimizer: false\noverlap_param_gather: true\n")
                .find("`overlap_param_gather` without `use_distributed_optimizer`"),
            std::string::npos);
}

TEST_F(Checkout, FullRecomputeNeedsAMethod) {
  EXPECT_NE(bad("recompute_granularity: full\n").find("without `recompute_method`"),
            std::string::npos);
  EXPECT_NE(bad("recompute_granularity: full\nrecompute_method: block\n")
                .find("without `recompute_num_layers`"),
            std::string::npos);
  EXPECT_NE(bad("recompute_granularity: all\n").find("it is full or selective"), std::string::npos);
}

TEST_F(Checkout, SelectiveRecompute) {
  const job::JobSpec spec =
      job("recompute_granularity: selective\nrecompute_modules: [core_attn, layernorm]\n");
  EXPECT_EQ(spec.recompute.granularity, job::Granularity::selective);
  EXPECT_TRUE(spec.recompute.modules.test(static_cast<std::size_t>(ops::Module::norm)));
  EXPECT_EQ(spec.recompute.modules.count(), 2u);
}

TEST_F(Checkout, ChunksThreeWays) {
  EXPECT_EQ(job("pipeline_model_parallel_size: 4\nvirtual_pipeline_model_parallel_size: 2\n")
                .parallel.vpp,
            2);
  EXPECT_EQ(job("pipeline_model_parallel_size: 4\nnum_layers_per_virtual_pipeline_stage: 2\n")
                .parallel.vpp,
            4);
  EXPECT_EQ(job("pipeline_model_parallel_size: 4\nnum_virtual_stages_per_pipeline_rank: 8\n")
                .parallel.vpp,
            8);
  EXPECT_NE(bad("pipeline_model_parallel_size: 4\nvirtual_pipeline_model_parallel_size: 2\n"
                "num_virtual_stages_per_pipeline_rank: 2\n")
                .find("given twice"),
            std::string::npos);
  EXPECT_NE(bad("pipeline_model_parallel_size: 3\npipeline_model_parallel_layout: Et|t|t|tL\n")
                .find("4 stages, which pp=3 does not divide"),
            std::string::npos);
}

TEST_F(Checkout, ManualSplit) {
  const job::JobSpec spec =
      job("pipeline_model_parallel_size: 2\n"
          "decoder_pipeline_manual_split_list: [7, 9, 9, 7]\n");
  EXPECT_EQ(spec.parallel.vpp, 2);
  EXPECT_EQ(spec.layout.text, "Et*7|t*9|t*9|t*7L");
}

TEST_F(Checkout, ExpertFrequencies) {
  const auto pattern = [&](const std::string& freq) {
    return job("num_layers: 4\nmoe_layer_freq: " + freq + "\n", "mixtral_8x22B_v0.1").model;
  };
  EXPECT_EQ(pattern("2").pattern, (std::vector<std::uint8_t>{1, 0, 1, 0}));
  EXPECT_EQ(pattern("[0, 1, 1, 1]").pattern, (std::vector<std::uint8_t>{0, 1, 1, 1}));
  EXPECT_EQ(pattern("\"([0]*1+[1]*3)\"").pattern, (std::vector<std::uint8_t>{0, 1, 1, 1}));
  EXPECT_EQ(pattern("\"1\"").pattern, (std::vector<std::uint8_t>{0, 0, 0, 0}));
  EXPECT_EQ(pattern("\"1\"").blocks.size(), 1u);
  const std::string all = bad("num_layers: 4\nmoe_layer_freq: \"[1]*3\"\n", "mixtral_8x22B_v0.1");
  EXPECT_NE(all.find("3 entries for 4 layers"), std::string::npos) << all;
  EXPECT_NE(bad("moe_layer_freq: \"exec('x')\"\n", "mixtral_8x22B_v0.1").find("`moe_layer_freq`:"),
            std::string::npos);
}

TEST_F(Checkout, NullGroupsAreAllHeads) {
  const job::JobSpec spec = job("num_query_groups: null\n");
  EXPECT_EQ(std::get<layer::AttentionSpec>(spec.model.blocks[0].mixer).kv_heads, 32);
}

TEST_F(Checkout, GradientFormats) {
  EXPECT_EQ(job("").optimizer.main_gradient, DType::fp32);
  EXPECT_EQ(job("grad_reduce_in_bf16: true\n").optimizer.main_gradient, DType::bf16);
  EXPECT_EQ(job("bf16: false\nfp16: true\n").optimizer.main_gradient, DType::fp16);
  EXPECT_NE(bad("main_grads_dtype: bf16\n").find("without use_precision_aware_optimizer"),
            std::string::npos);
  EXPECT_NE(bad("fp16: true\n").find("`fp16` and `bf16` are both on"), std::string::npos);
}

TEST_F(Checkout, UnknownVocabularyIsAskedFor) {
  const std::string path = experiment(
      "tokenizer_type: HuggingFaceTokenizer\n"
      "tokenizer_model: somebody/new-tokenizer\n");
  ReadOptions options;
  const std::string all = faults_of(read_job(path, options));
  EXPECT_NE(all.find("exp.yaml:13:24: error: the vocabulary is not known"), std::string::npos)
      << all;
  options.sets = {"model.vocab=50000"};
  EXPECT_EQ(good(read_job(path, options)).job.model.vocab, 50000);
  EXPECT_EQ(job("tokenizer_model: somebody/new\nvocab_size: 777\n").model.vocab, 777);
  EXPECT_EQ(job("padded_vocab_size: 1024\n").model.vocab, 1024);
}

TEST_F(Checkout, UnmodelledMixersAreRefused) {
  EXPECT_NE(bad("is_hybrid_model: true\n")
                .find("layers dealt by `hybrid_attention_ratio` are not modelled"),
            std::string::npos);
}

TEST_F(Checkout, WrongKindsHavePlaces) {
  const std::string all = bad("micro_batch_size: many\nbf16: perhaps\n");
  EXPECT_NE(all.find("exp.yaml:12:25: error: `micro_batch_size` must be an integer"),
            std::string::npos)
      << all;
  EXPECT_NE(all.find("`bf16` must be true or false"), std::string::npos) << all;
}

TEST_F(Checkout, OtherFrameworksAreNamed) {
  const std::string path =
      write("examples/exp.yaml",
            "work_group: a\nuser_name: b\nexp_name: test\nworkspace: ./output\n"
            "modules:\n  pre_trainer:\n    framework: torchtitian\n    model: x\n");
  EXPECT_NE(faults_of(read_job(path, Environment{})).find("did you mean `torchtitan`?"),
            std::string::npos);
}

TEST_F(Checkout, IncompleteExperiment) {
  const std::string path = write("examples/exp.yaml", "exp_name: x\nmodules: {helper: {}}\n");
  const std::string all = faults_of(read_job(path, Environment{}));
  EXPECT_NE(all.find("needs `work_group`"), std::string::npos) << all;
  EXPECT_NE(all.find("unknown module `helper`"), std::string::npos) << all;
}

}  // namespace
}  // namespace eratos::reader
