#include "eratos/search/stages.h"

#include <algorithm>
#include <utility>

#include "eratos/base/check.h"

namespace eratos::search {

namespace {

using projection::RankCost;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Sums of the same terms in another order: a bound may be above the step by their rounding.
constexpr double kRounding = 1e-12;

// The least time between the end of one pass and the start of the next on a rank: its own transfer
// and the one that it waits for run side by side.
Picoseconds gap(const schedule::Action& from, const schedule::Action& to, int rank, int ranks,
                std::span<const schedule::LinkCost> links) {
  const auto link = [&](int r) { return links[at(r)]; };
  const bool forward = schedule::Kind::forward == from.kind;
  Picoseconds sent = 0;
  if (forward && rank + 1 < ranks) sent = link(rank).forward;
  if (!forward && rank > 0) sent = link(rank).backward;
  Picoseconds received = 0;
  if (to.kind == schedule::Kind::forward && rank > 0) received = link(rank - 1).forward;
  if (to.kind != schedule::Kind::forward && rank + 1 < ranks) received = link(rank + 1).backward;
  return std::max(sent, received);
}

}  // namespace

Pace pace_of(const schedule::Order& order, std::span<const schedule::LinkCost> links) {
  Pace out;
  const int p = order.shape.pp;
  out.micro_batches = order.shape.micro_batches;
  for (int rank = 0; rank < p; ++rank) {
    Pace::Rank r;
    if (rank + 1 < p) r.down = links[at(rank)].forward;
    if (rank > 0) r.up = links[at(rank)].backward;
    const std::span<const schedule::Action> actions = order.of(rank);
    bool backward = false;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (i > 0) {
        const Picoseconds between = gap(actions[i - 1], actions[i], rank, p, links);
        r.gaps += between;
        if (backward) r.gaps_behind += between;
      }
      backward = backward || actions[i].kind != schedule::Kind::forward;
      if (!backward) ++r.before_backward;
    }
    out.ranks.push_back(r);
  }
  return out;
}

StageTable::StageTable(int ranks, int layers)
    : ranks_(ranks), layers_(layers), choices_(at(ranks) * at(layers + 1) * at(layers + 1)) {}

std::size_t StageTable::place(int rank, int first, int count) const {
  return (at(rank) * at(layers_ + 1) + at(first)) * at(layers_ + 1) + at(count);
}
const RankChoices*& StageTable::choices(int rank, int first, int count) {
  return choices_[place(rank, first, count)];
}
std::span<const RankCost> StageTable::choices(int rank, int first, int count) const {
  const RankChoices* found = choices_[place(rank, first, count)];
  return found == nullptr ? std::span<const RankCost>() : std::span<const RankCost>(*found);
}

StageSearch::StageSearch(Pace pace, const StageTable& table, StageModel model, double known)
    : pace_(std::move(pace)),
      table_(table),
      model_(std::move(model)),
      ranks_(table.ranks()),
      layers_(table.layers()),
      rest_(at(ranks_ + 1) * at(layers_ + 1)),
      prefixes_(at(ranks_ + 1)),
      children_(at(ranks_)),
      next_(at(ranks_)),
      dealt_(at(ranks_)),
      costs_(at(ranks_)),
      best_step_(known) {
  ERATOS_CHECK(pace_.ranks.size() == at(ranks_));
  fill_rest();
  root_ = bound_of(prefixes_[0], 0);
  if (can_win(root_)) {
    open(0);
  } else {
    depth_ = -1;
  }
}

// Transfers between this rank and the next, there and back.
Picoseconds StageSearch::hop_behind(int rank) const {
  if (rank + 1 >= ranks_) return 0;
  return pace_.ranks[at(rank)].down + pace_.ranks[at(rank + 1)].up;
}

Picoseconds StageSearch::busy_of(int rank, const RankCost& c) const {
  return pace_.micro_batches * (c.forward + c.backward) + pace_.ranks[at(rank)].gaps;
}

Picoseconds StageSearch::waiting_of(int rank, const RankCost& c) const {
  const Pace::Rank& r = pace_.ranks[at(rank)];
  return (pace_.micro_batches - 1) * c.backward +
         (pace_.micro_batches - r.before_backward) * c.forward + r.gaps_behind;
}

const StageSearch::Rest& StageSearch::rest(int rank, int layers) const {
  return rest_[at(rank) * at(layers_ + 1) + at(layers)];
}

void StageSearch::fill_rest() {
  rest_[at(ranks_) * at(layers_ + 1) + at(layers_)] = {0, 0, 0, 0, 0};
  for (int rank = ranks_ - 1; rank >= 0; --rank) {
    const auto hop = static_cast<double>(hop_behind(rank));
    for (int l = 0; l <= layers_; ++l) {
      Rest& here = rest_[at(rank) * at(layers_ + 1) + at(l)];
      for (int n = 0; l + n <= layers_; ++n) {
        const Rest& behind = rest(rank + 1, l + n);
        if (behind.sum == kNever) continue;
        for (const RankCost& c : table_.choices(rank, l, n)) {
          const auto t = static_cast<double>(c.forward + c.backward);
          const auto busy = static_cast<double>(busy_of(rank, c));
          const auto waiting = static_cast<double>(waiting_of(rank, c));
          here.busy = std::min(here.busy, std::max(busy, t + hop + behind.busy));
          here.sum = std::min(here.sum, t + hop + behind.sum);
          here.waiting = std::min(here.waiting, std::max(waiting, behind.waiting));
          here.optimizer = std::min(here.optimizer, std::max(c.optimizer, behind.optimizer));
          here.tensors = std::min(here.tensors, std::max(c.tensors, behind.tensors));
        }
      }
    }
  }
}

StageSearch::Prefix StageSearch::with(const Prefix& prefix, int rank, const RankCost& c,
                                      int count) const {
  Prefix out = prefix;
  const Picoseconds work = busy_of(rank, c);
  out.layers += count;
  out.busy = std::max(prefix.busy, prefix.path + work);
  out.waiting = std::max(prefix.waiting, waiting_of(rank, c));
  if (rank == 0) out.exposed = c.exposed;
  out.ends = std::max(prefix.ends, to_seconds(prefix.fill + work).value + c.exposed);
  out.path += c.forward + c.backward + hop_behind(rank);
  out.fill += c.forward + pace_.ranks[at(rank)].down;
  out.optimizer = std::max(prefix.optimizer, c.optimizer);
  out.tensors = std::max(prefix.tensors, c.tensors);
  return out;
}

// Of all deals that begin so; `rank` is the first whose layers are open.
double StageSearch::bound_of(const Prefix& prefix, int rank) const {
  const Rest& open = rest(rank, prefix.layers);
  if (open.sum == kNever) return kNever;
  const auto path = static_cast<double>(prefix.path);
  double longest = std::max(static_cast<double>(prefix.busy), path + open.busy);
  longest = std::max(longest,
                     path + open.sum + std::max(static_cast<double>(prefix.waiting), open.waiting));
  const double end = std::max(longest * 1e-12 + prefix.exposed, prefix.ends);
  return end + std::max(prefix.optimizer, open.optimizer) +
         model_.host(std::max(prefix.tensors, open.tensors));
}

bool StageSearch::can_win(double bound) const {
  return bound < kNever && bound < best_step_ * (1 - kRounding);
}

// Lists what `rank` may get behind its prefix, the most promising first.
void StageSearch::open(int rank) {
  depth_ = rank;
  std::vector<Child>& children = children_[at(rank)];
  children.clear();
  next_[at(rank)] = 0;
  const Prefix& prefix = prefixes_[at(rank)];
  const int left = layers_ - prefix.layers;
  for (int n = rank + 1 == ranks_ ? left : 0; n <= left; ++n) {
    const std::span<const RankCost> choices = table_.choices(rank, prefix.layers, n);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const double bound = bound_of(with(prefix, rank, choices[i], n), rank + 1);
      if (can_win(bound)) children.push_back({{n, i}, bound});
    }
  }
  std::stable_sort(children.begin(), children.end(),
                   [](const Child& a, const Child& b) { return a.bound < b.bound; });
}

void StageSearch::simulate() {
  ++simulated_;
  const double step = model_.step(costs_);
  if (step >= best_step_) return;
  best_step_ = step;
  best_ = dealt_;
}

bool StageSearch::advance(std::size_t nodes) {
  for (; nodes > 0 && depth_ >= 0; --nodes) {
    const auto d = at(depth_);
    if (next_[d] == children_[d].size() || !can_win(children_[d][next_[d]].bound)) {
      --depth_;
      continue;
    }
    ++nodes_;
    const Dealt dealt = children_[d][next_[d]++].dealt;
    dealt_[d] = dealt;
    costs_[d] = &table_.choices(depth_, prefixes_[d].layers, dealt.layers)[dealt.choice];
    prefixes_[d + 1] = with(prefixes_[d], depth_, *costs_[d], dealt.layers);
    if (depth_ + 1 == ranks_) {
      simulate();
    } else {
      open(depth_ + 1);
    }
  }
  return depth_ >= 0;
}

double StageSearch::lower_bound() const {
  if (depth_ < 0) return std::max(root_, best_step_);
  double open = best_step_;
  for (int d = 0; d <= depth_; ++d) {
    const auto& children = children_[at(d)];
    if (next_[at(d)] < children.size()) open = std::min(open, children[next_[at(d)]].bound);
  }
  return open;
}

}  // namespace eratos::search
