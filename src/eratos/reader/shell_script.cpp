#include "eratos/reader/shell_script.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "eratos/reader/pattern_table.h"
#include "eratos/reader/shell_expand.h"
#include "eratos/reader/shell_words.h"

namespace eratos::reader {

namespace {

constexpr std::size_t kMostBytes = 4'000'000;

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Interpreter {
 public:
  Interpreter(std::string_view script, const std::string& file, const Environment& environment)
      : s_(script), file_(file), words_(script, environment) {
    for (std::size_t i = 0; i < s_.size(); ++i) {
      if (s_[i] == '\n') lines_.push_back(i + 1);
    }
  }

  ShellScript run() {
    bool last_true = true;  // of the command before, for && and ||
    for (const ShellCommand& each : cut_shell(s_)) {
      if (bytes_ > kMostBytes) {
        note("the rest of the script is left out: it grows beyond 4 MB",
             each.words.empty() ? 0 : each.words[0].begin);
        break;
      }
      run_command(each, last_true);
    }
    for (auto& [name, value] : words_.variables) {
      std::vector<ShellWord>& out = out_.variables[name];
      for (const ShellText& item : value) split(item, out);
    }
    return std::move(out_);
  }

 private:
  enum class Block : std::uint8_t { branch, loop, choice };
  struct Frame {
    Block block = Block::branch;
    bool active = true;     // the part being read counts
    bool taken = false;     // an earlier part counted
    bool outer = true;      // what stands around counts
    std::string subject;    // of a case
    bool deciding = false;  // between `if` and `then`
    bool decision = true;
    bool known = true;
  };

  bool active() const { return frames_.empty() || frames_.back().active; }

  Location place(std::size_t at) const {
    const auto next = std::upper_bound(lines_.begin(), lines_.end(), at);
    const auto line = static_cast<int>(next - lines_.begin());
    const std::size_t begin = lines_[static_cast<std::size_t>(line - 1)];
    return {file_, line, static_cast<int>(at - begin) + 1};
  }

  void note(std::string text, std::size_t at) {
    out_.notes.push_back({std::move(text), place(at)});
  }

  void run_command(const ShellCommand& command, bool& last_true) {
    if (command.end_of_case) {
      if (!frames_.empty() && frames_.back().block == Block::choice) frames_.back().active = false;
      return;
    }
    std::vector<ShellRaw> words = command.words;
    if (command.pattern && !frames_.empty() && frames_.back().block == Block::choice) {
      Frame& frame = frames_.back();
      bool any = false;
      for (const ShellRaw& word : words) {
        any = any || matches(words_.joined(word), frame.subject);
      }
      frame.active = frame.outer && any && !frame.taken;
      frame.taken = frame.taken || frame.active;
      return;
    }
    while (!words.empty() && keyword(words)) words.erase(words.begin());
    if (words.empty()) return;
    if (!frames_.empty() && frames_.back().deciding) {
      decide(words, command.after);
      return;
    }
    if (!active()) return;
    if (command.after == ShellLink::and_then && !last_true) return;
    if (command.after == ShellLink::or_else && last_true) return;
    if (is_test(words)) {
      const auto answer = test(words);
      if (!answer) note("a condition that only a run decides: taken as false", words[0].begin);
      last_true = answer.value_or(false);
      return;
    }
    execute(words);
    last_true = true;
  }

  // Acts on a leading keyword; true when the words behind it are a command of their own.
  bool keyword(std::vector<ShellRaw>& words) {
    const std::string_view first = words_.raw(words[0]);
    const bool outer = active();
    if (first == "if") {
      frames_.push_back({.active = false, .outer = outer, .deciding = true});
      return true;
    }
    if (first == "while" || first == "until") {
      if (outer) note("a loop is skipped", words[0].begin);
      frames_.push_back({.block = Block::loop, .active = false, .outer = outer});
      words.resize(1);
      return true;
    }
    if (first == "for" || first == "select") {
      begin_for(words, outer);
      words.resize(1);
      return true;
    }
    if (first == "case") {
      Frame frame{.block = Block::choice, .active = false, .outer = outer};
      if (words.size() > 1 && outer) frame.subject = words_.joined(words[1]);
      frames_.push_back(std::move(frame));
      words.resize(1);
      return true;
    }
    if (first == "function" && words.size() > 1) {
      words.resize(1);
      return true;
    }
    if (first == "do" || first == "!" || first == "time") return true;
    if (frames_.empty()) return false;
    Frame& frame = frames_.back();
    if (first == "then") {
      frame.deciding = false;
      frame.active = frame.outer && !frame.taken && frame.known && frame.decision;
      frame.taken = frame.taken || frame.active;
      return true;
    }
    if (first == "elif") {
      frame.deciding = true;
      frame.active = false;
      frame.decision = true;
      frame.known = true;
      return true;
    }
    if (first == "else") {
      frame.active = frame.outer && !frame.taken;
      return true;
    }
    if (first == "fi" || first == "done" || first == "esac") {
      frames_.pop_back();
      return true;
    }
    return false;
  }

  void begin_for(const std::vector<ShellRaw>& words, bool outer) {
    Frame frame{.block = Block::loop, .active = false, .outer = outer};
    if (outer && words.size() > 3 && words_.raw(words[2]) == "in") {
      std::vector<ShellText> first;
      for (std::size_t i = 3; i < words.size() && first.empty(); ++i)
        first = words_.expand(words[i]);
      if (!first.empty()) {
        words_.variables[std::string(words_.raw(words[1]))] = {first[0]};
        frame.active = true;
        note("of a loop the first round counts", words[0].begin);
      }
    }
    frames_.push_back(std::move(frame));
  }

  bool is_test(const std::vector<ShellRaw>& words) const {
    const std::string_view first = words_.raw(words[0]);
    return first == "[" || first == "[[" || first == "test";
  }

  void decide(const std::vector<ShellRaw>& words, ShellLink after) {
    Frame& frame = frames_.back();
    const bool outer = frame.outer;
    std::optional<bool> answer;
    if (outer && is_test(words)) answer = test(words);
    if (outer && !answer) {
      note("a condition that only a run decides: taken as false", words[0].begin);
    }
    const bool yes = answer.value_or(false);
    frame.decision = after == ShellLink::or_else ? frame.decision || yes : frame.decision && yes;
  }

  // `[ a = b ]` and its like; nothing where a word is not known.
  std::optional<bool> test(const std::vector<ShellRaw>& words) {
    std::vector<std::string> all;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string_view text = words_.raw(words[i]);
      if (text == "]" || text == "]]") break;
      words_.saw_unset = false;
      all.push_back(words_.joined(words[i], true));
    }
    bool negated = false;
    while (!all.empty() && all[0] == "!") {
      negated = !negated;
      all.erase(all.begin());
    }
    std::optional<bool> answer;
    if (all.size() == 2) {
      const bool open = all[1].find("${") != std::string::npos;
      if (all[0] == "-z") answer = all[1].empty();
      if (all[0] == "-n") answer = !all[1].empty();
      if (open) answer.reset();
    } else if (all.size() == 1) {
      answer = !all[0].empty();
    } else if (all.size() == 3) {
      answer = compare(all[0], all[1], all[2]);
    }
    if (answer && negated) answer = !*answer;
    return answer;
  }

  static std::optional<bool> compare(const std::string& a, const std::string& op,
                                     const std::string& b) {
    if (a.find("${") != std::string::npos || b.find("${") != std::string::npos) return {};
    if (op == "=" || op == "==") return matches(b, a);
    if (op == "!=") return !matches(b, a);
    const auto x = shell_integer(a);
    const auto y = shell_integer(b);
    if (!x || !y) return {};
    if (op == "-eq") return *x == *y;
    if (op == "-ne") return *x != *y;
    if (op == "-gt" || op == ">") return *x > *y;
    if (op == "-ge") return *x >= *y;
    if (op == "-lt" || op == "<") return *x < *y;
    if (op == "-le") return *x <= *y;
    return {};
  }

  static std::size_t assignment(std::string_view text) {
    if (text.empty() || !starts_name(text[0])) return 0;
    std::size_t n = 0;
    while (n < text.size() && is_name(text[n])) ++n;
    if (n < text.size() && text[n] == '+') ++n;
    return n < text.size() && text[n] == '=' ? n : 0;
  }

  void execute(const std::vector<ShellRaw>& words) {
    std::size_t i = 0;
    bool declares = false;
    for (; i < words.size(); ++i) {
      const std::string_view text = words_.raw(words[i]);
      if (text == "export" || text == "local" || text == "declare" || text == "readonly" ||
          text == "typeset" || text == "env") {
        declares = text != "env";
        continue;
      }
      if (declares && !text.empty() && text[0] == '-') continue;
      const std::size_t equals = assignment(text);
      if (equals == 0) {
        if (declares) continue;
        break;
      }
      assign(words[i], equals);
    }
    if (i == words.size()) return;
    std::vector<ShellWord> command;
    for (; i < words.size() && bytes_ < kMostBytes; ++i) {
      for (const ShellText& field : words_.expand(words[i])) {
        bytes_ += field.text.size() + 1;
        // A command inside quotes (`bash -c "..."`, `eval`) is words again.
        if (field.text.find(" --") != std::string::npos) {
          split(field, command);
        } else {
          command.push_back({field.text, place(field.at.empty() ? words[i].begin : field.at[0])});
        }
      }
    }
    out_.commands.push_back(std::move(command));
  }

  void assign(const ShellRaw& word, std::size_t equals) {
    const std::string_view text = words_.raw(word);
    const bool appends = equals > 0 && text[equals - 1] == '+';
    const std::string name(text.substr(0, appends ? equals - 1 : equals));
    std::vector<ShellText> value;
    if (word.is_array) {
      for (const ShellRaw& item : word.items) {
        for (ShellText& field : words_.expand(item)) value.push_back(std::move(field));
      }
    } else {
      words_.saw_unset = false;
      words_.saw_output = false;
      ShellText whole_text;
      words_.expand_into(word.begin + equals + 1, word.end, whole_text, 0);
      // `TP=$1` and `TP=$(command)` leave TP for --env.
      if (words_.saw_output || (words_.saw_unset && whole_text.text.rfind("${", 0) == 0 &&
                                whole_text.text.find('}') == whole_text.text.size() - 1)) {
        if (!appends) words_.variables.erase(name);
        return;
      }
      value.push_back(std::move(whole_text));
    }
    for (const ShellText& each : value) bytes_ += each.text.size();
    std::vector<ShellText>& slot = words_.variables[name];
    if (!appends) {
      slot = std::move(value);
    } else if (word.is_array) {
      for (ShellText& each : value) slot.push_back(std::move(each));
    } else if (slot.empty()) {
      slot = std::move(value);
    } else {
      slot[0].add(value[0]);
    }
  }

  void split(const ShellText& text, std::vector<ShellWord>& out) {
    std::string word;
    std::size_t at = 0;
    char quote = '\0';
    for (std::size_t i = 0; i < text.text.size() && out.size() < kMostShellWords; ++i) {
      const char c = text.text[i];
      if (quote == '\0' && (is_shell_blank(c) || c == '\n')) {
        if (!word.empty()) out.push_back({std::move(word), place(at)});
        word.clear();
      } else if (c == '\'' || c == '"') {
        quote = quote == '\0' ? c : quote == c ? '\0' : quote;
      } else {
        if (word.empty()) at = text.at[i];
        word += c;
      }
    }
    if (!word.empty()) out.push_back({std::move(word), place(at)});
  }

  std::string_view s_;
  const std::string& file_;
  ShellExpander words_;
  std::vector<std::size_t> lines_{0};
  std::vector<Frame> frames_;
  ShellScript out_;
  std::size_t bytes_ = 0;
};

}  // namespace

ShellScript read_shell(std::string_view text, const std::string& file,
                       const Environment& environment) {
  return Interpreter(text, file, environment).run();
}

}  // namespace eratos::reader
