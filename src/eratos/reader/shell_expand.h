// Words of a shell script with their variables replaced: a step of read_shell().
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/reader/environment.h"
#include "eratos/reader/shell_words.h"

namespace eratos::reader {

// Text that remembers, byte for byte, where in the script it stood.
struct ShellText {
  std::string text;
  std::vector<std::size_t> at;

  void add(char c, std::size_t from) {
    text += c;
    at.push_back(from);
  }
  void add(std::string_view all, std::size_t from) {
    for (const char c : all) add(c, from);
  }
  void add(const ShellText& other) {
    text += other.text;
    at.insert(at.end(), other.at.begin(), other.at.end());
  }
};

// What a script has set so far, and how its words read with it. A variable that nobody set stays as
// `${NAME}`; what only a run would know (the output of a command) as `${OUTPUT_OF_COMMAND}`.
class ShellExpander {
 public:
  // Both must outlive this.
  ShellExpander(std::string_view script, const Environment& environment)
      : s_(script), environment_(environment) {}

  // The word as one text, quotes resolved. Unset variables are empty where `empty` says so.
  std::string joined(const ShellRaw& word, bool empty = false);
  // The word's fields: unquoted variables are split at blanks, arrays give one a item.
  std::vector<ShellText> expand(const ShellRaw& word);
  // All of [begin, end) as one text: no splitting.
  void expand_into(std::size_t begin, std::size_t end, ShellText& out, int depth);

  std::string_view raw(const ShellRaw& word) const {
    return s_.substr(word.begin, word.end - word.begin);
  }

  std::map<std::string, std::vector<ShellText>> variables;
  bool saw_unset = false;  // since the caller cleared it
  bool saw_output = false;

 private:
  void quoted_into(std::size_t begin, std::size_t end, ShellText& out, int depth);
  std::size_t dollar_into(std::size_t i, std::size_t end, ShellText& out, int depth);
  std::size_t quote_end(std::size_t i, std::size_t end) const;
  // The items when [begin, end) is `${NAME[@]}` alone.
  const std::vector<ShellText>* whole_array(std::size_t begin, std::size_t end) const;
  std::optional<std::vector<ShellText>> lookup(const std::string& name, std::size_t at) const;
  void unset(const std::string& name, std::size_t at, std::vector<ShellText>& parts);
  // From the `$` (or a backtick) at i; moves behind it.
  std::size_t dollar(std::size_t i, std::size_t end, std::vector<ShellText>& parts, int depth);
  void output(std::size_t at, std::vector<ShellText>& parts);
  std::size_t balanced_end(std::size_t i, std::size_t end, char open, char close) const;
  // The inside of `${...}`.
  void braced(std::size_t i, std::size_t end, std::size_t at, std::vector<ShellText>& parts,
              int depth);
  // `$(( ... ))`: names stand for their values, with or without a `$`.
  void arithmetic(std::size_t begin, std::size_t end, std::size_t at, std::vector<ShellText>& parts,
                  int depth);

  std::string_view s_;
  const Environment& environment_;
  bool empty_unset_ = false;
};

}  // namespace eratos::reader
