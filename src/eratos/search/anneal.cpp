#include "eratos/search/anneal.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "eratos/base/check.h"
#include "eratos/search/axes.h"
#include "eratos/search/legality.h"
#include "eratos/search/space.h"

namespace eratos::search {

namespace {

constexpr double kHot = 0.1;              // temperature at the beginning, as a share of the figure
constexpr double kCold = 0.003;           // and at the end
constexpr double kDoubled = 0.3;          // steps that change two axes
constexpr double kNextDoor = 0.7;         // of those along numbers, to the value before or behind
constexpr std::size_t kMostTries = 4000;  // values looked at for one legal candidate
constexpr int kMostMoves = 20;            // attempts at a step before a chain stays where it is
constexpr std::uint64_t kGatherings = 4;

// The values of an axis, the wanted one first, the others in a random order.
std::vector<std::size_t> in_turn(std::size_t count, std::size_t wanted, Rng& rng) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < count; ++i) {
    if (i != wanted) out.push_back(i);
  }
  for (std::size_t i = out.size(); i > 1; --i) std::swap(out[i - 1], out[rng.below(i)]);
  if (wanted < count) out.insert(out.begin(), wanted);
  return out;
}

}  // namespace

Anneal::Anneal(const Space& space, std::size_t top, std::uint64_t seed, std::uint64_t steps)
    : space_(space),
      top_(top),
      rounds_((steps + kChains - 1) / kChains),
      cursor_(space),
      rules_(space) {
  ERATOS_CHECK(top > 0);
  outcome_.proof.raw = space.raw();
  for (std::size_t i = 0; i < kAxes; ++i) {
    if (space.axes[i].size() > 1) free_.push_back(i);
  }
  Rng seeds(seed);
  for (std::size_t i = 0; i < kChains; ++i) chains_.emplace_back(seeds.next());
}

// A legal candidate as near to `wanted` as the order of axes lets it: every axis takes the wanted
// value unless a rule refuses it behind those before it. Axes in `fixed` take no other. Nothing
// where none is found.
std::optional<Candidate> Anneal::near(const Candidate& wanted, AxisSet fixed, Rng& rng) {
  std::array<std::vector<std::size_t>, kAxes> values;
  std::array<std::size_t, kAxes> next{};
  const auto list = [&](std::size_t axis) {
    const bool held = (fixed & axis_bit(static_cast<AxisId>(axis))) != 0;
    values[axis] = held ? std::vector<std::size_t>{wanted.at[axis]}
                        : in_turn(space_.axes[axis].size(), wanted.at[axis], rng);
    next[axis] = 0;
  };
  list(0);
  std::size_t axis = 0;
  for (std::size_t tries = 0; tries < kMostTries; ++tries) {
    if (next[axis] == values[axis].size()) {
      if (axis == 0) return std::nullopt;
      --axis;
      continue;
    }
    cursor_.set(axis, values[axis][next[axis]++]);
    const Partial partial{space_, cursor_.at, cursor_.job, *cursor_.scratch};
    const bool refused = std::any_of(rules_.at[axis].begin(), rules_.at[axis].end(),
                                     [&](const Rule* rule) { return rule->refuses(partial); });
    if (refused) continue;
    if (++axis == kAxes) return cursor_.at;
    list(axis);
  }
  return std::nullopt;
}

// The job's own place first, random ones for the other chains.
std::optional<Candidate> Anneal::start_of(std::size_t chain) {
  Rng& rng = chains_[chain].rng;
  Candidate wanted;
  for (std::size_t i = 0; i < kAxes; ++i) {
    const std::vector<Value>& values = space_.axes[i];
    const int own = own_number(space_, static_cast<AxisId>(i));
    const auto found =
        std::find_if(values.begin(), values.end(), [&](const Value& v) { return v.number == own; });
    const auto at = found == values.end() ? 0 : found - values.begin();
    wanted.at[i] = static_cast<std::uint8_t>(chain == 0 ? static_cast<std::size_t>(at)
                                                        : rng.below(values.size()));
  }
  constexpr int kStarts = 20;
  for (int i = 0; i < kStarts; ++i) {
    if (auto found = near(wanted, 0, rng)) return found;
    for (std::size_t k = 0; k < kAxes; ++k)
      wanted.at[k] = static_cast<std::uint8_t>(rng.below(space_.axes[k].size()));
  }
  return std::nullopt;
}

std::size_t Anneal::other_value(std::size_t axis, std::size_t from, Rng& rng) const {
  const std::size_t count = space_.axes[axis].size();
  if (is_numeric(static_cast<AxisId>(axis)) && rng.uniform() < kNextDoor) {
    const bool up = from == 0 || (from + 1 < count && rng.below(2) == 0);
    return up ? from + 1 : from - 1;
  }
  const std::size_t other = rng.below(count - 1);
  return other < from ? other : other + 1;
}

// Every chain has its beginning; the first legal candidate of the walk where none was found at
// random. Where there is none at all the chains go, and the rules have what they removed.
void Anneal::start() {
  started_ = true;
  std::optional<Candidate> first = start_of(0);
  if (!first) {
    Walk walk(cursor_, rules_, 0, kAxes);
    Removed& removed = outcome_.removed;
    if (!walk.next(removed)) {
      outcome_.proof.illegal = removed.total();
      outcome_.proof.proven = outcome_.proof.illegal == outcome_.proof.raw;
      chains_.clear();
      round_ = rounds_;
      return;
    }
    removed = {};
    first = cursor_.at;
  }
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    chains_[i].next = i == 0 ? *first : start_of(i).value_or(*first);
  }
}

// One step away, or two; where it is where it was, no step was legal.
Candidate Anneal::neighbour(const Candidate& from, Rng& rng) {
  if (free_.empty()) return from;
  for (int i = 0; i < kMostMoves; ++i) {
    Candidate wanted = from;
    AxisSet moved = 0;
    const int changes = rng.uniform() < kDoubled ? 2 : 1;
    for (int k = 0; k < changes; ++k) {
      const std::size_t axis = free_[rng.below(free_.size())];
      wanted.at[axis] = static_cast<std::uint8_t>(other_value(axis, from.at[axis], rng));
      moved |= axis_bit(static_cast<AxisId>(axis));
    }
    if (const auto found = near(wanted, moved, rng)) return *found;
  }
  return from;
}

// Logarithm of the figure; two more, and what is held against the memory, for one that does not
// fit.
double Anneal::height_of(const Tell& tell) const {
  const double figure = std::log(tell.figure);
  if (tell.fits) return tell.refused_by < 0 ? figure : figure + 1 + std::log1p(tell.beyond);
  const Bytes memory = space_.base.cluster.accelerator.memory_visible;
  return figure + 2 + 2 * std::max(0.0, std::log(tell.least_peak / memory));
}

double Anneal::temperature() const {
  const double gone =
      static_cast<double>(round_) / static_cast<double>(std::max<std::uint64_t>(rounds_, 1));
  return kHot * std::pow(kCold / kHot, gone);
}

void Anneal::arrive(Chain& chain, const Tell& tell) {
  const double height = height_of(tell);
  const double above = height - chain.height;
  // Drawn in any case: what a chain draws later must not depend on what it was told.
  const double chance = chain.rng.uniform();
  if (chain.there && above > 0 && chance >= std::exp(-above / temperature())) return;
  chain.there = true;
  chain.at = chain.next;
  chain.height = height;
}

void Anneal::gather() {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    if (chains_[i].there) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return chains_[a].height < chains_[b].height;
  });
  for (std::size_t i = (order.size() + 1) / 2; i < order.size(); ++i) {
    chains_[order[i]].at = chains_[order[0]].at;
    chains_[order[i]].height = chains_[order[0]].height;
  }
}

std::span<const Ask> Anneal::ask() {
  asks_.clear();
  askers_.clear();
  if (!started_) start();
  while (asks_.empty() && round_ < rounds_) {
    const std::uint64_t leg = std::max<std::uint64_t>(rounds_ / kGatherings, 1);
    if (round_ > 0 && round_ % leg == 0) gather();
    for (std::size_t i = 0; i < chains_.size(); ++i) {
      Chain& chain = chains_[i];
      if (chain.there) chain.next = neighbour(chain.at, chain.rng);
      const auto known = known_.find(index_of(space_, chain.next));
      if (known != known_.end()) {
        arrive(chain, known->second);
        continue;
      }
      asks_.push_back({Ask::What::project, chain.next});
      askers_.push_back(i);
    }
    ++round_;
  }
  return asks_;
}

void Anneal::tell(std::span<const Tell> answers) {
  ERATOS_CHECK(answers.size() == asks_.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (known_.emplace(index_of(space_, asks_[i].at), answers[i]).second) {
      settle(asks_[i].at, answers[i], space_, top_, outcome_);
    }
    arrive(chains_[askers_[i]], answers[i]);
  }
}

double Anneal::progress() const {
  return rounds_ == 0 ? 1 : static_cast<double>(round_) / static_cast<double>(rounds_);
}

}  // namespace eratos::search
