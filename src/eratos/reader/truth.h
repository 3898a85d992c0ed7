// One line of a CSV of measured runs: the job that was run, and what was measured of it.
//
// Answers "which JobSpec is this row, and with which of its figures can a projection be compared?".
// The columns are described in docs/USING.md, validate. What a source means by its words (its
// framework's profile, its network, its kind of gigabyte, its way of counting FLOPs) is data:
// data/framework_aliases.csv, run_clusters.csv, run_memory.csv, run_flops.csv, run_notes.csv,
// run_defaults.csv (what a row leaves unsaid), run_recompute.csv, families.csv.
//
// Worked example: a row with framework `nanotron v0.5`, gpu `h100-sxm`, num_gpus 16, tp 1, pp 2,
// mbs 1, gbs 256, seq_len 4096, tokens_per_s_per_gpu 36497 and peak_memory_gb 19.4 is a job of 16
// H100 on the cluster aws-p5-2x8 with dp 8; its memory is 19.4 GiB allocated on pipeline rank 0.
//
// A row that cannot be projected is never dropped: it comes back as Unusable, with the missing
// field or the missing part of the model named.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/job/job.h"
#include "eratos/projection/projection.h"
#include "eratos/text/csv.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

enum class MemoryKind { allocated, reserved, device };
std::string_view name_of(MemoryKind kind);

// Which figure of the row speaks for its speed, best first.
enum class SpeedFrom { none, tokens_per_s_per_gpu, step_time_s, mfu, tflops_per_gpu };
std::string_view name_of(SpeedFrom from);

// How a source counts the FLOPs behind its MFU or TFLOPS.
struct FlopCount {
  projection::FlopConvention attention = projection::FlopConvention::causal;
  bool embeddings = false;  // 6 N with the input embedding, too
  bool recompute = false;   // a recomputed forward pass counts
};

struct Measured {
  SpeedFrom from = SpeedFrom::none;
  double tokens_per_s_per_gpu = 0;  // from the tokens or the step time
  double mfu = 0;                   // as stated, whatever `from` is; 0 where it is not
  double tflops_per_gpu = 0;
  FlopCount flops;

  Bytes memory;  // 0: not stated
  MemoryKind memory_kind = MemoryKind::allocated;
  bool first_stage = false;  // of pipeline rank 0 instead of the worst rank

  std::string outcome;  // "fits", "oom", or "" outside feasibility files
};

struct RunName {
  std::string id;
  std::string framework;  // as the row has it
  std::string gpu;
  std::string model;
  std::string source;   // as the row has it; "" where the file has no such column
  std::string family;   // data/families.csv
  std::string suspect;  // why its time should not be judged; "" for most
  int line = 0;
};

struct Run {
  RunName name;
  job::JobSpec spec;
  Measured measured;
};

struct Unusable {
  RunName name;
  std::string reason;  // one of few, to be counted: "gbs not stated", "precision not modelled"
  std::string detail;  // what exactly
};

// Rows of one CSV, one at a time. Caches what rows share.
class RunReader {
 public:
  // `models`: trees of architecture files, searched in order before the catalogue. Both outlive
  // this. Errors: a column that every file of this kind has is missing.
  static Result<RunReader> make(const text::CsvTable& table, const std::vector<text::Node>& models);

  tl::expected<Run, Unusable> read(std::size_t row);

  RunReader(RunReader&&) noexcept;
  RunReader& operator=(RunReader&&) noexcept;
  ~RunReader();

 private:
  struct State;
  explicit RunReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace eratos::reader
