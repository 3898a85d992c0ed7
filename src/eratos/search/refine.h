// What to measure next, and what to choose in the end, when each measurement costs a lot and errors
// of configurations have much in common.
//
// Letters: t_i projected seconds of candidate i, y_i = log of its measured seconds, theta the knobs
// (knobs.h) with standard deviations tau, e_ik elasticities, c what all candidates share, r_i what
// is left, which is alike where configurations are.
//   y_i = log t_i + c + sum_k e_ik theta_k + r_i,   theta_k ~ N(0, tau_k^2), c ~ N(0, sigma_c^2),
//   cov(r_i, r_j) = sigma_r^2 exp(-|x_i - x_j|^2 / (2 l^2)) + [i = j] (sigma_r^2 + sigma_n^2)
// with x the degrees' logs to base 2. That is a Gaussian process, so what is measured gives every
// other candidate a mean m_i and a deviation s_i. How large tau and sigma_r are is not known
// either: a small grid of both is averaged over, each by the likelihood of what was measured.
// Source: C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, MIT Press
// 2006, equations 2.25, 2.26 (the posterior), 2.30 (the likelihood) and 2.42 (with basis
// functions).
//
// The next to measure is the one whose expected improvement over the best measured y* is largest,
// among what may fit:
//   EI_i = (y* - m_i) Phi(z) + s_i phi(z), z = (y* - m_i) / s_i, times (1 - P(out of memory))
// Source: D. R. Jones, M. Schonlau, W. J. Welch, Efficient Global Optimization of Expensive
// Black-Box Functions, Journal of Global Optimization 13, 1998, equation 15; with a probability of
// being feasible: J. R. Gardner et al., Bayesian Optimization with Inequality Constraints, ICML
// 2014.
//
// Memory: what the framework holds and the model does not know is one unknown number of bytes b
// that is added to every peak. Its distribution stands on a grid; a measured peak, a run that
// fitted and one that ran out each multiply it by their likelihood (Bayes' rule). What has not been
// measured to fit is chosen only where P(out of memory) is below kSafe.
//
// Worked example: two candidates at 10.0 s and 10.2 s; of the first attention is 40 %, of the
// second 10 %. The first measures 10.8 s, 7.7 % more. With tau 0.15 for attention and c of 5 %, of
// a variance 0.0036 + 0.0025 attention's part is 0.59: theta becomes 0.11 and the second is
// foreseen at about 10.2 * exp(0.032 + 0.011) = 10.6 s, ahead of the first.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "eratos/base/units.h"
#include "eratos/search/knobs.h"

namespace eratos::search {

// A configuration that may be measured.
struct Prospect {
  double projected = 0;       // t, in any unit that all share; with the knobs at `Refine::at`
  Knobs elasticity{};         // there
  std::vector<double> place;  // x; of one length for all
  Bytes peak;                 // projected, of the fullest device
};

struct Observation {
  bool out_of_memory = false;
  double measured = 0;  // in the unit of `projected`
  Bytes peak;           // 0: not stated
};

Knobs default_sds();

struct RefineOptions {
  Bytes capacity;             // beyond which a run dies
  double common_sd = 0.10;    // sigma_c
  double noise_sd = 0.004;    // sigma_n: from one run to the next of the same job
  double peak_sd = 0.04;      // of b before anything was measured, as a share of the capacity
  double peak_mean = 0;       // its mean
  double peak_noise = 0.015;  // a peak may be off by itself by this share of it, beside b
  // What is known of the knobs before, from measurements of other jobs on the same machine.
  Knobs prior_mean{};
  Knobs prior_sd = default_sds();
  // Less to gain than this, as a share of the step, is not worth a measurement. A setting, far
  // below the noise of one measurement; chosen with the judgements of docs/TUNING.md in view, where
  // it ends refinement too early in three groups of 34.
  double worth = 0.0002;
};

struct Belief {
  double mean = 0;  // of log(seconds)
  double sd = 0;
  double out_of_memory = 0;  // probability
};

// Deviation of log(t_i / t_j) before anything was measured: what the model may get wrong of the one
// and not of the other. Two that differ in nothing have none.
double deviation_between(const Prospect& a, const Prospect& b, const Knobs& sds = default_sds());

class Refine {
 public:
  // Below it a configuration that was never measured may be chosen.
  static constexpr double kSafe = 0.005;

  explicit Refine(const RefineOptions& options);

  // Prospects keep their numbers; later ones may be added at any time.
  std::size_t add(const Prospect& prospect);
  // The model was asked again, with the knobs at `at`: new `projected` and elasticities.
  void linearise(const Knobs& at, const std::vector<Prospect>& prospects);
  void tell(std::size_t prospect, const Observation& seen);

  struct Choice {
    std::size_t prospect = 0;
    double gain = 0;  // expected, as a share of the step
  };
  // Nothing where no measurement is worth making; why() says so.
  std::optional<Choice> ask() const;
  const std::string& why() const { return why_; }

  // The one to run. Nothing where none is known to fit and none is safe.
  std::optional<std::size_t> pick() const;

  Belief belief(std::size_t prospect) const;
  Knobs knobs() const { return theta_; }  // posterior means
  Knobs knob_sds() const { return theta_sd_; }
  Bytes buffer() const;                            // posterior mean of b
  Bytes buffer_at_most(double probability) const;  // its quantile
  std::size_t size() const { return prospects_.size(); }
  const Prospect& prospect(std::size_t i) const { return prospects_[i]; }
  bool measured(std::size_t i) const { return seen_[i].has_value(); }

 private:
  // One opinion of how large tau and sigma_r are, and what follows from it.
  struct Scales {
    double knobs = 1;
    double rest = 0.02;             // sigma_r
    double share = 1;               // by likelihood
    std::vector<double> factor{};   // of Cholesky, [timed * timed]
    std::vector<double> weights{};  // K^-1 residuals
  };
  struct Normal {
    double mean = 0;
    double sd = 0;
  };
  double covariance(std::size_t i, std::size_t j, const Scales& s) const;
  double residual(std::size_t i) const;
  // The log of the likelihood of what was measured.
  double solve(Scales& s) const;
  Normal normal(std::size_t i, const Scales& s) const;
  double gain(std::size_t i, double best) const;
  void learn();
  double out_of_memory(Bytes peak) const;

  RefineOptions options_;
  std::vector<Prospect> prospects_;
  std::vector<std::optional<Observation>> seen_;
  std::vector<std::size_t> timed_;  // in the order in which they were told
  Knobs at_{};
  std::vector<Scales> scales_;
  Knobs theta_{};
  Knobs theta_sd_{};
  std::vector<double> buffer_;  // probability of each place of the grid
  mutable std::string why_;
};

}  // namespace eratos::search
