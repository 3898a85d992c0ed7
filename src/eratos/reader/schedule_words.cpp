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

constexpr std::pair<std::string_view, std::string_view> kZeroBubbleV[] = {
    {"min", "v-min"}, {"half", "v-half"}, {"zb", "zbv"}};

template <class Table>
std::string_view ours_of(const Table& table, std::string_view word) {
  for (const auto& [theirs, ours] : table) {
    if (theirs == word) return ours;
  }
  return {};
}

template <class Table>
std::string_view theirs_of(const Table& table, std::string_view word) {
  for (const auto& [theirs, ours] : table) {
    if (ours == word) return theirs;
  }
  return {};
}

}  // namespace

bool set_schedule(std::string_view word, job::JobSpec& job) {
  // Source: arXiv 2401.10241, section 5.1: ZB-1p and ZB-2p are the automatic schedule limited to
  // the activations of p and of 2p micro-batches.
  if (word == "zb-1p" || word == "zb-2p") {
    job.schedule.algorithm = "zb-auto";
    job.schedule.activation_limit = (word == "zb-1p" ? 1 : 2) * job.parallel.pp;
    return true;
  }
  if (word != "auto" && parallel::find_schedule_facts(word) == nullptr) return false;
  job.schedule.algorithm = std::string(word);
  return true;
}

std::string_view primus_schedule(std::string_view word) { return ours_of(kPrimus, word); }
std::string_view primus_schedule_word(std::string_view ours) { return theirs_of(kPrimus, ours); }

std::string_view zero_bubble_v(std::string_view word) { return ours_of(kZeroBubbleV, word); }
std::string_view zero_bubble_v_word(std::string_view ours) { return theirs_of(kZeroBubbleV, ours); }

}  // namespace eratos::reader
