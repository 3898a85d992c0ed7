#include "eratos/report/layers_parts.h"

#include <cstddef>

#include <fmt/format.h>

#include "eratos/search/space.h"

namespace eratos::report {

std::vector<int> recomputed_layers(const search::StagePlan& stage) {
  std::vector<int> out;
  for (std::size_t n = 0; n < stage.full.size(); ++n) {
    if (stage.full[n] != 0) out.push_back(stage.first + static_cast<int>(n));
  }
  return out;
}

std::string runs_of(const std::vector<int>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!out.empty()) out += ", ";
    out += end - i == 1 ? std::to_string(numbers[i])
                        : fmt::format("{}-{}", numbers[i], numbers[end - 1]);
    i = end;
  }
  return out;
}

std::string plan_word(const search::LayerPlan& plan) {
  return plan.recompute.layer_ids.empty() ? search::word_of(plan.recompute) : "some layers";
}

double gain_over_alike(const LayersAnswer& a) {
  if (a.top.empty() || a.alike == nullptr || a.alike->top.empty()) return 0;
  return a.alike->top[0].figure / a.top[0].planned->figure - 1;
}

}  // namespace eratos::report
