// One training step of one accelerator as a profiler recorded it: a value, whoever read it.
//
// Answers "which kernels ran when, who launched them, and for what?". Filled by reader/kineto.h;
// read by step_account.h (where did the time go) and step_match.h (which op of the program was
// that).
//
// Times are whole nanoseconds since the trace's own zero: what a profiler writes (microseconds with
// three decimals at most) is exact in them, so that parts add up to the step to the last one.
//
// Worked example: a kernel of name ampere_bf16_s16816gemm... from 10.000 to 12.500 us, launched at
// 4.000 us by aten::mm of [4096, 4096] and [4096, 1024], is {start 10000, end 12500, launched
// 4000}, kind gemm, whose op has dims {{4096, 4096}, {4096, 1024}}.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/ops/ops.h"

namespace eratos::projection {

using Nanoseconds = std::int64_t;

// What a kernel's name says that it does (data/kernel_classes.csv).
enum class KernelClass : std::uint8_t {
  gemm,
  gemm_part,  // what a product needs beside its kernel: split-K sums, epilogues
  attention,
  norm,
  activation,
  rotary,
  loss,
  embedding,
  optimizer,
  permute,
  router,
  scan,
  convolution,
  quantize,
  elementwise,
  reduction,
  random,
  unknown,
  communication,
  copy,  // between memories
  fill,
  count_,
};
std::string_view name_of(KernelClass kind);

// A host op that launched a kernel, or holds one that did.
struct TracedOp {
  std::string name;  // aten::mm
  int parent = -1;   // index of the op around it; -1: none
  bool backward = false;
  std::vector<std::vector<double>> dims;  // of each input, where shapes were recorded
  std::vector<std::string> types;         // c10::BFloat16
};

// What a communication kernel moves, where the trace says it.
struct TracedMessage {
  bool known = false;  // kind
  ops::CollectiveKind kind = ops::CollectiveKind::all_reduce;
  double bytes = 0;  // as ops::Collective counts; 0: not recorded
  int ranks = 0;     // 0: not recorded
};

struct TracedKernel {
  std::string name;
  KernelClass kind = KernelClass::unknown;
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  Nanoseconds launched = -1;  // start of the host's call; -1: not recorded
  std::int64_t stream = 0;
  int op = -1;      // index into TracedStep::ops; -1: not recorded
  int module = -1;  // index into TracedStep::modules; -1: none
  bool backward = false;
  TracedMessage message;  // of a communication kernel
};

// How the step's window was found.
enum class StepWindow : std::uint8_t {
  device,  // from its first kernel on the stream that computes most to the next step's first there
  host,    // the host's annotation, and on to the last kernel that it launched
  whole,   // the trace has no steps: from its first kernel to its last
};

struct TracedStep {
  std::string file;
  std::string device;  // the driver's name of it; "" where the trace has none
  std::int64_t device_id = 0;
  int rank = -1;  // of the job; -1: not said
  int world = 0;
  std::int64_t number = -1;         // of ProfilerStep#N; -1: no steps
  std::vector<std::int64_t> steps;  // that the trace has
  StepWindow window = StepWindow::whole;
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  // On this device and within the window at least in part, by start.
  std::vector<TracedKernel> kernels;
  std::vector<TracedOp> ops;
  std::vector<std::string> modules;
  bool shapes = false;             // some op has recorded shapes
  std::vector<std::string> notes;  // what of the trace was left out, and why

  Nanoseconds length() const { return end - begin; }
};

}  // namespace eratos::projection
