// Fits named constants to measured steps: robust, bounded least squares with a prior, pure and
// deterministic. The caller projects; this room never sees a job.
//
// Letters: x values of the constants, u = ln x, r = ln(projected / measured) of a row, J = dr/du,
// n the rows of a row's source.
//
// What is smallest at the answer:
//
//   sum over rows  n^(-1/2) rho(r / kNoise)  +  sum over constants  ((u - ln prior) / spread)^2
//
//   rho(z) = (f + 1) ln(1 + z^2 / f), f = kFreedom: minus twice the logarithm of Student's t
//
// n^(-1/2): a source of 900 rows weighs as much as 30 independent ones, since its rows share
// whatever is odd about their room. A constant that no row informs stays at its prior.
// A class is a constant that no row reads: its members' priors are its value, so what the rows say
// of some members moves where the others start.
// Source of the method: Levenberg-Marquardt on ln x with residuals reweighted for Student's t
// (Lange, Little and Taylor, Robust statistical modeling using the t distribution, JASA 84 (1989)
// 881), bounds by an active set.
// Source of kNoise and kFreedom: residuals of the runs on docs/ACCURACY.md have medians about 3%
// and 90th percentiles about 12%, four times as much, where a normal law has 2.4 times; t with two
// degrees of freedom has 0.82 and 2.92 of its scale: 3.3% and 11.7% at 4%. The same layout in
// several releases differs by 1.9% in the median and 13.7% at the 90th percentile: a heavier tail
// still.
//
// Worked example: one constant of prior 1 and spread 0.1, one row that asks for x = 1.1 and whose
// time is proportional to x, so r = u - ln 1.1. Where the slopes meet, 2 u / 0.1^2 = 6 (-r) /
// (2 0.04^2 + r^2): u = 0.0859, r = -0.0094; x = 1.0897.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace eratos::calibration {

inline constexpr double kNoise = 0.04;
inline constexpr double kFreedom = 2;

struct FitParameter {
  double prior = 1;     // > 0
  int under = -1;       // its prior is this constant's value instead: a class that its members shape
  double spread = 0.2;  // of ln x
  double least = 0;     // > 0
  double most = 1;
};

struct FitRow {
  int source = 0;               // any number; rows of one source share a weight
  bool counts = true;           // false: judged, not fitted
  std::vector<int> parameters;  // those that its projection reads
};

// "Row `row` at x, but with x[parameter] = value"; parameter -1: at x.
struct Probe {
  int row = 0;
  int parameter = -1;
  double value = 0;
};

// Writes ln(projected / measured) of each probe; NaN for a row that cannot be projected there,
// which then does not count. Probes of one row follow one another.
using Evaluate = std::function<void(std::span<const double> x, std::span<const Probe> probes,
                                    std::span<double> out)>;

struct FitProblem {
  std::vector<FitParameter> parameters;
  std::vector<FitRow> rows;
  Evaluate evaluate;
};

struct FitOptions {
  int most_steps = 10;
  // Called before each step with the number of steps done, for a progress line; may be empty.
  std::function<void(int)> progress;
};

struct FitAnswer {
  std::vector<double> values;
  std::vector<double> uncertainty;  // standard deviation of ln x, the prior's included
  std::vector<bool> at_bound;
  std::vector<int> informing;       // rows of which 1% of x is at least 0.01% of the step
  std::vector<double> residuals;    // r of each row at the values
  int steps = 0;
  bool converged = false;
};

// A fit with its last linearisation, so that leaving rows out needs no fit from scratch.
class Fit {
 public:
  explicit Fit(const FitProblem& problem, const FitOptions& options = {});

  const FitAnswer& answer() const { return answer_; }

  // The fit without the rows of which `left_out` says so (one flag a row): the linear fit is taken
  // down by those rows, then corrected twice with residuals at the new place.
  struct Without {
    std::vector<double> values;
    std::vector<double> uncertainty;
  };
  Without without(const std::vector<bool>& left_out) const;

 private:
  void linearise(const std::vector<double>& u);
  std::vector<double> residuals_at(const std::vector<double>& u) const;
  double objective(const std::vector<double>& u, const std::vector<double>& r) const;
  void describe(const std::vector<double>& u);

  const FitProblem* problem_;
  std::vector<double> weights_;                // n^(-1/2), 0 where not projectable
  std::vector<double> residuals_;              // at the linearisation
  std::vector<std::vector<double>> jacobian_;  // by row, along its parameters
  FitAnswer answer_;
};

}  // namespace eratos::calibration
