// How unevenly tokens reach the ranks of an expert-parallel group, as a distribution.
//
// Letters: E experts, k of them a token visits, e ranks with E/e experts each, n tokens that the group
// routes at once, X the skew: standard deviation of the experts' popularity against its mean. The load
// of a rank is the rows it receives against the mean of its group.
//
// A rank's load has mean 1 and the variance of
//   popularity   X^2 (e - 1) / (E - 1): E/e of E experts drawn without replacement, whatever the shape
//                of the popularities
//   chance       (e - 1)(E - k) / (n k (E - 1)): every token draws k different experts
// X cannot exceed sqrt(E/k - 1), where k experts take every token.
//
// The most loaded rank: loads as Gamma variables of shape a scaled to their sum (a Dirichlet, whose
// variance (e - 1) / (a e + 1) gives a), for which E[max] is that of e independent ones, exactly, since
// shares and sum are independent. Wilson and Hilferty make a Gamma variable the cube of a normal one, so
// that E[max] is one integral over the largest of e normals.
// A capacity F cuts each expert's load at F: mean and variance of an expert's cut load are integrals of
// the same kind, and a rank is the mean of E/e of them, taken as normal, for what is cut has no tail.
//
// Worked example: 128 experts, k 8, 8 ranks, 32,768 tokens, X 0.5: variance 0.25 * 7 / 127 = 0.0138,
// mean of the most loaded rank 1.186 (Monte Carlo 1.190); X 0: variance 2.5e-5, mean of the most 1.007.
// Source: N. L. Johnson, S. Kotz, N. Balakrishnan, Continuous Univariate Distributions, vol. 1, 17.5
// (Wilson and Hilferty); L. Devroye, Non-Uniform Random Variate Generation, XI.4 (Dirichlet).
// Assumes: which experts are popular has nothing to do with where they lie.
#pragma once

namespace eratos::ops {

struct Routing {
  int experts = 1;
  int chosen = 1;
  int ranks = 1;
  double tokens = 1;    // of the whole group
  double skew = 0;      // 0: chance alone
  double capacity = 0;  // most an expert takes against its equal share; 0: all that comes
};

struct LoadSpread {
  double mean = 1;        // below 1 where a capacity drops rows, against what equal shares would keep
  double popularity = 0;  // variance that stays from micro-batch to micro-batch
  double chance = 0;      // variance that is new in each
  double largest = 0;     // no rank's load is above it: e, E/k, F; 0: no limit known
  bool cut = false;       // by a capacity

  double variance() const { return popularity + chance; }
  bool even() const { return variance() <= 0; }
};
LoadSpread load_spread(const Routing& routing);

// The largest skew that k of E experts allow.
double largest_skew(int experts, int chosen);

// Mean over micro-batches and layers of the most loaded of `ranks`.
double mean_of_most(const LoadSpread& spread, int ranks);

// A load of mean 1 and this variance, at `z` standard deviations of the normal variable behind it.
double load_at(double variance, double z);

// Mean and variance of the largest of n standard normal variables.
// Source: G. Blom, Statistical Estimates and Transformed Beta-Variables, 1958 (n - 3/8 of n + 1/4), with
// Abramowitz and Stegun, 26.2.23; variance between that of one and the Gumbel limit pi^2 / (12 ln n).
// Worked example: n 1000: 3.24 and 0.106; exact 3.24 and 0.123.
struct Largest {
  double mean = 0;
  double variance = 1;
};
Largest largest_of_normals(double n);

// Density and distribution of a standard normal variable.
double normal_density(double z);
double normal_below(double z);

}  // namespace eratos::ops
