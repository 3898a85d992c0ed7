// Interleaved 1F1B: v chunks a rank, micro-batches in groups of g (default p); a group runs all
// chunks before the next group starts. Forward k and backward k of a rank are entry k of one
// table (backward counts chunks from the last), and the table is the same on every rank. Rank r
// runs 2 (p - 1 - r) + (v - 1) g forwards first, then one forward and one backward in turn.
// Source: Narayanan et al., arXiv:2104.04473, section 2.2; Megatron-LM,
// megatron/core/pipeline_parallel/schedules.py, get_schedule_table, get_pp_rank_microbatches.
//
// Worked example: g = 3, m = 5, v = 2: entries 0..9 are micro-batches 0 1 2 0 1 2 3 4 3 4 on
// chunks 0 0 0 1 1 1 0 0 1 1.
//
// Megatron-LM refuses m < p, g > m and a last group with fewer than p micro-batches. With its
// warm-up such an order can wait for itself: rank p - 1 owes a forward that rank 0 has placed
// behind a backward that rank p - 1 will only run after that forward (p = 8, v = 2, m = 10 does).
// Assumes: in those cases the last group is filled up to g with micro-batches that do not exist,
// and they are struck from the order. Striking micro-batches from an order that completes leaves
// one that completes: what remains depends on nothing that went.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "eratos/schedule/peak.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule {
namespace {

struct Plan {
  int group = 0;
  int last_group = 0;  // entries a chunk has in the last group, struck ones included
  int padded = 0;      // micro-batches with the struck ones
};

Plan plan_of(const Shape& s) {
  Plan plan;
  const int m = s.micro_batches;
  plan.group = s.group_size == 0 ? s.pp : std::min(s.group_size, std::max(m, s.pp));
  const int rest = m % plan.group;
  plan.last_group = rest >= s.pp ? rest : plan.group;
  plan.padded = rest >= s.pp || rest == 0 ? m : m - rest + plan.group;
  return plan;
}

// Walks the table. A run is a stretch of one chunk with micro-batches that count up by one, all of
// them real or all struck.
class Entries {
 public:
  Entries(const Shape& s, const Plan& plan) : shape_(s), plan_(plan) { start_group(); }

  bool real() const { return base_ + offset_ < shape_.micro_batches; }
  int left() const {
    return (real() ? std::min(size_, shape_.micro_batches - base_) : size_) - offset_;
  }
  Action action(Kind kind) const {
    const int chunk = kind == Kind::forward ? chunk_ : shape_.chunks - 1 - chunk_;
    return {base_ + offset_, static_cast<std::int16_t>(chunk), kind};
  }

  // Moves on by n <= left().
  void next(int n) {
    offset_ += n;
    if (offset_ < size_) return;
    offset_ = 0;
    if (++chunk_ < shape_.chunks) return;
    chunk_ = 0;
    base_ += size_;
    start_group();
  }

 private:
  void start_group() {
    size_ = plan_.padded - base_ > plan_.group ? plan_.group : plan_.last_group;
  }

  const Shape& shape_;
  const Plan& plan_;
  int size_ = 0;
  int base_ = 0;
  int chunk_ = 0;
  int offset_ = 0;
};

// `count` times: a forward if there is one, then a backward if there is one, each time of the next
// micro-batch.
struct Run {
  int count = 0;
  bool has_forward = false;
  bool has_backward = false;
  Action forward;
  Action backward;
};

template <class Visit>
void for_every_run(const Shape& s, const Plan& plan, int rank, Visit visit) {
  const std::int64_t total = std::int64_t{plan.padded} * s.chunks;
  const std::int64_t warm_up =
      std::min(total, 2 * std::int64_t{s.pp - 1 - rank} + std::int64_t{s.chunks - 1} * plan.group);
  Entries forward(s, plan);
  Entries backward(s, plan);
  const auto advance = [&](std::int64_t entries, bool forwards, bool backwards) {
    while (entries > 0) {
      std::int64_t count = entries;
      if (forwards) count = std::min<std::int64_t>(count, forward.left());
      if (backwards) count = std::min<std::int64_t>(count, backward.left());
      const int n = static_cast<int>(count);
      visit(Run{n, forwards && forward.real(), backwards && backward.real(),
                forward.action(Kind::forward), backward.action(Kind::backward)});
      if (forwards) forward.next(n);
      if (backwards) backward.next(n);
      entries -= n;
    }
  };
  advance(warm_up, true, false);
  advance(total - warm_up, true, true);
  advance(warm_up, false, true);
}

std::optional<Diagnostic> refuse(const Shape& s) {
  if (s.pp < 2) {
    return Diagnostic{.message = "interleaved-1f1b needs a pipeline, but pp is 1",
                      .cure = "choose none",
                      .field = "parallel.pp"};
  }
  if (s.chunks < 2) {
    return Diagnostic{.message = "interleaved-1f1b needs at least 2 chunks a rank, but vpp is 1",
                      .cure = "choose 1f1b",
                      .field = "parallel.vpp"};
  }
  if (s.group_size != 0 && s.group_size < s.pp) {
    return Diagnostic{
        .message = "interleaved-1f1b needs groups of at least pp = " + std::to_string(s.pp) +
                   " micro-batches, but the group size is " + std::to_string(s.group_size),
        .cure = "raise it, or leave it out",
        .field = "schedule.group_size"};
  }
  return std::nullopt;
}

void generate(const Shape& s, Order& order) {
  begin_order(s, Placement::looped, order);
  const Plan plan = plan_of(s);
  std::array<Action, 128> block;
  for (int rank = 0; rank < s.pp; ++rank) {
    for_every_run(s, plan, rank, [&](const Run& run) {
      Action f = run.forward;
      Action b = run.backward;
      for (int left = run.count; left > 0;) {
        const int n = std::min(left, static_cast<int>(block.size()) / 2);
        Action* out = block.data();
        if (run.has_forward && run.has_backward) {
          for (int i = 0; i < n; ++i, ++f.micro_batch, ++b.micro_batch) {
            *out++ = f;
            *out++ = b;
          }
        } else if (run.has_forward) {
          for (int i = 0; i < n; ++i, ++f.micro_batch) *out++ = f;
        } else if (run.has_backward) {
          for (int i = 0; i < n; ++i, ++b.micro_batch) *out++ = b;
        }
        order.actions.insert(order.actions.end(), block.data(), out);
        left -= n;
      }
    });
    end_rank(order);
  }
}

// The order repeats itself group by group once the warm-up, shorter than two groups, is over, so
// three whole groups and the rest have every moment that more groups have.
int micro_batches_for_peak(const Shape& s) {
  const Plan plan = plan_of(s);
  const int rest = s.micro_batches % plan.group;
  return static_cast<int>(
      std::min<std::int64_t>(s.micro_batches, 3 * std::int64_t{plan.group} + rest));
}

// Within a run what is held moves by the same amount each time, so its first or its last forward
// is its highest.
RankPeak peak(const Shape& s, int rank, std::span<const ChunkCost> chunks,
              std::span<std::int32_t> in_flight) {
  Shape fewer = s;
  fewer.micro_batches = micro_batches_for_peak(s);
  const Plan plan = plan_of(fewer);
  RankPeak best{-1, 0};
  int stop = 0;  // the run that peaks, and how many of its pairs come before the peak
  int pairs = 0;
  const auto held_of = [&](const Action& a) {
    return chunks[static_cast<std::size_t>(a.chunk)].held;
  };
  std::int64_t held = 0;
  std::int64_t index = 0;
  int number = 0;
  for_every_run(fewer, plan, rank, [&](const Run& run) {
    const std::int64_t up = run.has_forward ? held_of(run.forward) : 0;
    const std::int64_t down = run.has_backward ? held_of(run.backward) : 0;
    const int each = int{run.has_forward} + int{run.has_backward};
    if (run.has_forward) {
      const int at = up > down ? run.count - 1 : 0;
      const std::int64_t level = held + at * (up - down) + up;
      if (level > best.held) {
        best = {level, index + std::int64_t{at} * each};
        stop = number;
        pairs = at;
      }
    }
    held += run.count * (up - down);
    index += std::int64_t{run.count} * each;
    ++number;
  });
  std::fill(in_flight.begin(), in_flight.end(), 0);
  number = 0;
  for_every_run(fewer, plan, rank, [&](const Run& run) {
    const auto f = static_cast<std::size_t>(run.forward.chunk);
    const auto b = static_cast<std::size_t>(run.backward.chunk);
    if (number <= stop) {
      const int count = number < stop ? run.count : pairs;
      if (run.has_forward) in_flight[f] += number < stop ? count : count + 1;
      if (run.has_backward) in_flight[b] -= count;
    }
    ++number;
  });
  return best;
}

std::int64_t in_flight(const Shape& s, int rank) {
  const Plan plan = plan_of(s);
  // The table's first warm-up + 1 forwards, all of them real once two groups are.
  if (plan.padded == s.micro_batches || s.micro_batches >= 2 * plan.group) {
    const std::int64_t warm_up =
        2 * std::int64_t{s.pp - 1 - rank} + std::int64_t{s.chunks - 1} * plan.group;
    return std::min(std::int64_t{plan.padded} * s.chunks, warm_up + 1);
  }
  std::int64_t held = 0;
  std::int64_t most = 0;
  for_every_run(s, plan, rank, [&](const Run& run) {
    const int up = run.has_forward;
    const int down = run.has_backward;
    if (up > 0) most = std::max(most, held + (up > down ? run.count - 1 : 0) + 1);
    held += std::int64_t{run.count} * (up - down);
  });
  return most;
}

// The first group's forwards of chunk 0 come down as in a flow shop: rank r has run the last of
// them no sooner than the slowest rank above lets them pass. The last group's backwards of chunk 0
// go up the same way. Between the two rank r has all its other work. The warm-up, a group and more,
// keeps other work out of both.
Picoseconds lower(const Shape& s, const Costs& costs) {
  const int group = plan_of(s).group;
  const int m = s.micro_batches;
  const int first = std::min(group, m);
  const int last = m % group == 0 ? first : m % group;
  Picoseconds once = 0;
  Picoseconds slowest_forward = 0;
  Picoseconds slowest_backward = 0;
  Picoseconds best = 0;
  for (int rank = 0; rank < s.pp; ++rank) {
    Picoseconds work = 0;
    for (int chunk = 0; chunk < s.chunks; ++chunk) {
      const ChunkCost& c = costs.chunks[static_cast<std::size_t>(slot_of(s, rank, chunk))];
      work += m * (c.forward + c.backward);
    }
    const ChunkCost& c = costs.chunks[static_cast<std::size_t>(slot_of(s, rank, 0))];
    if (rank > 0) {
      once += send_forward(costs, slot_of(s, rank - 1, 0));
      once += send_backward(costs, slot_of(s, rank, 0));
    }
    once += c.forward + c.backward;
    slowest_forward = std::max(slowest_forward, c.forward);
    slowest_backward = std::max(slowest_backward, c.backward);
    best = std::max(best, once + (first - 1) * slowest_forward + (last - 1) * slowest_backward +
                              work - first * c.forward - last * c.backward);
  }
  return best;
}

// A group more is a turn more, the last group being what it was.
int period(const Shape& s) { return plan_of(s).group; }

Picoseconds upper_equal(const Shape& s, Picoseconds f, Picoseconds b) {
  const Plan plan = plan_of(s);
  return (std::int64_t{plan.padded} * s.chunks + s.pp - 1) * (f + b);
}

}  // namespace

constinit const Schedule schedules::interleaved_one_f_one_b =
    with_facts(parallel::schedule_facts::interleaved_one_f_one_b,
               {
                   .what = "1F1B over several chunks a rank, micro-batches in groups",
                   .bubble = "(p-1)/v (F + BW)",
                   .bubble_source = "arXiv 2104.04473, section 2.2.2",
                   .refusal = refuse,
                   .generate = generate,
                   .period = period,
                   .in_flight = in_flight,
                   .micro_batches_for_peak = micro_batches_for_peak,
                   .peak = peak,
                   .lower = lower,
                   .upper_equal = upper_equal,
               });

}  // namespace eratos::schedule
