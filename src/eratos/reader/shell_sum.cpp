#include <cctype>

#include "eratos/reader/shell_words.h"

namespace eratos::reader {

namespace {

constexpr int kMostNested = 40;

// Sums, products and parentheses of integers.
class Sum {
 public:
  explicit Sum(std::string_view text) : s_(text) {}
  std::optional<std::int64_t> run() {
    const std::int64_t out = sum(0);
    skip();
    return good_ && i_ == s_.size() ? std::optional(out) : std::nullopt;
  }

 private:
  void skip() {
    while (i_ < s_.size() && (is_shell_blank(s_[i_]) || s_[i_] == '\n')) ++i_;
  }
  bool next(char c) {
    skip();
    if (i_ >= s_.size() || s_[i_] != c) return false;
    ++i_;
    return true;
  }
  static std::int64_t bounded(double v, bool& good) {
    if (v > 1e15 || v < -1e15) good = false;
    return good ? static_cast<std::int64_t>(v) : 0;
  }
  std::int64_t sum(int depth) {
    std::int64_t out = product(depth);
    while (good_) {
      if (next('+')) {
        out = bounded(static_cast<double>(out) + static_cast<double>(product(depth)), good_);
      } else if (next('-')) {
        out = bounded(static_cast<double>(out) - static_cast<double>(product(depth)), good_);
      } else {
        break;
      }
    }
    return out;
  }
  std::int64_t product(int depth) {
    std::int64_t out = factor(depth);
    while (good_) {
      if (next('*')) {
        out = bounded(static_cast<double>(out) * static_cast<double>(factor(depth)), good_);
      } else if (next('/') || next('%')) {
        const bool division = s_[i_ - 1] == '/';
        const std::int64_t by = factor(depth);
        if (by == 0) good_ = false;
        if (good_) out = division ? out / by : out % by;
      } else {
        break;
      }
    }
    return out;
  }
  std::int64_t factor(int depth) {
    if (depth > kMostNested) good_ = false;
    if (!good_) return 0;
    if (next('(')) {
      const std::int64_t out = sum(depth + 1);
      if (!next(')')) good_ = false;
      return out;
    }
    if (next('-')) return -factor(depth + 1);
    skip();
    const std::size_t begin = i_;
    while (i_ < s_.size() && std::isdigit(static_cast<unsigned char>(s_[i_])) != 0) ++i_;
    const auto value = shell_integer(s_.substr(begin, i_ - begin));
    if (!value) good_ = false;
    return value.value_or(0);
  }
  std::string_view s_;
  std::size_t i_ = 0;
  bool good_ = true;
};

}  // namespace

std::optional<std::int64_t> shell_integer(std::string_view text) {
  const bool minus = !text.empty() && text[0] == '-';
  if (minus) text.remove_prefix(1);
  if (text.empty() || text.size() > 15 ||
      text.find_first_not_of("0123456789") != std::string_view::npos) {
    return {};
  }
  std::int64_t out = 0;
  for (const char c : text) out = out * 10 + (c - '0');
  return minus ? -out : out;
}

std::optional<std::int64_t> shell_sum(std::string_view text) { return Sum(text).run(); }

}  // namespace eratos::reader
