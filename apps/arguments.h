// The command line as a value: which subcommand, which words, which flags.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace eratos::apps {

struct Arguments {
  std::string command;
  std::vector<std::string> words;  // what is no flag: JOB, KEY, RUNS.csv
  std::map<std::string, std::vector<std::string>, std::less<>> flags;  // by name, "--set"

  bool has(std::string_view flag) const { return flags.find(flag) != flags.end(); }
  // The last value given, or `otherwise`.
  std::string value(std::string_view flag, std::string_view otherwise = {}) const {
    const auto at = flags.find(flag);
    return at == flags.end() || at->second.empty() ? std::string(otherwise) : at->second.back();
  }
  std::vector<std::string> values(std::string_view flag) const {
    const auto at = flags.find(flag);
    return at == flags.end() ? std::vector<std::string>{} : at->second;
  }
};

}  // namespace eratos::apps
