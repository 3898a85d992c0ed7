#include "eratos/reader/megatron_args.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "eratos/reader/read_job.h"
#include "eratos/reader/shell_script.h"
#include "expect.h"

namespace eratos::reader {
namespace {

const std::string kData = std::string(ERATOS_SOURCE_DIR) + "/tests/data/megatron-args/";

const Environment kSet = {{"TP", "2"},
                          {"PP", "4"},
                          {"EP", "8"},
                          {"CP", "1"},
                          {"MBS", "1"},
                          {"GBS", "256"},
                          {"VPP", "2"},
                          {"SEQ_LEN", "4096"},
                          {"LAYERS_PER_VP", "1"},
                          {"MOE_GROUPED_GEMM", "true"},
                          {"MOE_TOKEN_DISPATCHER", "alltoall"}};

TEST(MegatronYaml, Mixtral) {
  const JobRead read = good(read_job(kData + "Mixtral-8x22B.yaml", kSet));
  EXPECT_EQ(read.report.format, "Megatron-LM arguments (YAML)");
  EXPECT_EQ(read.job.name, "Mixtral-8x22B");
  EXPECT_EQ(read.job.model.layers(), 56);
  EXPECT_EQ(read.job.model.vocab, 32000);
  EXPECT_EQ(read.job.parallel.tp, 2);
  EXPECT_EQ(read.job.parallel.etp, 1);
  EXPECT_EQ(read.job.batch.global, 256);
  EXPECT_EQ(read.job.precision, job::Recipe::bf16);
  EXPECT_EQ(read.job.hidden_dropout, 0);
  EXPECT_TRUE(read.job.loss_fused);
  const auto& mixer = std::get<layer::AttentionSpec>(read.job.model.blocks.front().mixer);
  EXPECT_EQ(mixer.kv_heads, 8);
  EXPECT_FALSE(mixer.out_bias);
  EXPECT_EQ(read.report.provenance.at("parallel.tp").where.line, 12);
}

// Everything that matters and is not set, and nothing else, at once.
TEST(MegatronYaml, UnsetPlaceholdersAreListedTogether) {
  const std::string text = faults_of(read_job(kData + "DeepSeek-V3.yaml", Environment{}));
  for (const char* name : {"TP", "PP", "EP", "CP", "MBS", "GBS", "SEQ_LEN"}) {
    EXPECT_NE(text.find("environment variable `" + std::string(name) + "` is not set"),
              std::string::npos)
        << name;
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7) << text;
  EXPECT_EQ(text.find("WANDB"), std::string::npos);
  EXPECT_EQ(text.find("DATA_PATH"), std::string::npos);
}

TEST(MegatronYaml, AMisspeltKeyIsAFault) {
  const auto root = yaml(
      "MODEL_ARGS:\n  --num-layers: 2\n  --hidden-size: 64\n  --num-attention-heads: 4\n"
      "  --seq-length: 64\n  --global-batch-size: 8\n  --vocab-size: 1000\n"
      "  --tensor-model-paralel-size: 2\n");
  EXPECT_NE(faults_of(read_megatron_yaml(root, "job.yaml", {}))
                .find("did you mean `tensor_model_parallel_size`?"),
            std::string::npos);
}

TEST(MegatronScript, LaunchScript) {
  const JobRead read = good(read_job(kData + "launch.sh", Environment{}));
  EXPECT_EQ(read.report.format, "Megatron-LM arguments (launch script)");
  EXPECT_EQ(read.job.model.layers(), 32);
  EXPECT_EQ(read.job.model.hidden, 4096);
  EXPECT_EQ(read.job.model.vocab, 32000);
  EXPECT_EQ(read.job.parallel.tp, 2);
  EXPECT_EQ(read.job.parallel.pp, 1);
  EXPECT_EQ(read.job.batch.global, 256);  // 8 for each of 8 x 4
  EXPECT_EQ(read.job.precision, job::Recipe::bf16);
  EXPECT_TRUE(read.job.parallel.sequence_parallel);
  EXPECT_EQ(read.follows.accelerators, 32);
  // The place of a value is where it stands in the script.
  const Location layers = read.report.provenance.at("model.layers").where;
  EXPECT_EQ(layers.line, 25);
  EXPECT_EQ(layers.column, 18);
  const JobRead other = good(read_job(
      kData + "launch.sh", Environment{{"TP", "4"}, {"GBS", "512"}, {"SLURM_NNODES", "8"}}));
  EXPECT_EQ(other.job.parallel.tp, 4);
  EXPECT_EQ(other.job.batch.global, 512);
  EXPECT_EQ(other.follows.accelerators, 64);
}

TEST(MegatronScript, ArgumentString) {
  const JobRead read = good(read_megatron_script(
      "--num-layers 24 --hidden-size=1024 --num-attention-heads 16 --seq-length 1024 "
      "--max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 64 "
      "--tokenizer-type GPT2BPETokenizer --fp16 --no-bias-gelu-fusion",
      "args.txt", {}));
  EXPECT_EQ(read.job.model.layers(), 24);
  EXPECT_EQ(read.job.model.hidden, 1024);
  EXPECT_EQ(read.job.precision, job::Recipe::fp16);
  EXPECT_EQ(read.job.model.vocab, 50257);
  EXPECT_FALSE(read.job.framework.fusions.activation);
}

// A hybrid stack: a letter a layer, experts in a latent width, prediction modules behind the bar.
// One option a line without continuation: a list of arguments where nothing else stands, a script
// whose command ends too early otherwise.
TEST(MegatronScript, AnOptionALine) {
  const std::string list =
      "# sizes\n--num-layers 2\n--hidden-size 512\n--num-attention-heads 8\n--seq-length 128\n"
      "--max-position-embeddings 128\n--micro-batch-size 1\n--global-batch-size 8\n"
      "--vocab-size 1000\n--bf16\n";
  const JobRead read = good(read_megatron_script(list, "args.txt", {}));
  EXPECT_EQ(read.job.model.layers(), 2);
  EXPECT_EQ(read.job.model.hidden, 512);
  EXPECT_EQ(read.job.batch.sequence, 128);
  EXPECT_EQ(read.report.provenance.at("batch.global").where.line, 8);

  const std::string bad = faults_of(
      read_megatron_script("torchrun pretrain_gpt.py --num-layers 2 \\\n--hidden-size 512\n"
                           "--num-attention-heads 8 --seq-length 128\n",
                           "run.sh", {}));
  EXPECT_EQ(bad.rfind("run.sh:3:1: error: `--num-attention-heads` begins a command", 0), 0U) << bad;
}

TEST(MegatronScript, TheAllocatorsSetting) {
  const std::string run =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 512 "
      "--num-attention-heads 8 --seq-length 128 --max-position-embeddings 128 "
      "--micro-batch-size 1 --global-batch-size 8 --vocab-size 1000 --bf16\n";
  EXPECT_FALSE(good(read_megatron_script(run, "run.sh", {}))
                   .job.framework.memory.expandable_segments);
  const JobRead read = good(read_megatron_script(
      "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:512\n" + run,
      "run.sh", {}));
  EXPECT_TRUE(read.job.framework.memory.expandable_segments);
  EXPECT_EQ(read.report.provenance.at("framework.memory.expandable_segments").where.line, 1);
  EXPECT_TRUE(std::any_of(read.report.warnings.begin(), read.report.warnings.end(),
                          [](const Warning& w) { return w.code == "allocator"; }));
}

TEST(MegatronScript, HybridPattern) {
  const JobRead read = good(read_megatron_script(
      "--num-layers 5 --hidden-size 1024 --num-attention-heads 16 --seq-length 4096 "
      "--max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --bf16 "
      "--vocab-size 131072 --hybrid-override-pattern 'MEM*E/*E' --mamba-num-heads 32 "
      "--mamba-state-dim 128 --num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 512 "
      "--moe-latent-size 256 --squared-relu --disable-bias-linear --position-embedding-type none "
      "--normalization RMSNorm --untie-embeddings-and-output-weights",
      "args.txt", {}));
  const model::Architecture& a = read.job.model;
  EXPECT_EQ(a.pattern, (std::vector<std::uint8_t>{0, 1, 0, 2, 1}));
  EXPECT_EQ(std::get<layer::MambaSpec>(a.blocks[0].mixer).heads, 32);
  EXPECT_EQ(std::get<layer::MoeSpec>(a.blocks[1].feed_forward).latent, 256);
  EXPECT_EQ(a.mtp_layers, 1);
  EXPECT_TRUE(layer::has_mixer(a.mtp_block()));
}

TEST(MegatronLog, ArgumentsBlock) {
  const JobRead read = good(read_job(kData + "run.log", Environment{}));
  EXPECT_EQ(read.report.format, "arguments that a Megatron-LM run printed");
  EXPECT_EQ(read.job.model.layers(), 80);
  EXPECT_EQ(read.job.parallel.tp, 8);
  EXPECT_EQ(read.job.parallel.pp, 4);
  EXPECT_EQ(read.job.parallel.vpp, 4);
  EXPECT_EQ(read.job.model.vocab, 129024);
  EXPECT_EQ(read.job.recompute.granularity, job::Granularity::none);
  EXPECT_EQ(read.follows.accelerators, 256);
  EXPECT_TRUE(read.report.unused.empty());
  bool hint = false;
  for (const Warning& w : read.report.warnings) {
    hint = hint || w.message.find("256 accelerators") != std::string::npos;
  }
  EXPECT_TRUE(hint);
}

std::vector<std::string> last_command(const std::string& script, const Environment& env = {}) {
  const ShellScript read = read_shell(script, "run.sh", env);
  std::vector<std::string> out;
  if (read.commands.empty()) return out;
  for (const ShellWord& word : read.commands.back()) out.push_back(word.text);
  return out;
}

using Words = std::vector<std::string>;

TEST(Shell, QuotesAndContinuations) {
  EXPECT_EQ(last_command("run 'a b' \"c $X\" d\\ e \\\n  f # g\n", {{"X", "1"}}),
            (Words{"run", "a b", "c 1", "d e", "f"}));
}

TEST(Shell, VariablesAndDefaults) {
  EXPECT_EQ(last_command("A=1\nrun $A ${A} ${B:-2} ${B:=3} $B ${A:+yes} ${C}\n"),
            (Words{"run", "1", "1", "2", "3", "3", "yes", "${C}"}));
  EXPECT_EQ(last_command("export TP=${TP:-8}\nrun $TP\n", {{"TP", "4"}}), (Words{"run", "4"}));
  EXPECT_EQ(last_command("TP=$1\nrun $TP\n", {{"TP", "4"}}), (Words{"run", "4"}));
  EXPECT_EQ(last_command("TP=$(nproc)\nrun $TP\n"), (Words{"run", "${TP}"}));
}

TEST(Shell, Arrays) {
  EXPECT_EQ(last_command("A=(-x 1\n  # no\n  -y \"2 3\")\nA+=(-z)\nrun ${A[@]}\n"),
            (Words{"run", "-x", "1", "-y", "2", "3", "-z"}));
  EXPECT_EQ(last_command("A=(-x \"2 3\")\nrun \"${A[@]}\"\n"), (Words{"run", "-x", "2 3"}));
  EXPECT_EQ(last_command("A=()\nrun \"${A[@]}\" end\n"), (Words{"run", "end"}));
}

TEST(Shell, Arithmetic) {
  EXPECT_EQ(last_command("N=4\nrun $((N * 8 + 2)) $(( ($N - 1) / 2 )) $((7 % 4))\n"),
            (Words{"run", "34", "1", "3"}));
  EXPECT_EQ(last_command("run $((1 / 0))\n"), (Words{"run", "${OUTPUT_OF_COMMAND}"}));
}

TEST(Shell, Conditions) {
  const std::string script =
      "if [ \"$SIZE\" = 7B ]; then\n  L=32\nelif [[ $SIZE == 13B ]]; then\n  L=40\nelse\n  "
      "L=80\nfi\n"
      "[ -z \"$X\" ] && X=9\nrun $L $X\n";
  EXPECT_EQ(last_command(script, {{"SIZE", "7B"}}), (Words{"run", "32", "9"}));
  EXPECT_EQ(last_command(script, {{"SIZE", "13B"}, {"X", "1"}}), (Words{"run", "40", "1"}));
  EXPECT_EQ(last_command(script, {{"SIZE", "70B"}}), (Words{"run", "80", "9"}));
  const std::string choice =
      "case $SIZE in\n  7B|8B)\n    L=32\n    ;;\n  *)\n    L=1\n    ;;\nesac\nrun $L\n";
  EXPECT_EQ(last_command(choice, {{"SIZE", "8B"}}), (Words{"run", "32"}));
  EXPECT_EQ(last_command(choice, {{"SIZE", "x"}}), (Words{"run", "1"}));
}

TEST(Shell, WhatIsNotFollowedIsNoted) {
  const ShellScript read =
      read_shell("if grep -q x file; then\n  L=1\nfi\nwhile true; do\n  L=2\ndone\nrun ${L:-3}\n",
                 "run.sh", {});
  ASSERT_EQ(read.notes.size(), 2U);
  EXPECT_EQ(read.notes[0].at.line, 1);
  EXPECT_EQ(read.notes[1].at.line, 4);
  EXPECT_EQ(read.commands.back().back().text, "3");
  EXPECT_EQ(last_command("cat <<EOF\nrun wrong\nEOF\nrun right > log 2>&1 &\n"),
            (Words{"run", "right"}));
}

}  // namespace
}  // namespace eratos::reader
