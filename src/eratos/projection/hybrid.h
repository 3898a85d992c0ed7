// A step out of measured and modelled parts, and what each of them is worth.
//
// Answers "how fast is this job, given what a device took for its pieces; and how much of the
// answer is measurement?". Prices are those of measured_prices.h; the schedule, overlap and
// once-a-step parts are simulated from them as from modelled ones.
//
// Shares: each part of the critical rank's step by who says how long it takes. Idle time and idle
// launches follow from the passes, and are theirs in proportion; shares add up to 1.
//
// Band: let e_o be the deviation of origin o, f_o its share, e the half width of the class of runs
// that the band of a simulation is taken from. Errors of one origin lean the same way, those of
// different origins do not know of one another:
//   narrowing = min(1, sqrt(sum_o (f_o e_o)^2) / e), modelled parts with e_o = e.
// Source: variance of a sum of independent terms. Worked example: 80 % measured at 0.03, 20 %
// modelled at 0.10: sqrt(0.024^2 + 0.02^2) / 0.10 = 0.31: a band of -10..+10 % becomes one of
// -3.1..+3.1 %.
//
// Memory: a small job that was run (downscale.h) against the model of the same small job gives the
// allocator's reserve and what the device holds beyond it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "eratos/calibration/measured.h"
#include "eratos/projection/downscale.h"
#include "eratos/projection/measured_prices.h"
#include "eratos/projection/projection.h"

namespace eratos::projection {

// One pass of a measured module on the critical rank, all of its runs in a step.
struct SpanRow {
  std::string module;  // name of the program: "dense layer", "output", ...
  std::string id;
  bool backward = false;
  double count = 0;
  Seconds measured;  // one run
  Seconds kernels;   // the same ops one by one
  Origin origin = Origin::measured;
};

// A term of the way from what ran on a device to the whole step; all of them sum to the step.
struct RestoredTerm {
  std::string what;
  double from = 0;
  double to = 0;
  Seconds seconds;
  std::string how;
};

// Peaks of the small job, as it ran and by the model.
struct MemoryAnchor {
  int phases = 0;  // of the file that are the small job's; 0: no anchor
  Bytes measured_allocated;
  Bytes measured_reserved;  // 0: the device program knows of no reserve
  Bytes measured_context;
  Bytes modelled_allocated;
  Bytes modelled_reserved;
  Bytes modelled_context;
  // Of the job: device peak with the allocator and context as measured, and the most that the
  // measured differences allow.
  Bytes device_peak;
  Bytes upper_bound;
};

struct HybridAnswer {
  std::array<double, kOrigins> share{};  // of the step, by Origin; they sum to 1
  std::array<double, kOrigins> error{};  // deviation of each, where it has a share
  double narrowing = 1;                  // of the step's band against the simulation's
  Seconds unattributed;                  // of measured modules beyond their kernels, critical rank
  std::vector<SpanRow> spans;
  std::vector<Family> families;  // that the job uses
  std::vector<Interpolation> interpolations;
  std::vector<RestoredTerm> restored;
  MemoryAnchor memory;
  std::size_t pieces = 0;   // of the file
  std::size_t matched = 0;  // of them, that this job uses
  calibration::MeasuredProvenance provenance;
};

struct HybridProjection {
  Projection simulated;   // as without measurements
  Projection projection;  // with them
  HybridAnswer hybrid;
};

// Was it measured on this part? The part's first word stands in the device's name: "h100-sxm" of
// "NVIDIA H100 80GB HBM3". Of a processor: is the part one ("cpu-...")?
bool measured_on(const calibration::MeasuredProvenance& provenance, const std::string& part);

HybridProjection project(const job::CheckedJob& job, const calibration::Calibration& calibration,
                         const calibration::Measured& measured, const Options& options,
                         Workspace& w);

}  // namespace eratos::projection
