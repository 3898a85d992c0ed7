// The automatic zero-bubble schedule under a limit of bytes: one chunk a rank, B and W apart. The
// paper's greedy rule with its three switches makes eight orders from the times of every stage and
// transfer (zb_greedy.h); the best of them and of zb-h1 and zb-h2, where these fit the limit, is
// kept, each judged by simulate(). Where zb-h1 does not fit, two orders of our own rule are tried
// too.
//
// Best: the least Timing::pitch, as the paper's scheduler and its implementation judge, since they
// validate the optimizer step afterwards; then the least makespan. Where zb-h1 fits, orders with a
// longer makespan than zb-h1's are left out, so that neither number is ever worse than its.
//
// Source: "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 3.1; its implementation,
// sail-sg/zero-bubble-pipeline-parallelism, megatron/core/pipeline_parallel/zerobubble/runtime.py,
// which gives every stage the median time of all; here every stage has its own.
//
// Without limits: 2 p times the largest micro-batch of any rank, on every rank (the paper's ZB-2p;
// ZB-1p is p times). Source: the same file, mem_limit from --zero-bubble-max-pending-backward.
#include <algorithm>
#include <cstddef>
#include <string>

#include "eratos/base/check.h"
#include "eratos/schedule/best_order.h"
#include "eratos/schedule/zb_greedy.h"
#include "eratos/schedule/zero_bubble.h"

namespace eratos::schedule {
namespace {

std::int64_t needs(const ChunkCost& c) { return std::max(c.held, c.kept); }

// 2 p of the largest micro-batch where the job has no limits.
Limits limits_of(const Shape& s, const Costs& costs) { return {costs, std::int64_t{2} * s.pp}; }

std::optional<Diagnostic> refuse(const Shape& s) { return refuse_chunks("zb-auto", s); }

std::optional<Diagnostic> refuse_limits(const Shape& s, const Costs& costs) {
  const Limits limits = limits_of(s, costs);
  for (int r = 0; r < s.pp; ++r) {
    const std::int64_t one = needs(costs.chunks[static_cast<std::size_t>(r)]);
    const std::int64_t limit = limits[r];
    if (one <= limit) continue;
    return Diagnostic{
        .message = "rank " + std::to_string(r) + " may hold " + std::to_string(limit) +
                   " bytes of activations, but one micro-batch takes " + std::to_string(one),
        .cure =
            "raise the limit, or lower what a micro-batch holds: batch.micro, or recompute with "
            "1f1b",
        .field = "schedule.activation_limit"};
  }
  return std::nullopt;
}

void generate_for(const Shape& s, const Costs& costs, Order& order) {
  const Limits limits = limits_of(s, costs);
  BestOrder best(costs, limits, order);
  generate_split(s, zb_h1_turns, best.candidate());
  const bool h1_fits = best.offer();
  if (h1_fits) best.ask_no_longer_than_best();
  generate_split(s, zb_h2_turns, best.candidate());
  best.offer();
  ZeroBubbleGreedy greedy(s, costs, limits);
  for (int i = 0; i < 8; ++i) {
    greedy.by_rounds({.eager = (i & 1) != 0, .skip = (i & 2) != 0, .greedy = (i & 4) != 0},
                     best.candidate());
    ERATOS_CHECK(best.offer());
  }
  if (h1_fits) return;
  for (const bool patient : {false, true}) {
    greedy.as_inputs_come(patient, best.candidate());
    ERATOS_CHECK(best.offer());
  }
}

// A rank holds at most `carried` micro-batches between F and B, so each turn of one of them from
// here down to the last rank and back carries no more than those.
Picoseconds lower(const Shape& s, const Costs& costs) {
  const std::int64_t m = s.micro_batches;
  const Limits limits = limits_of(s, costs);
  Picoseconds best = 0;
  Picoseconds turn = 0;
  for (int r = 0; r < s.pp; ++r) {
    const ChunkCost& c = costs.chunks[static_cast<std::size_t>(r)];
    turn += c.forward + c.input_gradient;
    if (r > 0) turn += send_forward(costs, r - 1) + send_backward(costs, r);
  }
  Picoseconds above = 0;  // fill and drain
  for (int r = 0; r < s.pp; ++r) {
    const ChunkCost& c = costs.chunks[static_cast<std::size_t>(r)];
    if (r > 0) {
      const ChunkCost& before = costs.chunks[static_cast<std::size_t>(r) - 1];
      const Picoseconds step = before.forward + before.input_gradient + send_forward(costs, r - 1) +
                               send_backward(costs, r);
      above += step;
      turn -= step;
    }
    const std::int64_t carried =
        c.held == 0 ? m : std::clamp<std::int64_t>(limits[r] / c.held, 1, m);
    const std::int64_t turns = (m - 1) / carried;
    best =
        std::max(best, above + turns * turn +
                           std::max(turn, (m - turns * carried) * (c.forward + c.input_gradient)));
  }
  // Rank 0 runs the last B of all, and a W after it.
  return best + costs.chunks[0].weight_gradient;
}

// zb-h1 is among the candidates. What its ranks hold at once: see micro_batches_for_peak there.
const Schedule* never_slower_than(const Shape& s, const Costs& costs) {
  const Limits limits = limits_of(s, costs);
  for (int r = 0; r < s.pp; ++r) {
    const ChunkCost& c = costs.chunks[static_cast<std::size_t>(r)];
    const std::int64_t most =
        std::max((s.pp - r) * c.held + r * c.kept, (s.pp - r - 1) * c.held + (r + 1) * c.kept);
    if (std::min(most, s.micro_batches * needs(c)) > limits[r]) return nullptr;
  }
  return &schedules::zb_h1;
}

}  // namespace

constinit const Schedule schedules::zb_auto = with_facts(
    parallel::schedule_facts::zb_auto,
    {
        .what = "zero bubble found by a greedy rule from every stage's times, within a limit of memory",
        .refusal = refuse,
        .refusal_for = refuse_limits,
        .generate_for = generate_for,
        .lower = lower,
        .never_slower_than = never_slower_than,
    });

}  // namespace eratos::schedule
