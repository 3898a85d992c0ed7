#include "eratos/reader/export_job.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "eratos/job/placement.h"
#include "eratos/reader/export_rows.h"
#include "eratos/reader/fields.h"
#include "eratos/reader/import_report.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/reader/megatron_job.h"
#include "eratos/reader/nanotron.h"
#include "eratos/reader/primus.h"
#include "eratos/reader/primus_lora.h"
#include "eratos/reader/torchtitan.h"
#include "eratos/text/dump.h"
#include "eratos/text/toml.h"
#include "eratos/text/yaml.h"

namespace eratos::reader {

namespace {

using text::Node;

std::map<std::string, std::string> values_of(const job::JobSpec& job) {
  std::map<std::string, std::string> out;
  for_each_value(job_to_node(job, {.model = true, .framework = true}), "",
                 [&](const std::string& path, const Node& value) { out[path] = shown(value); });
  return out;
}

bool said_elsewhere(const std::string& path) {
  return path == "name" || path == "model.name" || path == "model.source" ||
         path == "model.parameters" || path == "cluster" || path.rfind("cluster.", 0) == 0;
}

// The remarks at the top of a file.
std::string heading(std::string_view what, const job::JobSpec& job,
                    const std::vector<Unsaid>& unsaid, std::string_view how) {
  std::string out =
      "# " + std::string(what) + " of the job `" + job.name + "`, written by eratos.\n";
  out += how;
  if (!unsaid.empty()) out += "# What cannot be said here:\n";
  for (const Unsaid& u : unsaid) {
    out += "#   " + u.path + ": " + u.value;
    if (!u.read.empty()) out += " (read as " + u.read + ")";
    out += '\n';
  }
  return out;
}

void add_cluster(const job::JobSpec& job, std::vector<Unsaid>& unsaid) {
  if (!job.cluster.name.empty()) unsaid.push_back({"cluster", job.cluster.name, ""});
}

Result<Exported> write_primus(const job::JobSpec& job) {
  const std::string name = job.name.empty() ? "job" : job.name;
  Node module = Node::mapping();
  module.set("framework", Node::string("megatron"));
  module.set("model", Node::string(job.model.name.empty() ? name : job.model.name));
  Node overrides = megatron_keys_of(job, true);
  if (job.lora.on()) overrides.set("lora", primus_lora_of(job.lora));
  module.set("overrides", std::move(overrides));
  Node modules = Node::mapping();
  modules.set(job.lora.on() ? "post_trainer" : "pre_trainer", std::move(module));
  Node root = Node::mapping();
  for (const auto& [key, value] : {std::pair{"work_group", "${TEAM:eratos}"},
                                   {"user_name", "${USER:root}"},
                                   {"exp_name", name.c_str()},
                                   {"workspace", "./output"}}) {
    root.set(key, Node::string(value));
  }
  root.set("modules", std::move(modules));
  const std::string body = text::to_yaml(root);
  auto parsed = text::parse_yaml(body, name + ".yaml");
  if (!parsed) return faults(parsed.error());
  auto config = resolve_primus(*parsed, name + ".yaml", {});
  if (!config) return faults(config.error());
  const auto again = primus_job(*config);
  if (!again) return faults(again.error());
  Exported out;
  out.unsaid = unsaid_of(job, again->job);
  add_cluster(job, out.unsaid);
  out.text = heading("Primus experiment (Megatron)", job, out.unsaid,
                     "# Complete as it is; to run it in a Primus checkout add `config: " +
                         std::string(job.lora.on() ? "sft_trainer" : "pre_trainer") +
                         ".yaml` beside\n# `model`, with a preset of that name, and your "
                         "tokenizer instead of NullTokenizer.\n") +
             body;
  return out;
}

// `key: value` as the option that stores it: switches that are on, and the options that switch off.
// Source: NVIDIA/Megatron-LM megatron/training/arguments.py.
constexpr struct {
  const char* key;
  const char* off;
} kOffOptions[] = {{"add_bias_linear", "disable-bias-linear"},
                   {"masked_softmax_fusion", "no-masked-softmax-fusion"},
                   {"bias_gelu_fusion", "no-bias-gelu-fusion"},
                   {"bias_swiglu_fusion", "no-bias-swiglu-fusion"},
                   {"bias_dropout_fusion", "no-bias-dropout-fusion"},
                   {"apply_rope_fusion", "no-rope-fusion"},
                   {"gradient_accumulation_fusion", "no-gradient-accumulation-fusion"},
                   {"overlap_p2p_comm", "no-overlap-p2p-communication"}};

void add_option(const std::string& key, const Node& value, Node& to) {
  const auto off = std::find_if(std::begin(kOffOptions), std::end(kOffOptions),
                                [&](const auto& each) { return key == each.key; });
  std::string option = "--" + key;
  std::replace(option.begin(), option.end(), '_', '-');
  if (key == "fp8" || key == "fp4") option += "-format";
  const bool is_switch = value.is_scalar() && value.scalar_kind() == text::ScalarKind::boolean;
  if (!is_switch) {
    to.set(option, value);
  } else if (value.as_bool().value_or(false)) {
    if (off == std::end(kOffOptions)) to.set(option, value);
  } else if (off != std::end(kOffOptions)) {
    to.set(std::string("--") + off->off, Node::boolean(true));
  }
}

// Options stand without quotes, as people write them (and as a script is told from a mapping).
std::string with_plain_options(std::string yaml) {
  constexpr std::string_view kQuoted = "\n  \"--";
  for (std::size_t at = yaml.find(kQuoted); at != std::string::npos; at = yaml.find(kQuoted, at)) {
    yaml.erase(at + 3, 1);
    const std::size_t end = yaml.find('"', at + 3);
    if (end != std::string::npos) yaml.erase(end, 1);
  }
  return yaml;
}

Result<Exported> write_megatron(const job::JobSpec& job) {
  // Source: NVIDIA/Megatron-LM megatron/training/arguments.py: --recompute-method and
  // --recompute-num-layers, and no list of layers; AMD-AGI/Primus adds recompute_layer_ids.
  if (job.recompute.granularity == job::Granularity::full && !job.recompute.layer_ids.empty()) {
    return fault({.message = "Megatron-LM recomputes the first layers of every virtual stage, as many "
                             "on each, and takes no list of layers",
                  .cure = "export --to primus, whose recompute_layer_ids takes one, or set "
                          "recompute.layer_ids: [] and recompute.method: block",
                  .field = "recompute.layer_ids"});
  }
  const Node keys = megatron_keys_of(job, false);
  const auto again = job_from_megatron(keys, {.format = "Megatron-LM arguments",
                                              .framework = "megatron",
                                              .name = job.name,
                                              .model = job.model.name});
  if (!again) return faults(again.error());
  Node options = Node::mapping();
  for (const text::Entry& entry : keys.entries()) add_option(entry.key, entry.value, options);
  Node root = Node::mapping();
  root.set("MODEL_ARGS", std::move(options));
  Exported out;
  out.unsaid = unsaid_of(job, again->job);
  add_cluster(job, out.unsaid);
  out.text = heading("Megatron-LM arguments", job, out.unsaid,
                     "# Each line is one option; a switch is on where it stands. Put your "
                     "tokenizer instead of\n# NullTokenizer.\n") +
             with_plain_options(text::to_yaml(root));
  return out;
}

Result<Exported> write_nanotron(const job::JobSpec& job) {
  const std::string body = text::to_yaml(nanotron_tree_of(job));
  auto parsed = text::parse_yaml(body, "job.yaml");
  if (!parsed) return faults(parsed.error());
  const auto again = read_nanotron(*parsed, "job.yaml");
  if (!again) return faults(again.error());
  Exported out;
  out.unsaid = unsaid_of(job, again->job);
  add_cluster(job, out.unsaid);
  out.text = heading("nanotron configuration", job, out.unsaid,
                     "# Add `data_stages`, `tokenizer` and `checkpoints` to run it.\n") +
             body;
  return out;
}

// A model that is no flavor is read again as another; what follows from its sizes is not compared.
void model_is_unsaid(const job::JobSpec& job, std::vector<Unsaid>& unsaid) {
  std::vector<Unsaid> out{{"model", job.model.name, ""}};
  for (Unsaid& each : unsaid) {
    if (each.path.rfind("model.", 0) == 0) continue;
    if (each.path == "parallel.layout" || each.path == "recompute.layer_ids") each.read.clear();
    out.push_back(std::move(each));
  }
  unsaid = std::move(out);
}

Result<Exported> write_torchtitan(const job::JobSpec& job) {
  const TorchtitanFlavor flavor = torchtitan_flavor_of(job);
  const Node tree = torchtitan_tree_of(job);
  Node model = Node::mapping();
  model.set("name", Node::string(flavor.name));
  model.set("flavor", Node::string(flavor.flavor));
  Node named = tree;
  named.set("model", text::merge(std::move(model), *tree.find("model")));
  const std::string body = toml_sections(named);
  auto parsed = text::parse_toml(body, "job.toml");
  if (!parsed) return faults(parsed.error());
  auto again = read_torchtitan(*parsed, {.format = "torchtitan (TOML)", .name = job.name});
  if (!again) return faults(again.error());
  again->job.cluster = job.cluster;
  again->has_cluster = !job.cluster.accelerator.name.empty();
  if (auto followed = follow_cluster(*again, {}); !followed) return faults(followed.error());
  Exported out;
  out.unsaid = unsaid_of(job, again->job);
  if (!flavor.exact) model_is_unsaid(job, out.unsaid);
  add_cluster(job, out.unsaid);
  out.text = heading("torchtitan configuration", job, out.unsaid,
                     flavor.exact ? "# Add `hf_assets_path`, `dataset` and `steps` to run it.\n"
                                  : "# Its sizes are no flavor that is known: add `name` and "
                                    "`flavor` of your own to [model].\n") +
             (flavor.exact ? body : toml_sections(tree));
  return out;
}

}  // namespace

namespace {

// `auto` and the name of what it stands for order alike. Source: Megatron-LM
// core/pipeline_parallel/schedules.py, get_forward_backward_func.
bool same_schedule(const job::JobSpec& a, const job::JobSpec& b) {
  const auto name = [](const job::JobSpec& job) -> std::string_view {
    if (job.schedule.algorithm != "auto") return job.schedule.algorithm;
    return job.parallel.vpp > 1 ? "interleaved-1f1b" : "1f1b";
  };
  return name(a) == name(b);
}

// Stages written out, and the framework's rule that deals the same ones.
bool same_stages(const job::JobSpec& a, const job::JobSpec& b) {
  const auto placed = [](const job::JobSpec& job) {
    auto out = std::make_unique<job::CheckedJob>();
    out->padded_vocab = job.model.vocab;  // a rule that weighs the output layer looks at it
    Diagnostics faults;
    job::place_layers(job, *out, faults);
    return faults.empty() ? std::move(out) : nullptr;
  };
  const auto mine = placed(a);
  const auto its = placed(b);
  return mine && its &&
         std::equal(mine->stages.begin(), mine->stages.end(), its->stages.begin(),
                    its->stages.end(), [](const job::VirtualStage& x, const job::VirtualStage& y) {
                      return x.first_layer == y.first_layer && x.layers == y.layers &&
                             x.mtp == y.mtp && x.embedding == y.embedding && x.output == y.output;
                    });
}

}  // namespace

std::vector<Unsaid> unsaid_of(const job::JobSpec& job, const job::JobSpec& again) {
  const auto mine = values_of(job);
  const auto its = values_of(again);
  std::vector<Unsaid> out;
  // One training of a few adapters, the other of everything: said once, before all else.
  const bool adapters_lost = job.lora.on() && !again.lora.on();
  const bool adapters_made = !job.lora.on() && again.lora.on();
  if (adapters_lost || adapters_made) {
    const job::LoraSpec& spec = adapters_lost ? job.lora : again.lora;
    const std::string some = "adapters of rank " + std::to_string(spec.rank);
    constexpr const char* kAll = "full training";
    out.push_back({"lora", adapters_lost ? some : kAll, adapters_lost ? kAll : some});
  }
  const auto said_above = [&](const std::string& path) {
    return (adapters_lost || adapters_made) && (path == "lora" || path.rfind("lora.", 0) == 0);
  };
  for (const auto& [path, value] : mine) {
    if (said_above(path)) continue;
    if (path == "schedule.algorithm" && same_schedule(job, again)) continue;
    if (path == "parallel.layout" && same_stages(job, again)) continue;
    const auto found = its.find(path);
    const std::string read = found == its.end() ? "" : found->second;
    if (!said_elsewhere(path) && value != read) out.push_back({path, value, read});
  }
  for (const auto& [path, value] : its) {
    if (said_elsewhere(path) || said_above(path) || mine.contains(path)) continue;
    out.push_back({path, "not there", value});
  }
  return out;
}

const std::vector<ExportTarget>& export_targets() {
  static const std::vector<ExportTarget> kTargets{
      {"megatron", "Megatron-LM arguments as a YAML mapping", write_megatron},
      {"primus", "a Primus experiment that runs Megatron", write_primus},
      {"nanotron", "nanotron's YAML configuration", write_nanotron},
      {"torchtitan", "torchtitan's TOML configuration", write_torchtitan}};
  return kTargets;
}

Result<Exported> export_job(const job::JobSpec& job, std::string_view target) {
  std::vector<std::string> known;
  for (const ExportTarget& each : export_targets()) {
    if (each.name == target) return each.write(job);
    known.emplace_back(each.name);
  }
  return fault({.message = "unknown target `" + std::string(target) + "`",
                .cure = suggestion(target, known),
                .field = "--to"});
}

}  // namespace eratos::reader
