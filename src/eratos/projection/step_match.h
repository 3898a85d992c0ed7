// Which op of the program each kernel of a traced step was, and what the model says of it.
//
// Answers "is the model right about this step, op by op?". A step of one rank is its programs' ops,
// each as often as its layers and micro-batches say, and the once-a-step ops. Kernels are matched
//   by shape  products, attention and messages whose sizes were recorded: the same sizes and the
//   same
//             direction (forward or backward) are the same op; a weight's gradient may be
//             transposed
//   by order  a trace without shapes whose products and attentions are as many, in the same order
//   of
//             kinds, as the program's: the n-th is the n-th
//   by class  norms, activations, ...: all of a kind and direction together
// or not at all: then they are listed by name. Ops that do the same work (equal sizes, format and
// direction) are one row, whichever modules they belong to.
//
// Worked example: Llama 3.1 8B at 2 layers and 4 micro-batches asks for 8 forward products of
// m4096 n6144 k4096; a trace has 8 kernels launched by aten::mm of [4096, 4096] and [4096, 6144]
// that take 0.31 ms each where the model says 0.29 ms: found 8 of 8, +7 %.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "eratos/calibration/measured.h"
#include "eratos/projection/projection.h"
#include "eratos/projection/step_account.h"

namespace eratos::projection {

enum class MatchedBy : std::uint8_t { shape, order, kind, nothing };
std::string_view name_of(MatchedBy by);

struct MatchRow {
  std::string what;     // "gemm m4096 n6144 k4096"
  std::string modules;  // "qkv", or several that do the same work
  std::string pass;     // forward, dgrad, wgrad, backward, step
  MatchedBy by = MatchedBy::nothing;
  double expected = 0;          // times a step, by the program
  double modelled = 0;          // seconds a step
  std::size_t found = 0;        // times in the trace
  Nanoseconds own = 0;          // of the step (StepAccount::own): rows add up
  double median = 0;            // seconds of one, whole
  std::vector<double> samples;  // of by-shape rows: seconds of each, at most kMostSamples
  std::optional<calibration::Piece> piece;  // of by-shape rows: what was measured

  // measured / modelled - 1 of one; 0 where either is missing.
  double error() const;
  double modelled_each() const { return expected > 0 ? modelled / expected : 0; }
};
inline constexpr std::size_t kMostSamples = 256;

// A kernel of no row, by name.
struct UnmatchedKernel {
  std::string name;
  KernelClass kind = KernelClass::unknown;
  std::string shape;  // of a product that the program does not have; "" else
  std::size_t count = 0;
  Nanoseconds own = 0;
};

struct ModuleRow {
  std::string name;  // attention, mlp, moe, norm, embedding, output, loss, optimizer
  Nanoseconds own = 0;
  double modelled = 0;  // seconds a step
};

struct StepMatch {
  int stage = 0;                           // pipeline rank that the trace is compared with
  std::vector<MatchRow> rows;              // by time of the step, matched ones first
  std::vector<UnmatchedKernel> unmatched;  // by time of the step
  std::vector<ModuleRow> modules;          // where the trace names them
  Nanoseconds matched = 0;                 // by shape or order
  Nanoseconds by_kind = 0;
  Nanoseconds unattributed = 0;  // busy, of no row
  // Kernels that the model has, by class, in seconds a step; communication before overlap.
  std::array<double, static_cast<std::size_t>(KernelClass::count_)> modelled{};
};

// The step of pipeline rank `stage`. The workspace is the job's after project().
StepMatch match_step(const TracedStep& step, const StepAccount& account, const job::CheckedJob& job,
                     const calibration::Calibration& calibration, int stage, Workspace& w);

// The pipeline rank of rank `rank` of the job; 0 for an unknown one.
int stage_of_rank(const job::CheckedJob& job, int rank);

// Rows that were matched by shape, as measured pieces; `found` runs of one step.
std::vector<calibration::MeasuredPiece> pieces_of(const StepMatch& match);

}  // namespace eratos::projection
