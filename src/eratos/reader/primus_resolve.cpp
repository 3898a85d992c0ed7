#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "eratos/reader/fields.h"
#include "eratos/reader/primus.h"
#include "eratos/text/yaml.h"

namespace eratos::reader {

namespace {

namespace fs = std::filesystem;
using text::Node;

// Guards against a diamond of `extends` that doubles at every level.
constexpr int kMostFiles = 500;

struct Loader {
  const Environment& environment;
  std::vector<std::string> open;  // files being read, outermost first
  int files = 0;
};

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::string identity(const fs::path& path) {
  std::error_code failed;
  const fs::path real = fs::weakly_canonical(path, failed);
  return failed ? path.lexically_normal().string() : real.string();
}

// The strings of `extends`, or a fault where it is neither a string nor a list of strings.
Result<std::vector<Node>> parents_of(const Node& root) {
  std::vector<Node> out;
  const Node* extends = root.find("extends");
  if (extends == nullptr || extends->is_null()) return out;
  if (extends->is_scalar()) {
    out.push_back(*extends);
  } else if (extends->is_sequence()) {
    out = extends->items();
  }
  for (const Node& each : out) {
    if (!each.is_scalar()) return fault(each.mismatch("extends", "a path or a list of paths"));
  }
  if (extends->is_mapping())
    return fault(extends->mismatch("extends", "a path or a list of paths"));
  return out;
}

Result<Node> load(const fs::path& path, Loader& loader);

Result<Node> resolve_extends(Node root, const fs::path& path, Loader& loader) {
  substitute(root, loader.environment);
  auto parents = parents_of(root);
  if (!parents) return faults(parents.error());
  if (parents->empty() && root.find("extends") == nullptr) return root;
  Node out = Node::mapping(root.place());
  for (const Node& parent : *parents) {
    const fs::path file = path.parent_path() / parent.raw();
    if (!open_placeholders(parent.raw()).empty()) {
      return fault({.where = parent.where(),
                    .message = "`extends` names `" + parent.raw() + "`, which is not set",
                    .cure = "give it with --env NAME=VALUE"});
    }
    const std::string id = identity(file);
    const auto at = std::find(loader.open.begin(), loader.open.end(), id);
    if (at != loader.open.end()) {
      std::string chain;
      for (auto it = at; it != loader.open.end(); ++it) {
        chain += fs::path(*it).filename().string() + " -> ";
      }
      return fault(
          {.where = parent.where(),
           .message = "`extends` goes in a circle: " + chain + fs::path(id).filename().string(),
           .cure = "remove one of them"});
    }
    if (!is_file(file)) {
      return fault({.where = parent.where(),
                    .message = "`extends` names `" + parent.raw() + "`, but there is no " +
                               file.lexically_normal().string(),
                    .cure = "paths are relative to the file that names them"});
    }
    auto loaded = load(file, loader);
    if (!loaded) return faults(loaded.error());
    if (loaded->is_mapping()) out = text::merge(std::move(out), *loaded);
  }
  root.erase("extends");
  return text::merge(std::move(out), root);
}

Result<Node> load(const fs::path& path, Loader& loader) {
  if (++loader.files > kMostFiles) {
    return fault(
        {.where = {path.string()},
         .message = "more than " + std::to_string(kMostFiles) + " files through `extends`"});
  }
  auto root = text::parse_yaml_file(path.lexically_normal().string());
  if (!root) return faults(root.error());
  if (root->is_null()) *root = Node::mapping(root->place());
  if (!root->is_mapping()) return fault(root->mismatch("the file", "a mapping"));
  loader.open.push_back(identity(path));
  auto resolved = resolve_extends(std::move(*root), path, loader);
  loader.open.pop_back();
  return resolved;
}

// The string "null" is how an environment default says null.
void nulls(Node& node) {
  if (node.is_mapping()) {
    for (text::Entry& entry : node.entries()) nulls(entry.value);
  } else if (node.is_scalar() && node.raw() == "null") {
    node = Node::null(node.place());
  }
}

// The nearest folder above the experiment that holds primus/configs.
fs::path find_presets(const std::string& path, std::vector<std::string>& tried) {
  std::error_code failed;
  fs::path folder = fs::absolute(path, failed).lexically_normal().parent_path();
  for (;;) {
    const fs::path candidate = folder / "primus" / "configs";
    if (fs::is_directory(candidate, failed)) {
      // As the user would write it from where the program runs.
      const fs::path here = fs::current_path(failed);
      return fs::path(path).is_relative() && !failed ? candidate.lexically_relative(here)
                                                     : candidate;
    }
    tried.push_back(candidate.string());
    if (folder == folder.parent_path()) return {};
    folder = folder.parent_path();
  }
}

std::string with_suffix(const std::string& name) {
  const fs::path path(name);
  return path.extension() == ".yaml" || path.extension() == ".yml" ? name : name + ".yaml";
}

std::string nearest_file(const fs::path& folder, const std::string& name) {
  std::vector<std::string> known;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    known.push_back(entry.path().filename().string());
  }
  std::sort(known.begin(), known.end());
  const std::string near = nearest_name(name, known);
  return near.empty() ? std::string() : "did you mean `" + near + "`?";
}

struct PresetName {
  const char* key;     // "model"
  const char* folder;  // "models"
};

Result<Node> load_preset(const Node& module, const PresetName& what, const std::string& framework,
                         const fs::path& root, const std::vector<std::string>& tried,
                         Loader& loader) {
  const Node* name = module.find(what.key);
  if (name == nullptr || !name->is_scalar()) {
    return fault({.where = module.where(),
                  .message = std::string("the module has no `") + what.key + "`",
                  .cure = "name a preset"});
  }
  const std::vector<std::string> open = open_placeholders(name->raw());
  if (!open.empty()) {
    return fault({.where = name->where(),
                  .message = "environment variable `" + open.front() + "` is not set; `" +
                             what.key + "` needs it",
                  .cure = "give it with --env " + open.front() + "=VALUE"});
  }
  const std::string file = with_suffix(name->raw());
  if (root.empty()) {
    std::string where;
    for (const std::string& each : tried) where += (where.empty() ? "" : ", ") + each;
    return fault({.where = name->where(),
                  .message = std::string("no presets for `") + what.key + ": " + name->raw() +
                             "`: none of the folders " + where + " exists",
                  .cure = "keep the experiment inside its Primus checkout"});
  }
  const fs::path folder = root / what.folder / framework;
  const fs::path path = (folder / file).lexically_normal();
  const fs::path inside = path.lexically_relative(root);
  if (inside.empty() || *inside.begin() == "..") {
    return fault(
        {.where = name->where(), .message = "`" + name->raw() + "` leads out of " + root.string()});
  }
  if (!is_file(path)) {
    return fault({.where = name->where(),
                  .message = "there is no preset `" + name->raw() + "`: tried " + path.string(),
                  .cure = nearest_file(folder, file)});
  }
  auto preset = load(path, loader);
  if (preset && preset->find("bases") != nullptr) preset->erase("bases");
  return preset;
}

}  // namespace

bool is_primus(const Node& root) {
  const Node* modules = root.find("modules");
  if (modules == nullptr)
    return root.find("extends") != nullptr && root.find("exp_name") != nullptr;
  if (!modules->is_mapping()) return false;
  for (const text::Entry& entry : modules->entries()) {
    if (entry.key.find("trainer") != std::string::npos) return true;
  }
  return root.find("exp_name") != nullptr;
}

Result<PrimusConfig> resolve_primus(const Node& root, const std::string& path,
                                    const Environment& environment) {
  Loader loader{.environment = environment};
  loader.open.push_back(identity(path));
  auto experiment = resolve_extends(root, path, loader);
  if (!experiment) return faults(experiment.error());

  Diagnostics bad;
  PrimusConfig out;
  for (const char* key : {"work_group", "user_name", "exp_name", "workspace"}) {
    if (experiment->find(key) == nullptr) {
      bad.push_back({.where = experiment->where(),
                     .message = std::string("a Primus experiment needs `") + key + "`",
                     .cure = "add it"});
    }
  }
  if (const Node* name = experiment->find("exp_name"); name != nullptr && name->is_scalar()) {
    out.name = name->raw();
    out.name_at = name->where();
  }
  const Node* modules = experiment->find("modules");
  const Node* module = nullptr;
  if (modules == nullptr || !modules->is_mapping()) {
    bad.push_back({.where = experiment->where(),
                   .message = "a Primus experiment needs `modules`",
                   .cure = "add modules.pre_trainer"});
    return faults(std::move(bad));
  }
  for (const text::Entry& entry : modules->entries()) {
    if (entry.key.find("trainer") == std::string::npos) {
      bad.push_back({.where = entry.key_location(),
                     .message = "unknown module `" + entry.key + "`",
                     .cure = "module names contain `trainer`"});
    } else if (module == nullptr || entry.key == "pre_trainer") {
      module = &entry.value;
      out.trainer = entry.key;
    }
  }
  if (module == nullptr || !module->is_mapping()) {
    bad.push_back({.where = modules->where(),
                   .message = "`modules` holds no trainer",
                   .cure = "add modules.pre_trainer"});
    return faults(std::move(bad));
  }
  if (const Node* framework = module->find("framework");
      framework != nullptr && framework->is_scalar()) {
    out.framework = framework->raw();
    out.framework_at = framework->where();
  } else {
    bad.push_back({.where = module->where(),
                   .message = "`modules." + out.trainer + "` has no `framework`",
                   .cure = "write framework: megatron"});
  }
  if (!bad.empty()) return faults(std::move(bad));
  if (auto why = backend_fault(out.framework, out.framework_at)) return fault(std::move(*why));

  if (const Node* model = module->find("model"); model != nullptr && model->is_scalar()) {
    out.model = fs::path(with_suffix(model->raw())).stem().string();
    out.model_at = model->where();
  }
  Node keys = Node::mapping(module->place());
  if (module->find("config") != nullptr || module->find("model") == nullptr) {
    std::vector<std::string> tried;
    const fs::path presets = find_presets(path, tried);
    out.preset_root = presets.string();
    auto config =
        load_preset(*module, {"config", "modules"}, out.framework, presets, tried, loader);
    auto model = load_preset(*module, {"model", "models"}, out.framework, presets, tried, loader);
    if (!config) bad = config.error();
    if (!model) bad.insert(bad.end(), model.error().begin(), model.error().end());
    if (!bad.empty()) return faults(std::move(bad));
    keys = std::move(*model);
    for (const text::Entry& entry : config->entries()) {
      keys.set(entry.key, entry.value, entry.key_place);
    }
  }
  // Keys beside `overrides` fill gaps only; a module without `config` is already flat.
  for (const text::Entry& entry : module->entries()) {
    const bool structure = entry.key == "name" || entry.key == "framework" ||
                           entry.key == "config" || entry.key == "model" ||
                           entry.key == "overrides" || entry.key == "params";
    if (!structure && keys.find(entry.key) == nullptr) {
      keys.set(entry.key, entry.value, entry.key_place);
    }
  }
  for (const char* group : {"params", "overrides"}) {
    if (const Node* changes = module->find(group); changes != nullptr && changes->is_mapping()) {
      keys = text::merge(std::move(keys), *changes);
    }
  }
  nulls(keys);
  out.keys = std::move(keys);
  return out;
}

}  // namespace eratos::reader
