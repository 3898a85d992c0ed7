#include "eratos/search/exhaustive.h"

#include <algorithm>
#include <utility>

#include "eratos/base/check.h"

namespace eratos::search {

namespace {

// Prefixes that wait; beyond it projections come first.
constexpr std::size_t kMostWaiting = 4'000'000;
constexpr std::size_t kRecompute = static_cast<std::size_t>(AxisId::recompute);
constexpr std::size_t kPipeline = static_cast<std::size_t>(AxisId::pp);
static_assert(kPipeline == kRecompute + 1);

}  // namespace

Exhaustive::Exhaustive(const Space& space, Wanted wanted, Batches batches,
                       std::span<const Found> seeds)
    : space_(space),
      wanted_(wanted),
      batches_(batches),
      cursor_(space),
      rules_(space),
      stems_(cursor_, rules_, 0, kRecompute),
      recomputes_(cursor_, rules_, kRecompute, kPipeline),
      groups_(space, rules_),
      tail_(cursor_, rules_, kScreenedAxes, kAxes),
      tails_(cursor_, rules_),
      behind_recompute_(cursor_, rules_, kPipeline, tails_),
      behind_stem_(cursor_, rules_, kRecompute, tails_) {
  ERATOS_CHECK(wanted.top > 0 && batches.screens > 0 && batches.projections > 0 &&
               batches.bounds > 0);
  outcome_.proof.raw = space.raw();
  for (const Found& seed : seeds) take(seed);
}

bool Exhaustive::later(const Waiting& a, const Waiting& b) {
  return a.bound != b.bound ? a.bound > b.bound : a.index > b.index;
}

bool Exhaustive::can_enter_top(const Found& bound) const {
  return outcome_.top.size() < wanted_.top || is_better(bound, outcome_.top.back());
}

bool Exhaustive::can_matter(const Waiting& w) const {
  if (wanted_.front && front_.open_to(w.along)) return true;
  Found bound;
  bound.figure = w.bound;
  bound.per_token = w.per_token;
  if (!can_enter_top(bound)) return false;
  const auto known = best_.find(w.family);
  return known == best_.end() || is_better(bound, known->second);
}

bool Exhaustive::can_matter(const Stem& s) const {
  if (wanted_.front) return true;
  Found bound;
  bound.figure = s.bound;
  bound.per_token = s.per_token;
  return s.refused_by < 0 && can_enter_top(bound);
}

std::span<const Ask> Exhaustive::ask() {
  asks_.clear();
  bounded_ = nullptr;
  while (asks_.empty()) {
    if (stage_ == Stage::stems) {
      ask_stems();
      continue;
    }
    const bool crowded = waiting_.size() > kMostWaiting;
    const bool walked = stage_ == Stage::walked && ready_.empty();
    if (!walked && screens_next_ && !crowded) {
      if (!ask_screens()) ask_recomputes();
      screens_next_ = false;
      continue;
    }
    screens_next_ = true;
    ask_projections();
    if (asks_.empty() && walked) {
      finish();
      break;
    }
  }
  return asks_;
}

// Sets the first axes of the cursor.
void Exhaustive::go_to(const Candidate& at, std::size_t axes) {
  for (std::size_t i = 0; i < axes; ++i) cursor_.set(i, at.at[i]);
}

// The cursor's stem; false where nothing legal is behind it.
bool Exhaustive::add_stem(const TailCount& behind, AxisId open, std::vector<Stem>& to) {
  if (behind.legal == 0) {
    add(behind, outcome_.removed);
    return false;
  }
  Stem stem;
  stem.at = cursor_.at;
  stem.legal = behind.legal;
  for (auto i = static_cast<std::size_t>(open); i < kAxes; ++i) stem.at.at[i] = 0;
  to.push_back(stem);
  return true;
}

// No bound is asked for that could not cut.
void Exhaustive::ask_bound(const Stem& stem, AxisId open) {
  if (!wanted_.front) asks_.push_back({Ask::What::bound, stem.at, open});
}

void Exhaustive::walk_stems() {
  while (next_stems_.size() < batches_.bounds && !stems_walked_) {
    if (stems_.next(outcome_.removed)) {
      add_stem(behind_stem_.of_prefix(), AxisId::recompute, next_stems_);
    } else {
      stems_walked_ = true;
    }
  }
}

void Exhaustive::ask_stems() {
  bounded_ = &all_stems_;
  while (asks_.empty()) {
    walk_stems();
    if (next_stems_.empty()) {
      stage_ = Stage::recomputes;
      return;
    }
    for (const Stem& stem : next_stems_) ask_bound(stem, AxisId::recompute);
    all_stems_.insert(all_stems_.end(), next_stems_.begin(), next_stems_.end());
    next_stems_.clear();
  }
}

// The recomputations of the next stems that can matter. Stems are sorted, so that none behind one
// that cannot does.
void Exhaustive::ask_recomputes() {
  if (next_stem_ == 0) {
    std::stable_sort(all_stems_.begin(), all_stems_.end(),
                     [](const Stem& a, const Stem& b) { return a.bound < b.bound; });
  }
  bounded_ = &with_recompute_;
  with_recompute_.clear();
  next_recompute_ = 0;
  to_walk_ = 0;
  stage_ = Stage::prefixes;
  while (with_recompute_.size() < batches_.bounds) {
    if (next_stem_ == all_stems_.size()) {
      if (with_recompute_.empty()) stage_ = Stage::walked;
      return;
    }
    const Stem stem = all_stems_[next_stem_++];
    if (!can_matter(stem)) {
      cut(stem, behind_stem_);
      continue;
    }
    go_to(stem.at, kRecompute);
    recomputes_.restart();
    while (recomputes_.next(outcome_.removed)) {
      if (add_stem(behind_recompute_.of_prefix(), AxisId::pp, with_recompute_)) {
        ask_bound(with_recompute_.back(), AxisId::pp);
      }
    }
  }
}

void Exhaustive::cut(const Stem& stem, Tails& tails) {
  go_to(stem.at, kPipeline);
  const TailCount& behind = tails.of_prefix();
  outcome_.proof.cut_by_bound += behind.legal;
  if (stem.refused_by >= 0) count_refused(stem.refused_by, behind.legal, outcome_);
  add(behind, outcome_.removed);
}

// To the next stem with a recomputation that can matter; false where there is none yet.
bool Exhaustive::next_stem() {
  for (; next_recompute_ < with_recompute_.size(); ++next_recompute_) {
    const Stem& stem = with_recompute_[next_recompute_];
    if (can_matter(stem)) return true;
    cut(stem, behind_recompute_);
    // It could matter when it was walked.
    while (!pieces_.empty() && pieces_.front().stem == next_recompute_) pieces_.pop_front();
    if (to_walk_ == next_recompute_) {
      walking_ = false;
      ++to_walk_;
    }
  }
  return false;
}

// More groups of the next stem that is to be walked. One that cannot matter now never will.
void Exhaustive::walk_on() {
  const Stem& stem = with_recompute_[to_walk_];
  if (!walking_ && !can_matter(stem)) {
    ++to_walk_;
    return;
  }
  if (!walking_) groups_.begin(stem.at);
  pieces_.push_back({to_walk_, groups_.next(batches_.screens)});
  walking_ = !pieces_.back().groups.last;
  if (!walking_) ++to_walk_;
}

// As many stems as the next batch of bounds takes, or groups as one of screens does.
void Exhaustive::prepare() {
  if (stage_ == Stage::stems) walk_stems();
  if (stage_ != Stage::prefixes) return;
  std::size_t groups = 0;
  for (const Piece& p : pieces_) groups += p.groups.ends.size() - p.asked;
  while (groups < batches_.screens && to_walk_ < with_recompute_.size()) {
    const std::size_t before = pieces_.size();
    walk_on();
    if (pieces_.size() > before) groups += pieces_.back().groups.ends.size();
  }
}

// False where the bounds of further stems have to be known first.
bool Exhaustive::ask_screens() {
  asked_.clear();
  held_back_.clear();
  held_to_.clear();
  for (const Prefix& p : ready_) ask_screen(p);
  ready_.clear();
  while (stage_ != Stage::walked && asks_.size() < batches_.screens) {
    if (!in_stem_ && !next_stem()) return !asks_.empty();
    in_stem_ = ask_groups();
  }
  return !asks_.empty();
}

// Of its siblings those that are held back stand in the list already.
void Exhaustive::ask_screen(const Prefix& prefix) {
  asks_.push_back({Ask::What::screen, prefix.at});
  asked_.push_back(prefix);
  held_to_.push_back(held_back_.size());
}

// Groups of the stem until the batch is full; false when it has no more.
bool Exhaustive::ask_groups() {
  while (pieces_.empty()) walk_on();
  Piece& piece = pieces_.front();
  ERATOS_CHECK(piece.stem == next_recompute_);
  if (piece.asked == 0) add(piece.groups.removed, outcome_.removed);
  for (; piece.asked < piece.groups.ends.size(); ++piece.asked) {
    if (asks_.size() >= batches_.screens) return true;
    const std::span<const Prefix> group = piece.groups.group(piece.asked);
    held_back_.insert(held_back_.end(), group.begin(), group.end() - 1);
    ask_screen(group.back());
  }
  const bool last = piece.groups.last;
  pieces_.pop_front();
  if (last) ++next_recompute_;
  return !last;
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
    go_to(next.at, kScreenedAxes);
    tail_.restart();
    Removed counted_before;
    while (tail_.next(counted_before)) asks_.push_back({Ask::What::project, cursor_.at});
  }
}

void Exhaustive::tell(std::span<const Tell> answers) {
  ERATOS_CHECK(answers.size() == asks_.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (asks_[i].what == Ask::What::bound) {
      Stem& stem = (*bounded_)[bounded_->size() - answers.size() + i];
      stem.bound = answers[i].figure;
      stem.per_token = answers[i].per_token;
      stem.refused_by = answers[i].refused_by;
    } else if (asks_[i].what == Ask::What::screen) {
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
  const std::size_t from = i == 0 ? 0 : held_to_[i - 1];
  const std::span<const Prefix> siblings =
      std::span<const Prefix>(held_back_).subspan(from, held_to_[i] - from);
  if (!tell.fits) {
    outcome_.proof.too_big += legal;
    for (const Prefix& p : siblings) outcome_.proof.too_big += p.legal;
    lacks(at, tell.least_peak);
    return;
  }
  ready_.insert(ready_.end(), siblings.begin(), siblings.end());
  if (tell.refused_by >= 0) {
    outcome_.proof.cut_by_bound += legal;
    count_refused(tell.refused_by, legal, outcome_);
    return;
  }
  const Waiting w{tell.figure, index_of(space_, at), at,        family_of(space_, at),
                  legal,       tell.per_token,       tell.along};
  if (!can_matter(w)) {
    outcome_.proof.cut_by_bound += legal;
    return;
  }
  waiting_.push_back(w);
  std::push_heap(waiting_.begin(), waiting_.end(), later);
}

void Exhaustive::lacks(const Candidate& at, Bytes least_peak) {
  if (outcome_.any_too_big && least_peak >= outcome_.least_peak) return;
  outcome_.any_too_big = true;
  outcome_.least = at;
  outcome_.least_peak = least_peak;
}

void Exhaustive::projected(const Ask& ask, const Tell& tell) {
  if (!tell.fits) {  // which its screen could not say
    ++outcome_.proof.too_big;
    lacks(ask.at, tell.least_peak);
    return;
  }
  ++outcome_.proof.simulated;
  if (tell.refused_by >= 0) {
    count_refused(tell.refused_by, 1, outcome_);
  } else {
    take(found_of(ask.at, tell));
  }
}

void Exhaustive::take(const Found& found) {
  if (wanted_.front) front_.take(found);
  const auto [at, fresh] = best_.try_emplace(family_of(space_, found.at), found);
  Found& best = at->second;
  if (!fresh) {
    if (!is_better(found, best)) return;
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
  if (stage_ == Stage::walked) return 1;
  if (stage_ == Stage::stems || all_stems_.empty()) return 0;
  return static_cast<double>(next_stem_) / static_cast<double>(all_stems_.size());
}

}  // namespace eratos::search
