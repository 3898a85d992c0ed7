#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "eratos/schedule/optimal_graph.h"

namespace eratos::schedule {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Numbers kept of states met before; then no new ones are kept, and more is looked at twice.
constexpr std::size_t kMostRemembered = std::size_t{8} << 20;

class Branch {
 public:
  Branch(const ActionGraph& g, Picoseconds best, Picoseconds lower, std::int64_t node_limit,
         const Stop& stop)
      : g_(g), m_(g.micro_batches), best_(best), lower_(lower), node_limit_(node_limit), stop_(stop) {
    const std::size_t sequences = g.sequences.size();
    next_.assign(sequences, 0);
    blocked_.assign(sequences, 0);
    before_.assign(sequences * sequences, 0);
    ends_.assign(at(g.count()), -1);
    free_.assign(at(g.ranks), 0);
    last_.assign(at(g.ranks), -1);
    held_.assign(at(g.ranks), 0);
    left_.assign(at(g.ranks), 0);
    done_.resize(at(g.ranks));
    for (int rank = 0; rank < g.ranks; ++rank) {
      tight_.push_back(g.is_tight(rank));
      for (int q = first(rank); q < first(rank + 1); ++q) {
        left_[at(rank)] += g.sequences[at(q)].duration * m_;
        for (int b = first(rank); b < first(rank + 1); ++b) {
          before_[at(b) * sequences + at(q)] = b != q && data_order(g, b, q) < 0;
        }
      }
    }
  }

  BranchResult operator()() {
    explore(false);
    result_.finished = !stopped_;
    return std::move(result_);
  }

 private:
  int first(int rank) const { return g_.first[at(rank)]; }
  const Sequence& seq(int q) const { return g_.sequences[at(q)]; }

  // Earliest start of q's next action, or -1 while its input has not been placed.
  Picoseconds start_of(int q) const {
    const Sequence& s = seq(q);
    const auto rank = at(s.rank);
    Picoseconds start = free_[rank];
    if (last_[rank] >= 0) start += g_.between(seq(last_[rank]), s);
    if (s.input < 0) return start;
    const Picoseconds made = ends_[at(s.input * m_ + next_[at(q)])];
    return made < 0 ? -1 : std::max(start, made + s.receive);
  }

  bool raises(const Sequence& s) const { return s.at_start > 0 || s.at_end > 0; }

  bool fits(int q) const {
    const Sequence& s = seq(q);
    const auto rank = at(s.rank);
    if (!tight_[rank] || !raises(s)) return true;
    const std::int64_t limit = g_.limits[rank];
    if (held_[rank] + std::max(s.at_start, s.at_end) > limit) return false;
    return s.kind != Kind::forward || can_free(s.rank, q, limit);
  }

  // With q's next forward placed, can the rank still get to the gradient that frees bytes next? That
  // is the deepest chunk's, for which the other chunks' forwards are needed first.
  bool can_free(int rank, int placed, std::int64_t limit) const {
    std::int64_t held = held_[at(rank)] + seq(placed).at_start;
    int deepest = -1;
    for (int q = first(rank); q < first(rank + 1); ++q) {
      const Sequence& s = seq(q);
      if (s.kind == Kind::weight_gradient) {
        held += s.at_end * (next_[at(q) - 1] - next_[at(q)]);
      } else if (s.kind != Kind::forward && (deepest < 0 || s.chunk > seq(deepest).chunk)) {
        deepest = q;
      }
    }
    const int micro_batch = next_[at(deepest)];
    for (int q = first(rank); q < first(rank + 1); ++q) {
      const Sequence& s = seq(q);
      if (s.kind != Kind::forward) continue;
      const int placed_now = next_[at(q)] + (q == placed ? 1 : 0);
      held += s.at_start * std::max(0, micro_batch + 1 - placed_now);
    }
    return held <= limit;
  }

  // Least makespan of every order that begins like this one.
  Picoseconds bound() const {
    Picoseconds bound = 0;
    for (int rank = 0; rank < g_.ranks; ++rank) {
      Picoseconds start = -1;
      Picoseconds tail = -1;
      for (int q = first(rank); q < first(rank + 1); ++q) {
        if (next_[at(q)] == m_) continue;
        const int x = q * m_ + next_[at(q)];
        Picoseconds earliest = start_of(q);
        if (earliest < 0) earliest = std::max(free_[at(rank)], g_.head[at(x)]);
        bound = std::max(bound, earliest + seq(q).duration + g_.tail[at(x)]);
        const Picoseconds last_tail = g_.tail[at(q * m_ + m_ - 1)];
        start = start < 0 ? earliest : std::min(start, earliest);
        tail = tail < 0 ? last_tail : std::min(tail, last_tail);
      }
      bound = std::max(bound, start < 0 ? free_[at(rank)] : start + left_[at(rank)] + tail);
    }
    return bound;
  }

  // Has a state with the same actions placed, nothing blocked and no time later been met? If not,
  // and this one has nothing blocked, it is remembered.
  bool is_dominated() {
    key_.assign(next_.begin(), next_.end());
    times_.clear();
    bool free_of_blocks = true;
    for (int rank = 0; rank < g_.ranks; ++rank) {
      times_.push_back(free_[at(rank)]);
      times_.push_back(free_[at(rank)] + (last_[at(rank)] < 0 ? 0 : seq(last_[at(rank)]).send));
    }
    for (std::size_t q = 0; q < next_.size(); ++q) {
      free_of_blocks = free_of_blocks && blocked_[q] == 0;
      const int input = g_.sequences[q].input;
      if (input < 0 || g_.sequences[q].kind == Kind::weight_gradient) continue;
      for (int i = next_[q]; i < next_[at(input)]; ++i) times_.push_back(ends_[at(input * m_ + i)]);
    }
    std::uint64_t hash = 1469598103934665603ULL;  // FNV-1a, 64 bits
    for (const int n : key_) hash = (hash ^ static_cast<std::uint64_t>(n)) * 1099511628211ULL;
    for (auto [it, end] = met_.equal_range(hash); it != end; ++it) {
      const State& state = it->second;
      if (state.key != key_) continue;
      bool earlier = true;
      for (std::size_t i = 0; i < times_.size() && earlier; ++i) {
        earlier = state.times[i] <= times_[i];
      }
      if (earlier) return true;
    }
    if (free_of_blocks && remembered_ < kMostRemembered) {
      remembered_ += key_.size() + times_.size();
      met_.emplace(hash, State{key_, times_});
    }
    return false;
  }

  void explore(bool blocks) {
    if (stopped_ || best_ <= lower_) return;
    if (++result_.nodes > node_limit_ || (result_.nodes % 256 == 0 && stop_ && stop_())) {
      stopped_ = true;
      return;
    }
    if (placed_ == g_.count()) {
      const Picoseconds makespan = *std::max_element(free_.begin(), free_.end());
      if (makespan < best_) {
        best_ = makespan;
        result_.ranks = done_;
      }
      return;
    }
    if (bound() >= best_) return;
    if (!blocks && is_dominated()) return;

    int chosen = -1;
    Picoseconds soonest = 0;
    for (int q = 0; q < static_cast<int>(next_.size()); ++q) {
      if (next_[at(q)] == m_ || blocked_[at(q)] != 0) continue;
      const Picoseconds start = start_of(q);
      if (start < 0 || !fits(q)) continue;
      const Picoseconds end = start + seq(q).duration;
      if (chosen < 0 || end < soonest) {
        chosen = q;
        soonest = end;
      }
    }
    if (chosen < 0) return;  // what is left waits for what is blocked or does not fit

    const int rank = seq(chosen).rank;
    // An action that may be put first without delaying another may be put first, unless it then
    // holds bytes that another needs, or its blocking send delays another.
    if ((tight_[at(rank)] && raises(seq(chosen))) || seq(chosen).send > 0) {
      place(chosen);
      blocked_[at(chosen)] = 1;
      if (another_can_be_next(rank)) explore(true);
      blocked_[at(chosen)] = 0;
      return;
    }
    for (int q = first(rank); q < first(rank + 1); ++q) {
      if (next_[at(q)] == m_ || blocked_[at(q)] != 0) continue;
      const Picoseconds start = start_of(q);
      if (start < 0 || !fits(q)) continue;
      if (q == chosen || start < soonest + g_.between(seq(chosen), seq(q))) place(q);
    }
  }

  bool another_can_be_next(int rank) const {
    for (int q = first(rank); q < first(rank + 1); ++q) {
      if (next_[at(q)] == m_ || blocked_[at(q)] != 0) continue;
      bool can = true;
      for (int b = first(rank); b < first(rank + 1); ++b) {
        if (blocked_[at(b)] != 0 && before_[at(b) * next_.size() + at(q)] != 0 &&
            next_[at(b)] <= next_[at(q)]) {
          can = false;
        }
      }
      if (can) return true;
    }
    return false;
  }

  // q's next action, then everything that can follow, then as before.
  void place(int q) {
    const Sequence& s = seq(q);
    const auto rank = at(s.rank);
    const int x = q * m_ + next_[at(q)];
    const Picoseconds free = free_[rank];
    const int last = last_[rank];
    const Picoseconds end = start_of(q) + s.duration;
    std::vector<char> blocked(blocked_.begin() + first(s.rank), blocked_.begin() + first(s.rank + 1));
    std::fill(blocked_.begin() + first(s.rank), blocked_.begin() + first(s.rank + 1), char{0});
    ends_[at(x)] = free_[rank] = end;
    last_[rank] = q;
    held_[rank] += s.at_start + s.at_end;
    left_[rank] -= s.duration;
    done_[rank].push_back(x);
    ++next_[at(q)];
    ++placed_;
    explore(false);
    --placed_;
    --next_[at(q)];
    done_[rank].pop_back();
    left_[rank] += s.duration;
    held_[rank] -= s.at_start + s.at_end;
    last_[rank] = last;
    free_[rank] = free;
    ends_[at(x)] = -1;
    std::copy(blocked.begin(), blocked.end(), blocked_.begin() + first(s.rank));
  }

  struct State {
    std::vector<int> key;
    std::vector<Picoseconds> times;
  };

  const ActionGraph& g_;
  int m_;
  Picoseconds best_;
  Picoseconds lower_;
  std::int64_t node_limit_;
  const Stop& stop_;
  BranchResult result_;
  bool stopped_ = false;
  int placed_ = 0;
  std::vector<int> next_;      // by sequence
  std::vector<char> blocked_;  // by sequence: not next on its rank
  std::vector<char> before_;   // [b * sequences + q] b of a micro-batch comes before q, both of a rank
  std::vector<Picoseconds> ends_;
  std::vector<Picoseconds> free_;   // by rank
  std::vector<int> last_;           // by rank: the sequence that ran last
  std::vector<std::int64_t> held_;  // by rank
  std::vector<Picoseconds> left_;   // by rank: work
  std::vector<char> tight_;
  std::vector<std::vector<int>> done_;
  std::unordered_multimap<std::uint64_t, State> met_;  // looked up only
  std::size_t remembered_ = 0;
  std::vector<int> key_;
  std::vector<Picoseconds> times_;
};

}  // namespace

BranchResult branch(const ActionGraph& graph, Picoseconds best, Picoseconds lower,
                    std::int64_t node_limit, const Stop& stop) {
  return Branch(graph, best, lower, node_limit, stop)();
}

}  // namespace eratos::schedule
