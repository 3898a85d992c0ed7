// Measured runs as a fit: which constants each row's projection reads, where they start, and the
// projection of a row with other values.
//
// Two owners' views. A user's own runs (`calibrate`): every constant belongs to the part and the
// profile that the row names, and starts at the value in effect. The catalogue's own (`calibrate
// --shipped`, `validate --left-out`): a constant belongs to the file that states it, and starts at
// its class's (data/priors.csv), which no run has touched.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "apps/measured_runs.h"
#include "eratos/calibration/fit.h"
#include "eratos/calibration/parameters.h"

namespace eratos::apps {

// One constant of one owner.
struct FittedConstant {
  const calibration::Parameter* parameter = nullptr;
  std::string owner;  // "megatron@2026.06", "h100-sxm"
  double before = 0;  // in effect
  double prior = 0;
  double spread = 0;  // of the prior: the class's, or the parameter's
  bool of_class = false;  // where its members start; no row reads it, nobody owns it

  std::string name() const { return owner + " " + std::string(parameter->path); }
};

enum class FitOf { users_own, catalogue };

class RunFit {
 public:
  // Rows of `measured` with a measured speed that are not suspect; those of a stated MFU below
  // `least_mfu` are judged and not fitted. Of these, the ones that `takes` (by index into
  // measured.runs; all where it is empty), each id once. `measured` outlives this; the profiles of
  // its runs are written while a fit evaluates.
  RunFit(MeasuredRuns& measured, FitOf of, double least_mfu,
         const std::function<bool(std::size_t)>& takes = {});
  RunFit(const RunFit&) = delete;
  RunFit& operator=(const RunFit&) = delete;

  const std::vector<FittedConstant>& constants() const { return constants_; }
  const calibration::FitProblem& problem() const { return problem_; }
  // Constants that a file states; classes are not among them.
  int free_parameters() const;
  // Index into measured.runs of each row of the problem.
  const std::vector<std::size_t>& runs() const { return runs_; }
  const std::vector<std::string>& sources() const { return sources_; }

  // Adds what is not known of a constant where this starts to the spread of its prior.
  void widen(std::size_t constant, double uncertainty);
  // Keeps a constant where this starts.
  void hold(std::size_t constant);

  // Writes what the row reads of `values` into its profile and the calibration of its part.
  void put(const std::vector<double>& values, std::size_t row);

  // ln(projected / measured) of one row at x, on `workspace`'s thread; NaN where it has no step.
  void evaluate(std::span<const double> x, std::span<const calibration::Probe> probes,
                std::span<double> out) const;

 private:
  void add_row(std::size_t run, bool counts);
  int constant_of(FittedConstant constant);
  int class_of(const FittedConstant& of_class);  // its index
  void framework_constants(const job::JobSpec& spec, calibration::FitRow& row);
  void part_constants(const job::JobSpec& spec, calibration::FitRow& row);
  // "" where no file states it. A user's own parts that share a measured curve share its constants,
  // as the overlay that is written of it speaks of both.
  std::string part_owner(const std::string& part, const std::string& path);

  MeasuredRuns* measured_;
  FitOf of_;
  std::vector<FittedConstant> constants_;
  std::map<std::string, int> index_;    // by name()
  std::map<std::string, int> sources_by_name_;
  std::vector<std::string> sources_;
  std::set<std::string> parts_;  // of the rows
  std::vector<std::size_t> runs_;
  calibration::FitProblem problem_;
  std::map<std::string, std::string> owners_;  // of "profile path" and "part path"; "" none
};


}  // namespace eratos::apps
