// The words and commands of a shell script, cut but not expanded: a step of read_shell().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace eratos::reader {

// A script of more is cut short.
inline constexpr std::size_t kMostShellWords = 100'000;

inline bool is_shell_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// A word as it stands in the script: [begin, end), or the items of `NAME=( ... )`.
struct ShellRaw {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_array = false;
  std::vector<ShellRaw> items;
};

enum class ShellLink : std::uint8_t { next, and_then, or_else };

struct ShellCommand {
  std::vector<ShellRaw> words;
  ShellLink after = ShellLink::next;  // how the command follows the one before
  bool pattern = false;               // `a | b)` of a case
  bool end_of_case = false;           // `;;`
};

// Commands in order. Comments, redirections and documents (`<<EOF`) are left out.
std::vector<ShellCommand> cut_shell(std::string_view script);

// The value of sums and products of integers with parentheses (`$(( ... ))`, names replaced), or
// nothing. Worked example: "(4 - 1) * 2" is 6.
std::optional<std::int64_t> shell_sum(std::string_view text);

// A decimal integer of at most 15 digits.
std::optional<std::int64_t> shell_integer(std::string_view text);

}  // namespace eratos::reader
