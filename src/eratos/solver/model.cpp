#include "eratos/solver/model.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "eratos/base/check.h"
#include "eratos/schedule/simulate.h"

namespace eratos::solver {
namespace {

using schedule::ActionGraph;
using schedule::Sequence;

// With more than this many units in the makespan the program's doubles would not tell them apart
// within CBC's tolerances (1e-6 for whole numbers, times a big M as long as the makespan); the
// program then counts in 1/kUnits of the makespan.
constexpr double kMostWhole = 1e5;
constexpr double kUnits = 1e4;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Arc {
  int from = 0;
  int to = 0;
  Picoseconds apart = 0;  // from start to start
};

// What must come before what: given, and decided from windows.
class Precedences {
 public:
  Precedences(const ActionGraph& g, Picoseconds makespan)
      : g_(g), n_(g.count()), makespan_(makespan) {
    words_ = (at(n_) + 63) / 64;
    const int m = g.micro_batches;
    for (int x = 0; x < n_; ++x) {
      const Sequence& s = g.of(x);
      const int i = x % m;
      if (s.input >= 0) {
        const Sequence& input = g.sequences[at(s.input)];
        arcs_.push_back({s.input * m + i, x, input.duration + g.arrival(s)});
      }
      if (i > 0) arcs_.push_back({x - 1, x, s.duration + g.between(s, s)});
    }
    for (const schedule::Precedence& p : g.memory) arcs_.push_back(arc(p.earlier, p.later));
    update();
    while (decide()) update();
  }

  const std::vector<Arc>& arcs() const { return arcs_; }
  Picoseconds head(int x) const { return head_[at(x)]; }
  Picoseconds tail(int x) const { return tail_[at(x)]; }
  Picoseconds latest(int x) const { return makespan_ - tail_[at(x)] - g_.of(x).duration; }
  bool reaches(int x, int y) const {
    return (reach_[at(x) * words_ + at(y) / 64] >> (at(y) % 64) & 1U) != 0;
  }
  // y right after x would start in time.
  bool can_precede(int x, int y) const { return head(x) + arc(x, y).apart <= latest(y); }
  Arc arc(int x, int y) const {
    const Sequence& a = g_.of(x);
    return {x, y, a.duration + g_.between(a, g_.of(y))};
  }

  // visit(x, y) for pairs of one rank and two sequences, x of the one listed first.
  template <class Visit>
  void for_every_pair(Visit visit) const {
    const int m = g_.micro_batches;
    for (int rank = 0; rank < g_.ranks; ++rank) {
      for (int a = g_.first[at(rank)]; a < g_.first[at(rank) + 1]; ++a) {
        for (int b = a + 1; b < g_.first[at(rank) + 1]; ++b) {
          for (int x = a * m; x < (a + 1) * m; ++x) {
            for (int y = b * m; y < (b + 1) * m; ++y) visit(x, y);
          }
        }
      }
    }
  }

 private:
  // Heads, tails and what reaches what, along the arcs.
  void update() {
    std::vector<std::vector<std::size_t>> out(at(n_));
    std::vector<int> waits(at(n_), 0);
    for (std::size_t i = 0; i < arcs_.size(); ++i) {
      out[at(arcs_[i].from)].push_back(i);
      ++waits[at(arcs_[i].to)];
    }
    std::vector<int> sorted;
    for (int x = 0; x < n_; ++x) {
      if (waits[at(x)] == 0) sorted.push_back(x);
    }
    head_.assign(at(n_), 0);
    tail_.assign(at(n_), 0);
    reach_.assign(at(n_) * words_, 0);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const int x = sorted[i];
      for (const std::size_t a : out[at(x)]) {
        const int y = arcs_[a].to;
        head_[at(y)] = std::max(head_[at(y)], head_[at(x)] + arcs_[a].apart);
        if (--waits[at(y)] == 0) sorted.push_back(y);
      }
    }
    ERATOS_CHECK(sorted.size() == at(n_));
    for (auto it = sorted.rbegin(); it != sorted.rend(); ++it) {
      const int x = *it;
      std::uint64_t* const row = reach_.data() + at(x) * words_;
      for (const std::size_t a : out[at(x)]) {
        const int y = arcs_[a].to;
        const Picoseconds rest = g_.of(y).duration + tail_[at(y)];
        tail_[at(x)] = std::max(tail_[at(x)], arcs_[a].apart - g_.of(x).duration + rest);
        const std::uint64_t* const other = reach_.data() + at(y) * words_;
        for (std::size_t w = 0; w < words_; ++w) row[w] |= other[w];
        row[at(y) / 64] |= std::uint64_t{1} << (at(y) % 64);
      }
    }
  }

  // Adds an arc for every open pair of which one order would be too late. True when there was one.
  bool decide() {
    const std::size_t before = arcs_.size();
    for_every_pair([&](int x, int y) {
      if (reaches(x, y) || reaches(y, x)) return;
      if (!can_precede(x, y)) {
        arcs_.push_back(arc(y, x));
      } else if (!can_precede(y, x)) {
        arcs_.push_back(arc(x, y));
      }
    });
    return arcs_.size() > before;
  }

  const ActionGraph& g_;
  int n_;
  Picoseconds makespan_;
  std::size_t words_ = 0;
  std::vector<Arc> arcs_;
  std::vector<Picoseconds> head_;
  std::vector<Picoseconds> tail_;
  std::vector<std::uint64_t> reach_;  // [n * words_] bits
};

class Builder {
 public:
  Builder(const schedule::OptimalProblem& problem, const schedule::Solution& best)
      : problem_(problem),
        best_(best),
        g_(schedule::action_graph(problem)),
        before_(g_, best.makespan) {}

  Model operator()() {
    choose_unit();
    add_starts();
    add_precedences();
    add_choices();
    add_limits();
    add_warm_start();
    return std::move(model_);
  }

 private:
  double time(Picoseconds t) const { return static_cast<double>(t) / model_.unit; }

  void choose_unit() {
    Picoseconds divisor = best_.makespan;
    for (const Sequence& s : g_.sequences) {
      for (const Picoseconds t : {s.duration, s.receive, s.send}) divisor = std::gcd(divisor, t);
    }
    const double units = static_cast<double>(best_.makespan) / static_cast<double>(divisor);
    model_.whole = units <= kMostWhole;
    model_.unit =
        model_.whole ? static_cast<double>(divisor) : static_cast<double>(best_.makespan) / kUnits;
  }

  void add_starts() {
    model_.starts = g_.count();
    for (int x = 0; x < g_.count(); ++x) {
      model_.lower.push_back(time(before_.head(x)));
      model_.upper.push_back(time(before_.latest(x)));
    }
    model_.makespan = g_.count();
    model_.lower.push_back(time(best_.lower));
    model_.upper.push_back(time(best_.makespan));
  }

  void add_precedences() {
    for (const Arc& a : before_.arcs()) {
      model_.rows.push_back({time(a.apart), {{a.to, 1}, {a.from, -1}}});
    }
    for (int x = g_.micro_batches - 1; x < g_.count(); x += g_.micro_batches) {
      model_.rows.push_back(
          {time(g_.of(x).duration + before_.tail(x)), {{model_.makespan, 1}, {x, -1}}});
    }
  }

  void add_choices() {
    column_.assign(at(g_.count()) * at(g_.count()), 0);
    before_.for_every_pair([&](int x, int y) {
      if (before_.reaches(x, y) || before_.reaches(y, x)) return;
      const int z = static_cast<int>(model_.lower.size());
      column_[at(x) * at(g_.count()) + at(y)] = z;
      pairs_.emplace_back(x, y);
      model_.lower.push_back(0);
      model_.upper.push_back(1);
      const Picoseconds first = before_.arc(x, y).apart;
      const Picoseconds second = before_.arc(y, x).apart;
      // y - x >= first - M (1 - z) and x - y >= second - M' z.
      const double big = time(before_.latest(x) + first - before_.head(y));
      const double other = time(before_.latest(y) + second - before_.head(x));
      model_.rows.push_back({time(first) - big, {{y, 1}, {x, -1}, {z, -big}}});
      model_.rows.push_back({time(second), {{x, 1}, {y, -1}, {z, other}}});
    });
    // What comes before an action also comes after the ones before it, and before the ones after.
    const int m = g_.micro_batches;
    for (const auto& [x, y] : pairs_) {
      const int z = column(x, y);
      if (x % m > 0 && column(x - 1, y) > 0) {
        model_.rows.push_back({0, {{column(x - 1, y), 1}, {z, -1}}});
      }
      if (y % m + 1 < m && column(x, y + 1) > 0) {
        model_.rows.push_back({0, {{column(x, y + 1), 1}, {z, -1}}});
      }
    }
  }

  int column(int x, int y) const { return column_[at(x) * at(g_.count()) + at(y)]; }

  // What is held when x runs: bytes of all before it, and its own.
  void add_limits() {
    const int m = g_.micro_batches;
    for (int rank = 0; rank < g_.ranks; ++rank) {
      if (!g_.is_tight(rank)) continue;
      const auto limit = static_cast<double>(g_.limits[at(rank)]);
      for (int x = g_.first[at(rank)] * m; x < g_.first[at(rank) + 1] * m; ++x) {
        const Sequence& s = g_.of(x);
        if (s.at_start <= 0 && s.at_end <= 0) continue;
        auto held = static_cast<double>(std::max(s.at_start, s.at_end));
        double most = 0;
        Row row;
        for (int y = g_.first[at(rank)] * m; y < g_.first[at(rank) + 1] * m; ++y) {
          const auto bytes = static_cast<double>(g_.of(y).at_start + g_.of(y).at_end);
          if (y == x || bytes == 0) continue;
          if (before_.reaches(y, x)) {
            held += bytes;
          } else if (!before_.reaches(x, y)) {
            if (const int z = column(y, x); z > 0) {
              most += std::max(0.0, bytes);
              row.entries.push_back({z, -bytes / limit});
            } else {  // before when the binary of (x, y) is 0
              held += bytes;
              most += std::max(0.0, -bytes);
              row.entries.push_back({column(x, y), bytes / limit});
            }
          }
        }
        if (row.entries.empty() || held + most <= limit) continue;
        row.low = held / limit - 1;
        model_.rows.push_back(std::move(row));
      }
    }
  }

  void add_warm_start() {
    schedule::Workspace workspace;
    schedule::Timing timing;
    std::vector<schedule::Interval> timeline;
    ERATOS_CHECK(
        schedule::simulate(best_.order, problem_.costs, workspace, timing, &timeline).has_value());
    model_.start.assign(model_.lower.size(), 0);
    const auto ranks = schedule::read_order(g_, best_.order);
    std::vector<std::size_t> place(at(g_.count()), 0);
    std::size_t next = 0;
    for (const std::vector<int>& rank : ranks) {
      for (const int x : rank) {
        place[at(x)] = next;
        model_.start[at(x)] = time(timeline[next].start);
        ++next;
      }
    }
    model_.start[at(model_.makespan)] = time(best_.makespan);
    for (const auto& [x, y] : pairs_) {
      model_.start[at(column(x, y))] = place[at(x)] < place[at(y)] ? 1 : 0;
    }
  }

  const schedule::OptimalProblem& problem_;
  const schedule::Solution& best_;
  ActionGraph g_;
  Precedences before_;
  Model model_;
  std::vector<int> column_;  // [x * count + y] binary: x before y; 0: decided
  std::vector<std::pair<int, int>> pairs_;
};

}  // namespace

Model build_model(const schedule::OptimalProblem& problem, const schedule::Solution& best) {
  return Builder(problem, best)();
}

std::vector<std::vector<int>> order_of(const schedule::ActionGraph& graph,
                                       const std::vector<double>& middles) {
  std::vector<std::vector<int>> ranks(at(graph.ranks));
  for (int x = 0; x < graph.count(); ++x) ranks[at(graph.of(x).rank)].push_back(x);
  for (std::vector<int>& rank : ranks) {
    std::stable_sort(rank.begin(), rank.end(),
                     [&](int x, int y) { return middles[at(x)] < middles[at(y)]; });
  }
  return ranks;
}

}  // namespace eratos::solver
