#include "eratos/reader/job_yaml.h"

#include <gtest/gtest.h>

#include <string>

#include "eratos/reader/layout.h"
#include "eratos/reader/set_value.h"
#include "eratos/text/dump.h"
#include "expect.h"

namespace eratos::reader {
namespace {

constexpr const char* kMixtral =
    "model: mixtral-8x22b\n"
    "parallel: {tp: 1, pp: 4, vpp: 2, cp: 1, cp_kind: p2p, ep: 8, etp: 1,\n"
    "           sequence_parallel: false, order: tp-cp-ep-dp-pp, layout: null}\n"
    "batch: {micro: 2, global: 256, sequence: 8192}\n"
    "precision: {recipe: bf16}\n"
    "sharding: {stage: zero1, group: null}\n"
    "recompute: {granularity: none}\n"
    "optimizer: {kind: adam}\n"
    "overlap: {grad_reduce: true, param_gather: true, tp: false, moe_a2a: false}\n"
    "schedule: {algorithm: interleaved-1f1b, group_size: null}\n"
    "moe: {dispatcher: alltoall, capacity_factor: null, routing: balanced}\n"
    "attention: {implementation: flash}\n"
    "loss: {fused: true}\n"
    "lora: null\n"
    "framework: megatron@2026.06\n"
    "cluster: mi355x-8x8\n";

constexpr const char* kSmall =
    "model: llama3.1-8b\n"
    "batch: {global: 64, sequence: 8192}\n";

std::string canonical(const job::JobSpec& job) { return text::to_yaml(job_to_node(job)); }

TEST(JobYaml, TheDocumentedExample) {
  const JobRead read = good(read_job_yaml(yaml(kMixtral)));
  const job::JobSpec& job = read.job;
  EXPECT_EQ(job.model.layers(), 56);
  EXPECT_EQ(job.parallel.pp, 4);
  EXPECT_EQ(job.parallel.vpp, 2);
  EXPECT_EQ(job.parallel.ep, 8);
  EXPECT_EQ(job.parallel.sharding, parallel::Sharding::zero1);
  EXPECT_EQ(job.batch.global, 256);
  EXPECT_EQ(job.schedule.algorithm, "interleaved-1f1b");
  EXPECT_EQ(job.framework.name, "megatron");
  EXPECT_EQ(job.cluster.gpus(), 64);
  EXPECT_TRUE(read.has_cluster);
  job::CheckedJob checked;
  EXPECT_EQ(text_of(job::check(job, checked)), "");
  EXPECT_EQ(checked.micro_batches, 8);  // 256 / (2 * 64 / 4)
}

TEST(JobYaml, SmallJobTakesDefaultsAndNamesThem) {
  const JobRead read = good(read_job_yaml(yaml(kSmall)));
  EXPECT_FALSE(read.has_cluster);
  EXPECT_EQ(read.job.name, "llama3.1-8b");
  EXPECT_EQ(read.job.batch.micro, 1);
  EXPECT_EQ(read.report.provenance.at("batch.micro").origin, Origin::framework_default);
  EXPECT_EQ(read.report.provenance.at("batch.global").origin, Origin::user);
  EXPECT_EQ(read.report.provenance.at("batch.global").where.line, 2);
  EXPECT_EQ(read.report.provenance.at("batch.global").where.column, 17);
  EXPECT_GT(read.report.defaults().size(), 20u);
}

constexpr const char* kSkewed =
    "model: mixtral-8x22b\n"
    "parallel: {pp: 4, ep: 8}\n"
    "batch: {micro: 2, global: 256, sequence: 8192}\n"
    "moe: {routing: skewed, skew: 0.3}\n"
    "graphs: {modules: [router, dispatch]}\n"
    "cluster: mi355x-8x8\n";

TEST(JobYaml, RoutingIsReadAndChecked) {
  const auto faults = [](double skew, job::Balance balance) {
    job::JobSpec spec = good(read_job_yaml(yaml(kSkewed))).job;
    spec.routing.skew = skew;
    spec.routing.balance = balance;
    job::CheckedJob checked;
    return text_of(job::check(spec, checked));
  };
  const job::JobSpec job = good(read_job_yaml(yaml(kSkewed))).job;
  EXPECT_EQ(job.routing.balance, job::Balance::skewed);
  EXPECT_EQ(job.routing.skew, 0.3);
  EXPECT_TRUE(job.graph_modules.test(static_cast<std::size_t>(ops::Module::router)));
  EXPECT_EQ(faults(0.3, job::Balance::skewed), "");
  EXPECT_EQ(faults(0, job::Balance::random), "");
  EXPECT_NE(faults(0.3, job::Balance::random).find("under routing random"), std::string::npos);
  EXPECT_NE(faults(0, job::Balance::skewed).find("a skew of 0.00"), std::string::npos);
  // 2 of 8 experts: sqrt(8 / 2 - 1) at most.
  EXPECT_EQ(faults(1.73, job::Balance::skewed), "");
  EXPECT_NE(faults(1.74, job::Balance::skewed).find("at most at 1.73"), std::string::npos);
}

TEST(JobYaml, WrittenJobReadsBack) {
  const std::string all[] = {
      kMixtral,
      kSkewed,
      kSmall,
      std::string(kSmall) + "parallel: {pp: 2, layout: \"Et*8|t*8|t*8|t*8,L\"}\n",
      std::string(kSmall) +
          "parallel: {pp: 4, first_stage_layers: 5, embedding_counts: true, "
          "order: tp-cp-dp-ep-pp, cp: 2, cp_kind: all_gather}\n",
      std::string(kSmall) + "sharding: {stage: hsdp, group: 8}\ncluster: gcp-a3-4x8\n",
      std::string(kSmall) +
          "recompute: {granularity: selective, modules: [core_attention, norm]}\n",
      std::string(kSmall) +
          "recompute: {granularity: full, method: block, layers: 3, "
          "layer_ids: [0, 5]}\n",
      std::string(kSmall) +
          "precision: {recipe: fp8-current, gradient_reduce: bf16}\n"
          "optimizer: {main_gradient: bf16, exp_avg: bf16, exp_avg_sq: fp8, "
          "precision_aware: true}\n",
      std::string(kSmall) +
          "framework: {profile: megatron, fusions: {permute: true}, "
          "vocab_divisible_by: 64}\n",
      std::string(kSmall) +
          "moe: {dispatcher: deepep, capacity_factor: 1.25}\n"
          "dropout: {hidden: 0.1, attention: 0.1}\ngraphs: {share: 0.5}\n"
          "mtp: {train: false}\nloss: {fused: false}\n"
          "attention: {implementation: unfused}\nschedule: {group_size: 4}\n"
          "overlap: {grad_reduce: false, tp: true, moe_a2a: true, p2p: false}\n",
  };
  for (const std::string& text : all) {
    const job::JobSpec job = good(decode_job(yaml(text)), text);
    const text::Node written = job_to_node(job);
    const job::JobSpec again = good(decode_job(written), text::to_yaml(written));
    EXPECT_EQ(canonical(again), canonical(job));
    // The written text, not only the tree.
    const job::JobSpec parsed = good(decode_job(yaml(text::to_yaml(written))), text);
    EXPECT_EQ(canonical(parsed), canonical(job));
    // And with everything spelt out.
    const text::Node all_of = job_to_node(job, {.model = true, .framework = true, .cluster = true});
    EXPECT_EQ(canonical(good(decode_job(all_of), text::to_yaml(all_of))), canonical(job));
  }
}

TEST(JobYaml, CatalogueNamesStayNames) {
  const text::Node written = job_to_node(good(decode_job(yaml(kMixtral))));
  EXPECT_EQ(written.find("model")->raw(), "mixtral-8x22b");
  EXPECT_EQ(written.find("framework")->raw(), "megatron@2026.06");
  EXPECT_EQ(written.find("cluster")->raw(), "mi355x-8x8");
}

TEST(JobYaml, ChangedModelIsWrittenOut) {
  job::JobSpec job = good(decode_job(yaml(kSmall)));
  job.model.vocab = 1000;
  const text::Node written = job_to_node(job);
  ASSERT_TRUE(written.find("model")->is_mapping());
  EXPECT_EQ(good(decode_job(written)).model.vocab, 1000);
}

TEST(JobYaml, AllFaultsAtOnceWithPlaces) {
  const std::string bad =
      faults_of(decode_job(yaml("model: llama3.1-8\n"
                                "batch: {global: many, sequnce: 8192}\n"
                                "parallel: {tp: 2, ppp: 4}\n"
                                "precision: {recipe: fp9}\n"
                                "colour: red\n")));
  EXPECT_NE(bad.find("job.yaml:1:8: error: unknown model `llama3.1-8`; did you mean "
                     "`llama3.1-8b`?"),
            std::string::npos)
      << bad;
  EXPECT_NE(bad.find("job.yaml:2:17: error: `batch.global` must be an integer"), std::string::npos)
      << bad;
  EXPECT_NE(bad.find("job.yaml:2:23: error: unknown key `batch.sequnce`; did you mean "
                     "`batch.sequence`?"),
            std::string::npos)
      << bad;
  EXPECT_NE(bad.find("`batch.sequence` is missing"), std::string::npos) << bad;
  EXPECT_NE(bad.find("job.yaml:3:19: error: unknown key `parallel.ppp`; did you mean "
                     "`parallel.pp`?"),
            std::string::npos)
      << bad;
  EXPECT_NE(bad.find("`precision.recipe` cannot be `fp9`"), std::string::npos) << bad;
  EXPECT_NE(bad.find("job.yaml:5:1: error: unknown key `colour`"), std::string::npos) << bad;
}

TEST(JobYaml, ContradictorySharding) {
  const std::string group =
      faults_of(decode_job(yaml(std::string(kSmall) + "sharding: {stage: zero2, group: 8}\n")));
  EXPECT_NE(group.find("job.yaml:3:33: error: `sharding.group` only means something with"),
            std::string::npos)
      << group;
  const std::string none =
      faults_of(decode_job(yaml(std::string(kSmall) + "sharding: {stage: hsdp}\n")));
  EXPECT_NE(none.find("needs `sharding.group`"), std::string::npos) << none;
}

TEST(JobYaml, EmptyOrNoMapping) {
  EXPECT_NE(faults_of(decode_job(yaml(""))).find("the job is empty"), std::string::npos);
  EXPECT_NE(faults_of(decode_job(yaml("[1, 2]"))).find("must be a mapping"), std::string::npos);
}

TEST(JobYaml, OrderHasEveryAxisOnce) {
  for (const char* order : {"tp-cp-ep-dp", "tp-tp-ep-dp-pp", "tp-cp-ep-dp-xx", "tp,cp,ep,dp,pp"}) {
    EXPECT_NE(
        faults_of(decode_job(yaml(std::string(kSmall) + "parallel: {order: \"" + order + "\"}\n")))
            .find("once each"),
        std::string::npos)
        << order;
  }
}

TEST(JobYaml, LoraAndOffloadAreRead) {
  const job::JobSpec job =
      good(decode_job(yaml(std::string(kSmall) +
                           "lora: {rank: 8, alpha: 16, dropout: 0.1, modules: [qkv, mlp_out]}\n"
                           "offload: {optimizer: 0.5, activations: [mlp_in], layers: 2}\n"
                           "recompute: {policy: minimal_flash}\n")));
  EXPECT_EQ(job.lora.rank, 8);
  EXPECT_EQ(job.lora.alpha, 16);
  EXPECT_EQ(job.lora.dropout, 0.1);
  EXPECT_EQ(job.lora.targets.count(), 2u);
  EXPECT_EQ(job.offload.optimizer, 0.5);
  EXPECT_EQ(job.offload.layers, 2);
  EXPECT_TRUE(job.offload.activations.test(static_cast<std::size_t>(ops::Module::mlp_in)));
  EXPECT_EQ(job.recompute.granularity, job::Granularity::full);
  EXPECT_EQ(job.recompute.kept.count(), 10u);
  // Written and read again it is the same job.
  const job::JobSpec again = good(decode_job(job_to_node(job)));
  EXPECT_EQ(job_to_node(again), job_to_node(job));
  EXPECT_EQ(again.lora.targets, job.lora.targets);
  // Where nothing is said, all four linears of a dense layer.
  EXPECT_EQ(good(decode_job(yaml(std::string(kSmall) + "lora: {rank: 8}\n"))).lora.targets.count(),
            4u);
  for (const char* bad : {"lora: {alpha: 8}\n", "lora: {rank: 0}\n", "lora: {rank: -1}\n",
                          "lora: {rank: 8, modules: [norms]}\n", "recompute: {policy: minimum}\n",
                          "optimizer: {kind: adamm}\n"}) {
    EXPECT_FALSE(decode_job(yaml(std::string(kSmall) + bad)).has_value()) << bad;
  }
}

TEST(JobYaml, NarrowOptionsAreRead) {
  const job::JobSpec job =
      good(decode_job(yaml(std::string(kSmall) + "precision: {recipe: nvfp4, bf16_first_layers: 1, "
                                                 "bf16_last_layers: 4, parameter_gather: true}\n"
                                                 "optimizer: {kind: muon}\n")));
  EXPECT_EQ(job.precision, job::Recipe::nvfp4);
  EXPECT_EQ(job.narrow.bf16_first_layers, 1);
  EXPECT_EQ(job.narrow.bf16_last_layers, 4);
  EXPECT_TRUE(job.narrow.parameter_gather);
  EXPECT_EQ(job.optimizer.kind, "muon");
  const job::JobSpec again = good(decode_job(job_to_node(job)));
  EXPECT_EQ(job_to_node(again), job_to_node(job));
}

TEST(JobYaml, FrameworkFieldsCanBeChanged) {
  const job::JobSpec job = good(decode_job(
      yaml(std::string(kSmall) + "framework: {profile: megatron, fusions: {permute: true}}\n")));
  EXPECT_TRUE(job.framework.fusions.permute);
  EXPECT_TRUE(job.framework.fusions.norm);
  const std::string bad = faults_of(decode_job(
      yaml(std::string(kSmall) + "framework: {profile: megatron, fusions: {premute: true}}\n")));
  EXPECT_NE(bad.find("did you mean `framework.fusions.permute`?"), std::string::npos) << bad;
}

TEST(Locate, FaultsOfTheCoreGetTheirLine) {
  JobRead read = good(read_job_yaml(yaml(std::string(kMixtral))));
  Diagnostics bad{{.message = "a", .field = "batch.global"},
                  {.message = "b", .field = "parallel"},
                  {.message = "c", .field = "model.heads"}};
  locate(bad, read.report);
  EXPECT_EQ(bad[0].where.line, 4);
  EXPECT_EQ(bad[1].where.line, 2);
  EXPECT_EQ(bad[2].where.line, 1);
  EXPECT_EQ(bad[2].where.column, 8);
}

TEST(Set, ChangesOneField) {
  JobRead read = good(read_job_yaml(yaml(kSmall)));
  good(apply_sets(read, {"parallel.tp=4", "batch.micro=2", "cluster=h100-sxm-2x8"}));
  EXPECT_EQ(read.job.parallel.tp, 4);
  EXPECT_EQ(read.job.batch.micro, 2);
  EXPECT_EQ(read.job.cluster.gpus(), 16);
  EXPECT_TRUE(read.has_cluster);
  EXPECT_EQ(read.report.provenance.at("parallel.tp").origin, Origin::command_line);
  EXPECT_EQ(read.report.provenance.at("batch.global").origin, Origin::user);
}

TEST(Set, ReachesIntoModelFrameworkAndLayout) {
  JobRead read = good(read_job_yaml(yaml(kSmall)));
  good(apply_sets(read, {"model.layers=16", "framework.fusions.permute=true", "parallel.pp=2",
                         "parallel.layout=E(t*8|)t*8L", "cluster=mi355x-1x8", "cluster.nodes=4",
                         "recompute.layer_ids=[0, 3]"}));
  EXPECT_EQ(read.job.model.layers(), 16);
  EXPECT_TRUE(read.job.framework.fusions.permute);
  EXPECT_EQ(read.job.layout.stages.size(), 2u);
  EXPECT_EQ(read.job.cluster.gpus(), 32);
  EXPECT_EQ(read.job.recompute.layer_ids, (std::vector<int>{0, 3}));
  good(apply_sets(read, {"model=llama2-7b", "parallel.layout=null"}));
  EXPECT_EQ(read.job.model.vocab, 32000);
  EXPECT_TRUE(read.job.layout.stages.empty());
}

TEST(Set, UnknownPathsAreSuggested) {
  JobRead read = good(read_job_yaml(yaml(kSmall)));
  const std::string bad = faults_of(
      apply_sets(read, {"batch.globl=1", "tp=4", "parallel.tp=two", "nonsense", "zzzzzzzz=1"}));
  EXPECT_NE(bad.find("--set batch.globl=1: error: unknown key `batch.globl`; did you mean "
                     "`batch.global`?"),
            std::string::npos)
      << bad;
  EXPECT_NE(bad.find("--set tp=4: error: unknown key `tp`; did you mean `parallel.tp"),
            std::string::npos)
      << bad;
  EXPECT_NE(bad.find("--set nonsense: error: no KEY=VALUE"), std::string::npos) << bad;
  EXPECT_NE(bad.find("--set zzzzzzzz=1: error: unknown key"), std::string::npos) << bad;
  EXPECT_EQ(read.job.batch.global, 64);
}

TEST(Set, BadValuesStandAtTheFlag) {
  JobRead read = good(read_job_yaml(yaml(kSmall)));
  const std::string bad = faults_of(apply_sets(read, {"parallel.tp=two", "model=lama2-7b"}));
  EXPECT_NE(bad.find("--set parallel.tp=two: error: `parallel.tp` must be an integer"),
            std::string::npos)
      << bad;
  EXPECT_NE(bad.find("--set model=lama2-7b: error: unknown model `lama2-7b`; did you mean "
                     "`llama2-7b`?"),
            std::string::npos)
      << bad;
}

TEST(Set, TheScheduleStandsAtItsFlag) {
  JobRead read = good(read_job_yaml(yaml(kSmall)));
  good(apply_sets(read, {"parallel.tp=4"}, "zbv"));
  EXPECT_EQ(read.job.schedule.algorithm, "zbv");
  EXPECT_EQ(read.job.parallel.tp, 4);
  EXPECT_EQ(read.report.provenance.at("schedule.algorithm").where.file, "--schedule zbv");
  EXPECT_EQ(read.report.provenance.at("parallel.tp").where.file, "--set parallel.tp=4");
  good(apply_sets(read, {"schedule.algorithm=1f1b"}, "zbv"));  // --set has the last word
  EXPECT_EQ(read.job.schedule.algorithm, "1f1b");
}

TEST(Set, ClusterFlagAndNodes) {
  JobRead read = good(read_job_yaml(yaml(kSmall)));
  EXPECT_NE(faults_of(apply_cluster(read, "", 2)).find("there is no cluster"), std::string::npos);
  good(apply_cluster(read, "mi355x-8x8", 2));
  EXPECT_EQ(read.job.cluster.gpus(), 16);
  EXPECT_NE(faults_of(apply_cluster(read, "mi35x-8x8", 0)).find("--cluster mi35x-8x8: error:"),
            std::string::npos);
}

TEST(DecodeJob, ThousandsOfUnknownKeysAreCounted) {
  std::string many = kSmall;
  for (int i = 0; i < 40'000; ++i) many += "zqzq_" + std::to_string(i) + ": 1\n";
  const std::string bad = faults_of(decode_job(yaml(many)));
  EXPECT_EQ(std::count(bad.begin(), bad.end(), '\n'), 21);
  EXPECT_NE(bad.find("unknown key `zqzq_19`"), std::string::npos) << bad;
  EXPECT_EQ(bad.find("unknown key `zqzq_20`"), std::string::npos);
  EXPECT_NE(bad.find("and 39980 more unknown keys"), std::string::npos) << bad;
}

TEST(DecodeJob, APolicyRecomputesInFull) {
  const std::string head = std::string(kSmall) + "recompute: {policy: minimal";
  EXPECT_EQ(good(decode_job(yaml(head + "}\n"))).recompute.granularity, job::Granularity::full);
  EXPECT_EQ(good(decode_job(yaml(head + ", granularity: full}\n"))).recompute.policy, "minimal");
  for (const char* granularity : {"none", "selective"}) {
    const std::string bad =
        faults_of(decode_job(yaml(head + ", granularity: " + granularity + "}\n")));
    EXPECT_NE(bad.find(std::string("`recompute.granularity: ") + granularity +
                       "` beside the policy `minimal`"),
              std::string::npos)
        << bad;
    EXPECT_NE(bad.find("recompute.policy: null"), std::string::npos) << bad;
  }
}

TEST(Layout, WorkedExample) {
  const auto layout = good(parse_layout("Et*2|(t|)*2 t*2,L"));
  ASSERT_EQ(layout.stages.size(), 4u);
  EXPECT_TRUE(layout.stages[0].embedding);
  EXPECT_EQ(layout.stages[0].layers, 2);
  EXPECT_EQ(layout.stages[1].layers, 1);
  EXPECT_EQ(layout.stages[3].layers, 2);
  EXPECT_TRUE(layout.stages[3].output);
  EXPECT_EQ(layout_text(layout.stages), "Et*2|t|t|t*2L");
}

TEST(Layout, GroupsMtpAndBlanks) {
  const auto layout = good(parse_layout("E t*4|(t*4|)*14 t m L"));
  ASSERT_EQ(layout.stages.size(), 16u);
  EXPECT_EQ(layout.stages[14].layers, 4);
  EXPECT_EQ(layout.stages[15].layers, 1);
  EXPECT_EQ(layout.stages[15].mtp, 1);
  EXPECT_EQ(good(parse_layout("E|t|L")).stages[0].layers, 0);
}

TEST(Layout, BadStrings) {
  for (const char* text :
       {"Ex|L", "E(t|L", "Et*0|L", "Et*|L", "Et)|L", "E|L", "(((t*1000)*1000)*9)", ""}) {
    EXPECT_FALSE(parse_layout(text).has_value()) << text;
  }
  EXPECT_NE(faults_of(parse_layout("Ex|L")).find("unknown letter `x` at character 2"),
            std::string::npos);
}

// What Megatron asserts of the order, with the character at fault.
TEST(Layout, OrdersThatMegatronRefuses) {
  const struct {
    const char* text;
    const char* why;
  } cases[] = {
      {"t*4|(t*4|)*14tL", "does not begin with the embedding at character 1"},
      {"|Et|tL", "does not begin with the embedding at character 1"},
      {"tE|tL", "does not begin with the embedding at character 1"},
      {"EEt|tL", "a second embedding `E` at character 2"},
      {"Et|EtL", "a second embedding `E` at character 4"},
      {"Et*4|(t*4|)*14t", "a layout without the output `L` at character 16"},
      {"Et|tLL", "a second output `L` at character 6"},
      {"EtL|tL", "a stage after the output `L` at character 4"},
      {"Et|Lt", "a layer after the output `L` at character 5"},
      {"Et|tLm", "a layer after the output `L` at character 6"},
      {"Etm|tL", "a decoder layer `t` after a prediction layer `m` at character 5"},
      {"Et|tm|mL", "prediction layers `m` on two stages at character 7"},
  };
  for (const auto& c : cases) {
    const std::string bad = faults_of(parse_layout(c.text));
    EXPECT_NE(bad.find(c.why), std::string::npos) << c.text << "\n" << bad;
  }
  EXPECT_TRUE(parse_layout("Et|t|m|L").has_value());  // prediction modules alone on a stage
}

TEST(ListExpression, ReadsWhatMegatronEvaluates) {
  const auto list = good(parse_list_expression("([0]*3+[1]*58)", "f"));
  ASSERT_EQ(list.size(), 61u);
  EXPECT_EQ(list[2], 0);
  EXPECT_EQ(list[3], 1);
  EXPECT_EQ(good(parse_list_expression("[1,0]", "f")), (std::vector<int>{1, 0}));
  EXPECT_EQ(good(parse_list_expression("2*([0]+[1])", "f")), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(good(parse_list_expression("([0, 1]*2)*2", "f")).size(), 8u);
}

TEST(ListExpression, EvaluatesNothingElse) {
  for (const char* text :
       {"__import__('os')", "[1]*", "[1]*1000000*1000000", "[0]+", "[1", "3", "[1]-[0]", ""}) {
    EXPECT_FALSE(parse_list_expression(text, "f").has_value()) << text;
  }
}

}  // namespace
}  // namespace eratos::reader
