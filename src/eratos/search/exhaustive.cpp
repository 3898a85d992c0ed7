#include "eratos/search/exhaustive.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "eratos/base/check.h"

namespace eratos::search {

namespace {

// Prefixes that wait; beyond it projections come first.
constexpr std::size_t kMostWaiting = 4'000'000;
constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

Exhaustive::Exhaustive(const Space& space, Wanted wanted, Batches batches,
                       std::span<const Found> seeds)
    : space_(space),
      wanted_(wanted),
      batches_(batches),
      cursor_(space),
      rules_(space),
      groups_(cursor_, rules_, 0, kScreenedAxes - 1),
      siblings_(cursor_, rules_, kScreenedAxes - 1, kScreenedAxes),
      tail_(cursor_, rules_, kScreenedAxes, kAxes),
      tails_(cursor_, rules_) {
  ERATOS_CHECK(wanted.top > 0 && batches.screens > 0 && batches.projections > 0);
  outcome_.proof.raw = space.raw();
  for (const Found& seed : seeds) take(seed);
}

bool Exhaustive::later(const Waiting& a, const Waiting& b) {
  return a.bound != b.bound ? a.bound > b.bound : a.index > b.index;
}

double Exhaustive::worst_of_top() const {
  return outcome_.top.size() < wanted_.top ? kNever : outcome_.top.back().figure;
}

bool Exhaustive::can_matter(const Waiting& w) const {
  if (wanted_.front && front_.open_to(w.bound, w.device_peak)) return true;
  if (w.bound >= worst_of_top()) return false;
  const auto known = best_.find(w.family);
  return known == best_.end() || w.bound < known->second.figure;
}

std::span<const Ask> Exhaustive::ask() {
  asks_.clear();
  while (asks_.empty()) {
    const bool crowded = waiting_.size() > kMostWaiting;
    if ((!walked_ || !ready_.empty()) && screens_next_ && !crowded) {
      ask_screens();
      screens_next_ = false;
      continue;
    }
    screens_next_ = true;
    ask_projections();
    if (asks_.empty() && walked_ && ready_.empty()) {
      finish();
      break;
    }
  }
  return asks_;
}

void Exhaustive::ask_screens() {
  asked_.clear();
  held_back_.clear();
  for (const Prefix& p : ready_) ask_screen(p, {});
  ready_.clear();
  while (asks_.size() < batches_.screens && !walked_) {
    if (groups_.next(outcome_.removed)) {
      ask_group();
    } else {
      walked_ = true;
    }
  }
}

void Exhaustive::ask_screen(const Prefix& prefix, std::vector<Prefix> siblings) {
  asks_.push_back({Ask::What::screen, prefix.at});
  asked_.push_back(prefix);
  held_back_.push_back(std::move(siblings));
}

// The group's prefixes, of which the last keeps least on the device.
void Exhaustive::ask_group() {
  static_assert(static_cast<std::size_t>(AxisId::offload) == kScreenedAxes - 1);
  std::vector<Prefix> all;
  siblings_.restart();
  while (siblings_.next(outcome_.removed)) {
    const TailCount& tail = tails_.of_prefix();
    add(tail, outcome_.removed);
    if (tail.legal == 0) continue;
    Prefix p{cursor_.at, static_cast<std::uint32_t>(tail.legal)};
    for (std::size_t i = kScreenedAxes; i < kAxes; ++i) p.at.at[i] = tail.last.at[i];
    all.push_back(p);
  }
  if (all.empty()) return;
  const Prefix least = all.back();
  all.pop_back();
  ask_screen(least, std::move(all));
}

// The prefixes of the lowest bounds, with every legal setting of their switches.
void Exhaustive::ask_projections() {
  while (asks_.size() < batches_.projections && !waiting_.empty()) {
    std::pop_heap(waiting_.begin(), waiting_.end(), later);
    const Waiting next = waiting_.back();
    waiting_.pop_back();
    if (!can_matter(next)) {
      outcome_.proof.cut_by_bound += next.legal;
      continue;
    }
    // The walk of prefixes goes on from its own values: keep them.
    const Candidate here = cursor_.at;
    for (std::size_t i = 0; i < kScreenedAxes; ++i) cursor_.set(i, next.at.at[i]);
    tail_.restart();
    Removed counted_before;
    while (tail_.next(counted_before)) asks_.push_back({Ask::What::project, cursor_.at});
    for (std::size_t i = 0; i < kScreenedAxes; ++i) cursor_.set(i, here.at[i]);
  }
}

void Exhaustive::tell(std::span<const Tell> answers) {
  ERATOS_CHECK(answers.size() == asks_.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (asks_[i].what == Ask::What::screen) {
      screened(answers[i], i);
    } else {
      projected(asks_[i], answers[i]);
    }
  }
  outcome_.proof.illegal = outcome_.removed.total();
  outcome_.front = front_.points();
}

void Exhaustive::screened(const Tell& tell, std::size_t i) {
  const auto& [at, legal] = asked_[i];
  if (!tell.fits) {
    outcome_.proof.too_big += legal;
    for (const Prefix& p : held_back_[i]) outcome_.proof.too_big += p.legal;
    if (!outcome_.any_too_big || tell.least_peak < outcome_.least_peak) {
      outcome_.any_too_big = true;
      outcome_.least = at;
      outcome_.least_peak = tell.least_peak;
    }
    return;
  }
  ready_.insert(ready_.end(), held_back_[i].begin(), held_back_[i].end());
  const Waiting w{tell.figure, index_of(space_, at), at, family_of(space_, at),
                  legal,       tell.device_peak};
  if (!can_matter(w)) {
    outcome_.proof.cut_by_bound += legal;
    return;
  }
  waiting_.push_back(w);
  std::push_heap(waiting_.begin(), waiting_.end(), later);
}

void Exhaustive::projected(const Ask& ask, const Tell& tell) {
  if (!tell.fits) {  // as its screen said
    ++outcome_.proof.too_big;
    return;
  }
  ++outcome_.proof.simulated;
  take({ask.at, tell.figure, tell.device_peak});
}

void Exhaustive::take(const Found& found) {
  if (wanted_.front) front_.take(found);
  const auto [at, fresh] = best_.try_emplace(family_of(space_, found.at), found);
  Found& best = at->second;
  if (!fresh) {
    if (found.figure >= best.figure) return;
    best = found;
  }
  keep_best(found, space_, wanted_.top, outcome_.top);
}

void Exhaustive::finish() {
  Proof& p = outcome_.proof;
  p.illegal = outcome_.removed.total();
  p.proven = p.illegal + p.too_big + p.cut_by_bound + p.simulated == p.raw;
  ERATOS_CHECK(p.proven);
}

double Exhaustive::progress() const {
  if (walked_) return 1;
  return static_cast<double>(index_of(space_, cursor_.at)) / static_cast<double>(space_.raw());
}

}  // namespace eratos::search
