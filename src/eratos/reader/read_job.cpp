#include "eratos/reader/read_job.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/deepspeed.h"
#include "eratos/reader/default_job.h"
#include "eratos/reader/huggingface.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/reader/megatron_args.h"
#include "eratos/reader/nanotron.h"
#include "eratos/reader/nemo.h"
#include "eratos/reader/primus.h"
#include "eratos/reader/primus_cluster.h"
#include "eratos/reader/set_value.h"
#include "eratos/reader/torchtitan.h"
#include "eratos/text/file.h"
#include "eratos/text/json.h"
#include "eratos/text/toml.h"
#include "eratos/text/yaml.h"

namespace eratos::reader {

namespace {

using text::Node;

constexpr std::size_t kMaxLogBytes = text::kMaxTableBytes;

struct JobReader {
  std::string_view name;
  // The key that says so, or "".
  std::string (*evidence)(const Node& root);
  Result<JobRead> (*read)(const Node& root, const std::string& path,
                          const Environment& environment);
  bool last_key_counts = false;  // its framework reads files that give a key twice
};

std::string primus_evidence(const Node& root) {
  return !is_primus(root) ? "" : root.find("modules") != nullptr ? "modules" : "exp_name";
}
std::string huggingface_evidence(const Node& root) {
  return is_huggingface(root) ? "model_type" : "";
}

// Keys of our own that no other format has.
std::string native_evidence(const Node& root) {
  for (const char* key : {"parallel", "batch", "sharding", "recompute", "overlap"}) {
    if (const Node* value = root.find(key); value != nullptr && value->is_mapping()) return key;
  }
  return {};
}

Result<JobRead> read_native(const Node& root, const std::string&, const Environment&) {
  return read_job_yaml(root);
}

Result<JobRead> read_primus(const Node& root, const std::string& path,
                            const Environment& environment) {
  auto config = resolve_primus(root, path, environment);
  if (!config) return faults(config.error());
  return primus_job(*config);
}

Result<JobRead> read_config_json(const Node& root, const std::string& path, const Environment&) {
  return read_huggingface(root, path);
}

Result<JobRead> read_titan(const Node& root, const std::string& path, const Environment& env) {
  Node all = root;
  substitute(all, env);
  return read_torchtitan(
      all, {.format = "torchtitan (TOML)", .name = std::filesystem::path(path).stem().string()});
}

Result<JobRead> read_nano(const Node& root, const std::string& path, const Environment& env) {
  Node all = root;
  substitute(all, env);
  return read_nanotron(all, path);
}

Result<JobRead> read_ds(const Node& root, const std::string& path, const Environment&) {
  return read_deepspeed(root, path);
}

// One line a reader. A file that two of them claim is refused.
constexpr JobReader kJobReaders[] = {
    {"a Primus experiment (modules, exp_name)", primus_evidence, read_primus},
    {"a Hugging Face config.json (model_type)", huggingface_evidence, read_config_json},
    {"Megatron-LM arguments (MODEL_ARGS, --num-layers)", megatron_args_evidence,
     read_megatron_yaml},
    {"a torchtitan configuration (parallelism, model.flavor)", torchtitan_evidence, read_titan},
    {"a nanotron configuration (model.model_config, tokens)", nanotron_evidence, read_nano, true},
    {"a DeepSpeed configuration (zero_optimization)", deepspeed_evidence, read_ds},
    {"Hugging Face Trainer arguments (per_device_train_batch_size)", trainer_evidence,
     read_trainer},
    {"NeMo or Megatron-Bridge overrides (model.tensor_model_parallel_size)", nemo_evidence,
     read_nemo},
    {"an eratos job (model, batch)", native_evidence, read_native},
};

Result<JobRead> read_tree(const Node& root, const std::string& path, const Environment& environment,
                          Diagnostics& repeated) {
  if (root.is_null()) {
    return fault({.where = {path},
                  .message = "the file is empty",
                  .cure = "name at least `model` and `batch`"});
  }
  if (!root.is_mapping()) return fault(root.mismatch("a job", "a mapping"));
  if (is_primus_cluster(root)) {
    return fault({.where = root.where(),
                  .message = "this file describes a cluster, not a job",
                  .cure = "give it with --cluster"});
  }
  std::string kinds;
  const JobReader* taken = nullptr;
  std::string because;
  for (const JobReader& reader : kJobReaders) {
    kinds += (kinds.empty() ? "" : ", ") + std::string(reader.name);
    const std::string key = reader.evidence(root);
    if (key.empty()) continue;
    if (taken != nullptr) {
      const Node* at = text::find_at(root, key);
      return fault({.where = at == nullptr ? root.where() : at->where(),
                    .message = "the file mixes two kinds: `" + because + "` belongs to " +
                               std::string(taken->name) + ", `" + key + "` to " +
                               std::string(reader.name),
                    .cure = "keep one kind a file"});
    }
    taken = &reader;
    because = key;
  }
  if (taken == nullptr && (root.find("extends") != nullptr || root.find("bases") != nullptr ||
                           path.find("primus/configs/") != std::string::npos)) {
    return fault(
        {.where = root.where(),
         .message = "a preset of Primus, a part of a job",
         .cure = "give the experiment that names it (modules.pre_trainer.model or .config)"});
  }
  if (taken == nullptr && root.find("model") != nullptr) taken = &std::end(kJobReaders)[-1];
  if (taken == nullptr && root.find("framework") != nullptr) taken = &std::end(kJobReaders)[-1];
  if (taken == nullptr && root.find("precision") != nullptr) taken = &std::end(kJobReaders)[-1];
  if (taken == nullptr) {
    return fault({.where = {path, 1, 1},
                  .message = "cannot tell what kind of job this is",
                  .cure = "known kinds: " + kinds});
  }
  if (!repeated.empty() && !taken->last_key_counts) return faults(std::move(repeated));
  auto out = taken->read(root, path, environment);
  if (!out) return out;
  for (const Diagnostic& d : repeated) {
    out->report.warnings.push_back(
        {.code = "repeated-key", .message = d.message + "; the last one counts", .where = d.where});
  }
  return out;
}

bool begins_json(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return first != std::string::npos && text[first] == '{' &&
         text.find('"', first) != std::string::npos &&
         text.find_first_not_of(" \t\r\n", first + 1) == text.find('"', first);
}

// A first line of `[table]` or `key = value`: no YAML mapping begins so.
bool begins_toml(const std::string& text) {
  std::size_t at = text.rfind("\xEF\xBB\xBF", 0) == 0 ? 3 : 0;
  while (at < text.size()) {
    std::size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    std::string line = text.substr(at, end - at);
    at = end + 1;
    line.erase(0, line.find_first_not_of(" \t\r"));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      const std::size_t close = line.find(']');
      return close != std::string::npos && line.find_first_of(",'") > close && close > 1 &&
             (close + 1 == line.size() ||
              line.find_first_not_of(" \t]", close) == line.find('#', close));
    }
    const std::size_t equals = line.find('=');
    return equals != std::string::npos && equals > 0 && equals < line.find(':') &&
           line.find_first_of("\"'$({") > equals;
  }
  return false;
}

Result<JobRead> read_text(const std::string& text, const std::string& path,
                          const Environment& environment) {
  Diagnostics repeated;
  if (begins_json(text)) {
    auto root = text::parse_json(text, path);
    return root ? read_tree(*root, path, environment, repeated) : faults(root.error());
  }
  if (is_megatron_log(text)) return read_megatron_log(text, path);
  if (is_megatron_script(text)) return read_megatron_script(text, path, environment);
  if (begins_toml(text)) {
    auto root = text::parse_toml(text, path);
    return root ? read_tree(*root, path, environment, repeated) : faults(root.error());
  }
  auto root = text::parse_yaml_last_key(text, path, repeated);
  return root ? read_tree(*root, path, environment, repeated) : faults(root.error());
}

Result<JobRead> read_catalogue_model(const std::string& name) {
  auto model = load_model(name);
  if (!model) return faults(model.error());
  const std::string known = model->name;
  auto out = default_job(std::move(*model), known, "catalogue model");
  if (!out) return out;
  out->report.provenance["model"] = {
      .value = known, .origin = Origin::catalogue, .rule = "data/models/" + known + ".yaml"};
  return out;
}

}  // namespace

Result<JobRead> read_job(const std::string& job, const Environment& environment) {
  std::error_code failed;
  const bool path_like = job.find('/') != std::string::npos || job.ends_with(".yaml") ||
                         job.ends_with(".yml") || job.ends_with(".json") ||
                         job.ends_with(".toml") || job.ends_with(".sh") || job.ends_with(".log");
  if (std::filesystem::exists(job, failed) || (path_like && !job.empty())) {
    auto text = text::read_file(job);
    if (!text) {
      // A run's log is longer than any configuration; its arguments stand in it all the same.
      auto log = text::read_file(job, kMaxLogBytes);
      if (log && is_megatron_log(*log)) return read_megatron_log(*log, job);
    }
    if (!text) return faults(text.error());
    return read_text(*text, job, environment);
  }
  if (find_file(Kind::models, job) != nullptr) return read_catalogue_model(job);
  auto model = load_model(job);
  return fault({.message = "`" + job + "` is neither a file nor a model of the catalogue",
                .cure = model ? "" : model.error().front().cure});
}

Result<JobRead> read_job(const std::string& job, const ReadOptions& options) {
  auto out = read_job(job, options.environment);
  if (!out) return out;
  if (auto done = apply_cluster(*out, options.cluster, options.nodes); !done) {
    return faults(done.error());
  }
  if (auto done = apply_sets(*out, options.sets, options.schedule); !done) {
    return faults(done.error());
  }
  std::vector<std::string> changed;
  if (!options.schedule.empty()) changed.emplace_back("schedule.algorithm");
  for (const std::string& each : options.sets) changed.push_back(each.substr(0, each.find('=')));
  if (auto done = follow_cluster(*out, changed); !done) return faults(done.error());
  if (Diagnostics open = open_questions(*out); !open.empty()) return faults(std::move(open));
  return out;
}

Diagnostics open_questions(const JobRead& read) {
  Diagnostics out;
  if (read.job.model.vocab < 1) {
    Diagnostic d{.message = "the vocabulary is not known: nothing says how long this tokenizer is",
                 .cure = "give it with --set model.vocab=N, or vocab_size in the file",
                 .field = "model.vocab"};
    const auto from = read.report.provenance.find("model.vocab");
    if (from != read.report.provenance.end()) d.where = from->second.where;
    out.push_back(std::move(d));
  }
  return out;
}

}  // namespace eratos::reader
