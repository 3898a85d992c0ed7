#include "eratos/text/duplicate_keys.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>

namespace eratos::text {

void report_duplicate_keys(const std::vector<Entry>& entries, Diagnostics& all) {
  constexpr std::size_t kReported = 100;
  std::vector<const Entry*> sorted;
  sorted.reserve(entries.size());
  for (const Entry& e : entries) sorted.push_back(&e);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Entry* a, const Entry* b) { return a->key < b->key; });
  for (std::size_t i = 1; i < sorted.size() && all.size() < kReported; ++i) {
    if (sorted[i]->key != sorted[i - 1]->key) continue;
    all.push_back({sorted[i]->key_location(),
                   "key `" + excerpt(sorted[i]->key) + "` is given twice, at line " +
                       std::to_string(sorted[i - 1]->key_place.line) + " and line " +
                       std::to_string(sorted[i]->key_place.line),
                   "keep one of them"});
  }
}

void keep_last_keys(std::vector<Entry>& entries) {
  std::vector<Entry> kept;
  kept.reserve(entries.size());
  std::unordered_map<std::string, std::size_t> at;
  for (Entry& e : entries) {
    const auto [known, is_new] = at.emplace(e.key, kept.size());
    if (is_new) {
      kept.push_back(std::move(e));
    } else {
      kept[known->second] = std::move(e);
    }
  }
  entries = std::move(kept);
}

}  // namespace eratos::text
