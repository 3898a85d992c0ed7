#include "eratos/reader/truth_row.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace eratos::reader {

std::string TruthRow::text(std::string_view column) const {
  const std::optional<std::size_t> at = table_->column(column);
  const std::string_view cell = at ? table_->cell(row_, *at) : std::string_view();
  if (!cell.empty()) return std::string(cell);
  for (const auto& [name, value] : filled_) {
    if (name == column) return value;
  }
  return "";
}

void TruthRow::fill(std::string_view column, std::string_view value) {
  if (text(column).empty()) filled_.emplace_back(column, value);
}

std::optional<double> TruthRow::number(std::string_view column) const {
  const std::string cell = text(column);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size()) return std::nullopt;
  return value;
}

std::optional<int> TruthRow::whole(std::string_view column) const {
  const std::optional<double> value = number(column);
  if (!value || *value != std::floor(*value)) return std::nullopt;
  if (std::abs(*value) > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*value);
}

bool TruthRow::says_yes(std::string_view column) const {
  const std::string word = text(column);
  return word == "true" || word == "yes";
}

std::string TruthRow::unreadable() const {
  constexpr std::string_view kWhole[] = {
      "num_gpus", "gpus_per_node", "seq_len", "mbs", "gbs", "tp", "cp",
      "pp",       "vpp",           "ep",      "etp", "dp"};
  constexpr std::string_view kNumbers[] = {"tokens_per_s_per_gpu", "tflops_per_gpu", "step_time_s",
                                           "mfu", "peak_memory_gb"};
  const auto fault_of = [&](std::string_view column) {
    return '`' + std::string(column) + "` is `" + text(column) + '`';
  };
  for (const std::string_view column : kWhole) {
    if (!text(column).empty() && !whole(column)) return fault_of(column);
  }
  for (const std::string_view column : kNumbers) {
    if (!text(column).empty() && !number(column)) return fault_of(column);
  }
  return "";
}

}  // namespace eratos::reader
