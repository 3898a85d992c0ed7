#include "eratos/search/walk.h"

#include <algorithm>
#include <numeric>

namespace eratos::search {

Cursor::Cursor(const Space& s)
    : space(s), job(s.base), scratch(std::make_unique<job::CheckedJob>()) {
  apply(space, at, job);
}

void Cursor::set(std::size_t axis, std::size_t to) {
  ++settings;
  at.at[axis] = static_cast<std::uint8_t>(to);
  apply(space, static_cast<AxisId>(axis), to, job);
}

RulesByAxis::RulesByAxis(const Space& space) {
  for (const Rule* r : rules_of(space)) {
    std::size_t last = 0;
    for (std::size_t i = 0; i < kAxes; ++i) {
      if ((r->reads & axis_bit(static_cast<AxisId>(i))) != 0) last = i;
    }
    at[last].push_back(r);
  }
}

std::uint64_t Removed::total() const {
  return std::accumulate(by_rule.begin(), by_rule.end(), std::uint64_t{0});
}

Walk::Walk(Cursor& cursor, const RulesByAxis& rules, std::size_t first, std::size_t last)
    : cursor_(cursor), rules_(rules), first_(first), last_(last) {
  behind_[kAxes] = 1;
  for (std::size_t i = kAxes; i-- > 0;) behind_[i] = behind_[i + 1] * cursor.space.axes[i].size();
}

const Rule* Walk::refusing(std::size_t axis) const {
  const Partial partial{cursor_.space, cursor_.at, cursor_.job, *cursor_.scratch};
  for (const Rule* r : rules_.at[axis]) {
    if (r->refuses(partial)) return r;
  }
  return nullptr;
}

bool Walk::next(Removed& removed) {
  if (depth_ == kNotBegun) {
    depth_ = first_;
    next_[first_] = 0;
  }
  for (;;) {
    if (next_[depth_] == cursor_.space.axes[depth_].size()) {
      if (depth_ == first_) return false;
      --depth_;
      continue;
    }
    cursor_.set(depth_, next_[depth_]++);
    if (const Rule* r = refusing(depth_)) {
      removed.by_rule[static_cast<std::size_t>(r - rules().data())] += behind_[depth_ + 1];
      removed.at_axis[depth_] += behind_[depth_ + 1];
      continue;
    }
    if (depth_ + 1 == last_) return true;
    next_[++depth_] = 0;
  }
}

Tails::Tails(Cursor& cursor, const RulesByAxis& rules, std::size_t first)
    : Tails(cursor, rules, first, kAxes, nullptr) {}

Tails::Tails(Cursor& cursor, const RulesByAxis& rules, std::size_t first, Tails& inner)
    : Tails(cursor, rules, first, inner.first_, &inner) {}

Tails::Tails(Cursor& cursor, const RulesByAxis& rules, std::size_t first, std::size_t last,
             Tails* inner)
    : cursor_(cursor),
      first_(first),
      inner_(inner),
      walk_(cursor, rules, first, last),
      alike_(cursor, rules, first) {}

std::size_t Tails::Hash::operator()(const std::vector<std::uint32_t>& tables) const {
  std::uint64_t out = 0;
  for (const std::uint32_t n : tables) out = (out ^ n) * 0x9E3779B97F4A7C15U;
  return out ^ (out >> 32);
}

const TailCount& Tails::of_prefix() {
  const std::vector<std::uint32_t>& tables = alike_.of_prefix();
  if (last_ != nullptr && tables == last_tables_) return *last_;
  const auto [at, fresh] = known_.try_emplace(tables);
  TailCount& tail = at->second;
  last_tables_ = tables;
  last_ = &tail;
  if (!fresh) return tail;
  Removed removed;
  walk_.restart();
  while (walk_.next(removed)) {
    if (inner_ != nullptr) {
      const TailCount& behind = inner_->of_prefix();
      tail.legal += behind.legal;
      add(behind, removed);
      continue;
    }
    ++tail.legal;
    for (std::size_t i = first_; i < kAxes; ++i) {
      tail.last.at[i] = std::max(tail.last.at[i], cursor_.at.at[i]);
    }
  }
  for (std::size_t i = 0; i < removed.by_rule.size(); ++i) {
    if (removed.by_rule[i] > 0) tail.by_rule.emplace_back(i, removed.by_rule[i]);
  }
  for (std::size_t i = 0; i < kAxes; ++i) {
    if (removed.at_axis[i] > 0) tail.at_axis.emplace_back(i, removed.at_axis[i]);
  }
  return tail;
}

void add(const TailCount& tail, Removed& to) {
  for (const auto& [rule, candidates] : tail.by_rule) to.by_rule[rule] += candidates;
  for (const auto& [axis, candidates] : tail.at_axis) to.at_axis[axis] += candidates;
}

void add(const Removed& some, Removed& to) {
  for (std::size_t i = 0; i < some.by_rule.size(); ++i) to.by_rule[i] += some.by_rule[i];
  for (std::size_t i = 0; i < kAxes; ++i) to.at_axis[i] += some.at_axis[i];
}

Count count(const Space& space) {
  Count out;
  out.raw = space.raw();
  Cursor cursor(space);
  const RulesByAxis by_axis(space);
  constexpr auto kPipeline = static_cast<std::size_t>(AxisId::pp);
  Walk stems(cursor, by_axis, 0, kPipeline);
  Tails tails(cursor, by_axis);
  Tails behind_stem(cursor, by_axis, kPipeline, tails);
  while (stems.next(out.removed)) {
    const TailCount& behind = behind_stem.of_prefix();
    out.legal += behind.legal;
    add(behind, out.removed);
  }
  return out;
}

}  // namespace eratos::search
