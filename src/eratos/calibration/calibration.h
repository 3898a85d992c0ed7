// Numbers learned from measurement, as a value: what parts and links sustain, not what their
// data sheets say. Filled from data/calibrations (each number with its source); read by rooms
// kernel, collective and memory.
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

namespace eratos::calibration {

// Tile-wave GEMM constants of one part and format: t = t0 + max(waves * (tile time + tau),
// bytes / (memory * BW)) + split-K cost. Source of the form: NVIDIA matrix guide DU-09799 and the
// fit described in docs/MODEL.md.
struct GemmCurve {
  double peak_fraction = 0;         // e_max: largest tile's share of the data-sheet peak, alone
  double in_training = 1;           // factor on it inside a training step
  std::array<double, 4> tile{1, 1, 1, 1};  // relative efficiency of 256x128, 128x128, 128x64, 64x64
  double memory = 0.75;             // share of nominal HBM bandwidth
  Seconds tile_overhead;            // tau, per wave of full 256x128 tiles
  Seconds launch;                   // t0
  Seconds split_launch;             // t_k
};

// R(S) = rate / (1 + s0 / S); R in FLOP/s of the counted (causal-halved) FLOPs.
struct AttentionCurve {
  std::string kernel;  // flash2, flash3, cudnn, ck, unfused, ...
  bool backward = false;
  bool causal = true;
  int head_dim = 128;
  FlopsPerSecond rate;
  double s0 = 0;  // tokens
  std::string source;
};

// Share of nominal bandwidth and fixed time of memory-bound kernels by class (ops::ElementwiseClass
// order).
struct ElementwiseCurve {
  std::array<double, 6> share{};
  Seconds launch;
};

// t = alpha + factor * bytes / busbw + gamma * sqrt(bytes), per collective and group size, one
// domain of one level. Source of the form: docs/MODEL.md, collectives.
struct CollectiveCurve {
  std::string kind;  // all_reduce, all_gather, reduce_scatter, all_to_all, send_recv
  int gpus = 8;
  Seconds alpha;
  BytesPerSecond busbw;
  double gamma = 0;  // s / sqrt(byte)
  std::string source;
};

// Everything known about one part.
struct PartCalibration {
  std::string part;      // accelerator name
  std::string borrowed;  // nearest kin the numbers were taken from, "" when its own
  std::array<GemmCurve, 10> gemm{};  // by DType; peak_fraction 0: unknown
  std::vector<AttentionCurve> attention;
  ElementwiseCurve elementwise;
  std::vector<CollectiveCurve> collectives;  // inside the scale-up domain
  // Links beyond it: share of the nominal NIC rate that a group of two nodes reaches.
  double network_share = 0.9;
  Seconds network_alpha;  // fixed cost of one inter-node collective step
  std::string source;

  const GemmCurve& gemm_of(DType t) const { return gemm[static_cast<std::size_t>(t)]; }
};

// Residuals of the fit on comparable published rows: what the error band is made from.
struct Residuals {
  double step_low = -0.2;   // 10th percentile of projected / measured - 1
  double step_high = 0.2;   // 90th
  double peak_low = -0.1;
  double peak_high = 0.1;
  int rows = 0;
  std::string basis;
};

struct Calibration {
  std::string name;
  PartCalibration part;
  Residuals residuals;
};

}  // namespace eratos::calibration
