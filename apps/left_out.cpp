#include "apps/left_out.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "apps/run_fit.h"
#include "eratos/base/crc32.h"

namespace eratos::apps {

namespace {

using calibration::Fit;
using calibration::Probe;
using report::AccuracyRow;
using Rows = std::vector<std::size_t>;  // of the fit

class Progress {
 public:
  void say(const char* what, std::size_t done, std::size_t all) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::seconds(5)) return;
    last_ = now;
    std::fprintf(stderr, "%s %zu of %zu\n", what, done, all);
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Errors of some rows at x; nothing for a row that has no step.
std::vector<std::optional<double>> errors_at(const RunFit& fit, const std::vector<double>& x,
                                             const Rows& rows) {
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

std::vector<bool> marked(std::size_t n, const Rows& rows) {
  std::vector<bool> out(n, false);
  for (const std::size_t row : rows) out[row] = true;
  return out;
}

// The first tenth by crc32 of the id, at least one, of the rows that count.
Rows tenth_of(const RunFit& fit, const MeasuredRuns& measured, const Rows& of) {
  Rows rows;
  for (const std::size_t row : of) {
    if (fit.problem().rows[row].counts) rows.push_back(row);
  }
  const auto key = [&](std::size_t row) {
    const reader::RunName& name = measured.runs[fit.runs()[row]].run.name;
    return std::make_pair(crc32(name.id), name.id);
  };
  std::sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  rows.resize(std::min(rows.size(), std::max<std::size_t>(1, (rows.size() + 5) / 10)));
  return rows;
}

// What the others' fit does not know of a constant, the owner's runs may say. Owners differ: the
// catalogue's constant may be a base profile's or a kin's.
void widen(const RunFit& fit, const std::vector<double>& uncertainty, const Rows& rows, RunFit& own) {
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

// The rows' errors after a calibration on some of them that starts where the others' fit ends.
std::vector<std::optional<double>> own_errors(RunFit& fit, MeasuredRuns& measured,
                                              const Fit::Without& others, const Rows& rows,
                                              const Rows& tenth) {
  const auto kept = measured.calibrations;
  std::vector<framework::FrameworkProfile> profiles;
  for (const std::size_t row : rows) {
    profiles.push_back(measured.runs[fit.runs()[row]].run.spec.framework);
    fit.put(others.values, row);
  }
  const std::vector<bool> calibrates = marked(fit.runs().size(), tenth);
  const std::vector<bool> theirs = marked(fit.runs().size(), rows);
  std::map<std::size_t, std::size_t> row_of_run;
  for (std::size_t row = 0; row < fit.runs().size(); ++row) row_of_run[fit.runs()[row]] = row;
  const auto is = [&](std::size_t run, const std::vector<bool>& of) {
    const auto at = row_of_run.find(run);
    return at != row_of_run.end() && of[at->second];
  };
  RunFit own(measured, FitOf::users_own, 0,
             [&](std::size_t run) { return is(run, calibrates); });
  widen(fit, others.uncertainty, tenth, own);
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
  Rows every(all.runs().size());
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
    out.push_back(calibrates[row] ? std::nullopt : by_run[fit.runs()[row]]);
  }
  return out;
}

}  // namespace

void leave_out(MeasuredRuns& measured, double least_mfu, std::vector<AccuracyRow>& rows) {
  RunFit run_fit(measured, FitOf::catalogue, least_mfu);
  Progress progress;
  calibration::FitOptions options;
  options.progress = [&](int step) {
    progress.say("fit, step", static_cast<std::size_t>(step) + 1,
                 static_cast<std::size_t>(options.most_steps));
  };
  const Fit fit(run_fit.problem(), options);
  const std::size_t n = run_fit.runs().size();
  std::map<std::string, Rows> sources;
  std::map<std::string, Rows> groups;
  for (std::size_t row = 0; row < n; ++row) {
    const reader::RunName& name = measured.runs[run_fit.runs()[row]].run.name;
    sources[name.source].push_back(row);
    groups[name.source + '\n' + name.model + '\n' + name.gpu].push_back(row);
  }
  const auto answer_of = [&](std::size_t row) -> AccuracyRow& {
    return rows[measured.runs[run_fit.runs()[row]].row];
  };
  for (std::size_t row = 0; row < n; ++row) {
    const double r = fit.answer().residuals[row];
    if (std::isfinite(r)) answer_of(row).fit_to_all = std::exp(r) - 1;
  }
  std::size_t done = 0;
  for (const auto& [name, of_group] : groups) {
    progress.say("group left out,", ++done, groups.size());
    const auto errors = errors_at(run_fit, fit.without(marked(n, of_group)).values, of_group);
    for (std::size_t i = 0; i < of_group.size(); ++i) {
      answer_of(of_group[i]).left_out_group = errors[i];
    }
  }
  done = 0;
  for (const auto& [name, of_source] : sources) {
    progress.say("source left out,", ++done, sources.size());
    const Fit::Without without = fit.without(marked(n, of_source));
    const auto errors = errors_at(run_fit, without.values, of_source);
    for (std::size_t i = 0; i < of_source.size(); ++i) {
      answer_of(of_source[i]).left_out_source = errors[i];
    }
    const Rows tenth = tenth_of(run_fit, measured, of_source);
    if (of_source.size() < 2 || tenth.empty()) continue;
    const auto own = own_errors(run_fit, measured, without, of_source, tenth);
    for (std::size_t i = 0; i < of_source.size(); ++i) answer_of(of_source[i]).own = own[i];
  }
  // A run that stands in two files has the same errors in both.
  std::map<std::string, const AccuracyRow*> judged;
  for (const AccuracyRow& row : rows) {
    if (row.left_out_source && !row.id.empty()) judged.emplace(row.id, &row);
  }
  for (AccuracyRow& row : rows) {
    const auto at = judged.find(row.id);
    if (at == judged.end() || at->second == &row || !row.ok()) continue;
    row.fit_to_all = at->second->fit_to_all;
    row.left_out_source = at->second->left_out_source;
    row.left_out_group = at->second->left_out_group;
    row.own = at->second->own;
  }
}

}  // namespace eratos::apps
