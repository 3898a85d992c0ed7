// Branch and bound, layer by layer: layer k holds the partial orders of k actions, of which those
// that another one beats are dropped; at most `width` go on, best bound first. A pass that dropped
// none for want of width has looked at everything and is exact; the others prove the least bound of
// what they dropped. Passes get wider until one is exact or the effort is spent.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "eratos/schedule/optimal_graph.h"

namespace eratos::schedule {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

constexpr std::size_t kFirstWidth = 64;
constexpr std::size_t kWiden = 8;
// 2^15 partial orders of a layer and their children, at some 100 numbers each: 100 MB.
constexpr std::size_t kMostWidth = std::size_t{1} << 15;

// Partial orders, packed. counts are by sequence: actions placed, and kBlocked when the next one
// may not be next on its rank. times: of each rank when it is free and when its blocking send is
// over; then for each sequence the ends of the inputs that it has not used yet.
struct Layer {
  std::vector<std::uint16_t> counts;
  std::vector<Picoseconds> times;
  std::vector<std::size_t> first;  // [states + 1] into times
  std::vector<Picoseconds> bound;
  std::vector<Picoseconds> idle;  // of all ranks so far
  std::vector<std::pair<std::int32_t, std::int32_t>>
      from;  // state of the layer before; sequence placed

  std::size_t size() const { return bound.size(); }
  void clear() {
    counts.clear();
    times.clear();
    first.assign(1, 0);
    bound.clear();
    idle.clear();
    from.clear();
  }
};
constexpr std::uint16_t kBlocked = 0x8000;

class Branch {
 public:
  Branch(const ActionGraph& g, Picoseconds best, Picoseconds lower, std::int64_t node_limit,
         const Stop& stop)
      : g_(g),
        m_(g.micro_batches),
        sequences_(g.sequences.size()),
        best_(best),
        lower_(lower),
        node_limit_(node_limit),
        stop_(stop) {
    before_.assign(sequences_ * sequences_, 0);
    next_.assign(sequences_, 0);
    blocked_.assign(sequences_, 0);
    ends_.assign(at(g.count()), 0);
    free_.assign(at(g.ranks), 0);
    sent_.assign(at(g.ranks), 0);
    held_.assign(at(g.ranks), 0);
    left_.assign(at(g.ranks), 0);
    for (int rank = 0; rank < g.ranks; ++rank) {
      tight_.push_back(g.is_tight(rank));
      for (int q = first(rank); q < first(rank + 1); ++q) {
        for (int b = first(rank); b < first(rank + 1); ++b) {
          before_[at(b) * sequences_ + at(q)] = b != q && data_order(g, b, q) < 0;
        }
      }
    }
  }

  BranchResult operator()() {
    for (std::size_t width = kFirstWidth; width <= kMostWidth; width *= kWiden) {
      const bool whole = pass(width);
      if (stopped_) break;
      lower_ = std::max(lower_, std::min(best_, dropped_));
      if (whole || lower_ >= best_) break;
    }
    result_.lower = std::min(lower_, best_);
    return std::move(result_);
  }

 private:
  int first(int rank) const { return g_.first[at(rank)]; }
  const Sequence& seq(int q) const { return g_.sequences[at(q)]; }
  bool is_over(int q) const { return next_[at(q)] == m_; }
  bool has_input(int q) const {
    const int input = seq(q).input;
    return input < 0 || next_[at(input)] > next_[at(q)];
  }

  // Earliest start of q's next action; its input has been placed.
  Picoseconds start_of(int q) const {
    const Sequence& s = seq(q);
    const auto rank = at(s.rank);
    Picoseconds start = free_[rank];
    if (g_.blocking && placed_on_[rank]) start = std::max(sent_[rank], start + s.receive);
    if (s.input < 0) return start;
    return std::max(start, ends_[at(s.input * m_ + next_[at(q)])] + s.receive);
  }

  static bool raises(const Sequence& s) { return s.at_start > 0 || s.at_end > 0; }

  bool fits(int q) const {
    const Sequence& s = seq(q);
    const auto rank = at(s.rank);
    if (!tight_[rank] || !raises(s)) return true;
    const std::int64_t limit = g_.limits[rank];
    if (held_[rank] + std::max(s.at_start, s.at_end) > limit) return false;
    return s.kind != Kind::forward || can_free(s.rank, q, limit);
  }

  // With the next forward of `placed` there too, can the rank still get to a gradient of the
  // deepest chunk, without which no more bytes come free than those of micro-batches past that
  // point? It needs the other chunks' forwards first.
  bool can_free(int rank, int placed, std::int64_t limit) const {
    int deepest = -1;
    for (int q = first(rank); q < first(rank + 1); ++q) {
      const Sequence& s = seq(q);
      if (s.kind == Kind::forward || s.kind == Kind::weight_gradient) continue;
      if (deepest < 0 || s.chunk > seq(deepest).chunk) deepest = q;
    }
    const int passed = next_[at(deepest)];
    std::int64_t held = 0;
    for (int q = first(rank); q < first(rank + 1); ++q) {
      const Sequence& s = seq(q);
      if (s.kind != Kind::forward) continue;
      const int forwards = std::max(passed + 1, next_[at(q)] + (q == placed ? 1 : 0));
      held += s.at_start * (forwards - passed);
    }
    return held <= limit;
  }

  // Least makespan of every order that begins like the one unpacked.
  Picoseconds bound() const {
    Picoseconds bound = 0;
    for (int rank = 0; rank < g_.ranks; ++rank) {
      Picoseconds start = -1;
      Picoseconds tail = -1;
      for (int q = first(rank); q < first(rank + 1); ++q) {
        if (is_over(q)) continue;
        const int x = q * m_ + next_[at(q)];
        const Picoseconds earliest =
            has_input(q) ? start_of(q) : std::max(free_[at(rank)], g_.head[at(x)]);
        bound = std::max(bound, earliest + seq(q).duration + g_.tail[at(x)]);
        const Picoseconds last_tail = g_.tail[at(q * m_ + m_ - 1)];
        start = start < 0 ? earliest : std::min(start, earliest);
        tail = tail < 0 ? last_tail : std::min(tail, last_tail);
      }
      bound = std::max(bound, start < 0 ? free_[at(rank)] : start + left_[at(rank)] + tail);
    }
    return bound;
  }

  void unpack(const Layer& layer, std::size_t state) {
    const std::uint16_t* const counts = layer.counts.data() + state * sequences_;
    for (std::size_t q = 0; q < sequences_; ++q) {
      next_[q] = counts[q] & ~kBlocked;
      blocked_[q] = (counts[q] & kBlocked) != 0;
    }
    const Picoseconds* time = layer.times.data() + layer.first[state];
    placed_on_.assign(at(g_.ranks), 0);
    for (int rank = 0; rank < g_.ranks; ++rank) {
      free_[at(rank)] = *time++;
      sent_[at(rank)] = *time++;
      held_[at(rank)] = 0;
      left_[at(rank)] = 0;
      for (int q = first(rank); q < first(rank + 1); ++q) {
        const Sequence& s = seq(q);
        held_[at(rank)] += (s.at_start + s.at_end) * next_[at(q)];
        left_[at(rank)] += s.duration * (m_ - next_[at(q)]);
        if (next_[at(q)] > 0) placed_on_[at(rank)] = 1;
      }
    }
    for (std::size_t q = 0; q < sequences_; ++q) {
      const int input = g_.sequences[q].input;
      if (input < 0) continue;
      for (int i = next_[q]; i < next_[at(input)]; ++i) ends_[at(input * m_ + i)] = *time++;
    }
  }

  void pack(Layer& layer, std::int32_t from, int placed) const {
    for (std::size_t q = 0; q < sequences_; ++q) {
      layer.counts.push_back(
          static_cast<std::uint16_t>(next_[q] | (blocked_[q] != 0 ? kBlocked : 0)));
    }
    Picoseconds idle = 0;
    for (int rank = 0; rank < g_.ranks; ++rank) {
      layer.times.push_back(free_[at(rank)]);
      layer.times.push_back(sent_[at(rank)]);
      idle += free_[at(rank)] + left_[at(rank)];
    }
    for (std::size_t q = 0; q < sequences_; ++q) {
      const int input = g_.sequences[q].input;
      if (input < 0) continue;
      for (int i = next_[q]; i < next_[at(input)]; ++i) {
        layer.times.push_back(ends_[at(input * m_ + i)]);
      }
    }
    layer.first.push_back(layer.times.size());
    layer.idle.push_back(idle);
    layer.from.emplace_back(from, placed);
  }

  // The unpacked state with q's next action placed goes into the layer of children.
  void place(int q, std::int32_t from) {
    ++result_.nodes;
    const Sequence& s = seq(q);
    const auto rank = at(s.rank);
    const int x = q * m_ + next_[at(q)];
    const Picoseconds free = free_[rank];
    const Picoseconds sent = sent_[rank];
    const Picoseconds before = ends_[at(x)];
    const char placed_on = placed_on_[rank];
    saved_.assign(blocked_.begin() + first(s.rank), blocked_.begin() + first(s.rank + 1));
    const Picoseconds end = start_of(q) + s.duration;
    std::fill(blocked_.begin() + first(s.rank), blocked_.begin() + first(s.rank + 1), char{0});
    free_[rank] = end;
    sent_[rank] = end + s.send;
    placed_on_[rank] = 1;
    ends_[at(x)] = end;
    held_[rank] += s.at_start + s.at_end;
    left_[rank] -= s.duration;
    ++next_[at(q)];
    if (const Picoseconds b = bound(); b < best_) {
      pack(children_, from, q);
      children_.bound.push_back(b);
    }
    --next_[at(q)];
    left_[rank] += s.duration;
    held_[rank] -= s.at_start + s.at_end;
    ends_[at(x)] = before;
    placed_on_[rank] = placed_on;
    sent_[rank] = sent;
    free_[rank] = free;
    std::copy(saved_.begin(), saved_.end(), blocked_.begin() + first(s.rank));
  }

  // All children that an order as good as any needs.
  void expand(std::int32_t from) {
    for (;;) {
      int chosen = -1;
      Picoseconds soonest = 0;
      for (int q = 0; q < static_cast<int>(sequences_); ++q) {
        if (is_over(q) || blocked_[at(q)] != 0 || !has_input(q)) continue;
        const Picoseconds end = start_of(q) + seq(q).duration;
        if ((chosen >= 0 && end >= soonest) || !fits(q)) continue;
        chosen = q;
        soonest = end;
      }
      if (chosen < 0) return;  // what is left waits for what is blocked or does not fit

      const int rank = seq(chosen).rank;
      // An action that delays no other when it is put first may be put first, unless it then holds
      // bytes that another needs, or its blocking send delays another: then it is next or it is
      // not.
      if ((tight_[at(rank)] && raises(seq(chosen))) || may_delay(chosen, soonest)) {
        place(chosen, from);
        blocked_[at(chosen)] = 1;
        if (!another_can_be_next(rank)) return;
        continue;
      }
      for (int q = first(rank); q < first(rank + 1); ++q) {
        if (is_over(q) || blocked_[at(q)] != 0 || !has_input(q)) continue;
        if (q != chosen) {
          if (start_of(q) >= soonest + g_.between(seq(chosen), seq(q)) || !fits(q)) continue;
        }
        place(q, from);
      }
      return;
    }
  }

  // Could an action whose input is still to come start before the blocking send of `chosen`, which
  // ends at `soonest`, is over? It comes no earlier than its transfer after `soonest`.
  bool may_delay(int chosen, Picoseconds soonest) const {
    const Picoseconds sent = soonest + seq(chosen).send;
    for (int q = first(seq(chosen).rank); q < first(seq(chosen).rank + 1); ++q) {
      const Sequence& s = seq(q);
      if (is_over(q) || blocked_[at(q)] != 0 || has_input(q)) continue;
      if (seq(s.input).rank == s.rank) continue;  // cannot be next
      if (std::max(g_.head[at(q * m_ + next_[at(q)])], soonest + s.receive) < sent) return true;
    }
    return false;
  }

  bool another_can_be_next(int rank) const {
    for (int q = first(rank); q < first(rank + 1); ++q) {
      if (is_over(q) || blocked_[at(q)] != 0) continue;
      bool can = true;
      for (int b = first(rank); b < first(rank + 1); ++b) {
        if (blocked_[at(b)] != 0 && before_[at(b) * sequences_ + at(q)] != 0 &&
            next_[at(b)] <= next_[at(q)]) {
          can = false;
        }
      }
      if (can) return true;
    }
    return false;
  }

  // Does child a reach at least as much as b: the same actions placed, nothing blocked that is not
  // in b, nothing later?
  bool beats(std::size_t a, std::size_t b) const {
    const std::uint16_t* const ca = children_.counts.data() + a * sequences_;
    const std::uint16_t* const cb = children_.counts.data() + b * sequences_;
    for (std::size_t q = 0; q < sequences_; ++q) {
      if (ca[q] != cb[q] && (ca[q] | kBlocked) != cb[q]) return false;
    }
    const Picoseconds* ta = children_.times.data() + children_.first[a];
    const Picoseconds* tb = children_.times.data() + children_.first[b];
    const std::size_t times = children_.first[a + 1] - children_.first[a];
    for (std::size_t i = 0; i < times; ++i) {
      if (ta[i] > tb[i]) return false;
    }
    return true;
  }

  // The children that go on, at most `width`.
  void select(std::size_t width, Layer& layer) {
    order_.resize(children_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      if (children_.bound[a] != children_.bound[b]) return children_.bound[a] < children_.bound[b];
      if (children_.idle[a] != children_.idle[b]) return children_.idle[a] < children_.idle[b];
      return a < b;
    });
    kept_.clear();
    layer.clear();
    for (const std::size_t i : order_) {
      const std::uint16_t* const counts = children_.counts.data() + i * sequences_;
      std::uint64_t hash = 1469598103934665603ULL;  // FNV-1a, 64 bits
      for (std::size_t q = 0; q < sequences_; ++q) {
        hash = (hash ^ static_cast<std::uint64_t>(counts[q] & ~kBlocked)) * 1099511628211ULL;
      }
      const auto [begin, end] = kept_.equal_range(hash);
      if (std::any_of(begin, end, [&](const auto& k) { return beats(k.second, i); })) continue;
      if (layer.size() == width) {
        dropped_ = std::min(dropped_, children_.bound[i]);
        return;
      }
      kept_.emplace(hash, i);
      layer.counts.insert(layer.counts.end(), counts, counts + sequences_);
      layer.times.insert(layer.times.end(), children_.times.begin() + offset(i),
                         children_.times.begin() + offset(i + 1));
      layer.first.push_back(layer.times.size());
      layer.bound.push_back(children_.bound[i]);
      layer.idle.push_back(children_.idle[i]);
      layer.from.push_back(children_.from[i]);
    }
  }
  std::ptrdiff_t offset(std::size_t i) const {
    return static_cast<std::ptrdiff_t>(children_.first[i]);
  }

  // True when no partial order was dropped for want of width.
  bool pass(std::size_t width) {
    dropped_ = std::numeric_limits<Picoseconds>::max();
    history_.clear();
    Layer layer;
    layer.clear();
    layer.counts.assign(sequences_, 0);
    layer.times.assign(2 * at(g_.ranks), 0);
    layer.first.push_back(layer.times.size());
    layer.bound.push_back(lower_);
    layer.idle.push_back(0);
    layer.from.emplace_back(-1, -1);
    for (int placed = 0; placed < g_.count() && layer.size() > 0; ++placed) {
      children_.clear();
      for (std::size_t state = 0; state < layer.size(); ++state) {
        if (result_.nodes >= node_limit_ || (state % 64 == 0 && stop_ && stop_())) {
          stopped_ = true;
          return false;
        }
        unpack(layer, state);
        expand(static_cast<std::int32_t>(state));
      }
      select(width, layer);
      history_.push_back(layer.from);
    }
    for (std::size_t state = 0; state < layer.size(); ++state) {
      unpack(layer, state);
      const Picoseconds makespan = *std::max_element(free_.begin(), free_.end());
      if (makespan >= best_) continue;
      best_ = makespan;
      remember(state);
    }
    return dropped_ == std::numeric_limits<Picoseconds>::max();
  }

  void remember(std::size_t state) {
    result_.ranks.assign(at(g_.ranks), {});
    std::vector<int> sequence_placed;
    for (auto layer = history_.rbegin(); layer != history_.rend(); ++layer) {
      const auto [from, q] = (*layer)[state];
      sequence_placed.push_back(q);
      state = at(from);
    }
    std::vector<int> count(sequences_, 0);
    for (auto q = sequence_placed.rbegin(); q != sequence_placed.rend(); ++q) {
      result_.ranks[at(seq(*q).rank)].push_back(*q * m_ + count[at(*q)]++);
    }
  }

  const ActionGraph& g_;
  int m_;
  std::size_t sequences_;
  Picoseconds best_;
  Picoseconds lower_;
  std::int64_t node_limit_;
  const Stop& stop_;
  BranchResult result_;
  bool stopped_ = false;
  Picoseconds dropped_ = 0;  // least bound of what was dropped for want of width
  std::vector<char>
      before_;  // [b * sequences + q] b of a micro-batch comes before q, both of a rank
  std::vector<char> tight_;
  // The state that is unpacked.
  std::vector<int> next_;
  std::vector<char> blocked_;
  std::vector<Picoseconds> ends_;
  std::vector<Picoseconds> free_;
  std::vector<Picoseconds> sent_;
  std::vector<char> placed_on_;     // by rank: an action has been placed
  std::vector<std::int64_t> held_;  // by rank
  std::vector<Picoseconds> left_;   // by rank: work
  std::vector<char> saved_;
  Layer children_;
  std::vector<std::size_t> order_;
  std::unordered_multimap<std::uint64_t, std::size_t> kept_;  // looked up only
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> history_;
};

}  // namespace

BranchResult branch(const ActionGraph& graph, Picoseconds best, Picoseconds lower,
                    std::int64_t node_limit, const Stop& stop) {
  return Branch(graph, best, lower, node_limit, stop)();
}

}  // namespace eratos::schedule
