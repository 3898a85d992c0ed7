// Runs projected from a smaller measured one of the same model: errors, beside those without it.
//
// error = projected / measured - 1, of throughput and of peak memory, as in accuracy.h.
//
// Worked example: of a run that was measured at 16,186 tokens/s/GPU, projected at 15,600 by itself
// and at 16,243 from its anchor, unanchored is -0.036 and error 0.0035.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "eratos/calibration/residuals.h"
#include "eratos/report/accuracy.h"
#include "eratos/report/table.h"

namespace eratos::report {

struct AnchoredRow {
  std::string id;
  std::string anchor;  // id of the run that it is projected from
  std::string file;
  std::string source;
  std::string family;
  std::string gpu;
  std::string model;
  int gpus = 0;
  int anchor_gpus = 0;
  std::vector<std::string> differs;  // fields of the job, cluster, global batch and name apart
  double error = 0;                  // of throughput
  double unanchored = 0;
  std::string memory_kind;
  std::optional<double> memory_error;
  std::optional<double> memory_unanchored;
  bool in_band = false;  // the printed band holds the measured step
  calibration::Likeness like;
};

struct AnchoredGroup {
  int anchors = 0;
  ErrorSummary error;
  ErrorSummary unanchored;
  ErrorSummary memory;
  ErrorSummary memory_unanchored;
};

struct AnchoredAccuracy {
  AnchoredGroup all;
  AnchoredGroup same_layout;  // rows that differ from their anchor in nothing
  AnchoredGroup other_layout;
  std::map<std::string, AnchoredGroup> by_source;
};
AnchoredAccuracy summarise(const std::vector<AnchoredRow>& rows);

std::string anchored_text(const std::vector<AnchoredRow>& rows, const Style& style);
std::string anchored_json(const std::vector<AnchoredRow>& rows, const std::string& version);
std::string anchored_csv(const std::vector<AnchoredRow>& rows);

}  // namespace eratos::report
