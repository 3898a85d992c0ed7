// Looped breadth-first: every chunk runs all micro-batches before the next chunk runs any, forwards
// down to the last chunk, then backwards in the opposite order of chunks. With one chunk it is
// gpipe. Source: Lamy-Poirier, "Breadth-First Pipeline Parallelism", arXiv 2211.05953, section 3
// and figure 2.
//
// Worked example: p = 2, v = 2, m = 2, "F0.1" micro-batch 0 on chunk 1; both ranks:
//   F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0
#include <algorithm>
#include <array>
#include <string>

#include "eratos/schedule/peak.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule {
namespace {

std::optional<Diagnostic> refuse(const Shape& s) {
  if (s.chunks == 1 || s.group_size == 0 || s.group_size == s.micro_batches) return std::nullopt;
  return Diagnostic{.message = "looped-bfs runs all " + std::to_string(s.micro_batches) +
                               " micro-batches of a chunk in one go, but the group size is " +
                               std::to_string(s.group_size),
                    .cure = "leave it out, or choose interleaved-1f1b",
                    .field = "schedule.group_size"};
}

void generate(const Shape& s, Order& order) {
  begin_order(s, Placement::looped, order);
  const auto run = [&](int chunk, Kind kind) {
    for (int i = 0; i < s.micro_batches; ++i) {
      order.actions.push_back({i, static_cast<std::int16_t>(chunk), kind});
    }
  };
  for (int rank = 0; rank < s.pp; ++rank) {
    for (int chunk = 0; chunk < s.chunks; ++chunk) run(chunk, Kind::forward);
    for (int chunk = s.chunks - 1; chunk >= 0; --chunk) run(chunk, Kind::backward);
    end_rank(order);
  }
}

std::int64_t in_flight(const Shape& s, int) { return std::int64_t{s.chunks} * s.micro_batches; }

// All forwards come first, so a rank holds everything at once: from the last forward on that adds
// bytes.
RankPeak peak(const Shape& s, int, std::span<const ChunkCost> chunks,
              std::span<std::int32_t> in_flight) {
  RankPeak most;
  std::fill(in_flight.begin(), in_flight.end(), 0);
  in_flight[0] = 1;  // nobody holds anything: the first action is the peak
  for (int chunk = 0; chunk < s.chunks; ++chunk) {
    const std::int64_t held = chunks[static_cast<std::size_t>(chunk)].held;
    if (held == 0) continue;
    most.held += held * s.micro_batches;
    most.peak_at = std::int64_t{chunk + 1} * s.micro_batches - 1;
    for (int c = 0; c <= chunk; ++c) in_flight[static_cast<std::size_t>(c)] = s.micro_batches;
  }
  return most;
}

// Ranks whose bound costs no allocation; beyond them only what holds for every schedule.
constexpr int kMostRanks = 1024;

// The makespan itself when sends overlap. A rank's run of m alike passes of one chunk starts when
// the run before it on this rank has ended and the first input is there (`begins`); it ends when m
// passes have run since, or when the last input has been there for one pass: between two runs of a
// rank the slowest path goes along the first micro-batch to one stage, there through all, and on
// along the last.
class Runs {
 public:
  Runs(const Shape& s, const Costs& costs) : s_(s), costs_(costs) {}

  Picoseconds makespan() {
    for (int chunk = 0; chunk < s_.chunks; ++chunk) {
      for (int rank = 0; rank < s_.pp; ++rank) {
        const int slot = slot_of(s_, rank, chunk);
        run(rank, at(slot).forward);
        if (s_.pp > 1) pass_on(send_forward(costs_, slot));
      }
    }
    // The last stage's gradients need no input, and its rank has just run its forwards.
    first_input_ = last_input_ = 0;
    Picoseconds makespan = 0;
    for (int chunk = s_.chunks - 1; chunk >= 0; --chunk) {
      for (int rank = s_.pp - 1; rank >= 0; --rank) {
        const int slot = slot_of(s_, rank, chunk);
        run(rank, at(slot).backward);
        makespan = std::max(makespan, ended_[static_cast<std::size_t>(rank)]);
        if (s_.pp > 1) pass_on(send_backward(costs_, slot));
      }
    }
    return makespan;
  }

 private:
  const ChunkCost& at(int slot) const { return costs_.chunks[static_cast<std::size_t>(slot)]; }

  void run(int rank, Picoseconds each) {
    Picoseconds& ended = ended_[static_cast<std::size_t>(rank)];
    const Picoseconds begins = std::max(ended, first_input_);
    ended = std::max(begins + s_.micro_batches * each, last_input_ + each);
    first_input_ = begins + each;
    last_input_ = ended;
  }
  void pass_on(Picoseconds send) {
    first_input_ += send;
    last_input_ += send;
  }

  const Shape& s_;
  const Costs& costs_;
  std::array<Picoseconds, kMostRanks> ended_{};  // the rank's latest run
  Picoseconds first_input_ = 0;  // of the next stage: its first micro-batch's, its last one's
  Picoseconds last_input_ = 0;
};

Picoseconds lower(const Shape& s, const Costs& costs) {
  return s.pp > kMostRanks ? 0 : Runs(s, costs).makespan();
}

// Chunk c of the last rank begins after c max(m, p) + p - 1 forwards, and backwards mirror that.
Picoseconds upper_equal(const Shape& s, Picoseconds f, Picoseconds b) {
  const Picoseconds turns =
      Picoseconds{s.chunks - 1} * std::max(s.micro_batches, s.pp) + s.micro_batches + s.pp - 1;
  return turns * (f + b);
}

}  // namespace

constinit const Schedule schedules::looped_bfs = with_facts(
    parallel::schedule_facts::looped_bfs,
    {
        .what = "breadth first: a chunk runs all its micro-batches before the next chunk",
        .bubble = "(p-1)/v (F + BW)",
        .bubble_source = "arXiv 2211.05953, section 3",
        .refusal = refuse,
        .generate = generate,
        .in_flight = in_flight,
        .peak = peak,
        .lower = lower,
        .upper_equal = upper_equal,
    });

}  // namespace eratos::schedule
