#include "eratos/reader/error_classes.h"

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "eratos/text/scalar.h"

namespace eratos::reader {

namespace {

using calibration::ErrorClass;
using calibration::Mixture;
using calibration::Quantity;

constexpr const char* kColumns[] = {
    "quantity", "framework",       "architecture",  "mixture", "busy_from", "busy_to", "gpus_from",
    "gpus_to",  "parameters_from", "parameters_to", "rows",    "sources",   "low",     "high"};

const std::map<std::string_view, Quantity> kQuantities = {{"step", Quantity::step},
                                                          {"peak", Quantity::peak}};
const std::map<std::string_view, Mixture> kMixtures = {
    {"", Mixture::any}, {"any", Mixture::any}, {"dense", Mixture::dense},
    {"experts", Mixture::experts}};

// One row, whose faults it collects.
class Row {
 public:
  Row(const text::CsvTable& table, const std::map<std::string, std::size_t>& columns,
      std::size_t row, Diagnostics& bad)
      : table_(table), columns_(columns), row_(row), bad_(bad) {}

  std::string word(const char* column) const {
    return std::string(table_.cell(row_, columns_.at(column)));
  }

  template <typename T>
  T one_of(const char* column, const std::map<std::string_view, T>& words) const {
    const auto at = words.find(word(column));
    if (at != words.end()) return at->second;
    std::string known;
    for (const auto& [name, value] : words) {
      if (!name.empty()) known += (known.empty() ? "" : ", ") + std::string(name);
    }
    fault("`" + std::string(column) + "` is `" + word(column) + "`", "write one of " + known);
    return T{};
  }

  double number(const char* column, double missing) const {
    const std::string text = word(column);
    if (text.empty()) return missing;
    const std::optional<double> value = text::double_of(text);
    if (value && std::isfinite(*value)) return *value;
    fault("`" + std::string(column) + "` is `" + text + "`, not a number", "write a number");
    return missing;
  }

  void fault(std::string message, std::string cure) const {
    bad_.push_back({table_.where(row_), std::move(message), std::move(cure), ""});
  }

 private:
  const text::CsvTable& table_;
  const std::map<std::string, std::size_t>& columns_;
  std::size_t row_;
  Diagnostics& bad_;
};

ErrorClass class_of(const Row& row) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  ErrorClass out;
  out.quantity = row.one_of("quantity", kQuantities);
  out.framework = row.word("framework");
  out.architecture = row.word("architecture");
  out.mixture = row.one_of("mixture", kMixtures);
  out.busy = {row.number("busy_from", 0), row.number("busy_to", 1)};
  out.gpus = {row.number("gpus_from", 0), row.number("gpus_to", kNone)};
  out.parameters = {row.number("parameters_from", 0), row.number("parameters_to", kNone)};
  out.rows = static_cast<int>(row.number("rows", 0));
  out.sources = static_cast<int>(row.number("sources", 0));
  out.low = row.number("low", kNone);
  out.high = row.number("high", kNone);
  if (!(out.low > -1 && out.low <= out.high && out.high < kNone)) {
    row.fault("the band from `low` to `high` is empty or not above -1",
              "give the 10th and 90th percentile of projected / measured - 1");
  }
  return out;
}

}  // namespace

Result<std::vector<ErrorClass>> read_error_classes(const text::CsvTable& table) {
  Diagnostics bad;
  std::map<std::string, std::size_t> columns;
  for (const char* name : kColumns) {
    const Result<std::size_t> at = table.require_column(name);
    if (at) {
      columns[name] = *at;
    } else {
      bad.insert(bad.end(), at.error().begin(), at.error().end());
    }
  }
  if (!bad.empty()) return faults(std::move(bad));
  std::vector<ErrorClass> out;
  for (std::size_t i = 0; i < table.rows(); ++i) out.push_back(class_of({table, columns, i, bad}));
  if (!bad.empty()) return faults(std::move(bad));
  return out;
}

}  // namespace eratos::reader
