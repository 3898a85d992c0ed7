// Numbers learned from measurement, as a value: what parts and links sustain, not what their
// data sheets say. Filled from data/calibrations (each number with its source; the schema is
// data/calibrations/README.md); read by rooms kernel, collective and memory.
//
// Worked example: an H100 SXM multiplies large bf16 matrices at 789 TFLOP/s alone (0.80 of peak)
// and at about 610 TFLOP/s inside a training step (factor 0.77).
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "eratos/base/dtype.h"
#include "eratos/base/units.h"
#include "eratos/calibration/residuals.h"

namespace eratos::calibration {

// Tile-wave GEMM constants of one part and format: t = t0 + max(waves * (tile time + tau),
// bytes / (memory * BW)) + split-K cost. Source of the form: NVIDIA matrix guide DU-09799 and the
// fit described in docs/MODEL.md.
struct GemmCurve {
  double peak_fraction = 0;  // e_max: largest tile's share of the data-sheet peak, alone
  double in_training = 1;    // factor on it inside a training step
  // Efficiency of tiles of 256x128, 128x128, 128x64 and 64x64 against the first (not against
  // one another).
  std::array<double, 4> tile{1, 1, 1, 1};
  bool wide_tile = false;  // 256x256 exists as well, as efficient as 256x128
  double grouped = 1;      // rate of a grouped GEMM against one dense GEMM of the same tiles
  double memory = 0.75;    // share of nominal HBM bandwidth
  Seconds tile_overhead;   // tau, per wave of full 256x128 tiles
  Seconds launch;          // t0
  Seconds split_launch;    // t_k
  std::string source;
};

// R(S) = rate / ((1 + s0 / S) (1 + fill * units / blocks)), blocks = ceil(S_q / 128) * batch *
// heads; R in FLOP/s of the counted (causal-halved) FLOPs. s0 is fixed work per row, fill the tail
// when blocks are few: 4 heads of 4096 tokens leave most of a B200 idle.
struct AttentionCurve {
  std::string kernel;  // flash2, flash3, flash4, cudnn, aiter, hipkittens, ...
  bool backward = false;
  bool causal = true;
  int head_dim = 128;
  DType dtype = DType::bf16;
  FlopsPerSecond rate;
  double s0 = 0;    // tokens
  double fill = 0;  // waves lost at the tail
  std::string source;
};

// Products by another library than the frameworks of training call (a serving engine's fp4 kernels,
// a research kernel): priced only where a measurement names the library.
struct LibraryGemm {
  std::string library;
  DType dtype = DType::bf16;
  GemmCurve curve;
};

// A library's kernel that casts to fewer bits before a product, alone: launch + traffic / (share BW).
struct CastCurve {
  std::string kernel;
  double share = 0.5;  // of nominal memory bandwidth, of the least traffic
  Seconds launch;
  std::string source;
};

// What attention kernels reach on one part.
struct AttentionTable {
  std::vector<AttentionCurve> curves;
  std::string default_kernel;  // used where the framework's kernel has no row for the part
  bool adds_to_kin = false;    // the kin's kernels come along beside these
  double head_dim_64 = 0.82;   // rate at head dim 64 against 128, where a kernel has no own row
  double mla = 0.85;           // factor when Q, K and V have different head dims
  std::string source;
};

// Share of nominal bandwidth and fixed time of memory-bound kernels by class (ops::ElementwiseClass
// order), alone; 0: unknown.
struct ElementwiseCurve {
  std::array<double, 6> share{};
  Seconds launch;
  std::string source;
};

// t = alpha + factor * bytes / busbw + gamma * sqrt(bytes), per collective and group size, one
// domain of the scale-up level. factor is 2(n-1)/n for all-reduce, (n-1)/n for all-gather,
// reduce-scatter and all-to-all, 1 for send/recv. Source of the form: docs/MODEL.md, collectives.
// Several rows of one kind, algorithm and group that differ in `from` are one curve in pieces, each
// up to where the next begins: the library's protocols (LL, LL128, Simple). A message takes no less
// than the largest of each earlier piece, so that the curve never falls.
struct CollectiveCurve {
  std::string kind;       // all_reduce, all_gather, reduce_scatter, all_to_all, send_recv
  std::string algorithm;  // ring, in_switch, mesh, pairwise, direct
  int gpus = 8;
  Seconds alpha;
  BytesPerSecond busbw;
  double gamma = 0;  // s / sqrt(byte)
  std::string source;
  // Scale-up domains that the group spans. Beyond 1 the row stands for groups of just this size and
  // spread, in place of what the algorithms across domains take.
  int domains = 1;
  Bytes from;  // smallest message of the piece
};

// Most rows of one part that are pieces of curves, or of a spread of their own.
inline constexpr int kMostCurvePieces = 96;

// Links beyond the scale-up domain: t = steps * alpha + factor * bytes / (share * NIC rate) +
// gamma * sqrt(bytes).
struct NetworkCurve {
  double share = 0;  // of the nominal NIC rate that a group of two nodes reaches; 0: unknown
  Seconds alpha;     // one network step
  double gamma = 0;  // s / sqrt(byte of one rank's network traffic)
  std::string source;
};

// What widens the band of a part that nobody has run yet (borrow.h).
struct Unmeasured {
  double widening = 0;  // added to either side of the step's band
  std::string basis;    // "" for a part with measurements of its own
};

// A section of a calibration that is another part's.
struct Borrowing {
  enum class Section { matrix, attention, memory_bound, collective, network };
  Section section = Section::matrix;
  DType dtype = DType::bf16;  // of a matrix section
  std::string text;           // one sentence
};

// Everything known about one part.
struct PartCalibration {
  std::string part;      // accelerator name
  std::string borrowed;  // nearest kin, which fills what is missing here (borrow.h); "" when none
  std::array<GemmCurve, 10> gemm{};  // by DType; peak_fraction 0: unknown
  std::vector<LibraryGemm> libraries;  // further products
  std::vector<CastCurve> casts;
  AttentionTable attention;
  ElementwiseCurve elementwise;
  std::vector<CollectiveCurve> collectives;  // inside the scale-up domain
  NetworkCurve network;
  std::string source;
  std::vector<Borrowing> statements;  // one for every section taken from kin

  const GemmCurve& gemm_of(DType t) const { return gemm[static_cast<std::size_t>(t)]; }
};

struct Calibration {
  std::string name;
  PartCalibration part;
  std::vector<ErrorClass> errors;  // of runs, the most specific class first
  Unmeasured unmeasured;
};

}  // namespace eratos::calibration
