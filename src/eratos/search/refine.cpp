#include "eratos/search/refine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "eratos/base/check.h"

namespace eratos::search {

namespace {

// The grid of b, as shares of the capacity: a model that counts too much to one that forgets a
// third.
constexpr int kBufferPlaces = 721;
constexpr double kBufferLeast = -0.15;
constexpr double kBufferStep = 0.00075;
// Steps between likeness and unlikeness: two doublings of a degree.
constexpr double kLength = 2;

// Two residuals say nothing of their scale: neither is it learned nor is the model trusted before.
constexpr std::size_t kLeastMeasured = 3;

constexpr double kKnobScales[] = {0.5, 1.0, 2.0};
constexpr double kRests[] = {0.005, 0.02, 0.06};

double density(double z) { return std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi); }
double cumulative(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

double expected_improvement(double best, double mean, double sd) {
  if (sd <= 0) return std::max(0.0, best - mean);
  const double z = (best - mean) / sd;
  return (best - mean) * cumulative(z) + sd * density(z);
}

// L of K = L L', row by row; false where K is not positive.
bool cholesky(std::vector<double>& k, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = k[i * n + j];
      for (std::size_t m = 0; m < j; ++m) sum -= k[i * n + m] * k[j * n + m];
      if (i == j) {
        if (sum <= 0) return false;
        k[i * n + i] = std::sqrt(sum);
      } else {
        k[i * n + j] = sum / k[j * n + j];
      }
    }
  }
  return true;
}

void forward(const std::vector<double>& l, std::vector<double>& x) {
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) x[i] -= l[i * n + j] * x[j];
    x[i] /= l[i * n + i];
  }
}

void backward(const std::vector<double>& l, std::vector<double>& x) {
  const std::size_t n = x.size();
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t j = i + 1; j < n; ++j) x[i] -= l[j * n + i] * x[j];
    x[i] /= l[i * n + i];
  }
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

Knobs default_sds() {
  Knobs out{};
  for (std::size_t k = 0; k < kKnobCount; ++k) out[k] = kKnobs[k].sd;
  return out;
}

namespace {

double likeness(const Prospect& a, const Prospect& b) {
  double distance = 0;
  for (std::size_t d = 0; d < a.place.size(); ++d) {
    distance += (a.place[d] - b.place[d]) * (a.place[d] - b.place[d]);
  }
  return std::exp(-distance / (2 * kLength * kLength));
}

}  // namespace

double deviation_between(const Prospect& a, const Prospect& b, const Knobs& sds) {
  double sum = 0;
  for (std::size_t k = 0; k < kKnobCount; ++k) {
    const double apart = sds[k] * (a.elasticity[k] - b.elasticity[k]);
    sum += apart * apart;
  }
  // The default of sigma_r, twice: likeness and each one's own.
  const double rest = kRests[1];
  return std::sqrt(sum + 2 * rest * rest * (1 - likeness(a, b)) + 2 * rest * rest);
}

Refine::Refine(const RefineOptions& options) : options_(options), buffer_(kBufferPlaces) {
  ERATOS_CHECK(options.capacity.value > 0);
  for (int i = 0; i < kBufferPlaces; ++i) {
    const double share = kBufferLeast + i * kBufferStep;
    const double z = (share - options.peak_mean) / options.peak_sd;
    // Student's t of three degrees of freedom: a first surprise leaves room for a larger one.
    buffer_[static_cast<std::size_t>(i)] = 1 / ((1 + z * z / 3) * (1 + z * z / 3));
  }
  double sum = 0;
  for (const double p : buffer_) sum += p;
  for (double& p : buffer_) p /= sum;
  learn();
}

std::size_t Refine::add(const Prospect& prospect) {
  ERATOS_CHECK(prospect.projected > 0);
  prospects_.push_back(prospect);
  seen_.emplace_back();
  return prospects_.size() - 1;
}

void Refine::linearise(const Knobs& at, const std::vector<Prospect>& prospects) {
  ERATOS_CHECK(prospects.size() == prospects_.size());
  at_ = at;
  prospects_ = prospects;
  learn();
}

double Refine::covariance(std::size_t i, std::size_t j, const Scales& s) const {
  const Prospect& a = prospects_[i];
  const Prospect& b = prospects_[j];
  double sum = options_.common_sd * options_.common_sd;
  for (std::size_t k = 0; k < kKnobCount; ++k) {
    const double tau = s.knobs * options_.prior_sd[k];
    sum += tau * tau * a.elasticity[k] * b.elasticity[k];
  }
  // As much again is each one's own.
  return sum + s.rest * s.rest * (likeness(a, b) + (i == j ? 1 : 0));
}

// What c, all of theta and r have to explain: the elasticities hold at `at_`, theta counts from its
// prior mean.
double Refine::residual(std::size_t i) const {
  const Prospect& p = prospects_[i];
  double out = std::log(seen_[i]->measured / p.projected);
  for (std::size_t k = 0; k < kKnobCount; ++k)
    out += p.elasticity[k] * (at_[k] - options_.prior_mean[k]);
  return out;
}

double Refine::solve(Scales& s) const {
  const std::size_t n = timed_.size();
  s.factor.assign(n * n, 0.0);
  s.weights.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) s.factor[i * n + j] = covariance(timed_[i], timed_[j], s);
    s.factor[i * n + i] += options_.noise_sd * options_.noise_sd;
    s.weights[i] = residual(timed_[i]);
  }
  const bool solved = cholesky(s.factor, n);
  ERATOS_CHECK(solved);  // the noise alone makes it positive
  forward(s.factor, s.weights);
  backward(s.factor, s.weights);
  double out = 0;
  for (std::size_t i = 0; i < n; ++i) {
    out -= 0.5 * residual(timed_[i]) * s.weights[i] + std::log(s.factor[i * n + i]);
  }
  return out;
}

void Refine::learn() {
  scales_.clear();
  if (timed_.size() < kLeastMeasured) {
    scales_.push_back({});
    solve(scales_[0]);
  } else {
    std::vector<double> likelihood;
    for (const double knobs : kKnobScales) {
      for (const double rest : kRests) {
        scales_.push_back({knobs, rest});
        likelihood.push_back(solve(scales_.back()));
      }
    }
    const double most = *std::max_element(likelihood.begin(), likelihood.end());
    double sum = 0;
    for (std::size_t i = 0; i < scales_.size(); ++i) {
      scales_[i].share = std::exp(likelihood[i] - most);
      sum += scales_[i].share;
    }
    for (Scales& s : scales_) s.share /= sum;
  }
  for (std::size_t k = 0; k < kKnobCount; ++k) {
    double mean = 0;
    double square = 0;
    for (const Scales& s : scales_) {
      const double tau = s.knobs * options_.prior_sd[k];
      std::vector<double> to(timed_.size());
      for (std::size_t i = 0; i < to.size(); ++i) {
        to[i] = tau * tau * prospects_[timed_[i]].elasticity[k];
      }
      const double theta = dot(to, s.weights);
      forward(s.factor, to);
      mean += s.share * theta;
      square += s.share * (std::max(0.0, tau * tau - dot(to, to)) + theta * theta);
    }
    theta_[k] = options_.prior_mean[k] + mean;
    theta_sd_[k] = std::sqrt(std::max(0.0, square - mean * mean));
  }
}

void Refine::tell(std::size_t prospect, const Observation& seen) {
  seen_[prospect] = seen;
  const double capacity = options_.capacity.value;
  const double peak = prospects_[prospect].peak.value;
  const double noise = options_.peak_noise * peak;
  double sum = 0;
  for (int i = 0; i < kBufferPlaces; ++i) {
    const double b = (kBufferLeast + i * kBufferStep) * capacity;
    double& p = buffer_[static_cast<std::size_t>(i)];
    const double dies = cumulative((peak + b - capacity) / noise);
    p *= seen.out_of_memory ? dies : 1 - dies;
    if (!seen.out_of_memory && seen.peak.value > 0) {
      // Wider than the noise of one: whether b is the same of all is not known.
      p *= density((seen.peak.value - peak - b) / noise);
    }
    p = std::max(p, 1e-300);
    sum += p;
  }
  for (double& p : buffer_) p /= sum;
  if (!seen.out_of_memory) timed_.push_back(prospect);
  learn();
}

double Refine::out_of_memory(Bytes peak) const {
  const double capacity = options_.capacity.value;
  double sum = 0;
  for (int i = 0; i < kBufferPlaces; ++i) {
    const double b = (kBufferLeast + i * kBufferStep) * capacity;
    sum += buffer_[static_cast<std::size_t>(i)] *
           cumulative((peak.value + b - capacity) / (options_.peak_noise * peak.value));
  }
  return sum;
}

Refine::Normal Refine::normal(std::size_t i, const Scales& s) const {
  const Prospect& p = prospects_[i];
  Normal out;
  out.mean = std::log(p.projected);
  for (std::size_t k = 0; k < kKnobCount; ++k) {
    out.mean -= p.elasticity[k] * (at_[k] - options_.prior_mean[k]);
  }
  std::vector<double> to(timed_.size());
  for (std::size_t j = 0; j < to.size(); ++j) to[j] = covariance(i, timed_[j], s);
  out.mean += dot(to, s.weights);
  forward(s.factor, to);
  out.sd = std::sqrt(std::max(0.0, covariance(i, i, s) - dot(to, to)));
  return out;
}

Belief Refine::belief(std::size_t i) const {
  Belief out;
  if (seen_[i]) {
    out.out_of_memory = seen_[i]->out_of_memory ? 1 : 0;
    if (!seen_[i]->out_of_memory) {
      out.mean = std::log(seen_[i]->measured);
      return out;
    }
  } else {
    out.out_of_memory = out_of_memory(prospects_[i].peak);
  }
  double square = 0;
  for (const Scales& s : scales_) {
    const Normal n = normal(i, s);
    out.mean += s.share * n.mean;
    square += s.share * (n.sd * n.sd + n.mean * n.mean);
  }
  out.sd = std::sqrt(std::max(0.0, square - out.mean * out.mean));
  return out;
}

double Refine::gain(std::size_t i, double best) const {
  double out = 0;
  for (const Scales& s : scales_) {
    const Normal n = normal(i, s);
    out += s.share * expected_improvement(best, n.mean, n.sd);
  }
  return out * (1 - out_of_memory(prospects_[i].peak));
}

std::optional<Refine::Choice> Refine::ask() const {
  double best = std::numeric_limits<double>::infinity();
  for (const std::size_t i : timed_) best = std::min(best, std::log(seen_[i]->measured));
  std::optional<Choice> out;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < prospects_.size(); ++i) {
    if (seen_[i]) continue;
    if (timed_.empty()) {
      const Belief b = belief(i);
      // Nothing to improve on yet: the fastest that likely fits.
      const double height = b.mean + 2 * b.out_of_memory;
      if (height >= least) continue;
      least = height;
      out = Choice{i, 0};
      continue;
    }
    const double expected = gain(i, best);
    if (!out || expected > out->gain) out = Choice{i, expected};
  }
  if (!out) {
    why_ = "every candidate has been measured";
  } else if (timed_.size() >= kLeastMeasured && out->gain < options_.worth) {
    why_ = "no other candidate is expected to be faster by as much as a measurement tells";
    out.reset();
  }
  return out;
}

std::optional<std::size_t> Refine::pick() const {
  std::optional<std::size_t> out;
  // Where all that was measured ran out, nothing bounds what else is held.
  const bool any_ran_out =
      std::any_of(seen_.begin(), seen_.end(), [](const auto& s) { return s && s->out_of_memory; });
  if (any_ran_out && timed_.empty()) return out;
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < prospects_.size(); ++i) {
    const Belief b = belief(i);
    if (seen_[i] ? seen_[i]->out_of_memory : b.out_of_memory > kSafe) continue;
    // What was measured has no deviation; what was not has to be ahead by its own.
    const double height = b.mean + (timed_.empty() ? 0 : b.sd);
    if (height >= best) continue;
    best = height;
    out = i;
  }
  return out;
}

Bytes Refine::buffer() const {
  double sum = 0;
  for (int i = 0; i < kBufferPlaces; ++i) {
    sum += buffer_[static_cast<std::size_t>(i)] * (kBufferLeast + i * kBufferStep);
  }
  return options_.capacity * sum;
}

Bytes Refine::buffer_at_most(double probability) const {
  double sum = 0;
  int i = 0;
  while (i < kBufferPlaces - 1 && (sum += buffer_[static_cast<std::size_t>(i)]) < probability) ++i;
  return options_.capacity * (kBufferLeast + i * kBufferStep);
}

}  // namespace eratos::search
