#include "eratos/reader/shell_words.h"

#include <algorithm>
#include <string>
#include <utility>

namespace eratos::reader {

namespace {

// Cuts the script into commands without expanding anything.
class Cutter {
 public:
  explicit Cutter(std::string_view script) : s_(script) {}

  std::vector<ShellCommand> run() {
    while (i_ < s_.size() && words_ < kMostShellWords) step();
    end_command(ShellLink::next);
    return std::move(commands_);
  }

 private:
  void step() {
    const char c = s_[i_];
    if (is_shell_blank(c)) {
      ++i_;
    } else if (c == '\\' && i_ + 1 < s_.size() && (s_[i_ + 1] == '\n' || s_[i_ + 1] == '\r')) {
      i_ += s_[i_ + 1] == '\r' && i_ + 2 < s_.size() && s_[i_ + 2] == '\n' ? 3 : 2;
    } else if (c == '#') {
      while (i_ < s_.size() && s_[i_] != '\n') ++i_;
    } else if (c == '\n') {
      ++i_;
      end_command(ShellLink::next);
      skip_documents();
    } else if (c == ';' || c == '&' || c == '|') {
      separator();
    } else if (c == '(' || c == '{' || c == '}') {
      const bool group = c == '(' || i_ + 1 >= s_.size() || is_shell_blank(s_[i_ + 1]) ||
                         s_[i_ + 1] == '\n' || s_[i_ + 1] == ';';
      if (group) {
        ++i_;
        end_command(ShellLink::next);
      } else {
        add_word();
      }
    } else if (c == ')') {
      ++i_;
      current_.pattern = true;
      end_command(ShellLink::next);
    } else if (c == '<' || c == '>') {
      redirect();
    } else {
      add_word();
    }
  }

  void separator() {
    const char c = s_[i_];
    const bool twice = i_ + 1 < s_.size() && s_[i_ + 1] == c;
    if (c == '&' && i_ + 1 < s_.size() && s_[i_ + 1] == '>') {
      redirect();
      return;
    }
    i_ += twice ? 2 : 1;
    if (c == ';' && twice) {
      end_command(ShellLink::next);
      current_.end_of_case = true;
      end_command(ShellLink::next);
      return;
    }
    end_command(c == '&' && twice   ? ShellLink::and_then
                : c == '|' && twice ? ShellLink::or_else
                                    : ShellLink::next);
  }

  void redirect() {
    const bool here = s_.substr(i_, 2) == "<<" && s_.substr(i_, 3) != "<<<";
    while (i_ < s_.size() && (s_[i_] == '<' || s_[i_] == '>' || s_[i_] == '&' || s_[i_] == '-')) {
      ++i_;
    }
    while (i_ < s_.size() && is_shell_blank(s_[i_])) ++i_;
    const std::size_t begin = i_;
    (void)word_end();
    if (!here) return;
    std::string name;
    for (const char c : s_.substr(begin, i_ - begin)) {
      if (c != '\'' && c != '"' && c != '\\') name += c;
    }
    if (!name.empty()) documents_.push_back(std::move(name));
  }

  // Behind the line that announced them.
  void skip_documents() {
    for (const std::string& name : documents_) {
      while (i_ < s_.size()) {
        std::size_t end = s_.find('\n', i_);
        if (end == std::string_view::npos) end = s_.size();
        std::string_view line = s_.substr(i_, end - i_);
        i_ = std::min(s_.size(), end + 1);
        while (!line.empty() && (line.front() == '\t' || line.front() == ' ')) {
          line.remove_prefix(1);
        }
        while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
        if (line == name) break;
      }
    }
    documents_.clear();
  }

  void add_word() {
    ++words_;
    const std::size_t begin = i_;
    if (!word_end()) {
      ++i_;
      return;
    }
    ShellRaw word{.begin = begin, .end = i_};
    if (i_ < s_.size() && s_[i_] == '(' && i_ > begin && s_[i_ - 1] == '=') {
      word.is_array = true;
      ++i_;
      items(word);
    }
    // A number before a redirection belongs to it: `2>&1`.
    if (i_ < s_.size() && (s_[i_] == '>' || s_[i_] == '<')) {
      const std::string_view text = s_.substr(begin, i_ - begin);
      if (text.find_first_not_of("0123456789") == std::string_view::npos) return;
    }
    current_.words.push_back(std::move(word));
  }

  void items(ShellRaw& array) {
    while (i_ < s_.size() && s_[i_] != ')' && words_ < kMostShellWords) {
      const char c = s_[i_];
      if (is_shell_blank(c) || c == '\n') {
        ++i_;
      } else if (c == '#') {
        while (i_ < s_.size() && s_[i_] != '\n') ++i_;
      } else if (c == '\\' && i_ + 1 < s_.size() && (s_[i_ + 1] == '\n' || s_[i_ + 1] == '\r')) {
        i_ += 2;
      } else {
        ++words_;
        const std::size_t begin = i_;
        if (!word_end()) ++i_;
        array.items.push_back({.begin = begin, .end = std::max(i_, begin + 1)});
      }
    }
    if (i_ < s_.size()) ++i_;
  }

  // Moves behind the word at i_; false where none begins.
  bool word_end() {
    const std::size_t begin = i_;
    while (i_ < s_.size()) {
      const char c = s_[i_];
      if (is_shell_blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' ||
          c == ')' || c == '<' || c == '>') {
        break;
      }
      if (c == '\\') {
        i_ = std::min(s_.size(), i_ + 2);
      } else if (c == '\'' || c == '"' || c == '`') {
        quoted(c);
      } else if (c == '$' && i_ + 1 < s_.size() && (s_[i_ + 1] == '(' || s_[i_ + 1] == '{')) {
        ++i_;
        balanced(s_[i_], s_[i_] == '(' ? ')' : '}');
      } else {
        ++i_;
      }
    }
    return i_ > begin;
  }

  void quoted(char quote) {
    ++i_;
    while (i_ < s_.size() && s_[i_] != quote) {
      i_ += s_[i_] == '\\' && quote != '\'' && i_ + 1 < s_.size() ? 2 : 1;
    }
    i_ = std::min(s_.size(), i_ + 1);
  }

  void balanced(char open, char close) {
    int depth = 0;
    while (i_ < s_.size()) {
      const char c = s_[i_];
      if (c == '\\') {
        i_ = std::min(s_.size(), i_ + 2);
        continue;
      }
      ++i_;
      if (c == open) ++depth;
      if (c == close && --depth == 0) return;
    }
  }

  void end_command(ShellLink next) {
    if (!current_.words.empty() || current_.end_of_case) commands_.push_back(std::move(current_));
    current_ = {};
    current_.after = next;
  }

  std::string_view s_;
  std::size_t i_ = 0;
  std::size_t words_ = 0;
  ShellCommand current_;
  std::vector<ShellCommand> commands_;
  std::vector<std::string> documents_;
};

}  // namespace

std::vector<ShellCommand> cut_shell(std::string_view script) { return Cutter(script).run(); }

}  // namespace eratos::reader
