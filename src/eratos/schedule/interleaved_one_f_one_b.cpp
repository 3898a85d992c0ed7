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
#include <string>

#include "eratos/schedule/registry.h"

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

std::int64_t warm_up_of(const Shape& s, const Plan& plan, int rank) {
  return 2 * std::int64_t{s.pp - 1 - rank} + std::int64_t{s.chunks - 1} * plan.group;
}

// Walks the table entry by entry.
class Entries {
 public:
  Entries(const Shape& s, const Plan& plan)
      : chunks_(s.chunks), group_(plan.group), padded_(plan.padded), last_(plan.last_group) {
    size_ = padded_ > group_ ? group_ : last_;
  }

  int micro_batch() const { return base_ + offset_; }
  int chunk() const { return chunk_; }

  // Entries until the chunk changes, this one included: their micro-batches count up by one.
  int left() const { return size_ - offset_; }

  // Moves on by n <= left().
  void next(int n = 1) {
    offset_ += n;
    if (offset_ < size_) return;
    offset_ = 0;
    if (++chunk_ < chunks_) return;
    chunk_ = 0;
    base_ += size_;
    size_ = padded_ - base_ > group_ ? group_ : last_;
  }

 private:
  int chunks_;
  int group_;
  int padded_;
  int last_;
  int size_ = 0;
  int base_ = 0;
  int chunk_ = 0;
  int offset_ = 0;
};

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
    return Diagnostic{.message = "interleaved-1f1b needs groups of at least pp = " +
                                 std::to_string(s.pp) + " micro-batches, but the group size is " +
                                 std::to_string(s.group_size),
                      .cure = "raise it, or leave it out",
                      .field = "schedule.group_size"};
  }
  return std::nullopt;
}

// n entries of one direction; struck ones leave nothing.
Action* append(Action* out, const Shape& s, Entries& e, Kind kind, std::int64_t n) {
  while (n > 0) {
    const int run = static_cast<int>(std::min<std::int64_t>(n, e.left()));
    const int chunk = kind == Kind::forward ? e.chunk() : s.chunks - 1 - e.chunk();
    const int stop = std::min(e.micro_batch() + run, s.micro_batches);
    for (int i = e.micro_batch(); i < stop; ++i) {
      *out++ = {i, static_cast<std::int16_t>(chunk), kind};
    }
    e.next(run);
    n -= run;
  }
  return out;
}

void generate(const Shape& s, Order& order) {
  begin_order(s, Placement::looped, order);
  const Plan plan = plan_of(s);
  const std::int64_t total = std::int64_t{plan.padded} * s.chunks;
  const std::size_t each = static_cast<std::size_t>(s.chunks) * kKinds *
                           static_cast<std::size_t>(s.micro_batches);
  for (int rank = 0; rank < s.pp; ++rank) {
    order.actions.resize(order.actions.size() + each);
    Action* out = order.actions.data() + (order.actions.size() - each);
    Entries forward(s, plan);
    Entries backward(s, plan);
    const std::int64_t warm_up = std::min(total, warm_up_of(s, plan, rank));
    out = append(out, s, forward, Kind::forward, warm_up);
    for (std::int64_t k = warm_up; k < total;) {
      const auto run = static_cast<int>(
          std::min<std::int64_t>({total - k, forward.left(), backward.left()}));
      if (std::max(forward.micro_batch(), backward.micro_batch()) + run <= s.micro_batches) {
        Action f{forward.micro_batch(), static_cast<std::int16_t>(forward.chunk()), Kind::forward};
        Action b{backward.micro_batch(),
                 static_cast<std::int16_t>(s.chunks - 1 - backward.chunk()), Kind::backward};
        for (int i = 0; i < run; ++i) {
          *out++ = f;
          *out++ = b;
          ++f.micro_batch;
          ++b.micro_batch;
        }
        forward.next(run);
        backward.next(run);
      } else {
        for (int i = 0; i < run; ++i) {
          out = append(out, s, forward, Kind::forward, 1);
          out = append(out, s, backward, Kind::backward, 1);
        }
      }
      k += run;
    }
    append(out, s, backward, Kind::backward, warm_up);
    end_rank(order);
  }
}

std::int64_t in_flight(const Shape& s, int rank) {
  const Plan plan = plan_of(s);
  const std::int64_t total = std::int64_t{plan.padded} * s.chunks;
  const std::int64_t most = std::min(total, warm_up_of(s, plan, rank) + 1);
  if (plan.padded == s.micro_batches || s.micro_batches >= 2 * plan.group) return most;
  // The first warm_up + 1 forwards may include struck ones: count those that exist.
  Entries forward(s, plan);
  Entries backward(s, plan);
  std::int64_t held = 0;
  std::int64_t peak = 0;
  for (std::int64_t k = 0; k < total; ++k) {
    held += forward.micro_batch() < s.micro_batches;
    peak = std::max(peak, held);
    forward.next();
    if (k < most - 1) continue;
    held -= backward.micro_batch() < s.micro_batches;
    backward.next();
  }
  return peak;
}

// The order repeats itself group by group once the warm-up, shorter than two groups, is over, so
// three whole groups and the rest have every moment that more groups have.
int micro_batches_for_peak(const Shape& s) {
  const Plan plan = plan_of(s);
  const int rest = s.micro_batches % plan.group;
  return std::min(s.micro_batches, 3 * plan.group + rest);
}

Picoseconds upper_equal(const Shape& s, Picoseconds f, Picoseconds b) {
  const Plan plan = plan_of(s);
  return (std::int64_t{plan.padded} * s.chunks + s.pp - 1) * (f + b);
}

}  // namespace

constinit const Schedule schedules::interleaved_one_f_one_b{
    .name = "interleaved-1f1b",
    .what = "1F1B over several chunks a rank, micro-batches in groups",
    .placement = Placement::looped,
    .refusal = refuse,
    .generate = generate,
    .in_flight = in_flight,
    .micro_batches_for_peak = micro_batches_for_peak,
    .lower = nullptr,
    .upper_equal = upper_equal,
};

}  // namespace eratos::schedule
