#include "eratos/reader/job_yaml.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "eratos/job/optimizer.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/decode.h"
#include "eratos/reader/fields.h"
#include "eratos/reader/job_names.h"
#include "eratos/reader/layout.h"
#include "eratos/reader/recompute_policy.h"
#include "eratos/reader/schedule_words.h"

namespace eratos::reader {

namespace {

using job::JobSpec;
using text::Node;

// Faults of a value that was looked up take the place of the word that named it.
template <class T>
bool adopt(Result<T> found, T& to, Fields& top, const char* key, const Node& word,
           Diagnostics& bad) {
  if (found) {
    to = std::move(*found);
    return true;
  }
  for (Diagnostic d : found.error()) {
    if (d.where.file.empty()) d.where = word.where();
    if (d.field.empty()) d.field = top.path_of(key);
    bad.push_back(std::move(d));
  }
  return false;
}

void read_model(Fields& top, JobSpec& job, Diagnostics& bad) {
  const Node* node = top.need("model");
  if (node == nullptr) return;
  if (node->is_mapping()) {
    adopt(decode_model(*node, "model"), job.model, top, "model", *node, bad);
  } else if (node->is_scalar()) {
    adopt(load_model(node->raw()), job.model, top, "model", *node, bad);
  } else {
    top.fail("model", "`model` must be a catalogue name or a mapping");
  }
}

void read_framework(Fields& top, JobSpec& job, Diagnostics& bad) {
  const Node* node = top.get("framework");
  if (node == nullptr) {
    const Node nowhere;
    adopt(load_framework(kDefaultFramework), job.framework, top, "framework", nowhere, bad);
    return;
  }
  if (!node->is_mapping()) {
    adopt(load_framework(node->raw()), job.framework, top, "framework", *node, bad);
    return;
  }
  const Node* profile = node->find("profile");
  if (profile == nullptr || !profile->is_scalar()) {
    top.fail("framework", "`framework.profile` is missing", "name one, such as megatron@2026.06");
    return;
  }
  auto tree = load_tree(Kind::frameworks, profile->raw());
  if (!tree) {
    adopt(Result<framework::FrameworkProfile>(faults(tree.error())), job.framework, top,
          "framework", *profile, bad);
    return;
  }
  Node changes = *node;
  changes.erase("profile");
  for (const char* fixed : {"name", "generation", "aliases", "source"}) {
    if (changes.find(fixed) != nullptr) {
      top.fail("framework", std::string("`framework.") + fixed + "` belongs to the profile",
               "name another one with `framework.profile`");
    }
  }
  const Node merged = text::merge(std::move(*tree), changes);
  adopt(decode_framework(merged, "framework"), job.framework, top, "framework", *node, bad);
}

void read_cluster(Fields& top, JobSpec& job, Diagnostics& bad) {
  const Node* node = top.get("cluster");
  job.cluster = {};
  if (node == nullptr) return;
  if (node->is_mapping()) {
    adopt(decode_cluster(*node), job.cluster, top, "cluster", *node, bad);
  } else {
    adopt(load_cluster(node->raw()), job.cluster, top, "cluster", *node, bad);
  }
}

void read_order(Fields& fields, parallel::ParallelSpec& spec) {
  std::string text;
  if (!fields.read("order", text)) return;
  std::vector<parallel::Axis> axes;
  std::string word;
  const auto take = [&] {
    for (const auto& [name, axis] : kOrderAxes) {
      if (word == name && std::find(axes.begin(), axes.end(), axis) == axes.end()) {
        axes.push_back(axis);
      }
    }
    word.clear();
  };
  for (const char c : text) {
    if (c == '-') {
      take();
    } else {
      word += c;
    }
  }
  take();
  if (axes.size() != spec.order.size() ||
      text.size() != std::string_view("tp-cp-ep-dp-pp").size()) {
    fields.fail("order", "`parallel.order` is `" + text + "`",
                "write tp, cp, ep, dp and pp once each, innermost first: tp-cp-ep-dp-pp");
    return;
  }
  std::copy(axes.begin(), axes.end(), spec.order.begin());
}

void read_parallel(Fields& top, JobSpec& job, Diagnostics& bad) {
  Fields p = top.child("parallel");
  p.read("tp", job.parallel.tp);
  p.read("pp", job.parallel.pp);
  const bool vpp = p.read("vpp", job.parallel.vpp);
  p.read("cp", job.parallel.cp);
  p.read_name("cp_kind", job.parallel.cp_kind, kCpKinds);
  p.read("ep", job.parallel.ep);
  p.read("etp", job.parallel.etp);
  p.read("sequence_parallel", job.parallel.sequence_parallel);
  read_order(p, job.parallel);
  std::string layout;
  if (const Node* node = p.get("layout"); node != nullptr && p.read("layout", layout)) {
    adopt(parse_layout(layout), job.layout, p, "layout", *node, bad);
    const int stages = static_cast<int>(job.layout.stages.size());
    if (!vpp && job.parallel.pp > 0 && stages > 0 && stages % job.parallel.pp == 0) {
      job.parallel.vpp = stages / job.parallel.pp;
    }
  }
  p.read("first_stage_layers", job.layout.first_stage_layers);
  p.read("last_stage_layers", job.layout.last_stage_layers);
  p.read("embedding_counts", job.layout.embedding_counts);
  p.read("output_counts", job.layout.output_counts);
  p.finish();

  Fields sharding = top.child("sharding");
  sharding.read_name("stage", job.parallel.sharding, kShardings);
  sharding.read("group", job.parallel.hsdp_group);
  sharding.finish();
  const bool hsdp = job.parallel.sharding == parallel::Sharding::hsdp;
  if (hsdp && job.parallel.hsdp_group < 1) {
    sharding.fail("group", "`sharding.stage: hsdp` needs `sharding.group`",
                  "say how many ranks share one full copy");
  }
  const bool zero3 = job.parallel.sharding == parallel::Sharding::zero3;
  if (!hsdp && !zero3 && job.parallel.hsdp_group != 0) {
    sharding.fail("group",
                  "`sharding.group` only means something with `sharding.stage: hsdp` or zero3",
                  "remove it, or use hsdp");
  }
}

void read_modules(Fields& fields, const char* key, job::ModuleSet& modules) {
  std::vector<std::string> words;
  if (!fields.read(key, words)) return;
  modules.reset();
  std::vector<std::string> known;
  known.reserve(modules.size());
  for (std::size_t i = 0; i < modules.size(); ++i) {
    known.emplace_back(ops::name_of(static_cast<ops::Module>(i)));
  }
  for (const std::string& word : words) {
    const auto at = std::find(known.begin(), known.end(), word);
    if (at == known.end()) {
      fields.fail(key, "unknown module `" + word + "`", suggestion(word, known));
    } else {
      modules.set(static_cast<std::size_t>(at - known.begin()));
    }
  }
}

void read_recompute(Fields& top, job::RecomputeSpec& spec) {
  Fields recompute = top.child("recompute");
  const bool granularity = recompute.read_name("granularity", spec.granularity, kGranularities);
  const job::Granularity said = spec.granularity;
  recompute.read_name("method", spec.method, kMethods);
  recompute.read("layers", spec.layers);
  read_modules(recompute, "modules", spec.modules);
  recompute.read("layer_ids", spec.layer_ids);
  if (recompute.read("policy", spec.policy) && !set_policy(spec.policy, spec)) {
    recompute.fail("policy", "unknown recompute policy `" + spec.policy + "`",
                   "use a name of data/recompute_policies.csv: op-level, minimal, ...");
  } else if (!spec.policy.empty() && granularity && said != job::Granularity::full) {
    recompute.fail("granularity",
                   "`recompute.granularity: " + std::string(job::name_of(said)) +
                       "` beside the policy `" + spec.policy + "`, which recomputes in full",
                   "set recompute.granularity: full, or recompute.policy: null");
  }
  recompute.finish();
}

void read_optimizer(Fields& top, JobSpec& job) {
  job.optimizer.main_gradient = job::default_gradient(job.framework, job.precision);
  job.optimizer.exp_avg = job.framework.state.moments;
  job.optimizer.exp_avg_sq = job.framework.state.moments;
  Fields optimizer = top.child("optimizer");
  if (optimizer.read("kind", job.optimizer.kind) &&
      job::find_optimizer(job.optimizer.kind) == nullptr) {
    const std::vector<std::string> known(job::kOptimizerNames.begin(), job::kOptimizerNames.end());
    optimizer.fail("kind", "unknown optimizer `" + job.optimizer.kind + "`",
                   suggestion(job.optimizer.kind, known));
  }
  optimizer.read("main_parameter", job.optimizer.main_parameter);
  optimizer.read("main_gradient", job.optimizer.main_gradient);
  optimizer.read("exp_avg", job.optimizer.exp_avg);
  optimizer.read("exp_avg_sq", job.optimizer.exp_avg_sq);
  optimizer.read("precision_aware", job.optimizer.precision_aware);
  optimizer.finish();
}

void read_overlap_and_schedule(Fields& top, JobSpec& job) {
  Fields overlap = top.child("overlap");
  overlap.read("grad_reduce", job.overlap.grad_reduce);
  overlap.read("param_gather", job.overlap.param_gather);
  overlap.read("tp", job.overlap.tp);
  overlap.read("moe_a2a", job.overlap.moe_a2a);
  overlap.read("p2p", job.overlap.p2p);
  overlap.finish();
  Fields schedule = top.child("schedule");
  schedule.read("activation_limit", job.schedule.activation_limit);
  if (std::string word; schedule.read("algorithm", word)) {
    const int limit = job.schedule.activation_limit;
    if (!set_schedule(word, job)) job.schedule.algorithm = word;  // job::check() says what is known
    if (limit > 0) job.schedule.activation_limit = limit;
  }
  schedule.read("group_size", job.schedule.group_size);
  schedule.read_name("output_layer", job.schedule.output_layer, kOutputLayerNames);
  schedule.read("post_validation", job.schedule.post_validation);
  schedule.finish();
}

void read_kernels(Fields& top, JobSpec& job) {
  Fields moe = top.child("moe");
  moe.read_name("dispatcher", job.routing.dispatcher, kDispatchers);
  moe.read("capacity_factor", job.routing.capacity_factor);
  moe.read("pad_to_capacity", job.routing.pad_to_capacity);
  moe.read("row_multiple", job.routing.row_multiple);
  moe.read_name("routing", job.routing.balance, kBalances);
  moe.read("skew", job.routing.skew);
  moe.finish();

  Fields attention = top.child("attention");
  attention.read_name("implementation", job.attention, kAttentionKernels);
  attention.finish();

  job.loss_fused = job.framework.loss.fused_by_default;
  Fields loss = top.child("loss");
  loss.read("fused", job.loss_fused);
  loss.finish();

  Fields dropout = top.child("dropout");
  dropout.read("hidden", job.hidden_dropout);
  dropout.read("attention", job.attention_dropout);
  for (const char* key : {"hidden", "attention"}) {
    const double p = key[0] == 'h' ? job.hidden_dropout : job.attention_dropout;
    if (p < 0 || p >= 1) {
      dropout.fail(key, "`" + dropout.path_of(key) + "` is no probability below 1");
    }
  }
  dropout.finish();

  Fields mtp = top.child("mtp");
  mtp.read("train", job.mtp);
  mtp.finish();

  Fields graphs = top.child("graphs");
  graphs.read("share", job.graph_share);
  read_modules(graphs, "modules", job.graph_modules);
  if (job.graph_share < 0 || job.graph_share > 1) {
    graphs.fail("share", "`graphs.share` must lie between 0 and 1");
  }
  graphs.finish();

  Fields offload = top.child("offload");
  offload.read("optimizer", job.offload.optimizer);
  read_modules(offload, "activations", job.offload.activations);
  offload.read("layers", job.offload.layers);
  offload.finish();

  Fields lora = top.child("lora");
  if (lora.exists()) {
    if (lora.require("rank", job.lora.rank) && job.lora.rank < 1) {
      lora.fail("rank", "`lora.rank: " + std::to_string(job.lora.rank) + "` is no adapter",
                "give 1 or more, or lora: null for full training");
    }
    lora.read("alpha", job.lora.alpha);
    lora.read("dropout", job.lora.dropout);
    job.lora.targets = default_lora_targets();
    read_modules(lora, "modules", job.lora.targets);
    if (job.lora.dropout < 0 || job.lora.dropout >= 1) {
      lora.fail("dropout", "`lora.dropout` is no probability below 1");
    }
    lora.finish();
  }
}

}  // namespace

Result<JobSpec> decode_job(const Node& root) {
  Diagnostics bad;
  JobSpec job;
  Fields top(&root, "", bad);
  if (root.is_null()) {
    return fault({.where = root.where(),
                  .message = "the job is empty",
                  .cure = "name at least `model` and `batch`"});
  }
  top.read("name", job.name);
  read_model(top, job, bad);
  read_framework(top, job, bad);
  read_cluster(top, job, bad);
  read_parallel(top, job, bad);

  Fields batch = top.child("batch");
  if (!batch.exists()) top.need("batch");
  batch.read("micro", job.batch.micro);
  batch.require("global", job.batch.global);
  batch.require("sequence", job.batch.sequence);
  batch.read("packed_length", job.batch.packed_length);
  batch.finish();

  job.gradient_reduce_bf16 = !job.framework.state.gradient_reduce_fp32;
  Fields precision = top.child("precision");
  precision.read_name("recipe", job.precision, kRecipes);
  if (precision.read_name("gradient_reduce", job.gradient_reduce_bf16, kReduceFormats) &&
      !job.gradient_reduce_bf16) {
    job.framework.state.gradient_reduce_fp32 = true;  // the job's word against the profile's
  }
  precision.read("bf16_first_layers", job.narrow.bf16_first_layers);
  precision.read("bf16_last_layers", job.narrow.bf16_last_layers);
  precision.read("parameter_gather", job.narrow.parameter_gather);
  precision.read("narrow_attention", job.narrow.attention);
  precision.read("narrow_output_layer", job.narrow.output_layer);
  precision.finish();

  read_recompute(top, job.recompute);
  read_optimizer(top, job);
  read_overlap_and_schedule(top, job);
  read_kernels(top, job);
  top.finish();
  if (!bad.empty()) return faults(std::move(bad));
  if (job.name.empty()) job.name = job.model.name;
  return job;
}

Result<JobRead> read_job_yaml(const Node& root) {
  auto job = decode_job(root);
  if (!job) return faults(job.error());
  JobRead out;
  out.job = std::move(*job);
  out.has_cluster = !out.job.cluster.accelerator.name.empty();
  out.report.format = "eratos job";
  out.report.resolved = root;
  note_leaves(out.report, root, "", Origin::user);
  const Node written = job_to_node(out.job);
  for_each_value(written, "", [&](const std::string& path, const Node& value) {
    if (out.report.provenance.contains(path)) return;
    Provenance from{.value = shown(value)};
    from.origin = Origin::framework_default;
    from.rule = "nothing said";
    if (path == "name") {
      from.origin = Origin::derived;
      from.rule = "the model's name";
    } else if (path == "parallel.vpp" && !out.job.layout.stages.empty()) {
      from.origin = Origin::derived;
      from.rule = "stages of parallel.layout / parallel.pp";
    } else if (path.rfind("model.", 0) == 0) {
      from.origin = Origin::catalogue;
      from.rule = "what the model's mapping implies";
    }
    out.report.provenance[path] = std::move(from);
  });
  return out;
}

}  // namespace eratos::reader
