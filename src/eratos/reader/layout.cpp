#include "eratos/reader/layout.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace eratos::reader {

namespace {

constexpr std::size_t kMostLetters = 100'000;
constexpr int kDeepest = 50;

// One text, a cursor, and the first fault.
struct Cursor {
  std::string_view text;
  std::string field;
  std::size_t at = 0;
  Diagnostics bad;

  void skip_blanks(bool commas) {
    while (at < text.size() && (std::isspace(static_cast<unsigned char>(text[at])) != 0 ||
                                (commas && text[at] == ','))) {
      ++at;
    }
  }
  bool done() const { return at >= text.size(); }
  char peek() const { return done() ? '\0' : text[at]; }
  bool fail(const std::string& message, const std::string& cure = {}) {
    return fail_at(at, message, cure);
  }
  bool fail_at(std::size_t place, const std::string& message, const std::string& cure) {
    if (bad.empty()) {
      bad.push_back({.message = message + " at character " + std::to_string(place + 1) + " of `" +
                                std::string(text) + "`",
                     .cure = cure,
                     .field = field});
    }
    return false;
  }
  bool integer(long& value) {
    skip_blanks(false);
    const bool negative = peek() == '-';
    if (negative) ++at;
    if (std::isdigit(static_cast<unsigned char>(peek())) == 0) return fail("no number");
    value = 0;
    while (std::isdigit(static_cast<unsigned char>(peek())) != 0) {
      value = value * 10 + (text[at++] - '0');
      if (value > 1'000'000) return fail("a number beyond 1,000,000");
    }
    if (negative) value = -value;
    return true;
  }
};

// A letter and where it stands in the text.
struct Letter {
  char letter;
  std::size_t at;
};
using Letters = std::vector<Letter>;

// letters := { letter | '(' letters ')' , each with an optional '*' n }
bool letters(Cursor& c, Letters& out, int depth) {
  if (depth > kDeepest) return c.fail("brackets nested too deeply");
  for (;;) {
    c.skip_blanks(true);
    if (c.done() || c.peek() == ')') return true;
    Letters piece;
    if (c.peek() == '(') {
      ++c.at;
      if (!letters(c, piece, depth + 1)) return false;
      if (c.peek() != ')') return c.fail("a bracket is not closed");
      ++c.at;
    } else if (std::string_view("EtmL|").find(c.peek()) != std::string_view::npos) {
      piece.push_back({c.peek(), c.at});
      ++c.at;
    } else {
      return c.fail(std::string("unknown letter `") + c.peek() + "`",
                    "use E, t, m, L, |, * and brackets");
    }
    c.skip_blanks(false);
    long times = 1;
    if (c.peek() == '*') {
      ++c.at;
      if (!c.integer(times)) return false;
      if (times < 1) return c.fail("a repeat below 1");
    }
    if (piece.size() * static_cast<std::size_t>(times) + out.size() > kMostLetters) {
      return c.fail("more than 100,000 layers and stages");
    }
    for (long i = 0; i < times; ++i) out.insert(out.end(), piece.begin(), piece.end());
  }
}

// The order that Megatron asserts before it builds anything. It is lost once letters become counts
// a stage; numbers of layers are checked against the model in job/placement.cpp.
// Source: NVIDIA/Megatron-LM core/transformer/pipeline_parallel_layer_layout.py
// (validate_layer_layout). The embedding and the loss are built on the first and last stage
// whatever the layout says (core/models/gpt/gpt_model.py, pre_process and post_process), so empty
// stages before E or after L are refused too.
bool in_order(Cursor& c, const Letters& all) {
  constexpr const char* kOneE = "write one `E`, first on the first stage: Et|t|tL";
  constexpr const char* kOneL = "write one `L`, last on the last stage: Et|t|tL";
  if (all.empty() || all.front().letter != 'E') {
    return c.fail_at(all.empty() ? 0 : all.front().at,
                     "a layout that does not begin with the embedding", kOneE);
  }
  bool output = false;
  int stage = 0;
  int prediction_stage = -1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Letter& each = all[i];
    if (each.letter == '|') {
      if (output) return c.fail_at(each.at, "a stage after the output `L`", kOneL);
      ++stage;
      continue;
    }
    if (each.letter == 'E' && i > 0) return c.fail_at(each.at, "a second embedding `E`", kOneE);
    if (each.letter == 'L' && output) return c.fail_at(each.at, "a second output `L`", kOneL);
    if (output) return c.fail_at(each.at, "a layer after the output `L`", kOneL);
    if (each.letter == 'L') output = true;
    if (each.letter == 'm') {
      if (prediction_stage >= 0 && prediction_stage != stage) {
        return c.fail_at(each.at, "prediction layers `m` on two stages",
                         "put every `m` on one stage");
      }
      prediction_stage = stage;
    }
    if (each.letter == 't' && prediction_stage >= 0) {
      return c.fail_at(each.at, "a decoder layer `t` after a prediction layer `m`",
                       "write every `m` after the last `t`");
    }
  }
  if (!output) return c.fail("a layout without the output `L`", kOneL);
  return true;
}

// sum := term { '+' term };  term := ( '(' sum ')' | '[' ints ']' ) { '*' n } | n '*' term
bool list_sum(Cursor& c, std::vector<int>& out, int depth);

bool list_term(Cursor& c, std::vector<int>& out, int depth) {
  c.skip_blanks(false);
  std::vector<int> piece;
  long times = 1;
  if (c.peek() == '(') {
    ++c.at;
    if (!list_sum(c, piece, depth + 1)) return false;
    if (c.peek() != ')') return c.fail("a bracket is not closed");
    ++c.at;
  } else if (c.peek() == '[') {
    ++c.at;
    for (c.skip_blanks(true); c.peek() != ']'; c.skip_blanks(true)) {
      long value = 0;
      if (!c.integer(value)) return false;
      piece.push_back(static_cast<int>(value));
      if (piece.size() > kMostLetters) return c.fail("a list of more than 100,000 numbers");
    }
    ++c.at;
  } else {
    if (!c.integer(times)) return false;
    c.skip_blanks(false);
    if (c.peek() != '*') return c.fail("a number that multiplies nothing");
    ++c.at;
    if (!list_term(c, piece, depth + 1)) return false;
  }
  c.skip_blanks(false);
  while (c.peek() == '*') {
    ++c.at;
    long more = 1;
    if (!c.integer(more)) return false;
    times = more < 0 ? 0 : times * more;
    if (times > 1'000'000) return c.fail("more than 100,000 numbers");
    c.skip_blanks(false);
  }
  if (piece.size() * static_cast<std::size_t>(times < 0 ? 0 : times) + out.size() > kMostLetters) {
    return c.fail("more than 100,000 numbers");
  }
  for (long i = 0; i < times; ++i) out.insert(out.end(), piece.begin(), piece.end());
  return true;
}

bool list_sum(Cursor& c, std::vector<int>& out, int depth) {
  if (depth > kDeepest) return c.fail("brackets nested too deeply");
  if (!list_term(c, out, depth)) return false;
  c.skip_blanks(false);
  while (c.peek() == '+') {
    ++c.at;
    if (!list_term(c, out, depth)) return false;
    c.skip_blanks(false);
  }
  return true;
}

}  // namespace

Result<job::LayoutSpec> parse_layout(std::string_view text, std::string_view field) {
  Cursor c{.text = text, .field = std::string(field)};
  Letters all;
  if (letters(c, all, 0) && !c.done()) c.fail("a bracket too many");
  if (c.bad.empty()) in_order(c, all);
  const auto is_layer = [](const Letter& each) { return each.letter == 't'; };
  if (c.bad.empty() && std::none_of(all.begin(), all.end(), is_layer)) {
    c.fail("a layout without a layer", "write `t` for each decoder layer, `|` between stages");
  }
  if (!c.bad.empty()) return faults(std::move(c.bad));
  job::LayoutSpec out;
  out.text = std::string(text);
  out.stages.emplace_back();
  for (const auto& [letter, at] : all) {
    job::StageLayout& stage = out.stages.back();
    if (letter == '|') out.stages.emplace_back();
    if (letter == 't') ++stage.layers;
    if (letter == 'm') ++stage.mtp;
    if (letter == 'E') stage.embedding = true;
    if (letter == 'L') stage.output = true;
  }
  return out;
}

std::string layout_text(const std::vector<job::StageLayout>& stages) {
  std::string out;
  const auto repeated = [&](char letter, int times) {
    if (times < 1) return;
    out += letter;
    if (times > 1) out += "*" + std::to_string(times);
  };
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (i > 0) out += '|';
    if (stages[i].embedding) out += 'E';
    repeated('t', stages[i].layers);
    repeated('m', stages[i].mtp);
    if (stages[i].output) out += 'L';
  }
  return out;
}

Result<std::vector<int>> parse_list_expression(std::string_view text, std::string_view field) {
  Cursor c{.text = text, .field = std::string(field)};
  std::vector<int> out;
  if (list_sum(c, out, 0) && !c.done()) c.fail("an unexpected character");
  if (!c.bad.empty()) {
    c.bad.front().cure = "write a list such as ([0]*3+[1]*58)";
    return faults(std::move(c.bad));
  }
  return out;
}

}  // namespace eratos::reader
