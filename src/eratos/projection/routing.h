// Uneven routing as memory and time see it: the load of the busiest rank, and how likely a run is to
// need more memory than there is.
//
// Letters: e ranks of an expert-parallel group, L expert layers of a pipeline rank, f micro-batches in
// flight on it, K and T the bytes of the peak that a unit of load adds to kept tensors and to the working
// set of one layer, v and c the variances of popularity and of chance (ops/load.h).
//
// What is kept averages over layers, and as far as chance goes over micro-batches:
//   variance that stays     v (K^2/L + 2 K T/L + T^2), of a Gamma load
//   variance that is new    c (K^2/(L f) + 2 K T/(L f) + T^2), normal
// A rank that holds D (load 1) + (K + T)(load - 1) + new stays below x in n micro-batch windows with
// the probability that the load that stays, with the variance of the largest of n new ones, leaves room for
// their mean; the job does when its e ranks of every stage do. n counts expert-data-parallel replicas and
// windows of f micro-batches.
// Worked example: K 10 GB, T 0, L 4, f 1, v 0.04, c 0: the load's deviation is 10 %; 1 GB a rank, and of 8
// ranks the highest exceeds 1.37 GB above the mean in half of all runs.
// Assumes: popularity stays for a run, every layer has its own, and ranks are independent.
#pragma once

#include "eratos/ops/load.h"
#include "eratos/projection/projection.h"

namespace eratos::projection {

// Loads of the ranks that share the job's experts; even where the job routes so.
ops::LoadSpread spread_of(const job::CheckedJob& job);

// One pipeline rank: its device peak at load 1 and what a unit of load adds.
struct StageLoad {
  Bytes even;
  Bytes kept;
  Bytes transient;
  double layers = 1;     // L
  double in_flight = 1;  // f
};

// Probability that none of the ranks of a stage exceeds `limit` in any of `windows` windows.
double stays_below(Bytes limit, const StageLoad& stage, const ops::LoadSpread& spread, int ranks,
                   double windows);

// Fills `out`: `at_peak` is the load of the median peak. Needs w.peaks and a prepared job.
// `briefly`: only what a screen needs (step_p50, at_peak, run_oom). Allocation: none when `w` is warm.
void uneven_memory(const job::CheckedJob& job, const ops::LoadSpread& spread, const Options& options,
                   bool briefly, Workspace& w, RoutingAnswer& out);

// Does a run stay within the memory, in at least 99 of 100?
bool enough(const RoutingAnswer& routing);

}  // namespace eratos::projection
