// What was measured of pieces of work, on which device, by whom: a value, whoever measured it.
//
// Answers "how long did this piece take, and may one believe it?". Filled from MEASURED.json
// (reader/measured.h), by readers of profiler traces and of logs; read by projection/hybrid.h.
//
// Worked example: `gemm/forward/m4096/n11008/k4096/bf16` with samples of 0.62, 0.60, 0.61, 0.65 and
// 0.61 ms: median 0.61 ms, minimum 0.60 ms, spread (0.62 - 0.61) / 0.61 = 1.6 %.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "eratos/base/units.h"
#include "eratos/calibration/piece.h"

namespace eratos::calibration {

// The clocks, temperature and power that the device reported, where it reports any.
struct ClockState {
  double first_mhz = 0;  // 0: not known
  double last_mhz = 0;
  double most_celsius = 0;
  double most_watts = 0;

  friend bool operator==(const ClockState&, const ClockState&) = default;
};

struct MeasuredProvenance {
  std::string device;
  std::string device_kind;  // cpu | cuda
  std::string driver;
  std::string libtorch;
  std::string compiler;
  std::string commit;
  std::string host;
  std::string date_utc;
  int threads = 0;
  int ranks = 1;
  std::string backend;  // of collectives: gloo, nccl
  ClockState clock;
  double load_1min = 0;
  bool noisy = false;  // something else ran on the machine
  std::vector<std::string> notes;
  std::string source;  // eratos-device, import-trace, nccl-tests, gemm-csv, ...

  friend bool operator==(const MeasuredProvenance&, const MeasuredProvenance&) = default;
};

struct MeasuredPiece {
  Piece piece;
  Seconds median;
  Seconds minimum;
  double spread = 0;            // interquartile range / median
  std::vector<double> samples;  // s; raw
  int warmup = 0;
  double checked = -1;  // largest relative error against the reference; < 0: not checked
  Bytes peak;           // of device memory while it ran; 0: not known
  Bytes reserved;       // what the allocator held of the device then
  Bytes context;        // of the device beyond what the allocator held: context, libraries
  int line = 0;         // of its row in the file, for messages

  friend bool operator==(const MeasuredPiece&, const MeasuredPiece&) = default;
};

struct Unmeasurable {
  std::string id;
  std::string why;

  friend bool operator==(const Unmeasurable&, const Unmeasurable&) = default;
};

struct Measured {
  MeasuredProvenance provenance;
  std::string job;     // name of the job whose plan was measured; "" for none
  std::string digest;  // of that plan
  std::vector<MeasuredPiece> pieces;
  std::vector<Unmeasurable> unmeasured;

  friend bool operator==(const Measured&, const Measured&) = default;
};

// The piece of that id, or nullptr; a scan.
const MeasuredPiece* find(const Measured& m, const std::string& id);

// Fills median, minimum and spread from samples (linear quantiles between order statistics).
// Samples are not empty.
void summarise(std::span<const double> samples, MeasuredPiece& out);

// The q-th quantile of sorted values, linear between neighbours. Source: Hyndman and Fan 1996,
// type 7.
double quantile(std::span<const double> sorted, double q);

}  // namespace eratos::calibration
