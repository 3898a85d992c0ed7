#include "eratos/reader/export_job.h"

#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "eratos/base/rng.h"
#include "eratos/parallel/schedules.h"
#include "eratos/projection/projection.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/reader/layout.h"
#include "eratos/reader/nanotron.h"
#include "eratos/reader/primus.h"
#include "eratos/reader/read_job.h"
#include "eratos/reader/recompute_policy.h"
#include "eratos/reader/torchtitan.h"
#include "eratos/reader/graph_scopes.h"
#include "eratos/text/toml.h"
#include "expect.h"

namespace eratos::reader {
namespace {

std::set<std::string> paths(const std::vector<Unsaid>& unsaid) {
  std::set<std::string> out;
  for (const Unsaid& u : unsaid) out.insert(u.path);
  return out;
}

std::string shown(const std::vector<Unsaid>& unsaid) {
  std::string out;
  for (const Unsaid& u : unsaid) out += u.path + ": " + u.value + " read as " + u.read + "\n";
  return out;
}

// What `eratos import` makes of a Primus text.
JobRead primus_read(const std::string& text) {
  const text::Node root = good(text::parse_yaml(text, "again.yaml"), "yaml");
  return good(primus_job(good(resolve_primus(root, "again.yaml", {}), text)), text);
}

// import, export, import gives the same job: every experiment of the tests' own checkout.
TEST(ExportJob, EveryPrimusExperimentComesBack) {
  const std::string folder =
      std::string(ERATOS_SOURCE_DIR) + "/tests/data/primus/examples/megatron/configs/";
  for (const char* file :
       {"MI300X/llama3.1_8B-BF16-pretrain.yaml", "MI355X/deepseek_v3-FP8-pretrain.yaml",
        "MI355X/llama3.1_70B-BF16-pretrain.yaml", "MI355X/llama3.1_8B-BF16-pretrain.yaml",
        "MI355X/llama3.1_8B-MXFP8-pretrain.yaml", "MI355X/mixtral_8x22B_v0.1-BF16-pretrain.yaml",
        "MI355X/qwen3_235B_A22B-BF16-pretrain.yaml"}) {
    const Environment environment{{"HF_TOKEN", "none"}};
    const auto read = read_job(folder + file, environment);
    ASSERT_TRUE(read.has_value()) << file << text_of(read.error());
    const auto written = good(export_job(read->job, "primus"), file);
    EXPECT_EQ(shown(written.unsaid), "") << file;
    const JobRead again = primus_read(written.text);
    EXPECT_EQ(job_to_node(again.job), job_to_node(read->job)) << file;
    EXPECT_TRUE(again.report.unused.empty()) << file << again.report.unused.front().key;
  }
}

template <class T>
T pick(Rng& rng, std::initializer_list<T> items) {
  return *(items.begin() + rng.below(items.size()));
}
bool toss(Rng& rng) { return rng.below(2) == 1; }

bool legal(const job::JobSpec& job) {
  job::CheckedJob checked;
  return job::check(job, checked).empty() && projection::schedule_faults(checked).empty();
}

// Schedules that Primus runs, for the chunks that the job has: its own 1F1B orders, the zero-bubble
// ones of its pipeline, and those of the zero-bubble patch, which alone checks the step afterwards.
void random_primus_schedule(Rng& rng, job::JobSpec& job) {
  if (job.parallel.pp == 1) return;
  if (job.parallel.vpp > 2) {
    job.schedule.algorithm = pick(rng, {"auto", "interleaved-1f1b"});
  } else if (job.parallel.vpp == 2) {
    job.schedule.algorithm = pick(rng, {"auto", "interleaved-1f1b", "zbv", "v-half", "v-min"});
  } else {
    job.schedule.algorithm = pick(rng, {"auto", "1f1b", "zb-h1", "zb-auto"});
  }
  const parallel::ScheduleFacts* facts = parallel::find_schedule_facts(job.schedule.algorithm);
  const bool patched = facts != nullptr && facts->splits_backward && facts->name != "zb-h1";
  if (job.schedule.algorithm == "zb-auto") {
    job.schedule.activation_limit = pick(rng, {1, 2}) * job.parallel.pp;
  }
  if (patched) job.schedule.post_validation = toss(rng);
}

// Jobs of everything that Megatron's arguments can say; some are no legal jobs.
job::JobSpec drawn_job(Rng& rng, const char* framework) {
  job::JobSpec job;
  job.model = good(load_model(pick(rng, {"llama3.1-8b", "llama2-70b", "mixtral-8x7b", "gpt3-175b",
                                         "deepseek-v2-lite", "deepseek-v3", "qwen3-30b-a3b"})));
  const bool moe = model::is_moe(job.model);
  job.name = "random";
  job.framework = good(load_framework(framework));
  job.cluster = good(load_cluster("mi355x-32x8"));
  job.parallel.tp = pick(rng, {1, 2, 4, 8});
  job.parallel.pp = pick(rng, {1, 2, 4});
  job.parallel.cp = pick(rng, {1, 2});
  job.parallel.cp_kind =
      pick(rng, {parallel::CpKind::p2p, parallel::CpKind::all_gather, parallel::CpKind::a2a});
  job.parallel.ep = moe ? pick(rng, {1, 2, 4, 8}) : 1;
  job.parallel.etp = moe ? pick(rng, {1, job.parallel.tp}) : 1;
  job.parallel.sequence_parallel = toss(rng);
  if (job.parallel.pp > 1) job.parallel.vpp = pick(rng, {1, 2, 4});
  if (toss(rng)) {
    job.parallel.order = {parallel::Axis::tp, parallel::Axis::cp, parallel::Axis::ep,
                          parallel::Axis::pp, parallel::Axis::dp};
  }
  job.parallel.sharding = pick(rng, {parallel::Sharding::none, parallel::Sharding::zero1,
                                     parallel::Sharding::zero2, parallel::Sharding::zero3});
  if (job.parallel.pp > 1 && toss(rng)) {
    job.layout.first_stage_layers = 3;
    job.layout.last_stage_layers = 2;
    job.layout.output_counts = toss(rng);
  }
  job.batch = {.micro = pick(rng, {1, 2, 4}),
               .global = pick(rng, {256, 1024}),
               .sequence = pick(rng, {2048, 8192})};
  job.precision = pick(rng, {job::Recipe::bf16, job::Recipe::fp16, job::Recipe::fp8_delayed,
                             job::Recipe::fp8_current, job::Recipe::fp8_blockwise,
                             job::Recipe::mxfp8, job::Recipe::mxfp4, job::Recipe::nvfp4});
  job.optimizer.main_gradient = DType::fp32;
  if (job.precision != job::Recipe::fp16 && toss(rng)) {
    job.optimizer.main_gradient = DType::bf16;
    job.gradient_reduce_bf16 = true;
  }
  if (toss(rng)) {
    job.optimizer.precision_aware = true;
    job.optimizer.exp_avg = pick(rng, {DType::fp32, DType::bf16});
    job.optimizer.exp_avg_sq = pick(rng, {DType::fp32, DType::fp16});
  }
  switch (rng.below(4)) {
    case 0:
      break;
    case 1:
      job.recompute.granularity = job::Granularity::full;
      job.recompute.method =
          pick(rng, {job::RecomputeMethod::block, job::RecomputeMethod::uniform});
      job.recompute.layers = pick(rng, {1, 2, 4});
      break;
    case 2:
      job.recompute.granularity = job::Granularity::selective;
      job.recompute.modules.set(static_cast<std::size_t>(ops::Module::core_attention));
      if (toss(rng)) job.recompute.modules.set(static_cast<std::size_t>(ops::Module::norm));
      break;
    default:
      job.recompute.granularity = job::Granularity::full;
      if (job.framework.name == "megatron") {
        job.recompute.method = job::RecomputeMethod::block;
        job.recompute.layers = 3;
      } else {
        job.recompute.layer_ids = {0, 3, 5};
      }
  }
  const bool zero3 = job.parallel.sharding == parallel::Sharding::zero3;
  job.overlap.grad_reduce = zero3 || toss(rng);
  job.overlap.param_gather =
      zero3 || (job.overlap.grad_reduce && job.parallel.sharding != parallel::Sharding::none);
  job.overlap.tp = toss(rng);
  job.overlap.moe_a2a = moe && toss(rng);
  job.overlap.p2p = toss(rng);
  job.schedule.group_size = pick(rng, {0, 8});
  job.routing.dispatcher = pick(rng, {job::Dispatcher::alltoall, job::Dispatcher::allgather,
                                      job::Dispatcher::deepep, job::Dispatcher::hybridep});
  if (!moe) job.routing.dispatcher = job::Dispatcher::alltoall;
  if (moe && toss(rng)) job.routing.capacity_factor = 1.25;
  job.attention = pick(rng, {layer::AttentionKernel::flash, layer::AttentionKernel::unfused});
  job.loss_fused = toss(rng);
  job.hidden_dropout = pick(rng, {0.0, 0.1});
  job.attention_dropout = pick(rng, {0.0, 0.1});
  job.graph_share = pick(rng, {0.0, 1.0});
  if (job.graph_share == 0 && toss(rng)) add_graph_scope("attn", job.graph_modules);
  job.framework.fusions.activation = toss(rng);
  job.framework.fusions.rotary = toss(rng);
  job.framework.fusions.permute = toss(rng);
  job.framework.vocab_divisible_by = pick(rng, {1, 128});
  if (job.framework.name == "primus-megatron") random_primus_schedule(rng, job);
  return job;
}

// A legal one, on 256 accelerators.
job::JobSpec random_job(Rng& rng, const char* framework) {
  for (;;) {
    job::JobSpec job = drawn_job(rng, framework);
    if (legal(job)) return job;
  }
}

// All but the cluster came back.
std::string shown_but_cluster(std::vector<Unsaid> unsaid) {
  std::erase_if(unsaid, [](const Unsaid& u) { return u.path == "cluster"; });
  return shown(unsaid);
}

TEST(ExportJob, ThreeHundredRandomJobsComeBackFromPrimus) {
  Rng rng(3);
  std::set<std::string> schedules;
  for (int i = 0; i < 300; ++i) {
    const job::JobSpec job = random_job(rng, "primus-megatron");
    schedules.insert(job.schedule.algorithm + (job.schedule.post_validation ? " checked" : ""));
    const auto written = good(export_job(job, "primus"), std::to_string(i));
    EXPECT_EQ(shown_but_cluster(written.unsaid), "") << i;
    if (HasFailure()) break;
    EXPECT_EQ(shown(unsaid_of(job, primus_read(written.text).job)), "") << i;
  }
  EXPECT_EQ(schedules,
            (std::set<std::string>{"auto", "1f1b", "interleaved-1f1b", "zb-h1", "zb-auto",
                                   "zb-auto checked", "zbv", "zbv checked", "v-half",
                                   "v-half checked", "v-min", "v-min checked"}));
}

// Megatron-LM has no list of recomputed layers; Primus has.
TEST(ExportJob, SingleLayersAreRefusedByMegatron) {
  job::JobSpec job;
  job.model = good(load_model("llama3.1-8b"));
  job.framework = good(load_framework("primus-megatron"));
  job.cluster = good(load_cluster("mi355x-1x8"));
  job.parallel.sharding = parallel::Sharding::zero1;
  job.batch = {.micro = 1, .global = 64, .sequence = 2048};
  job.recompute.granularity = job::Granularity::full;
  job.recompute.layer_ids = {0, 3};
  EXPECT_TRUE(paths(good(export_job(job, "primus")).unsaid).count("recompute.layer_ids") == 0);
  const auto refused = export_job(job, "megatron");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error()[0].field, "recompute.layer_ids");
  EXPECT_NE(refused.error()[0].cure.find("--to primus"), std::string::npos);
}

TEST(ExportJob, ThreeHundredRandomJobsComeBackFromMegatronsArguments) {
  Rng rng(5);
  for (int i = 0; i < 300; ++i) {
    const job::JobSpec job = random_job(rng, "megatron");
    const auto written = good(export_job(job, "megatron"), std::to_string(i));
    EXPECT_EQ(shown_but_cluster(written.unsaid), "") << i;
    if (HasFailure()) break;
  }
}

// What Megatron's and Primus's words cannot say is named, schedule by schedule; its own 1F1B orders
// by their names are what it runs anyway.
TEST(ExportJob, SchedulesThatCannotBeSaidAreNamed) {
  for (const parallel::ScheduleFacts& facts : parallel::kScheduleFacts) {
    if (facts.name == "none") continue;
    job::JobSpec job;
    job.model = good(load_model("llama3.1-8b"));
    job.framework = good(load_framework("megatron"));
    job.cluster = good(load_cluster("mi355x-32x8"));
    job.parallel.sharding = parallel::Sharding::zero1;
    job.parallel.pp = 4;
    job.parallel.vpp = facts.least_vpp;
    job.batch = {.micro = 1, .global = 1024, .sequence = 2048};
    job.schedule.algorithm = std::string(facts.name);
    ASSERT_TRUE(legal(job)) << facts.name;
    const bool own = facts.name == "1f1b" || facts.name == "interleaved-1f1b";
    EXPECT_EQ(paths(good(export_job(job, "megatron")).unsaid).contains("schedule.algorithm"), !own)
        << facts.name;
    if (!facts.cuts_output) continue;
    job.schedule.output_layer = parallel::OutputLayer::two_barriers;
    ASSERT_TRUE(legal(job)) << facts.name;
    for (const char* target : {"megatron", "primus", "torchtitan", "nanotron"}) {
      EXPECT_TRUE(paths(good(export_job(job, target)).unsaid).contains("schedule.output_layer"))
          << facts.name << ' ' << target;
    }
  }
}

JobRead titan_read(const std::string& text, const job::JobSpec& job) {
  const text::Node root = good(text::parse_toml(text, "again.toml"), text);
  JobRead read =
      good(read_torchtitan(root, {.format = "torchtitan (TOML)", .name = job.name}), text);
  read.job.cluster = job.cluster;
  read.has_cluster = !job.cluster.accelerator.name.empty();
  good(follow_cluster(read, {}));
  return read;
}

TEST(ExportJob, EveryTorchtitanFileComesBack) {
  for (const char* file :
       {"deepseek_v3_671b.toml", "llama3_405b.toml", "llama3_70b.toml", "llama3_8b.toml"}) {
    for (const char* cluster : {"", "h100-sxm-64x8"}) {
      const auto read = read_job(std::string(ERATOS_SOURCE_DIR) + "/tests/data/torchtitan/" + file,
                                 ReadOptions{.cluster = cluster});
      ASSERT_TRUE(read.has_value()) << file << text_of(read.error());
      const auto written = good(export_job(read->job, "torchtitan"), file);
      auto named = paths(written.unsaid);
      named.erase("cluster");
      EXPECT_TRUE(named.empty()) << file << shown(written.unsaid);
      const JobRead again = titan_read(written.text, read->job);
      EXPECT_EQ(job_to_node(again.job, {.framework = true}),
                job_to_node(read->job, {.framework = true}))
          << written.text;
    }
  }
}

// Layers of stages dealt evenly, the embedding and the output counted as `first` and `last`.
std::vector<job::StageLayout> dealt(int layers, int stages, int first, int last) {
  std::vector<job::StageLayout> out;
  int left = layers + first + last;
  for (int i = 0; i < stages; ++i) {
    const int here = (left + stages - i - 1) / (stages - i);
    left -= here;
    out.push_back({.layers = here, .embedding = i == 0, .output = i == stages - 1});
  }
  out.front().layers -= first;
  out.back().layers -= last;
  return out;
}

// Jobs of everything that torchtitan's keys can say, on 256 accelerators; some are not legal.
job::JobSpec drawn_titan_job(Rng& rng) {
  job::JobSpec job;
  job.model = good(load_model(pick(rng, {"llama3.1-8b", "llama3.1-70b", "deepseek-v2-lite",
                                         "deepseek-v3-nomtp", "qwen3-30b-a3b", "qwen3-8b"})));
  const bool moe = model::is_moe(job.model);
  job.name = "random";
  job.framework = good(load_framework(pick(rng, {"torchtitan", "torchtitan-eager"})));
  job.cluster = good(load_cluster("mi355x-32x8"));
  job.parallel.tp = pick(rng, {1, 2, 4, 8});
  job.parallel.sequence_parallel = job.parallel.tp > 1;
  job.parallel.pp = pick(rng, {1, 2, 4});
  job.parallel.cp = pick(rng, {1, 2});
  job.parallel.cp_kind = pick(rng, {parallel::CpKind::p2p, parallel::CpKind::all_gather});
  job.parallel.ep = moe ? pick(rng, {1, 2, 4, 8}) : 1;
  job.parallel.etp = moe ? pick(rng, {1, job.parallel.tp}) : 1;
  const int shared = 256 / (job.parallel.tp * job.parallel.pp);
  job.parallel.sharding = pick(rng, {parallel::Sharding::none, parallel::Sharding::zero2,
                                     parallel::Sharding::zero3, parallel::Sharding::hsdp});
  // Ranks of context parallelism always share what is sharded.
  if (job.parallel.sharding == parallel::Sharding::none) job.parallel.cp = 1;
  if (job.parallel.sharding == parallel::Sharding::hsdp) {
    // One shard a replica is DDP without context parallelism: more ranks share a copy.
    job.parallel.hsdp_group = pick(rng, {shared / 2, std::max(shared / 4, 4)});
  }
  if (job.parallel.pp > 1) {
    const bool chunks = toss(rng);
    job.parallel.vpp = chunks ? 2 : 1;
    job.schedule.algorithm = chunks
                                 ? pick(rng, {"interleaved-1f1b", "looped-bfs", "dualpipev", "zbv"})
                                 : pick(rng, {"1f1b", "gpipe"});
    job.layout.stages = dealt(job.model.layers(), job.parallel.pp * job.parallel.vpp,
                              pick(rng, {0, 1}), pick(rng, {0, 1, 2}));
    job.layout.text = layout_text(job.layout.stages);
  }
  job.batch = {.micro = pick(rng, {1, 2, 4}),
               .global = pick(rng, {512, 1024}),
               .sequence = pick(rng, {2048, 8192})};
  job.precision = pick(
      rng, {job::Recipe::bf16, job::Recipe::fp32, job::Recipe::fp8_current, job::Recipe::mxfp8});
  if (job.precision == job::Recipe::fp8_current && toss(rng)) {
    job.framework.state.gather_dtype = DType::fp8;
  }
  if (toss(rng)) {
    job.framework.state.stores_fp32_parameters = false;
    job.framework.state.master_weights = false;
  }
  job.gradient_reduce_bf16 = toss(rng);
  switch (rng.below(4)) {
    case 0:
      break;
    case 1:
      job.recompute.granularity = job::Granularity::full;
      break;
    case 2:
      EXPECT_TRUE(set_policy("op-level", job.recompute));
      break;
    default:
      job.recompute.granularity = job::Granularity::full;
      const int every = pick(rng, {2, 3});
      for (int i = every - 1; i < job.model.layers(); i += every) {
        job.recompute.layer_ids.push_back(i);
      }
  }
  job.overlap.tp = toss(rng);
  if (moe) {
    job.routing.dispatcher =
        pick(rng, {job::Dispatcher::alltoall, job::Dispatcher::deepep, job::Dispatcher::hybridep});
  }
  job.loss_fused = toss(rng);
  job.mtp = false;
  return job;
}

job::JobSpec random_titan_job(Rng& rng) {
  for (;;) {
    job::JobSpec job = drawn_titan_job(rng);
    if (legal(job)) return job;
  }
}

TEST(ExportJob, ThreeHundredRandomJobsComeBackFromTorchtitan) {
  Rng rng(13);
  std::set<std::string> schedules;
  for (int i = 0; i < 300; ++i) {
    const job::JobSpec job = random_titan_job(rng);
    schedules.insert(job.schedule.algorithm);
    const auto written = good(export_job(job, "torchtitan"), std::to_string(i));
    auto named = paths(written.unsaid);
    EXPECT_EQ(named.erase("cluster"), 1U) << i;
    EXPECT_TRUE(named.empty()) << i << ": " << shown(written.unsaid) << written.text;
    EXPECT_EQ(shown(unsaid_of(job, titan_read(written.text, job).job)), "") << i;
    if (HasFailure()) break;
  }
  EXPECT_EQ(schedules, (std::set<std::string>{"auto", "1f1b", "gpipe", "interleaved-1f1b",
                                              "looped-bfs", "dualpipev", "zbv"}));
}

// Jobs of everything that nanotron's keys can say, on 256 accelerators; legal ones.
job::JobSpec random_nanotron_job(Rng& rng) {
  for (;;) {
    job::JobSpec job;
    job.model = good(load_model(pick(rng, {"llama3.1-8b", "llama2-7b", "llama2-70b", "llama3.1-70b",
                                           "mixtral-8x7b", "qwen2.5-7b"})));
    const bool moe = model::is_moe(job.model);
    job.name = "random";
    job.framework = good(load_framework("nanotron"));
    job.cluster = good(load_cluster("mi355x-32x8"));
    job.parallel.tp = pick(rng, {1, 2, 4, 8});
    job.parallel.pp = pick(rng, {1, 2, 4});
    job.parallel.cp = pick(rng, {1, 2});
    job.parallel.ep = moe ? pick(rng, {1, 2, 4, 8}) : 1;
    job.parallel.etp = moe ? pick(rng, {1, job.parallel.tp}) : 1;
    job.parallel.sequence_parallel = toss(rng);
    job.parallel.sharding = pick(rng, {parallel::Sharding::none, parallel::Sharding::zero1,
                                       parallel::Sharding::zero2, parallel::Sharding::zero3});
    job.batch = {.micro = pick(rng, {1, 2, 3}),
                 .global = pick(rng, {512, 768, 1536}),
                 .sequence = pick(rng, {2048, 4096})};
    job.precision = pick(rng, {job::Recipe::bf16, job::Recipe::fp16, job::Recipe::fp32});
    job.optimizer.kind = pick(rng, {"adam", "sgd"});
    job.optimizer.main_gradient = pick(rng, {DType::fp32, DType::bf16});
    job.recompute.granularity = pick(rng, {job::Granularity::none, job::Granularity::full});
    job.overlap.tp = toss(rng);
    job.schedule.algorithm = pick(rng, {"1f1b", "gpipe"});
    job.framework.saved.gathered_input = toss(rng);
    job.framework.vocab_divisible_by = pick(rng, {1, 128});
    if (moe) {
      job.routing.dispatcher = pick(rng, {job::Dispatcher::alltoall, job::Dispatcher::allgather});
    }
    job.loss_fused = job.framework.loss.fused_by_default;
    if (legal(job)) return job;
  }
}

TEST(ExportJob, ThreeHundredRandomJobsComeBackFromNanotron) {
  Rng rng(19);
  for (int i = 0; i < 300; ++i) {
    const job::JobSpec job = random_nanotron_job(rng);
    const auto written = good(export_job(job, "nanotron"), std::to_string(i));
    EXPECT_EQ(shown_but_cluster(written.unsaid), "") << i << '\n' << written.text;
    if (HasFailure()) break;
    const text::Node root = good(text::parse_yaml(written.text, "again.yaml"), "yaml");
    EXPECT_EQ(shown(unsaid_of(job, good(read_nanotron(root, "again.yaml")).job)), "") << i;
  }
}

// gpt3-175b is no flavor: its [model] stays without a name, and that is said.
TEST(ExportJob, TorchtitanWithoutAFlavor) {
  Rng rng(17);
  job::JobSpec job = random_titan_job(rng);
  job.model = good(load_model("gpt3-175b"));
  job.parallel.pp = job.parallel.vpp = job.parallel.ep = 1;
  job.layout = {};
  const auto written = good(export_job(job, "torchtitan"));
  EXPECT_TRUE(paths(written.unsaid).contains("model")) << shown(written.unsaid);
  EXPECT_NE(written.text.find("#   model: gpt3-175b\n"), std::string::npos) << written.text;
  EXPECT_EQ(written.text.find("flavor ="), std::string::npos) << written.text;
}

TEST(ExportJob, WhatCannotBeSaidIsNamed) {
  Rng rng(7);
  job::JobSpec job = random_job(rng, "nanotron");
  job.parallel.order = {parallel::Axis::tp, parallel::Axis::pp, parallel::Axis::cp,
                        parallel::Axis::ep, parallel::Axis::dp};
  job.cluster = good(load_cluster("h100-sxm-8x8"));
  const auto written = good(export_job(job, "primus"));
  const auto named = paths(written.unsaid);
  EXPECT_TRUE(named.contains("framework.profile"));
  EXPECT_TRUE(named.contains("parallel.order"));
  EXPECT_TRUE(named.contains("cluster"));
  EXPECT_FALSE(named.contains("batch.global"));
  EXPECT_NE(written.text.find("#   parallel.order: tp-pp-cp-ep-dp (read as tp-cp-ep-dp-pp)\n"),
            std::string::npos);
}

// Low-rank training is no full training: Primus can say it, the others say that they cannot, first.
TEST(ExportJob, AdaptersAreWrittenOrNamed) {
  Rng rng(11);
  for (int i = 0; i < 40; ++i) {
    job::JobSpec job = random_job(rng, "primus-megatron");
    job.lora.rank = 8 * job.parallel.tp;
    job.lora.alpha = 16;
    job.lora.dropout = 0.05;
    for (const ops::Module m : {ops::Module::qkv, ops::Module::mlp_in}) {
      job.lora.targets.set(static_cast<std::size_t>(m));
    }
    if (model::is_moe(job.model)) {
      job.lora.targets.set(static_cast<std::size_t>(ops::Module::expert_in));
    }
    const auto primus = good(export_job(job, "primus"), std::to_string(i));
    EXPECT_EQ(shown_but_cluster(primus.unsaid), "") << i;
    EXPECT_NE(primus.text.find("post_trainer:"), std::string::npos);
    for (const char* target : {"megatron", "nanotron", "torchtitan"}) {
      const auto written = export_job(job, target);
      if (!written) continue;  // what it cannot read again at all, it does not write
      const Unsaid& first = written->unsaid.front();
      const bool model_first = first.path == "model";
      const Unsaid& lora = model_first ? written->unsaid.at(1) : first;
      EXPECT_EQ(lora.path, "lora") << target;
      EXPECT_EQ(lora.value, "adapters of rank " + std::to_string(job.lora.rank));
      EXPECT_EQ(lora.read, "full training");
      EXPECT_EQ(written->text.find("lora.rank"), std::string::npos);
    }
    if (HasFailure()) break;
  }
}

TEST(ExportJob, UnknownTargets) {
  EXPECT_NE(faults_of(export_job({}, "primos")).find("did you mean `primus`"), std::string::npos);
}

}  // namespace
}  // namespace eratos::reader
