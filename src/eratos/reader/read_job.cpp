#include "eratos/reader/read_job.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/default_job.h"
#include "eratos/reader/huggingface.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/reader/primus.h"
#include "eratos/reader/set_value.h"
#include "eratos/text/file.h"
#include "eratos/text/json.h"
#include "eratos/text/yaml.h"

namespace eratos::reader {

namespace {

using text::Node;

struct JobReader {
  std::string_view name;
  bool (*recognises)(const Node& root);
  Result<JobRead> (*read)(const Node& root, const std::string& path,
                          const Environment& environment);
};

bool is_native(const Node& root) {
  for (const char* key : {"model", "parallel", "batch", "framework", "precision", "sharding"}) {
    if (root.find(key) != nullptr) return true;
  }
  return false;
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

// One line a reader; the first that recognises the content takes it.
constexpr JobReader kJobReaders[] = {
    {"a Primus experiment (modules, exp_name)", is_primus, read_primus},
    {"a Hugging Face config.json (model_type)", is_huggingface, read_config_json},
    {"an eratos job (model, batch)", is_native, read_native},
};

Result<JobRead> read_text(const std::string& text, const std::string& path,
                          const Environment& environment) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  const bool json = first != std::string::npos && text[first] == '{' &&
                    text.find('"', first) != std::string::npos &&
                    text.find_first_not_of(" \t\r\n", first + 1) == text.find('"', first);
  auto root = json ? text::parse_json(text, path) : text::parse_yaml(text, path);
  if (!root) return faults(root.error());
  if (root->is_null()) {
    return fault({.where = {path},
                  .message = "the file is empty",
                  .cure = "name at least `model` and `batch`"});
  }
  if (!root->is_mapping()) return fault(root->mismatch("a job", "a mapping"));
  std::string kinds;
  for (const JobReader& reader : kJobReaders) {
    if (reader.recognises(*root)) return reader.read(*root, path, environment);
    kinds += (kinds.empty() ? "" : ", ") + std::string(reader.name);
  }
  return fault({.where = {path, 1, 1},
                .message = "cannot tell what kind of job this is",
                .cure = "known kinds: " + kinds});
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
                         job.ends_with(".yml") || job.ends_with(".json");
  if (std::filesystem::exists(job, failed) || (path_like && !job.empty())) {
    auto text = text::read_file(job);
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
  if (auto done = apply_sets(*out, options.sets); !done) return faults(done.error());
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
