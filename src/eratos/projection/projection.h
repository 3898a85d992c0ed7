// The answer: does the job fit, how fast is it, and what is each number made of.
//
// Two entries. screen() decides by exact memory and a proven lower bound of the step, allocates
// nothing once its workspace is warm, and is what a search calls. project() simulates in full.
//
// Both are pure functions of (checked job, calibration). Source of every model: docs/MODEL.md.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "eratos/base/units.h"
#include "eratos/calibration/calibration.h"
#include "eratos/job/job.h"
#include "eratos/memory/memory.h"
#include "eratos/ops/stage.h"

namespace eratos::projection {

// Something the reader of the answer must know: what is not modelled, borrowed or assumed.
struct Warning {
  std::string code;  // kebab-case, stable
  std::string message;
};

struct ParameterAnswer {
  double total = 0;
  double active = 0;
  std::vector<double> per_stage;  // local parameters of one rank of each pipeline stage
};

// What uneven routing does to the most loaded rank (docs/MODEL.md, routing). All ranks of the job, one
// step or `run_steps` of them; loads are rows against equal shares.
struct RoutingAnswer {
  bool even = true;     // every rank receives the same rows: the rest says nothing then
  double most = 1;      // mean load of the most loaded rank of an expert-parallel group: sets the time
  double at_peak = 1;   // load that the table of memory is drawn for: that of p50
  int run_steps = 1000;
  // Highest device peak of any rank, by its distribution.
  Bytes step_p50;
  Bytes step_p99;
  Bytes run_p50;
  Bytes run_p99;
  // Probability that it exceeds the capacity less the margin.
  double step_oom = 0;
  double run_oom = 0;
};

struct MemoryAnswer {
  bool fits = false;  // with uneven routing: a run of `run_steps` ends without running out, in 99 of 100
  Bytes capacity;
  double margin = 0.05;
  Bytes allocated_peak;
  Bytes reserved_peak;
  Bytes device_peak;
  Bytes least_peak;  // what a rank cannot do without: `fits` asks for it
  int peak_stage = 0;
  RoutingAnswer routing;
  std::vector<memory::StageMemory> stages;
  // Kept bytes by module on the peak stage, all micro-batches in flight, indexed by ops::Module.
  std::vector<Bytes> saved_by_module;
};

struct ExposedTime {
  Seconds tp, cp, ep, pp, dp;
  Seconds host;  // activations copied to the host and back
  Seconds total() const { return tp + cp + ep + pp + dp + host; }
};

struct TimeAnswer {
  Seconds step;
  // Parts on the critical rank; they sum to `step`.
  Seconds compute;
  Seconds bubble;
  Seconds optimizer;
  Seconds launch;
  ExposedTime exposed;
  int critical_stage = 0;
  // An accelerator computes: kernels of its passes and the update, in the mean over pipeline ranks.
  Seconds busy;
  std::array<Seconds, static_cast<std::size_t>(ops::Module::count_)> by_module{};  // whole step
  std::vector<Seconds> stage_forward;   // one micro-batch, all chunks of a rank
  std::vector<Seconds> stage_backward;
  double bubble_ratio() const { return step.value > 0 ? bubble / step : 0; }
};

struct ThroughputAnswer {
  double tokens_per_s_per_gpu = 0;
  double tokens_per_s = 0;
  double samples_per_s = 0;
  FlopsPerSecond model_flops_per_gpu;
  FlopsPerSecond hardware_flops_per_gpu;
  double mfu = 0;
  double hfu = 0;
};

struct Confidence {
  std::pair<Seconds, Seconds> step;
  std::pair<Bytes, Bytes> peak;
  std::string basis;
};

struct Projection {
  ParameterAnswer parameters;
  MemoryAnswer memory;
  TimeAnswer time;
  ThroughputAnswer throughput;
  Confidence confidence;
  std::string calibration;  // name and source of the calibration used
  std::vector<Warning> warnings;
};

struct Options {
  double memory_margin = 0.05;  // share of capacity left free before `fits` says yes
};

struct Workspace;  // buffers that are kept between calls; one a thread
struct WorkspaceDeleter {
  void operator()(Workspace* w) const;
};
using WorkspacePtr = std::unique_ptr<Workspace, WorkspaceDeleter>;
WorkspacePtr make_workspace();

// What the job's schedule itself forbids: too few micro-batches, an odd pp, ... job::check() does not
// know orders.
Diagnostics schedule_faults(const job::CheckedJob& job);

// What a search needs first. Allocation: none when `w` is warm.
struct Screen {
  bool fits = false;
  Bytes device_peak;
  Bytes least_peak;
  int peak_stage = 0;
  Seconds step_lower_bound;  // proven: project() never answers less
  Seconds busy_lower_bound;  // nor a TimeAnswer::busy below this
};
Screen screen(const job::CheckedJob& job, const calibration::Calibration& calibration,
              const Options& options, Workspace& w);

Projection project(const job::CheckedJob& job, const calibration::Calibration& calibration,
                   const Options& options, Workspace& w);

// One number of the answer as a tree: formula, inputs, source.
struct Explanation {
  std::string key;      // path in the JSON answer, or the name of an input
  std::string value;    // with its unit
  std::string formula;  // in the letters of docs/NOTATION.md; "" for a leaf
  std::string source;
  std::string kind;     // measured | calibrated | analytic | assumed | input
  std::vector<Explanation> inputs;
};

// Errors: an unknown key answers with the nearest known ones.
Result<Explanation> explain(const job::CheckedJob& job,
                            const calibration::Calibration& calibration, const Options& options,
                            const std::string& key, Workspace& w);
std::vector<std::string> explainable_keys();

// Throughput conventions, one function each. Sources in conventions.cpp.
// FLOPs of one training token, forward and backward, no recompute.
enum class FlopConvention { causal, full_attention };
double model_flops_per_token(const model::Architecture& a, double sequence, FlopConvention c,
                             double vocab);

}  // namespace eratos::projection
