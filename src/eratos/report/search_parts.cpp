#include "eratos/report/search_parts.h"

#include <algorithm>

#include <fmt/format.h>

namespace eratos::report {

double tokens_per_gpu(const SearchAnswer& a, double figure) {
  return figure > 0 ? 1 / figure / a.space->base.cluster.gpus() : 0;
}

std::string settings(const SearchAnswer& a, const search::Candidate& at) {
  std::string out;
  for (std::size_t i = 0; i < search::kAxes; ++i) {
    if (a.space->axes[i].size() < 2) continue;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", search::kAxisFacts[i].name,
                       a.space->axes[i][at.at[i]].word);
  }
  return out.empty() ? "the job as it is: every axis is pinned" : out;
}

text::Node axes_node(const SearchAnswer& a, const search::Candidate& at) {
  text::Node out = text::Node::mapping();
  for (std::size_t i = 0; i < search::kAxes; ++i) {
    out.set(std::string(search::kAxisFacts[i].name),
            text::Node::string(a.space->axes[i][at.at[i]].word));
  }
  return out;
}

std::string step_words(const search::Space& space, const search::StepAway& step) {
  const std::vector<search::Value>& values = space.values(step.axis);
  return fmt::format("{} {} -> {}", search::facts_of(step.axis).name, values[step.from].word,
                     values[step.to].word);
}

const search::StepAway* best_change(const Ranked& one) {
  return search::best_step(one.steps, one.figure);
}

std::string binds(const Ranked& one, double* share) {
  const search::StepAway* change = best_change(one);
  if (change != nullptr && !change->fits) {
    if (share != nullptr) *share = 0;
    return "memory";
  }
  const search::Loss loss = search::largest_loss(*one.answer.projection);
  if (share != nullptr) *share = loss.share;
  return std::string(loss.what);
}

std::vector<RuleCount> removed_by(const search::Outcome& outcome) {
  std::vector<RuleCount> out;
  for (std::size_t i = 0; i < search::rules().size(); ++i) {
    if (outcome.removed.by_rule[i] > 0) {
      out.push_back({&search::rules()[i], outcome.removed.by_rule[i]});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const RuleCount& a, const RuleCount& b) { return a.removed > b.removed; });
  return out;
}

}  // namespace eratos::report
