// Projections beside measured runs: errors, their summaries, and what could not be compared.
//
// error = projected / measured - 1, of throughput (so +10% says the projection is too fast) and of
// memory. Percentiles interpolate linearly between the two nearest rows.
//
// Worked example: errors -0.1, 0.0, 0.3 have n 3, median_abs 0.1, p90_abs 0.26, mean 0.0667,
// within_10 0.667 (both ends of 10% count as within).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "eratos/base/units.h"
#include "eratos/calibration/residuals.h"
#include "eratos/report/accuracy_picks.h"
#include "eratos/report/accuracy_ranking.h"
#include "eratos/report/table.h"

namespace eratos::report {

struct AccuracyRow {
  std::string file;
  int line = 0;
  std::string id;
  std::string family;
  std::string framework;  // the profile's name
  std::string gpu;
  std::string skipped;   // why, one of few; "" for a row that was projected
  std::string detail;    // of `skipped`
  std::string suspect;   // why its time should not be judged
  std::string excluded;  // why its throughput is not counted, though it was compared

  std::string from;  // the figure that speaks for its speed: "tokens_per_s_per_gpu", "mfu", ...
  double measured_speed = 0;  // that figure, in tokens/s/GPU where it is tokens or the step time
  double projected_speed = 0;
  double projected_step_s = 0;
  double projected_tokens = 0;  // tokens/s/GPU, whatever `from` is

  std::string memory_kind;
  Bytes measured_memory;   // 0: not stated
  Bytes projected_memory;  // of the kind and stage that the row states
  Bytes device_peak;       // of the worst stage
  Bytes capacity;

  // Runs of one source that differ in their schedule alone have the same `but_schedule`; "" without
  // a pipeline.
  std::string but_schedule;
  std::string schedule;

  // Runs that differ in their layout alone (accuracy_ranking.h) have the same `but_layout`, whose
  // first line is the name of what they share.
  std::string but_layout;
  std::string layout;  // equal for runs of one and the same job

  // The printed confidence bands, as multiples of the projected step and peak: {low, high}.
  std::pair<double, double> step_band;
  std::pair<double, double> memory_band;

  std::string source;  // as the row has it
  std::string model;
  calibration::Likeness like;  // what its errors may depend on

  // Errors of throughput by a fit from class priors (`validate --left-out`): of all rows; without
  // the row's source; without its group (one model on one accelerator of one source); without its
  // source but calibrated on a tenth of it, and the same for each of several draws of the tenth
  // that it is not in.
  std::optional<double> fit_to_all;
  std::optional<double> left_out_source;
  std::optional<double> left_out_group;
  std::optional<double> own;
  std::vector<double> own_draws;
  // What limits the fit without its source. By the kind of constant ("host"): the error, had
  // constants of that kind been known; and, by how many of the source's rows, the errors after a
  // calibration of that kind on so few.
  std::map<std::string, double> known;
  std::map<std::string, std::map<int, std::vector<double>>> few;

  std::string outcome;  // "fits", "oom", ""
  bool fits = false;    // projected

  bool ok() const { return skipped.empty(); }
  std::optional<double> throughput_error() const;
  std::optional<double> memory_error() const;
  // Nothing where nothing was measured. The ends belong to the band; that of memory is the worst
  // stage's on the device, and serves for what the row states in the same proportion.
  std::optional<bool> step_in_band() const;
  std::optional<bool> memory_in_band() const;
};

struct ErrorSummary {
  int n = 0;
  double median_abs = 0;
  double p90_abs = 0;
  double mean = 0;
  double within_10 = 0;           // share of rows
  std::optional<double> in_band;  // share of rows whose measured value the printed band holds
};
ErrorSummary summarise(const std::vector<double>& errors);

// Of values in ascending order.
double percentile(const std::vector<double>& ascending, double share);

struct Feasibility {
  int n_fits = 0;
  int n_oom = 0;
  int false_fits = 0;  // ran out of memory, and we say it fits
  int false_oom = 0;   // fitted, and we say it does not
};

// Pairs of runs of one source that differ in their schedule alone: are they in the right order, and
// is one's peak memory the right multiple of the other's?
struct SchedulePair {
  std::string a, b;           // ids
  double measured_speed = 0;  // b's over a's; 0: not measured, suspect, or no more than 3% apart
  double projected_speed = 0;
  double measured_memory = 0;  // the same of peaks; 0: not measured
  double projected_memory = 0;

  bool ordered() const { return (measured_speed > 1) == (projected_speed > 1); }
  // Within 5% of the measured ratio.
  bool close() const;
};
struct SchedulePairs {
  std::vector<SchedulePair> all;
  int speed_pairs = 0;
  int ordered = 0;
  int memory_pairs = 0;
  int close = 0;
};

struct Group {
  ErrorSummary throughput;  // rows that are not suspect and not excluded
  ErrorSummary left_out_source;  // of those, as AccuracyRow has them; n 0 where none was asked for
  ErrorSummary left_out_group;
  ErrorSummary own;
  ErrorSummary memory;      // all rows: a suspect time says nothing against the memory
};

struct Accuracy {
  int rows = 0;
  int projected = 0;
  Group all;
  ErrorSummary suspect;  // throughput of the suspect rows, apart
  Feasibility feasibility;
  std::map<std::string, int> skipped;  // by reason
  std::map<std::string, Group> by_gpu;
  std::map<std::string, Group> by_framework;
  std::map<std::string, Group> by_family;
  std::map<std::string, SchedulePairs> schedules;  // by family; only those that have pairs
  std::map<std::string, Ranking> ranking;          // by family; only those that have groups
  Picks picks;
};
Accuracy summarise(const std::vector<AccuracyRow>& rows);

std::string accuracy_text(const std::vector<AccuracyRow>& rows, const Style& style);
std::string accuracy_json(const std::vector<AccuracyRow>& rows, const std::string& version);
std::string accuracy_csv(const std::vector<AccuracyRow>& rows);

}  // namespace eratos::report
