// eratos completion SHELL: a script that completes commands, flags and names.
#include "apps/completion.h"

#include <cctype>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/output.h"
#include "eratos/projection/projection.h"
#include "eratos/reader/catalogue.h"
#include "eratos/schedule/registry.h"

namespace eratos::apps {

namespace {

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> out;
  std::string word;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      word += c;
    } else if (!word.empty()) {
      out.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) out.push_back(std::move(word));
  return out;
}

bool is_offered(const Flag& f, std::string_view command) {
  return !f.what.empty() && takes(command, f);
}

// `text` inside single quotes of a shell.
std::string quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out;
}

// Brackets and colons have a meaning in zsh's descriptions.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : quoted(text)) {
    if (c == '[' || c == ']' || c == ':') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const Offer& offer) {
  std::string out;
  if (!offer.words.empty()) out = fmt::format("({})", fmt::join(offer.words, " "));
  if (!offer.files) return out;
  return out.empty()
             ? "_files"
             : fmt::format("_alternative \"words\\:word\\:{}\" \"files\\:file\\:_files\"", out);
}

}  // namespace

std::vector<std::string> words_of(const Command& command) {
  std::vector<std::string> out;
  for (std::string word : split(command.words)) {
    while (!word.empty() && (word.front() == '[' || word.front() == '.')) word.erase(0, 1);
    while (!word.empty() && (word.back() == ']' || word.back() == '.')) word.pop_back();
    if (!word.empty()) out.push_back(std::move(word));
  }
  return out;
}

Offer offer_of_word(std::string_view word) {
  if (word == "JOB") return {reader::names_of(reader::Kind::models), true};
  if (word == "KIND") {
    return {{"models", "accelerators", "clusters", "schedules", "calibrations", "frameworks",
             "parameters"},
            false};
  }
  if (word == "KEY") return {projection::explainable_keys(), false};
  if (word == "SHELL") return {{std::begin(kShells), std::end(kShells)}, false};
  if (word == "NAME") {
    Offer out;
    for (const auto kind : {reader::Kind::models, reader::Kind::accelerators,
                            reader::Kind::clusters, reader::Kind::frameworks}) {
      for (std::string& name : reader::names_of(kind)) out.words.push_back(std::move(name));
    }
    return out;
  }
  return {{}, word.find("csv") != std::string_view::npos};
}

Offer offer_of_flag(const Flag& flag) {
  if (!flag.choices.empty()) return {split(flag.choices), false};
  if (flag.name == "--algorithm" || flag.name == "--schedule") {
    Offer out{{"auto", "all"}, false};
    if (flag.name == "--algorithm") out.words.emplace_back("optimal");
    for (const schedule::Schedule* s : schedule::kSchedules) out.words.emplace_back(s->name);
    return out;
  }
  if (flag.value == "FILE") return {{}, true};
  if (flag.value != "C") return {};
  Offer out{reader::names_of(reader::Kind::accelerators), true};
  for (std::string& name : reader::names_of(reader::Kind::clusters)) {
    out.words.push_back(std::move(name));
  }
  return out;
}

std::string bash_completion() {
  std::string names;
  for (const Command& c : kCommands) names += std::string(c.name) + ' ';
  std::string out =
      "# eratos completion bash > /etc/bash_completion.d/eratos\n"
      "_eratos() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local command=${COMP_WORDS[1]} words= files=\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    words='" +
      names +
      "--help --version'\n"
      "  else\n"
      "    case $command:$prev in\n";
  for (const Command& c : kCommands) {
    for (const Flag& f : all_flags()) {
      if (!is_offered(f, c.name) || f.kind == Value::none) continue;
      const Offer offer = offer_of_flag(f);
      std::string patterns = fmt::format("{}:{}", c.name, f.name);
      if (!f.letter.empty()) patterns += fmt::format("|{}:{}", c.name, f.letter);
      out += fmt::format("      {}) words='{}' files={} ;;\n", patterns,
                         fmt::join(offer.words, " "), offer.files ? "1" : "");
    }
  }
  out += "      *) case $command in\n";
  for (const Command& c : kCommands) {
    std::string flags;
    for (const Flag& f : all_flags()) {
      if (is_offered(f, c.name)) flags += std::string(f.name) + ' ';
    }
    std::vector<std::string> all;
    bool files = false;
    for (const std::string& word : words_of(c)) {
      const Offer offer = offer_of_word(word);
      all.insert(all.end(), offer.words.begin(), offer.words.end());
      files = files || offer.files;
    }
    out += fmt::format(
        "        {}) if [[ $cur == -* ]]; then words='{}--help'; else "
        "words='{}' files={}; fi ;;\n",
        c.name, flags, fmt::join(all, " "), files ? "1" : "");
  }
  out +=
      "      esac ;;\n"
      "    esac\n"
      "  fi\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
      "  if [[ $files ]]; then COMPREPLY+=($(compgen -f -- \"$cur\")); fi\n"
      "}\n"
      "complete -o filenames -F _eratos eratos\n";
  return out;
}

std::string zsh_completion() {
  std::string out =
      "#compdef eratos\n"
      "# eratos completion zsh > \"${fpath[1]}/_eratos\"\n"
      "_eratos() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const Command& c : kCommands) {
    out += fmt::format("    '{}:{}'\n", c.name, zsh_text(c.what));
  }
  out +=
      "  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  ((CURRENT--))\n"
      "  case $command in\n";
  for (const Command& c : kCommands) {
    out += fmt::format("    {})\n      _arguments \\\n", c.name);
    for (const Flag& f : all_flags()) {
      if (!is_offered(f, c.name)) continue;
      std::string spec = (f.repeats ? "*" : "") + std::string(f.name);
      spec += fmt::format("[{}]", zsh_text(f.what));
      if (f.kind != Value::none) {
        spec += fmt::format(":{}:{}", zsh_text(f.value), zsh_action(offer_of_flag(f)));
      }
      out += fmt::format("        '{}' \\\n", spec);
    }
    const std::vector<std::string> words = words_of(c);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const bool rest = i + 1 == words.size() && c.most > static_cast<int>(words.size());
      out += fmt::format("        '{}:{}:{}' \\\n", rest ? "*" : std::to_string(i + 1), words[i],
                         zsh_action(offer_of_word(words[i])));
    }
    out += "        '--help[list the flags]' ;;\n";
  }
  return out + "  esac\n}\n_eratos \"$@\"\n";
}

std::string fish_completion() {
  std::string out =
      "# eratos completion fish > ~/.config/fish/completions/eratos.fish\n"
      "complete -c eratos -f\n";
  for (const Command& c : kCommands) {
    out += fmt::format("complete -c eratos -n __fish_use_subcommand -a {} -d '{}'\n", c.name,
                       quoted(c.what));
  }
  for (const Command& c : kCommands) {
    const std::string when =
        fmt::format("complete -c eratos -n '__fish_seen_subcommand_from {}'", c.name);
    for (const std::string& word : words_of(c)) {
      const Offer offer = offer_of_word(word);
      if (!offer.words.empty() || offer.files) {
        out +=
            fmt::format("{}{}{}\n", when, offer.files ? " -F" : "",
                        offer.words.empty() ? std::string()
                                            : fmt::format(" -a '{}'", fmt::join(offer.words, " ")));
      }
    }
    for (const Flag& f : all_flags()) {
      if (!is_offered(f, c.name)) continue;
      std::string line = when + fmt::format(" -l {}", f.name.substr(2));
      if (!f.letter.empty()) line += fmt::format(" -s {}", f.letter.substr(1));
      if (f.kind != Value::none) {
        const Offer offer = offer_of_flag(f);
        line += offer.files ? " -r -F" : " -x";
        if (!offer.words.empty()) line += fmt::format(" -a '{}'", fmt::join(offer.words, " "));
      }
      out += fmt::format("{} -d '{}'\n", line, quoted(f.what));
    }
  }
  return out;
}

int run_completion(const Arguments& arguments) {
  const std::string& shell = arguments.words[0];
  std::string script;
  if (shell == "bash") script = bash_completion();
  if (shell == "zsh") script = zsh_completion();
  if (shell == "fish") script = fish_completion();
  if (script.empty()) {
    return report_usage(
        fmt::format("no completion for `{}`; known: {}", shell, fmt::join(kShells, ", ")));
  }
  return deliver(script, arguments, kAnswered);
}

}  // namespace eratos::apps
