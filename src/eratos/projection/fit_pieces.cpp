#include "eratos/projection/fit_pieces.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "eratos/calibration/pattern_search.h"

namespace eratos::projection {

namespace {

using calibration::CollectiveCurve;
using calibration::PartCalibration;

constexpr int kLawsonRounds = 25;
constexpr std::size_t kLeastRun = 2;
// A piece whose times do not grow has no bandwidth; this one does not show.
constexpr double kNoBandwidthLimit = 1e15;

struct SizeTime {
  double bytes = 0;
  double seconds = 0;
};

// alpha, seconds a byte of bus traffic, gamma.
using Terms = std::array<double, 3>;

double at(const Terms& x, double factor, double bytes) {
  return x[0] + factor * bytes * x[1] + x[2] * std::sqrt(bytes);
}

// Solves the normal equations of the columns in `use`, none of which may come out negative. `a` and
// `b` are A^T W A and A^T W y.
bool solve(const std::array<std::array<double, 3>, 3>& a, const Terms& b, unsigned use, Terms& x) {
  std::array<std::size_t, 3> column{};
  std::size_t n = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    if ((use >> i & 1U) != 0) column[n++] = i;
  }
  std::array<std::array<double, 4>, 3> m{};
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) m[i][j] = a[column[i]][column[j]];
    m[i][n] = b[column[i]];
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i + 1; r < n; ++r) {
      if (std::abs(m[r][i]) > std::abs(m[pivot][i])) pivot = r;
    }
    if (std::abs(m[pivot][i]) < 1e-13) return false;
    std::swap(m[i], m[pivot]);
    for (std::size_t r = i + 1; r < n; ++r) {
      const double f = m[r][i] / m[i][i];
      for (std::size_t c = i; c <= n; ++c) m[r][c] -= f * m[i][c];
    }
  }
  x = {};
  std::array<double, 3> found{};
  for (std::size_t i = n; i-- > 0;) {
    double sum = m[i][n];
    for (std::size_t c = i + 1; c < n; ++c) sum -= m[i][c] * found[c];
    found[i] = sum / m[i][i];
    if (!(found[i] >= 0)) return false;
    x[column[i]] = found[i];
  }
  return true;
}

// The three terms of the least worst relative error over times[begin, end).
struct Run {
  Terms terms{};
  double worst = std::numeric_limits<double>::infinity();
};
Run fit_run(const std::vector<SizeTime>& times, std::size_t begin, std::size_t end, double factor) {
  const std::size_t n = end - begin;
  std::vector<Terms> rows(n);
  Terms scale{};
  for (std::size_t i = 0; i < n; ++i) {
    const SizeTime& p = times[begin + i];
    rows[i] = {1 / p.seconds, factor * p.bytes / p.seconds, std::sqrt(p.bytes) / p.seconds};
    for (std::size_t c = 0; c < 3; ++c) scale[c] = std::max(scale[c], rows[i][c]);
  }
  for (Terms& row : rows) {
    for (std::size_t c = 0; c < 3; ++c) row[c] /= scale[c];
  }
  std::vector<double> weight(n, 1.0 / static_cast<double>(n));
  Run best;
  for (int round = 0; round < kLawsonRounds; ++round) {
    std::array<std::array<double, 3>, 3> a{};
    Terms b{};
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t r = 0; r < 3; ++r) {
        for (std::size_t c = 0; c < 3; ++c) a[r][c] += weight[i] * rows[i][r] * rows[i][c];
        b[r] += weight[i] * rows[i][r];
      }
    }
    Terms found{};
    double least = std::numeric_limits<double>::infinity();
    for (unsigned use = 1; use < 8; ++use) {
      Terms x{};
      if (!solve(a, b, use, x)) continue;
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double e = rows[i][0] * x[0] + rows[i][1] * x[1] + rows[i][2] * x[2] - 1;
        sum += weight[i] * e * e;
      }
      if (sum < least) {
        least = sum;
        found = x;
      }
    }
    if (!std::isfinite(least)) break;
    double worst = 0;
    double total = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double e =
          std::abs(rows[i][0] * found[0] + rows[i][1] * found[1] + rows[i][2] * found[2] - 1);
      worst = std::max(worst, e);
      weight[i] *= e + 1e-9;
      total += weight[i];
    }
    if (worst < best.worst) {
      best.worst = worst;
      for (std::size_t c = 0; c < 3; ++c) best.terms[c] = found[c] / scale[c];
    }
    if (worst < 1e-9 || total <= 0) break;
    for (double& w : weight) w /= total;
  }
  return best;
}

// The sizes by rising bytes, each with the mean of its samples.
std::vector<SizeTime> sizes_of(const std::vector<Sample<CollectivePoint>>& samples) {
  std::vector<SizeTime> all;
  for (const auto& s : samples) all.push_back({s.point.bytes.value, s.measured.value});
  std::sort(all.begin(), all.end(), [](const SizeTime& a, const SizeTime& b) {
    return a.bytes < b.bytes || (a.bytes == b.bytes && a.seconds < b.seconds);
  });
  std::vector<SizeTime> out;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t j = i;
    double sum = 0;
    while (j < all.size() && all[j].bytes == all[i].bytes) sum += all[j++].seconds;
    out.push_back({all[i].bytes, sum / static_cast<double>(j - i)});
    i = j;
  }
  return out;
}

// As collective::fitted_time evaluates rows.
double evaluate(const std::vector<CollectiveCurve>& rows, double factor, double bytes) {
  double t = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i > 0 && rows[i].from.value > bytes) break;
    const double most = i + 1 < rows.size() ? std::min(bytes, rows[i + 1].from.value) : bytes;
    const Terms x{rows[i].alpha.value, 1 / rows[i].busbw.value, rows[i].gamma};
    t = std::max(t, at(x, factor, most));
  }
  return t;
}

// Starts of the runs of the least worst error, for each number of runs.
class Cuts {
 public:
  Cuts(const std::vector<SizeTime>& times, double factor) : n_(times.size()) {
    runs_.resize(n_ * (n_ + 1));
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = i + kLeastRun; j <= n_; ++j) {
        runs_[i * (n_ + 1) + j] = fit_run(times, i, j, factor);
      }
    }
  }

  const Run& run(std::size_t begin, std::size_t end) const { return runs_[begin * (n_ + 1) + end]; }

  // Empty where there are too few sizes.
  std::vector<std::size_t> starts(int pieces) const {
    const auto count = static_cast<std::size_t>(pieces);
    if (n_ < kLeastRun * count) return {};
    constexpr double kNever = std::numeric_limits<double>::infinity();
    std::vector<std::vector<double>> least(count + 1, std::vector<double>(n_ + 1, kNever));
    std::vector<std::vector<std::size_t>> from(count + 1, std::vector<std::size_t>(n_ + 1, 0));
    least[0][0] = 0;
    for (std::size_t k = 1; k <= count; ++k) {
      for (std::size_t end = kLeastRun * k; end <= n_; ++end) {
        for (std::size_t begin = kLeastRun * (k - 1); begin + kLeastRun <= end; ++begin) {
          const double worst = std::max(least[k - 1][begin], run(begin, end).worst);
          if (worst < least[k][end]) {
            least[k][end] = worst;
            from[k][end] = begin;
          }
        }
      }
    }
    std::vector<std::size_t> out(count);
    std::size_t end = n_;
    for (std::size_t k = count; k > 0; --k) {
      out[k - 1] = from[k][end];
      end = out[k - 1];
    }
    return out;
  }

 private:
  std::size_t n_;
  std::vector<Run> runs_;
};

double bus_factor_of(ops::CollectiveKind kind, double n) {
  if (kind == ops::CollectiveKind::send_recv) return 1;
  return (kind == ops::CollectiveKind::all_reduce ? 2 : 1) * (n - 1) / n;
}

void judge(const std::vector<SizeTime>& times, double factor, double tolerance, PieceFit& fit) {
  std::vector<double> errors;
  fit.worst = 0;
  fit.beyond = 0;
  for (const SizeTime& p : times) {
    const double e = std::abs(evaluate(fit.rows, factor, p.bytes) / p.seconds - 1);
    errors.push_back(e);
    if (e > tolerance) ++fit.beyond;
    if (e >= fit.worst) {
      fit.worst = e;
      fit.worst_at = Bytes{p.bytes};
    }
  }
  std::sort(errors.begin(), errors.end());
  const std::size_t half = errors.size() / 2;
  fit.median = errors.size() % 2 == 1 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
}

}  // namespace

namespace {

// Times that fall where bytes grow, by more than `tolerance`, cannot be met from both sides: the
// most sizes that never do so among themselves. Of several such sets the one of the smallest sizes.
std::vector<SizeTime> never_falling(const std::vector<SizeTime>& times, double tolerance) {
  const std::size_t n = times.size();
  std::vector<std::size_t> length(n, 1);
  std::vector<std::size_t> before(n, n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (times[i].seconds < times[j].seconds * (1 - tolerance)) continue;
      if (length[j] + 1 > length[i]) {
        length[i] = length[j] + 1;
        before[i] = j;
      }
    }
  }
  std::vector<SizeTime> out;
  auto at =
      static_cast<std::size_t>(std::max_element(length.begin(), length.end()) - length.begin());
  for (; at < n; at = before[at]) out.push_back(times[at]);
  std::reverse(out.begin(), out.end());
  return out;
}

// The curve of `kept`, judged on `all`.
std::optional<PieceFit> cut_and_fit(const std::vector<SizeTime>& kept,
                                    const std::vector<SizeTime>& all, const CollectivePoint& first,
                                    const std::string& algorithm, int domains, double tolerance) {
  if (kept.size() < 2 * kLeastRun) return std::nullopt;
  const double factor = bus_factor_of(first.kind, first.group.size);
  const Cuts cuts(kept, factor);
  std::optional<PieceFit> best;
  for (int pieces = 1; pieces <= kMostPieces; ++pieces) {
    const std::vector<std::size_t> starts = cuts.starts(pieces);
    if (starts.empty()) break;
    PieceFit fit;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const std::size_t end = i + 1 < starts.size() ? starts[i + 1] : kept.size();
      const Terms& x = cuts.run(starts[i], end).terms;
      CollectiveCurve row;
      row.kind = ops::name_of(first.kind);
      row.algorithm = algorithm;
      row.gpus = first.group.size;
      row.domains = domains;
      // Where between the two sizes the library changes is not known: right behind the smaller one,
      // so that its own piece is not drawn out beyond what was measured.
      row.from = Bytes{i == 0 ? all[0].bytes : kept[starts[i] - 1].bytes + 1};
      row.alpha = Seconds{x[0]};
      row.busbw = BytesPerSecond{x[1] > 1 / kNoBandwidthLimit ? 1 / x[1] : kNoBandwidthLimit};
      row.gamma = x[2];
      fit.rows.push_back(std::move(row));
    }
    judge(kept, factor, tolerance, fit);
    // One more piece has to be worth it.
    constexpr double kGain = 0.9;
    if (!best || fit.worst < kGain * best->worst) best = std::move(fit);
    if (best->worst <= tolerance) break;
  }
  judge(all, factor, tolerance, *best);
  return best;
}

}  // namespace

std::optional<PieceFit> fit_pieces(const std::string& algorithm, int domains,
                                   const std::vector<Sample<CollectivePoint>>& samples,
                                   double tolerance) {
  const std::vector<SizeTime> all = sizes_of(samples);
  if (all.empty()) return std::nullopt;
  const CollectivePoint& first = samples[0].point;
  auto whole = cut_and_fit(all, all, first, algorithm, domains, tolerance);
  if (!whole || whole->beyond == 0) return whole;
  auto most = cut_and_fit(never_falling(all, tolerance), all, first, algorithm, domains, tolerance);
  return most && most->beyond < whole->beyond ? most : whole;
}

std::optional<calibration::NetworkCurve> fit_network(
    const hardware::AcceleratorSpec& part, const PartCalibration& calibration,
    const std::vector<Sample<CollectivePoint>>& samples) {
  std::vector<Sample<CollectivePoint>> spanning;
  for (const auto& s : samples) {
    const collective::GroupPlacement placement = collective::place(s.point.group, s.point.cluster);
    if (placement.members[0] < placement.size) spanning.push_back(s);
  }
  if (spanning.size() < 4) return std::nullopt;
  PartCalibration trial = calibration;
  std::erase_if(trial.collectives, [](const CollectiveCurve& c) { return c.domains > 1; });
  // Starts: the middle of the shipped calibrations.
  const std::vector<calibration::Searched> start{
      {0.85, 0.02, 1}, {15e-6, 1e-7, 1e-2}, {20e-9, 1e-10, 1e-5}};
  const auto set = [&](const std::vector<double>& x) {
    trial.network.share = x[0];
    trial.network.alpha = Seconds{x[1]};
    trial.network.gamma = x[2];
  };
  const std::vector<double> found =
      calibration::pattern_search(start, [&](const std::vector<double>& x) {
        set(x);
        const PointPricer pricer(part, trial);
        double sum = 0;
        for (const auto& s : spanning) {
          sum += calibration::misfit(pricer.price(s.point).value, s.measured.value);
        }
        return sum / static_cast<double>(spanning.size());
      });
  set(found);
  return trial.network;
}

}  // namespace eratos::projection
