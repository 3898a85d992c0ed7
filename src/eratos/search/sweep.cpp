#include "eratos/search/sweep.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "eratos/base/check.h"

namespace eratos::search {

namespace {

using A = AxisId;

// In order of what they usually decide.
constexpr AxisSet kBlocks[] = {
    axes({A::tp, A::sequence_parallel, A::pp}),
    axes({A::pp, A::vpp, A::split}),
    axes({A::ep, A::etp, A::recompute}),
    axes({A::sharding, A::overlap_reduce, A::overlap_gather}),
    axes({A::micro, A::global}),
    axes({A::recompute, A::micro}),
    axes({A::tp, A::cp}),
    axes({A::cp, A::recompute}),
    axes({A::cp, A::cp_kind}),
    axes({A::schedule, A::vpp, A::overlap_reduce, A::overlap_gather}),
    axes({A::offload, A::recompute}),
    axes({A::overlap_moe, A::dispatcher, A::vpp}),
    axes({A::overlap_tp, A::sequence_parallel, A::overlap_p2p}),
    axes({A::order, A::cp, A::sharding}),
    axes({A::fused_loss, A::precision}),
};

// Fitting before not fitting, within the limits before beyond them; then the figure, or what is
// missing to either.
bool is_better(const Tell& a, const Tell& b) {
  if (a.fits != b.fits) return a.fits;
  if (!a.fits) return a.least_peak < b.least_peak;
  if (a.beyond != b.beyond) return a.beyond < b.beyond;
  return a.figure != b.figure ? a.figure < b.figure : a.per_token < b.per_token;
}

// Every setting of some axes around a candidate, the first of them fastest.
class Settings {
 public:
  Settings(const Space& space, AxisSet axes, const Candidate& around) : space_(space), at_(around) {
    for (std::size_t i = 0; i < kAxes; ++i) {
      if ((axes & axis_bit(static_cast<A>(i))) == 0) continue;
      moving_.push_back(i);
      at_.at[i] = 0;
    }
  }
  const Candidate& at() const { return at_; }
  bool next() {
    for (const std::size_t i : moving_) {
      if (++at_.at[i] < space_.axes[i].size()) return true;
      at_.at[i] = 0;
    }
    return false;
  }

 private:
  const Space& space_;
  Candidate at_;
  std::vector<std::size_t> moving_;
};

// Where the job's own value stands; the length of the list where it is not in it.
std::size_t place_of(const Space& space, A axis) {
  const std::vector<Value>& values = space.values(axis);
  const int wanted = own_number(space, axis);
  const auto at = std::find_if(values.begin(), values.end(),
                               [&](const Value& v) { return v.number == wanted; });
  return static_cast<std::size_t>(at - values.begin());
}

// Where the axis has the word; else it stays.
void set_word(const Space& space, A axis, std::string_view word, Candidate& candidate) {
  const std::vector<Value>& values = space.values(axis);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].word == word)
      candidate.at[static_cast<std::size_t>(axis)] = static_cast<std::uint8_t>(i);
  }
}

}  // namespace

Sweep::Sweep(const Space& space, std::size_t top)
    : space_(space), top_(top), rules_(space), cursor_(space) {
  ERATOS_CHECK(top > 0);
  outcome_.proof.raw = space.raw();
  const std::vector<Candidate> all = starts();
  for (std::size_t i = 0; i < all.size(); ++i) {
    begin(all[i], i < held_from_ ? ~AxisSet{0} : ~axes({A::tp, A::pp}));
  }
  if (!paths_.empty()) return;
  Walk walk(cursor_, rules_, 0, kAxes);
  passed_ = 0;
  Removed& removed = outcome_.removed;
  if (walk.next(removed)) {
    held_from_ = 1;
    begin(cursor_.at, ~AxisSet{0});
    removed = {};
    return;
  }
  outcome_.proof.illegal = removed.total();
  outcome_.proof.proven = outcome_.proof.illegal == outcome_.proof.raw;
}

// Axis by axis, from the first whose value or whose rules are not known from the candidate before:
// what stands behind a value may look at it.
bool Sweep::is_legal(const Candidate& at) {
  std::size_t first = 0;
  while (first < passed_ && cursor_.at.at[first] == at.at[first]) ++first;
  const Partial partial{space_, cursor_.at, cursor_.job, *cursor_.scratch};
  for (passed_ = first; passed_ < kAxes; ++passed_) {
    cursor_.set(passed_, at.at[passed_]);
    const auto& rules = rules_.at[passed_];
    if (std::any_of(rules.begin(), rules.end(),
                    [&](const Rule* r) { return r->refuses(partial); })) {
      return false;
    }
  }
  return true;
}

// Changes the axes that tp and pp pull along until no rule refuses; false where none helps.
bool Sweep::find_legal(Candidate& at) {
  constexpr AxisSet kPulled = axes({A::sequence_parallel, A::ep, A::etp, A::split, A::cp,
                                    A::sharding, A::overlap_tp, A::overlap_moe, A::overlap_gather});
  Settings around(space_, kPulled, at);
  do {
    if (!is_legal(around.at())) continue;
    at = around.at();
    return true;
  } while (around.next());
  return false;
}

std::vector<Candidate> Sweep::starts() {
  std::vector<Candidate> out;
  Candidate own;
  bool there = true;
  for (std::size_t i = 0; i < kAxes; ++i) {
    const std::size_t at = place_of(space_, static_cast<A>(i));
    there = there && at < space_.axes[i].size();
    own.at[i] = static_cast<std::uint8_t>(at < space_.axes[i].size() ? at : 0);
  }
  if (there && is_legal(own)) out.push_back(own);
  held_from_ = out.size();
  Candidate small = own;
  set_word(space_, A::micro, space_.values(A::micro)[0].word, small);
  set_word(space_, A::recompute, "full", small);
  set_word(space_, A::vpp, "1", small);
  set_word(space_, A::schedule, "auto", small);
  for (std::size_t tp = 0; tp < space_.values(A::tp).size(); ++tp) {
    for (std::size_t pp = 0; pp < space_.values(A::pp).size(); ++pp) {
      Candidate at = small;
      at.at[static_cast<std::size_t>(A::tp)] = static_cast<std::uint8_t>(tp);
      at.at[static_cast<std::size_t>(A::pp)] = static_cast<std::uint8_t>(pp);
      if (find_legal(at)) out.push_back(at);
    }
  }
  return out;
}

void Sweep::begin(const Candidate& at, AxisSet free) {
  Path& path = paths_.emplace_back();
  path.free = free;
  path.asked = {at};
  if (known_.find(index_of(space_, at)) == known_.end()) ask_if_new(at);
}

// Asks for it where nobody has; false where its answer is there.
bool Sweep::ask_if_new(const Candidate& at) {
  const std::uint64_t index = index_of(space_, at);
  if (known_.find(index) != known_.end()) return false;
  if (asking_.insert(index).second) asks_.push_back({Ask::What::project, at});
  return true;
}

// Of the next block what is legal; false where all of it is known.
bool Sweep::ask_block(Path& path) {
  bool any = false;
  path.asked.clear();
  Settings around(space_, kBlocks[path.block] & path.free, path.incumbent.at);
  do {
    const bool known = known_.find(index_of(space_, around.at())) != known_.end();
    if (!known && !is_legal(around.at())) continue;
    path.asked.push_back(around.at());
    any = ask_if_new(around.at()) || any;
  } while (around.next());
  path.block = (path.block + 1) % std::size(kBlocks);
  ++path.unchanged;
  return any;
}

// The block that was asked is known: go to its best if that is better.
void Sweep::step(Path& path) {
  Held best;
  for (const Candidate& at : path.asked) {
    const Tell& tell = known_.at(index_of(space_, at));
    if (!best.any || is_better(tell, best.tell)) best = {true, at, tell};
  }
  path.asked.clear();
  if (best.any && (!path.incumbent.any || is_better(best.tell, path.incumbent.tell))) {
    path.incumbent = best;
    path.unchanged = 0;
  }
}

// On to a block of which not all is known.
void Sweep::advance(Path& path) {
  do {
    step(path);
    path.ended = path.unchanged == std::size(kBlocks);
  } while (!path.ended && !ask_block(path));
}

// From the best of all, once; false where that has been, or nothing fits.
bool Sweep::begin_last() {
  if (finished_ || outcome_.top.empty()) return false;
  finished_ = true;
  begin(outcome_.top[0].at, ~AxisSet{0});
  return true;
}

std::span<const Ask> Sweep::ask() {
  if (!asks_.empty()) return asks_;  // the starts
  for (;;) {
    for (Path& path : paths_) {
      if (!path.ended) advance(path);
    }
    if (!asks_.empty() || !begin_last()) return asks_;
  }
}

void Sweep::tell(std::span<const Tell> answers) {
  ERATOS_CHECK(answers.size() == asks_.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    known_.emplace(index_of(space_, asks_[i].at), answers[i]);
    settle(asks_[i].at, answers[i], space_, top_, outcome_);
  }
  asks_.clear();
  asking_.clear();
}

double Sweep::progress() const {
  if (paths_.empty()) return 1;
  const auto ended =
      std::count_if(paths_.begin(), paths_.end(), [](const Path& p) { return p.ended; });
  return static_cast<double>(ended) / static_cast<double>(paths_.size() + (finished_ ? 0 : 1));
}

}  // namespace eratos::search
