#include "eratos/reader/megatron_args.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "eratos/reader/keys_megatron.h"
#include "eratos/reader/megatron_job.h"
#include "eratos/reader/shell_script.h"

namespace eratos::reader {

namespace {

using text::Node;

// Arguments that any Megatron run names, and few other programs do.
constexpr std::string_view kTelling[] = {"tensor_model_parallel_size",
                                         "pipeline_model_parallel_size",
                                         "num_layers",
                                         "hidden_size",
                                         "num_attention_heads",
                                         "micro_batch_size",
                                         "global_batch_size",
                                         "seq_length",
                                         "use_distributed_optimizer",
                                         "expert_model_parallel_size",
                                         "transformer_impl"};

bool is_telling(std::string_view key) {
  return std::find(std::begin(kTelling), std::end(kTelling), key) != std::end(kTelling);
}

// "--num-layers" to "num_layers"; "" for what is no option.
std::string option_of(std::string_view word) {
  if (word.size() < 3 || word.substr(0, 2) != "--") return {};
  std::string out(word.substr(2));
  if (std::isalpha(static_cast<unsigned char>(out[0])) == 0) return {};
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

bool is_switch(std::string_view key) {
  return std::find(std::begin(kMegatronSwitches), std::end(kMegatronSwitches), key) !=
         std::end(kMegatronSwitches);
}

const MegatronOption* other_name(std::string_view option) {
  for (const MegatronOption& each : kMegatronOptions) {
    if (each.option == option) return &each;
  }
  return nullptr;
}

bool is_placeholder(std::string_view word) {
  return word.size() > 3 && word.substr(0, 2) == "${" && word.find('}') == word.size() - 1;
}

void store(Node& keys, const std::string& option, Node value, const Location& at) {
  const MegatronOption* other = other_name(option);
  if (other == nullptr) {
    keys.set(option, std::move(value), at);
  } else if (other->value.empty()) {
    keys.set(other->key, std::move(value), at);
  } else {
    keys.set(other->key, Node::plain(std::string(other->value), at), at);
  }
}

// Words behind the program's name to keys. Argparse takes what follows an option as its value.
Node keys_of(std::span<const ShellWord> words) {
  Node keys = Node::mapping();
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string text = words[i].text;
    Location at = words[i].at;
    std::vector<Node> values;
    if (const std::size_t equals = text.find('=');
        equals != std::string::npos && text.rfind("--", 0) == 0) {
      Location value_at = at;
      value_at.column += static_cast<int>(equals) + 1;
      values.push_back(Node::plain(text.substr(equals + 1), value_at));
      text.resize(equals);
    }
    const std::string option = option_of(text);
    if (option.empty()) continue;
    const MegatronOption* other = other_name(option);
    const bool takes_none = is_switch(option) || (other != nullptr && !other->value.empty());
    const bool attached = !values.empty();
    while (!takes_none && !attached && i + 1 < words.size() &&
           option_of(words[i + 1].text).empty()) {
      // An unset variable behind a value stands for further options, or for nothing.
      if (!values.empty() && is_placeholder(words[i + 1].text)) break;
      values.push_back(Node::plain(words[i + 1].text, words[i + 1].at));
      ++i;
    }
    Node value = Node::boolean(true, at);
    if (values.size() == 1) value = std::move(values[0]);
    if (values.size() > 1) value = Node::sequence(std::move(values), at);
    store(keys, option, std::move(value), at);
  }
  return keys;
}

std::string stem_of(const std::string& path) {
  const std::string stem = std::filesystem::path(path).stem().string();
  return stem.empty() ? "megatron" : stem;
}

Result<JobRead> job_of(const Node& keys, const std::string& path, std::string format,
                       double accelerators, bool complete) {
  auto out = job_from_megatron(keys, {.format = std::move(format),
                                      .framework = "megatron",
                                      .name = stem_of(path),
                                      .complete = complete});
  if (out && accelerators >= 1 && accelerators <= 1e7) {
    out->follows.accelerators = static_cast<int>(accelerators);
    if (auto done = follow_cluster(*out, {}); !done) return faults(done.error());
  }
  return out;
}

double number_behind(std::span<const ShellWord> words, std::initializer_list<const char*> options) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = words[i].text.find('=');
    const std::string option = option_of(words[i].text.substr(0, equals));
    for (const char* each : options) {
      if (option != each) continue;
      const std::string value = equals != std::string::npos ? words[i].text.substr(equals + 1)
                                : i + 1 < words.size()      ? words[i + 1].text
                                                            : std::string();
      char* end = nullptr;
      const double n = std::strtod(value.c_str(), &end);
      if (end != value.c_str() && *end == '\0' && n >= 1 && n < 1e7) return n;
    }
  }
  return 0;
}

// A Python value as _print_args writes it.
Node python_value(std::string_view text, const Location& at) {
  if (text == "None") return Node::null(at);
  if (text == "True" || text == "False") return Node::boolean(text == "True", at);
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    Node list = Node::sequence({}, at);
    std::string_view rest = text.substr(1, text.size() - 2);
    while (!rest.empty()) {
      std::string_view item = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), item.size() + 1));
      while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
      while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
      const bool quoted = item.size() >= 2 && item.front() == '\'' && item.back() == '\'';
      if (!item.empty()) {
        list.append(quoted ? Node::string(std::string(item.substr(1, item.size() - 2)), at)
                           : Node::plain(std::string(item), at));
      }
    }
    return list;
  }
  return Node::plain(std::string(text), at);
}

struct Line {
  std::string_view text;
  int number = 0;
};

// Calls `see(line)` until it returns false.
template <class See>
void for_each_line(std::string_view text, const See& see) {
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!see(Line{line, ++number})) return;
  }
}

constexpr std::string_view kBegins = "- arguments -";
constexpr std::string_view kEnds = "- end of arguments -";

// What an argument's line says: `  num_layers ........ 32`, whatever a launcher put before it.
struct Printed {
  std::string key;
  std::string_view value;
  int column = 0;
};

bool printed(std::string_view line, Printed& out) {
  const std::size_t dots = line.find(" ..");
  if (dots == std::string_view::npos) return false;
  std::size_t begin = dots;
  const auto is_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  while (begin > 0 && is_name(line[begin - 1])) --begin;
  if (begin == dots) return false;
  std::size_t value = line.find_first_not_of('.', dots + 1);
  if (value == std::string_view::npos || line[value] != ' ') return false;
  ++value;
  out.key = std::string(line.substr(begin, dots - begin));
  out.value = line.substr(std::min(value, line.size()));
  out.column = static_cast<int>(value) + 1;
  return true;
}

}  // namespace

std::string megatron_args_evidence(const Node& root) {
  if (root.find("MODEL_ARGS") != nullptr) return "MODEL_ARGS";
  int telling = 0;
  std::string first;
  for (const text::Entry& entry : root.entries()) {
    if (!option_of(entry.key).empty() && is_telling(option_of(entry.key))) return entry.key;
    if (is_telling(entry.key)) {
      if (first.empty()) first = entry.key;
      ++telling;
    }
  }
  return telling >= 4 ? first : std::string();
}

Result<JobRead> read_megatron_yaml(const Node& root, const std::string& path,
                                   const Environment& environment) {
  const Node* arguments = root.find("MODEL_ARGS");
  if (arguments == nullptr) arguments = &root;
  if (!arguments->is_mapping()) return fault(arguments->mismatch("MODEL_ARGS", "a mapping"));
  Node given = *arguments;
  substitute(given, environment);
  Node keys = Node::mapping(given.place());
  for (text::Entry& entry : given.entries()) {
    std::string option = option_of(entry.key);
    if (option.empty()) option = entry.key;
    const MegatronOption* other = other_name(option);
    const bool negates = other != nullptr && !other->value.empty();
    const bool off =
        entry.value.is_null() || (entry.value.is_scalar() && !entry.value.is_quoted() &&
                                  text::bool_of(entry.value.raw()) == false);
    if (negates && off) continue;  // the switch is not given
    store(keys, option, std::move(entry.value), entry.key_location());
  }
  return job_of(keys, path, "Megatron-LM arguments (YAML)", 0, false);
}

bool is_megatron_log(std::string_view text) {
  bool inside = false;
  int found = 0;
  for_each_line(text, [&](const Line& line) {
    if (line.text.find(kEnds) != std::string_view::npos) return false;
    if (line.text.find(kBegins) != std::string_view::npos) inside = true;
    Printed each;
    if (inside && printed(line.text, each) && is_telling(each.key)) ++found;
    return true;
  });
  return found >= 4;
}

bool is_megatron_script(std::string_view text) {
  // `--num-layers: 32` is YAML's.
  const auto stands = [&](const std::string& option) {
    for (std::size_t at = text.find(option); at != std::string_view::npos;
         at = text.find(option, at + 1)) {
      const std::size_t end = at + option.size();
      const char next = end < text.size() ? text[end] : ' ';
      if (next == ' ' || next == '=' || next == '\n' || next == '\\' || next == '\t' ||
          next == '"' || next == '\'' || next == '\r') {
        return true;
      }
    }
    return false;
  };
  int found = 0;
  for (const std::string_view key : kTelling) {
    std::string dashed(key);
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    if (stands("--" + dashed) || stands("--" + std::string(key))) ++found;
  }
  return found >= 3;
}

Result<JobRead> read_megatron_log(std::string_view text, const std::string& path) {
  Node keys = Node::mapping(Location{path, 1, 1});
  bool inside = false;
  double world = 0;
  for_each_line(text, [&](const Line& line) {
    if (line.text.find(kEnds) != std::string_view::npos) {
      inside = false;
    } else if (line.text.find(kBegins) != std::string_view::npos) {
      inside = true;
    }
    // "> padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)"
    if (const std::size_t at = line.text.find("(new size: ");
        at != std::string_view::npos && line.text.find("padded vocab") != std::string_view::npos) {
      const std::string digits(line.text.substr(at + 11, line.text.find(')', at) - at - 11));
      if (keys.find("padded_vocab_size") == nullptr) {
        const Location where{path, line.number, static_cast<int>(at) + 12};
        keys.set("padded_vocab_size", Node::plain(digits, where), where);
      }
    }
    Printed each;
    if (!inside || !printed(line.text, each)) return true;
    const Location at{path, line.number, each.column};
    Node value = python_value(each.value, at);
    if (each.key == "world_size") world = value.as_double().value_or(0);
    if (keys.find(each.key) == nullptr) keys.set(each.key, std::move(value), at);
    return true;
  });
  // Both are printed when either is given.
  if (const Node* vpp = keys.find("virtual_pipeline_model_parallel_size");
      vpp != nullptr && !vpp->is_null()) {
    keys.erase("num_layers_per_virtual_pipeline_stage");
    keys.erase("num_virtual_stages_per_pipeline_rank");
  }
  if (const Node* how = keys.find("recompute_granularity"); how == nullptr || how->is_null()) {
    keys.erase("recompute_modules");
  }
  return job_of(keys, path, "arguments that a Megatron-LM run printed", world, true);
}

namespace {

// What a launch script sets of PyTorch's allocator: `expandable_segments:True`, other options behind
// commas. Source: pytorch docs/source/notes/cuda.rst, PYTORCH_CUDA_ALLOC_CONF.
void read_allocator(const ShellWord& word, const char* variable, JobRead& out) {
  const std::string path = "framework.memory.expandable_segments";
  const bool on = word.text.find("expandable_segments:True") != std::string::npos;
  const bool off = word.text.find("expandable_segments:False") != std::string::npos;
  if (on || off) {
    out.job.framework.memory.expandable_segments = on;
    out.report.provenance[path] = {
        .value = on ? "true" : "false", .where = word.at, .rule = variable};
  }
  if (word.text.find("max_split_size_mb") == std::string::npos) return;
  out.report.warnings.push_back(
      {.code = "allocator",
       .message = std::string(variable) +
                  ": max_split_size_mb is not modelled; fragmentation is that of the default",
       .where = word.at});
}

}  // namespace

Result<JobRead> read_megatron_script(std::string_view text, const std::string& path,
                                     const Environment& environment) {
  const ShellScript script = read_shell(text, path, environment);
  const auto telling = [](const std::vector<ShellWord>& words) {
    return std::count_if(words.begin(), words.end(), [](const ShellWord& word) {
      return is_telling(option_of(word.text.substr(0, word.text.find('='))));
    });
  };
  const std::vector<ShellWord>* best = nullptr;
  std::vector<ShellWord> gathered;
  // A line that begins with an option: where no line begins otherwise, the text is a list of
  // arguments, one a line; behind a command, the line before it lacks its continuation.
  const auto begins_with_option = [](const std::vector<ShellWord>& words) {
    return !words.empty() && !option_of(words.front().text).empty();
  };
  const auto stray =
      std::find_if(script.commands.begin(), script.commands.end(), begins_with_option);
  if (stray != script.commands.end()) {
    const bool bare =
        std::all_of(script.commands.begin(), script.commands.end(), begins_with_option);
    if (!bare) {
      return fault({.where = stray->front().at,
                    .message = "`" + stray->front().text +
                               "` begins a command: the line before it does not go on",
                    .cure = "end every line of the command but the last with ` \\`"});
    }
    for (const auto& command : script.commands) {
      gathered.insert(gathered.end(), command.begin(), command.end());
    }
    best = &gathered;
  }
  for (const auto& command : script.commands) {
    if (best == &gathered) break;
    if (telling(command) > 0 && (best == nullptr || telling(command) > telling(*best))) {
      best = &command;
    }
  }
  if (best == nullptr) {
    // Arguments that no command of the script uses itself.
    for (const auto& [name, words] : script.variables) {
      if (std::any_of(words.begin(), words.end(),
                      [](const ShellWord& w) { return !option_of(w.text).empty(); })) {
        gathered.insert(gathered.end(), words.begin(), words.end());
      }
    }
    if (telling(gathered) == 0) {
      return fault({.where = {path, 1, 1},
                    .message = "the script runs no command with Megatron's arguments",
                    .cure = "give the script that launches the training"});
    }
    best = &gathered;
  }
  // A launcher's options stand before the program.
  std::size_t program = 0;
  for (std::size_t i = 0; i < best->size(); ++i) {
    const std::string& word = (*best)[i].text;
    if (is_telling(option_of(word.substr(0, word.find('='))))) break;
    if (word.size() > 3 && word.compare(word.size() - 3, 3, ".py") == 0) program = i;
  }
  const std::span<const ShellWord> all(*best);
  const auto launcher = all.first(program);
  const double nodes = number_behind(launcher, {"nnodes", "num_nodes", "nodes"});
  const double each =
      number_behind(launcher, {"nproc_per_node", "gpus_per_node", "num_gpus", "ntasks_per_node"});
  const Node keys = keys_of(all.subspan(program));
  auto out = job_of(keys, path, "Megatron-LM arguments (launch script)",
                    each > 0 ? std::max(1.0, nodes) * each : 0, false);
  if (!out) return out;
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const auto set = script.variables.find(name);
    if (set == script.variables.end() || set->second.empty()) continue;
    read_allocator(set->second.front(), name, *out);
  }
  for (const ShellWord& note : script.notes) {
    out->report.warnings.push_back(
        {.code = "script", .message = "launch script: " + note.text, .where = note.at});
  }
  return out;
}

}  // namespace eratos::reader
