#include "apps/command_line.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "apps/exit_code.h"
#include "apps/flags.h"
#include "eratos/base/diagnostic.h"
#include "eratos/report/table.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

Said usage_error(const std::string& message, std::string_view command = {}) {
  std::string err = "error: " + message + '\n';
  err += command.empty() ? "`eratos --help` lists the commands\n"
                         : fmt::format("`eratos {} --help` lists its flags\n", command);
  return {kUsage, "", err};
}

std::string general_help() {
  std::string out =
      "eratos projects the memory and step time of a training run without an accelerator.\n\n"
      "usage: eratos COMMAND ...\n\n";
  for (const Command& c : kCommands) {
    out += fmt::format("  {:<12} {:<13} {}\n", c.name, c.words, c.what);
  }
  out += '\n' + report::wrapped(kAboutJob, 90, "") + '\n';
  out +=
      "`eratos COMMAND --help` lists the flags of a command, `eratos --version` the version.\n";
  return out;
}

std::string help_of(const Command& command) {
  std::string out = fmt::format("usage: eratos {}{}{} [FLAGS]\n\n{}\n\n", command.name,
                                command.words.empty() ? "" : " ", command.words, command.what);
  for (const Flag& f : all_flags()) {
    if (f.what.empty() || !takes(command.name, f)) continue;
    std::string left =
        f.letter.empty() ? std::string(f.name) : fmt::format("{}, {}", f.letter, f.name);
    if (!f.value.empty()) left += fmt::format(" {}", f.value);
    out += fmt::format("  {:<23} {}{}\n", left, f.what, f.repeats ? " (may be repeated)" : "");
  }
  return out;
}

std::variant<const Command*, Said> command_called(const std::string& name) {
  for (const Command& c : kCommands) {
    if (c.name == name) return &c;
  }
  for (const std::string_view later : kLaterCommands) {
    if (later == name) {
      return usage_error(fmt::format("`{}` is not available in this version", name));
    }
  }
  std::vector<std::string> known;
  std::string near;
  for (const Command& c : kCommands) {
    known.emplace_back(c.name);
    if (name.size() >= 2 && c.name.substr(0, name.size()) == name) near = c.name;
  }
  if (near.empty()) near = nearest_name(name, known);
  return usage_error(fmt::format("unknown command `{}`{}", name,
                                 near.empty() ? "" : fmt::format("; did you mean `{}`?", near)));
}

Said unknown_flag(const std::string& word, const Command& command) {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> known{"--help"};
  for (const Flag& f : all_flags()) {
    if (f.name == name && !takes(command.name, f)) {
      return usage_error(fmt::format("`{}` does not take `{}`", command.name, name), command.name);
    }
    if (!f.what.empty() && takes(command.name, f)) known.emplace_back(f.name);
  }
  const std::string near = nearest_name(name, known);
  return usage_error(fmt::format("unknown flag `{}`{}", name,
                                 near.empty() ? "" : fmt::format("; did you mean `{}`?", near)),
                     command.name);
}

// What CLI11 found wrong with the flags, in our words: it names the flag, we know its value.
Said flag_error(const CLI::ParseError& e, const Command& command) {
  const std::string what = e.what();
  for (const Flag& f : all_flags()) {
    if (!takes(command.name, f) || what.find(f.name) == std::string::npos) continue;
    return usage_error(f.kind == Value::none ? fmt::format("`{}` takes no value", f.name)
                                             : fmt::format("`{}` needs {}", f.name, f.value),
                       command.name);
  }
  return usage_error(what, command.name);
}

// "" when `word` is what the flag takes.
std::string value_fault(const Flag& flag, const std::string& word) {
  const char* end = word.data() + word.size();
  switch (flag.kind) {
    case Value::none:
      return "";
    case Value::text:
      return word.empty() ? fmt::format("`{}` is given an empty {}", flag.name, flag.value) : "";
    case Value::count:
    case Value::index: {
      const int least = flag.kind == Value::index ? 0 : 1;
      int n = 0;
      const auto [at, error] = std::from_chars(word.data(), end, n);
      const bool good = error == std::errc() && at == end && n >= least;
      return good ? ""
                  : fmt::format("`{} {}` is no whole number of {} or more", flag.name, word, least);
    }
    case Value::share: {
      double n = 0;
      const auto [at, error] = std::from_chars(word.data(), end, n);
      const bool good = error == std::errc() && at == end && n >= 0 && n < 1;
      return good ? "" : fmt::format("`{} {}` is no share from 0 to below 1", flag.name, word);
    }
    case Value::pair: {
      const std::size_t equals = word.find('=');
      const bool good = equals != std::string::npos && equals > 0;
      return good ? "" : fmt::format("`{} {}` is no {}", flag.name, word, flag.value);
    }
  }
  return "";
}

}  // namespace

std::variant<Call, Said> parse_command_line(int argc, const char* const* argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first.empty()) return Said{kUsage, "", general_help()};
  if (first == "--help" || first == "-h" || first == "help") {
    if (argc > 2) {
      const auto found = command_called(argv[2]);
      if (const auto* said = std::get_if<Said>(&found)) return *said;
      return Said{kAnswered, help_of(*std::get<const Command*>(found)), ""};
    }
    return Said{kAnswered, general_help(), ""};
  }
  if (first == "--version") return Said{kAnswered, fmt::format("eratos {}\n", kVersion), ""};
  if (first[0] == '-') return usage_error(fmt::format("unknown flag `{}`", first));

  const auto found = command_called(first);
  if (const auto* said = std::get_if<Said>(&found)) return *said;
  const Command& command = *std::get<const Command*>(found);

  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::map<std::string, std::vector<std::string>> values;
  std::map<std::string, bool> switches;
  for (const Flag& f : all_flags()) {
    if (!takes(command.name, f)) continue;
    const std::string name(f.name);
    const std::string names = f.letter.empty() ? name : fmt::format("{},{}", f.letter, name);
    if (f.kind == Value::none) {
      app.add_flag(names, switches[name]);
    } else {
      app.add_option(names, values[name])->allow_extra_args(false);
    }
  }
  bool help = false;
  app.add_flag("-h,--help", help);
  try {
    std::vector<std::string> reversed(argv + 2, argv + argc);
    std::reverse(reversed.begin(), reversed.end());
    app.parse(reversed);
  } catch (const CLI::ParseError& e) {
    return flag_error(e, command);
  }
  if (help) return Said{kAnswered, help_of(command), ""};

  Call call{&command, {}};
  call.arguments.command = command.name;
  for (const std::string& word : app.remaining()) {
    if (word.size() > 1 && word[0] == '-') return unknown_flag(word, command);
    call.arguments.words.push_back(word);
  }
  for (const Flag& f : all_flags()) {
    if (!takes(command.name, f)) continue;
    const std::string name(f.name);
    const auto given = values.find(name);
    const bool here = given != values.end() ? !given->second.empty() : switches[name];
    if (!here) continue;
    if (f.what.empty()) {
      return usage_error(fmt::format("`{}` is not available in this version", name), command.name);
    }
    if (given != values.end() && given->second.size() > 1 && !f.repeats) {
      return usage_error(fmt::format("`{}` is given {} times", name, given->second.size()),
                         command.name);
    }
    if (given != values.end()) {
      for (const std::string& word : given->second) {
        const std::string bad = value_fault(f, word);
        if (!bad.empty()) return usage_error(bad, command.name);
      }
    }
    call.arguments.flags[name] = given != values.end() ? given->second : std::vector<std::string>{};
  }

  const auto words = static_cast<int>(call.arguments.words.size());
  if (words < command.least) {
    return usage_error(fmt::format("`{}` needs {}", command.name, command.words), command.name);
  }
  if (words > command.most) {
    return usage_error(fmt::format("unexpected word `{}`",
                                   call.arguments.words[static_cast<std::size_t>(command.most)]),
                       command.name);
  }
  return call;
}

}  // namespace eratos::apps
