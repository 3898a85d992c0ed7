// `--axes tp=1,2,4 pp!=8 rest=job`: from words to a space.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "eratos/search/axes.h"

namespace eratos::search {

namespace {

constexpr std::size_t kMostValues = 255;  // a place in a list is one byte
constexpr double kMostCandidates = 1e18;

Diagnostic said(const std::string& word, std::string message, std::string cure) {
  return {
      .where = {.file = "--axes " + word}, .message = std::move(message), .cure = std::move(cure)};
}

std::optional<AxisId> axis_called(std::string_view name) {
  for (const AxisFacts& f : kAxisFacts) {
    if (f.name == name || (!f.alias.empty() && f.alias == name)) return f.id;
  }
  return std::nullopt;
}

std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : ", ") + w;
  return out;
}

Diagnostic unknown_axis(const std::string& word, const std::string& name) {
  std::vector<std::string> known{"rest"};
  for (const AxisFacts& f : kAxisFacts) {
    known.emplace_back(f.name);
    if (!f.alias.empty()) known.emplace_back(f.alias);
  }
  const std::string near = nearest_name(name, known);
  return said(word, "unknown axis `" + name + "`",
              near.empty() ? "use " + listed(known) : "did you mean `" + near + "`?");
}

// "1,2,4..32" cut at commas.
std::vector<std::string> parts_of(std::string_view list) {
  std::vector<std::string> out;
  while (true) {
    const std::size_t comma = list.find(',');
    out.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return out;
    list = list.substr(comma + 1);
  }
}

// "4..32": 4, 8, 16, 32. Empty when it is no range.
std::vector<std::string> doublings(const std::string& part) {
  const std::size_t dots = part.find("..");
  if (dots == std::string::npos) return {};
  const auto number = [](const std::string& s) {
    int n = 0;
    const auto [at, error] = std::from_chars(s.data(), s.data() + s.size(), n);
    return error == std::errc() && at == s.data() + s.size() ? n : 0;
  };
  const int from = number(part.substr(0, dots));
  const int to = number(part.substr(dots + 2));
  std::vector<std::string> out;
  if (from < 1 || to < from) return out;
  for (long long n = from; n <= to; n *= 2) out.push_back(std::to_string(n));
  return out;
}

class Reader {
 public:
  explicit Reader(const job::JobSpec& base) {
    space_.base = base;
    space_.recomputes.push_back(base.recompute);
  }

  Result<Space> read(std::span<const std::string> words) {
    for (const std::string& word : words) read_word(word);
    for (std::size_t i = 0; i < kAxes; ++i) {
      const auto axis = static_cast<AxisId>(i);
      space_.named[i] = (said_[i] && !every_[i]) || rest_is_job_;
      if (said_[i]) continue;
      space_.axes[i] = rest_is_job_ ? std::vector<Value>{value_of_job(space_, axis)}
                                    : default_values(space_, axis);
    }
    check_size();
    if (!faults_.empty()) return faults(std::move(faults_));
    return std::move(space_);
  }

 private:
  void read_word(const std::string& word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      faults_.push_back(said(word, "no axis=values", "write e.g. tp=1,2,4 or vpp!=8"));
      return;
    }
    const bool without = word[equals - 1] == '!';
    const std::string name = word.substr(0, equals - (without ? 1 : 0));
    const std::string list = word.substr(equals + 1);
    if (name == "rest") {
      if (without || (list != "job" && list != "all")) {
        faults_.push_back(said(word, "rest is job or all", "write rest=job"));
      }
      rest_is_job_ = list == "job";
      return;
    }
    const auto axis = axis_called(name);
    if (!axis) {
      faults_.push_back(unknown_axis(word, name));
      return;
    }
    const auto i = static_cast<std::size_t>(*axis);
    if (said_[i]) {
      faults_.push_back(said(word, "axis `" + name + "` is said twice", "say it once"));
      return;
    }
    said_[i] = true;
    space_.axes[i] = without ? all_but(*axis, word, list) : these(*axis, word, list);
    if (space_.axes[i].empty()) space_.axes[i].push_back(value_of_job(space_, *axis));
  }

  std::vector<Value> these(AxisId axis, const std::string& word, const std::string& list) {
    if (list == "all") return default_values(space_, axis);
    if (list == "every") {
      every_[static_cast<std::size_t>(axis)] = true;
      return every_value(space_, axis);
    }
    std::vector<Value> out;
    for (const std::string& part : parts_of(list)) {
      std::vector<std::string> each = doublings(part);
      if (each.empty()) each.push_back(part);
      for (const std::string& one : each) add(axis, word, one, out);
    }
    put_in_order(axis, out);
    return out;
  }

  void add(AxisId axis, const std::string& word, const std::string& one, std::vector<Value>& out) {
    const std::optional<Value> value = value_of(space_, axis, one);
    if (!value) {
      const std::vector<std::string> known = words_of(axis);
      const std::string near = known.empty() ? "" : nearest_name(one, known);
      const bool of_layers = axis == AxisId::recompute &&
                             (one.rfind("full:", 0) == 0 || one.rfind("uniform:", 0) == 0);
      faults_.push_back(
          said(word, "`" + one + "` is no value of axis " + std::string(facts_of(axis).name),
               of_layers ? "give 1 to " + std::to_string(space_.base.model.layers()) +
                               ", as many layers as the model has"
               : known.empty() && axis == AxisId::offload
                   ? "give percent, 0 to 100, or a range such as 25..100"
               : known.empty() ? "give whole numbers, or a range such as 1..8"
               : near.empty()  ? "use " + listed(known)
                               : "did you mean `" + near + "`?"));
      return;
    }
    const bool there = std::any_of(out.begin(), out.end(),
                                   [&](const Value& v) { return v.number == value->number; });
    if (!there) out.push_back(*value);
  }

  std::vector<Value> all_but(AxisId axis, const std::string& word, const std::string& list) {
    const std::vector<Value> gone = these(axis, word, list);
    std::vector<Value> out = default_values(space_, axis);
    std::erase_if(out, [&](const Value& v) {
      return std::any_of(gone.begin(), gone.end(),
                         [&](const Value& g) { return g.number == v.number; });
    });
    if (out.empty()) {
      faults_.push_back(said(word, "no value is left on axis " + std::string(facts_of(axis).name),
                             "exclude fewer"));
    }
    return out;
  }

  void check_size() {
    double product = 1;
    for (std::size_t i = 0; i < kAxes; ++i) {
      const std::vector<Value>& values = space_.axes[i];
      product *= static_cast<double>(values.size());
      if (values.size() <= kMostValues) continue;
      faults_.push_back(said(std::string(facts_of(static_cast<AxisId>(i)).name),
                             std::to_string(values.size()) + " values on one axis",
                             "list at most " + std::to_string(kMostValues)));
    }
    if (product > kMostCandidates) {
      faults_.push_back(said("", "the space has more than 1e18 candidates", "pin some axes"));
    }
  }

  Space space_;
  std::array<bool, kAxes> said_{};
  std::array<bool, kAxes> every_{};
  bool rest_is_job_ = false;
  Diagnostics faults_;
};

}  // namespace

Result<Space> space_of(const job::JobSpec& base, std::span<const std::string> words) {
  return Reader(base).read(words);
}

}  // namespace eratos::search
