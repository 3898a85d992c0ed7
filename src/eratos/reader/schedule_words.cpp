#include "eratos/reader/schedule_words.h"

#include <string>
#include <utility>

#include "eratos/parallel/schedules.h"

namespace eratos::reader {

namespace {

// zerobubble is 1F1B with the weights' gradients put off so far that the peak stays: ZB-H1.
constexpr std::pair<std::string_view, std::string_view> kPrimus[] = {
    {"1f1b", "1f1b"},
    {"1f1b-interleaved", "interleaved-1f1b"},
    {"zero-bubble", "zb-h1"},
    {"zero-bubble-heuristic", "zb-auto"},
    {"zbv-formatted", "zbv"},
    {"v-half", "v-half"},
    {"v-min", "v-min"},
    {"zerobubble", "zb-h1"},
    {"zerobubble-heuristic", "zb-auto"},
    {"zbv-greedy-half", "v-half"},
    {"zbv-greedy-min", "v-min"},
};

}  // namespace

bool set_schedule(std::string_view word, job::JobSpec& job) {
  // Source: arXiv 2401.10241, section 5.1: ZB-1p and ZB-2p are the automatic schedule limited to the
  // activations of p and of 2p micro-batches.
  if (word == "zb-1p" || word == "zb-2p") {
    job.schedule.algorithm = "zb-auto";
    job.schedule.activation_limit = (word == "zb-1p" ? 1 : 2) * job.parallel.pp;
    return true;
  }
  if (word != "auto" && parallel::find_schedule_facts(word) == nullptr) return false;
  job.schedule.algorithm = std::string(word);
  return true;
}

std::string_view primus_schedule(std::string_view word) {
  for (const auto& [theirs, ours] : kPrimus) {
    if (theirs == word) return ours;
  }
  return {};
}

std::string_view primus_schedule_word(std::string_view ours) {
  for (const auto& [theirs, name] : kPrimus) {
    if (name == ours) return theirs;
  }
  return {};
}

}  // namespace eratos::reader
