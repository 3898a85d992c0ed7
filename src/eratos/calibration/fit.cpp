#include "eratos/calibration/fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>

#include "eratos/base/check.h"

namespace eratos::calibration {

namespace {

// Wide enough to see across a kink of the model (a wave more or less), small against any spread.
constexpr double kProbe = 0.04;
constexpr double kLongestStep = 0.6;  // of one constant's ln x
constexpr double kDone = 0.004;
constexpr double kStalled = 2e-4;  // of the objective, in one step
constexpr double kMoves = 0.015;   // of a constant, below which its rows keep their residuals
constexpr double kInforms = 0.01;

using Vector = std::vector<double>;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

double rho(double r) {
  const double z = r / kNoise;
  return (kFreedom + 1) * std::log1p(z * z / kFreedom);
}

// d rho / d(r^2 / kNoise^2).
double robust_weight(double r) {
  const double z = r / kNoise;
  return (kFreedom + 1) / (kFreedom + z * z);
}

Vector weights_of(const std::vector<FitRow>& rows, const std::vector<bool>* left_out,
                  const Vector& residuals) {
  std::map<int, int> n;
  const auto counts = [&](std::size_t i) {
    return rows[i].counts && (left_out == nullptr || !(*left_out)[i]) &&
           std::isfinite(residuals[i]);
  };
  for (std::size_t i = 0; i < rows.size(); ++i) n[rows[i].source] += counts(i) ? 1 : 0;
  Vector out(rows.size(), 0.0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (counts(i)) out[i] = 1 / std::sqrt(static_cast<double>(n[rows[i].source]));
  }
  return out;
}

// H and -g of the quadratic model at u.
struct Normal {
  std::size_t n = 0;
  Vector h;      // n x n
  Vector minus_g;
};

// ln of where a constant's prior lies.
double centre(const FitProblem& problem, const Vector& u, std::size_t i) {
  const FitParameter& p = problem.parameters[i];
  return p.under >= 0 ? u[at(p.under)] : std::log(p.prior);
}

Normal normal_of(const FitProblem& problem, const Vector& u, const Vector& weights,
                 const Vector& residuals, const std::vector<Vector>& jacobian) {
  Normal out;
  out.n = problem.parameters.size();
  out.h.assign(out.n * out.n, 0.0);
  out.minus_g.assign(out.n, 0.0);
  for (std::size_t i = 0; i < out.n; ++i) {
    const FitParameter& p = problem.parameters[i];
    const double w = 1 / (p.spread * p.spread);
    const double off = w * (u[i] - centre(problem, u, i));
    out.h[i * out.n + i] += w;
    out.minus_g[i] -= off;
    if (p.under < 0) continue;
    const std::size_t c = at(p.under);
    out.h[c * out.n + c] += w;
    out.h[i * out.n + c] -= w;
    out.h[c * out.n + i] -= w;
    out.minus_g[c] += off;
  }
  for (std::size_t row = 0; row < problem.rows.size(); ++row) {
    if (weights[row] <= 0) continue;
    const double r = residuals[row];
    const double w = weights[row] * robust_weight(r) / (kNoise * kNoise);
    const std::vector<int>& of = problem.rows[row].parameters;
    for (std::size_t a = 0; a < of.size(); ++a) {
      const double ja = jacobian[row][a];
      out.minus_g[at(of[a])] -= w * ja * r;
      for (std::size_t b = 0; b < of.size(); ++b) {
        out.h[at(of[a]) * out.n + at(of[b])] += w * ja * jacobian[row][b];
      }
    }
  }
  return out;
}

// Cholesky of the free part of H; H is positive definite because of the priors.
struct Factor {
  std::vector<std::size_t> free;
  Vector l;  // free x free, lower
};

Factor factor_of(const Normal& normal, const std::vector<bool>& fixed) {
  Factor out;
  for (std::size_t i = 0; i < normal.n; ++i) {
    if (!fixed[i]) out.free.push_back(i);
  }
  const std::size_t m = out.free.size();
  out.l.assign(m * m, 0.0);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = normal.h[out.free[i] * normal.n + out.free[j]];
      for (std::size_t k = 0; k < j; ++k) sum -= out.l[i * m + k] * out.l[j * m + k];
      out.l[i * m + j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / out.l[j * m + j];
    }
  }
  return out;
}

Vector solved(const Factor& f, const Vector& right) {
  const std::size_t m = f.free.size();
  Vector y(m);
  for (std::size_t i = 0; i < m; ++i) {
    double sum = right[f.free[i]];
    for (std::size_t k = 0; k < i; ++k) sum -= f.l[i * m + k] * y[k];
    y[i] = sum / f.l[i * m + i];
  }
  for (std::size_t i = m; i-- > 0;) {
    for (std::size_t k = i + 1; k < m; ++k) y[i] -= f.l[k * m + i] * y[k];
    y[i] /= f.l[i * m + i];
  }
  Vector out(right.size(), 0.0);
  for (std::size_t i = 0; i < m; ++i) out[f.free[i]] = y[i];
  return out;
}

// Where the quadratic model is least within the bounds: those it would leave are held at them, one
// set after the other.
Vector bounded_step(const FitProblem& problem, const Vector& u, const Normal& normal) {
  std::vector<bool> fixed(normal.n, false);
  Vector step(normal.n, 0.0);
  for (std::size_t round = 0; round <= normal.n; ++round) {
    Vector right = normal.minus_g;
    for (std::size_t i = 0; i < normal.n; ++i) {
      for (std::size_t j = 0; j < normal.n; ++j) {
        if (fixed[j]) right[i] -= normal.h[i * normal.n + j] * step[j];
      }
    }
    const Vector free = solved(factor_of(normal, fixed), right);
    bool more = false;
    for (std::size_t i = 0; i < normal.n; ++i) {
      if (fixed[i]) continue;
      const FitParameter& p = problem.parameters[i];
      const double low = std::log(p.least) - u[i];
      const double high = std::log(p.most) - u[i];
      step[i] = std::clamp(free[i], low, high);
      if (step[i] != free[i]) {
        fixed[i] = true;
        more = true;
      }
    }
    if (!more) break;
  }
  return step;
}

// Square roots of the diagonal of the inverse of H.
Vector uncertainty_of(const Normal& normal) {
  const Factor factor = factor_of(normal, std::vector<bool>(normal.n, false));
  Vector out(normal.n);
  for (std::size_t i = 0; i < normal.n; ++i) {
    // One column of the inverse of the factor.
    double sum = 0;
    Vector column(normal.n, 0.0);
    for (std::size_t row = i; row < normal.n; ++row) {
      double x = row == i ? 1.0 : 0.0;
      for (std::size_t k = i; k < row; ++k) x -= factor.l[row * normal.n + k] * column[k];
      column[row] = x / factor.l[row * normal.n + row];
      sum += column[row] * column[row];
    }
    out[i] = std::sqrt(sum);
  }
  return out;
}

double longest(const Vector& v) {
  double most = 0;
  for (const double x : v) most = std::max(most, std::abs(x));
  return most;
}

Vector values_of(const Vector& u) {
  Vector x(u.size());
  for (std::size_t i = 0; i < u.size(); ++i) x[i] = std::exp(u[i]);
  return x;
}

Vector moved(const Vector& u, const Vector& step, double by) {
  Vector out = u;
  for (std::size_t i = 0; i < u.size(); ++i) out[i] += by * step[i];
  return out;
}

}  // namespace

Fit::Fit(const FitProblem& problem, const FitOptions& options) : problem_(&problem) {
  ERATOS_CHECK(problem.evaluate != nullptr);
  Vector u;
  for (const FitParameter& p : problem.parameters) {
    ERATOS_CHECK(p.least > 0 && p.least <= p.most && p.spread > 0 && p.prior > 0);
    u.push_back(std::log(std::clamp(p.prior, p.least, p.most)));
  }
  for (answer_.steps = 0; answer_.steps < options.most_steps; ++answer_.steps) {
    if (options.progress) options.progress(answer_.steps);
    linearise(u);
    const double before = objective(u, residuals_);
    const Normal normal = normal_of(problem, u, weights_, residuals_, jacobian_);
    const Vector step = bounded_step(problem, u, normal);
    if (longest(step) < kDone) {
      answer_.converged = true;
      break;
    }
    // Halved until it helps; a step that never does ends the fit.
    double by = std::min(1.0, kLongestStep / longest(step));
    bool better = false;
    for (int halving = 0; halving < 4 && !better; ++halving, by /= 2) {
      const Vector next = moved(u, step, by);
      const double after = objective(next, residuals_at(next));
      if (after >= before) continue;
      u = next;
      better = true;
      answer_.converged = before - after < kStalled * before;
    }
    if (!better) answer_.converged = true;  // no way down that slopes of this width show
    if (answer_.converged) {
      linearise(u);
      break;
    }
  }
  if (!answer_.converged && answer_.steps == options.most_steps) linearise(u);
  describe(u);
}

void Fit::linearise(const Vector& u) {
  const Vector x = values_of(u);
  std::vector<Probe> probes;
  std::vector<double> steps;
  for (std::size_t row = 0; row < problem_->rows.size(); ++row) {
    const int r = static_cast<int>(row);
    probes.push_back({r, -1, 0});
    steps.push_back(0);
    for (const int p : problem_->rows[row].parameters) {
      // Away from the nearer bound.
      const FitParameter& bounds = problem_->parameters[at(p)];
      const bool up = u[at(p)] + kProbe <= std::log(bounds.most);
      const double step = up ? kProbe : -kProbe;
      probes.push_back({r, p, std::exp(u[at(p)] + step)});
      steps.push_back(step);
    }
  }
  Vector out(probes.size());
  problem_->evaluate(x, probes, out);
  residuals_.assign(problem_->rows.size(), 0.0);
  jacobian_.assign(problem_->rows.size(), {});
  double base = 0;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const std::size_t row = at(probes[i].row);
    if (probes[i].parameter < 0) {
      base = residuals_[row] = out[i];
      continue;
    }
    const double slope = (out[i] - base) / steps[i];
    jacobian_[row].push_back(std::isfinite(slope) ? slope : 0.0);
  }
  weights_ = weights_of(problem_->rows, nullptr, residuals_);
}

Vector Fit::residuals_at(const Vector& u) const {
  std::vector<Probe> probes;
  for (std::size_t row = 0; row < problem_->rows.size(); ++row) {
    probes.push_back({static_cast<int>(row), -1, 0});
  }
  Vector out(probes.size());
  problem_->evaluate(values_of(u), probes, out);
  return out;
}

double Fit::objective(const Vector& u, const Vector& r) const {
  double sum = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    if (weights_[i] <= 0) continue;
    if (!std::isfinite(r[i])) return std::numeric_limits<double>::infinity();
    sum += weights_[i] * rho(r[i]);
  }
  for (std::size_t i = 0; i < u.size(); ++i) {
    const FitParameter& p = problem_->parameters[i];
    const double z = (u[i] - centre(*problem_, u, i)) / p.spread;
    sum += z * z;
  }
  return sum;
}

void Fit::describe(const Vector& u) {
  answer_.values = values_of(u);
  answer_.residuals = residuals_;
  const std::size_t n = u.size();
  answer_.at_bound.assign(n, false);
  answer_.informing.assign(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    const FitParameter& p = problem_->parameters[i];
    answer_.values[i] = std::clamp(answer_.values[i], p.least, p.most);
    answer_.at_bound[i] = u[i] <= std::log(p.least) + 1e-9 || u[i] >= std::log(p.most) - 1e-9;
  }
  for (std::size_t row = 0; row < problem_->rows.size(); ++row) {
    const std::vector<int>& of = problem_->rows[row].parameters;
    for (std::size_t a = 0; a < of.size(); ++a) {
      const bool informs = weights_[row] > 0 && std::abs(jacobian_[row][a]) >= kInforms;
      answer_.informing[at(of[a])] += informs ? 1 : 0;
    }
  }
  answer_.uncertainty =
      uncertainty_of(normal_of(*problem_, u, weights_, residuals_, jacobian_));
}

Fit::Without Fit::without(const std::vector<bool>& left_out) const {
  ERATOS_CHECK(left_out.size() == problem_->rows.size());
  const Vector weights = weights_of(problem_->rows, &left_out, residuals_);
  Vector u(answer_.values.size());
  for (std::size_t i = 0; i < u.size(); ++i) u[i] = std::log(answer_.values[i]);
  const Vector start = u;
  Vector residuals = residuals_;
  for (int round = 0; round < 3; ++round) {
    const Normal normal = normal_of(*problem_, u, weights, residuals, jacobian_);
    const Vector step = bounded_step(*problem_, u, normal);
    u = moved(u, step, 1);
    if (longest(step) < 2 * kDone || round == 2) break;
    // Only rows that read a constant that has moved have another residual.
    std::vector<Probe> probes;
    for (std::size_t row = 0; row < problem_->rows.size(); ++row) {
      if (weights[row] <= 0) continue;
      const std::vector<int>& of = problem_->rows[row].parameters;
      const bool touched = std::any_of(of.begin(), of.end(), [&](int p) {
        return std::abs(u[at(p)] - start[at(p)]) > kMoves;
      });
      if (touched) probes.push_back({static_cast<int>(row), -1, 0});
    }
    Vector out(probes.size());
    problem_->evaluate(values_of(u), probes, out);
    for (std::size_t i = 0; i < probes.size(); ++i) {
      if (std::isfinite(out[i])) residuals[at(probes[i].row)] = out[i];
    }
  }
  Without out;
  out.values = values_of(u);
  for (std::size_t i = 0; i < u.size(); ++i) {
    const FitParameter& p = problem_->parameters[i];
    out.values[i] = std::clamp(out.values[i], p.least, p.most);
  }
  out.uncertainty = uncertainty_of(normal_of(*problem_, u, weights, residuals, jacobian_));
  return out;
}

}  // namespace eratos::calibration
