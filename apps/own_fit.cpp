#include "apps/own_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "eratos/base/crc32.h"

namespace eratos::apps {

using calibration::Fit;
using calibration::Probe;

namespace {

// What the others' fit does not know of a constant, the owner's runs may say. Owners differ: the
// catalogue's constant may be a base profile's or a kin's.
void widen(const RunFit& fit, const std::vector<double>& uncertainty, const FitRows& rows,
           RunFit& own) {
  std::map<std::string_view, double> by_path;
  for (const std::size_t row : rows) {
    for (const int c : fit.problem().rows[row].parameters) {
      const auto i = static_cast<std::size_t>(c);
      double& most = by_path[fit.constants()[i].parameter->path];
      most = std::max(most, uncertainty[i]);
    }
  }
  for (std::size_t i = 0; i < own.constants().size(); ++i) {
    const auto at = by_path.find(own.constants()[i].parameter->path);
    if (at != by_path.end()) own.widen(i, at->second);
  }
}

void hold_others(RunFit& own, Kind free) {
  for (std::size_t i = 0; i < own.constants().size(); ++i) {
    if (kind_of(own.constants()[i].parameter->path) != free) own.hold(i);
  }
}

}  // namespace

Kind kind_of(std::string_view path) {
  if (path == "kernel.collective" || path == "kernel.network_decay") return Kind::link;
  if (path.starts_with("host.")) return Kind::host;
  if (path.starts_with("gemm.")) return Kind::part;
  return path.starts_with("kernel.") || path.starts_with("loss.") ? Kind::kernel : Kind::link;
}

// Errors of some rows at x; nothing for a row that has no step.
std::vector<std::optional<double>> errors_at(const RunFit& fit, const std::vector<double>& x,
                                             const FitRows& rows) {
  std::vector<Probe> probes;
  for (const std::size_t row : rows) probes.push_back({static_cast<int>(row), -1, 0});
  std::vector<double> ratios(probes.size());
  fit.evaluate(x, probes, ratios);
  std::vector<std::optional<double>> out;
  for (const double r : ratios) {
    out.push_back(std::isfinite(r) ? std::optional<double>(std::exp(r) - 1) : std::nullopt);
  }
  return out;
}

std::vector<bool> marked(std::size_t n, const FitRows& rows) {
  std::vector<bool> out(n, false);
  for (const std::size_t row : rows) out[row] = true;
  return out;
}

FitRows drawn(const RunFit& fit, const MeasuredRuns& measured, const FitRows& of, std::size_t n,
              int draw) {
  FitRows rows = of;
  const auto key = [&](std::size_t row) {
    const std::string& id = measured.runs[fit.runs()[row]].run.name.id;
    return std::make_pair(crc32(draw == 0 ? id : id + '#' + std::to_string(draw)), id);
  };
  std::sort(rows.begin(), rows.end(),
            [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  rows.resize(std::min(rows.size(), n));
  return rows;
}

std::vector<std::optional<double>> own_errors(RunFit& fit, MeasuredRuns& measured,
                                              const Fit::Without& others, const FitRows& rows,
                                              const FitRows& calibrates, Kind free) {
  const auto kept = measured.calibrations;
  std::vector<framework::FrameworkProfile> profiles;
  for (const std::size_t row : rows) {
    profiles.push_back(measured.runs[fit.runs()[row]].run.spec.framework);
    fit.put(others.values, row);
  }
  const std::vector<bool> calibrating = marked(fit.runs().size(), calibrates);
  const std::vector<bool> theirs = marked(fit.runs().size(), rows);
  std::map<std::size_t, std::size_t> row_of_run;
  for (std::size_t row = 0; row < fit.runs().size(); ++row) row_of_run[fit.runs()[row]] = row;
  const auto is = [&](std::size_t run, const std::vector<bool>& of) {
    const auto at = row_of_run.find(run);
    return at != row_of_run.end() && of[at->second];
  };
  RunFit own(measured, FitOf::users_own, 0,
             [&](std::size_t run) { return is(run, calibrating); });
  widen(fit, others.uncertainty, calibrates, own);
  if (free != Kind::any) hold_others(own, free);
  const Fit answer(own.problem());
  // The same constants by name, read by all rows of the source.
  RunFit all(measured, FitOf::users_own, 0, [&](std::size_t run) { return is(run, theirs); });
  std::map<std::string, double> found;
  for (std::size_t i = 0; i < own.constants().size(); ++i) {
    found[own.constants()[i].name()] = answer.answer().values[i];
  }
  std::vector<double> values;
  for (const FittedConstant& constant : all.constants()) {
    const auto at = found.find(constant.name());
    values.push_back(at != found.end() ? at->second : constant.before);
  }
  FitRows every(all.runs().size());
  for (std::size_t i = 0; i < every.size(); ++i) every[i] = i;
  const auto errors = errors_at(all, values, every);
  std::map<std::size_t, std::optional<double>> by_run;
  for (std::size_t i = 0; i < every.size(); ++i) by_run[all.runs()[i]] = errors[i];
  measured.calibrations = kept;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    measured.runs[fit.runs()[rows[i]]].run.spec.framework = profiles[i];
  }
  std::vector<std::optional<double>> out;
  for (const std::size_t row : rows) {
    out.push_back(calibrating[row] ? std::nullopt : by_run[fit.runs()[row]]);
  }
  return out;
}

}  // namespace eratos::apps
