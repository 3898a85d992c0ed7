// What text and JSON of a search share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eratos/report/search.h"

namespace eratos::report {

// Tokens a second and accelerator of a figure.
double tokens_per_gpu(const SearchAnswer& a, double figure);
// "tp 8, pp 8, ...": axes of the space that have a choice.
std::string settings(const SearchAnswer& a, const search::Candidate& at);
text::Node axes_node(const SearchAnswer& a, const search::Candidate& at);
// "tp 4 -> 8", by the words of the axis.
std::string step_words(const search::Space& space, const search::StepAway& step);
// The legal step that would make `one` fastest, if it is faster; nullptr else.
const search::StepAway* best_change(const Ranked& one);

struct RuleCount {
  const search::Rule* rule = nullptr;
  std::uint64_t removed = 0;
};
// Those that removed something, the most first.
std::vector<RuleCount> removed_by(const search::Outcome& outcome);

}  // namespace eratos::report
