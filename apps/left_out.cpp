#include "apps/left_out.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "apps/own_fit.h"
#include "apps/run_fit.h"

namespace eratos::apps {

namespace {

using calibration::Fit;
using report::AccuracyRow;

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

constexpr int kDraws = 5;
constexpr int kFewDraws = 3;
constexpr std::size_t kManyRows = 30;  // of a source, for what few of them tell
constexpr std::size_t kFew[] = {1, 3, 10};
constexpr std::pair<Kind, const char*> kKinds[] = {{Kind::any, "any"},
                                                   {Kind::host, "host"},
                                                   {Kind::kernel, "kernel"},
                                                   {Kind::part, "part"},
                                                   {Kind::link, "link"}};

// The fit of all rows, its problem and where a row's answer goes.
struct Judging {
  RunFit& fit;
  MeasuredRuns& measured;
  std::vector<AccuracyRow>& rows;

  AccuracyRow& answer_of(std::size_t row) const {
    return rows[measured.runs[fit.runs()[row]].row];
  }
};

void judge_own(const Judging& j, const Fit::Without& without, const FitRows& of_source) {
  if (of_source.size() < 2) return;
  const std::size_t tenth = std::max<std::size_t>(1, (of_source.size() + 5) / 10);
  for (int draw = 0; draw < kDraws; ++draw) {
    const auto own = own_errors(j.fit, j.measured, without, of_source,
                                drawn(j.fit, j.measured, of_source, tenth, draw));
    for (std::size_t i = 0; i < of_source.size(); ++i) {
      AccuracyRow& row = j.answer_of(of_source[i]);
      if (draw == 0) row.own = own[i];
      if (own[i]) row.own_draws.push_back(*own[i]);
    }
  }
  if (of_source.size() < kManyRows) return;
  for (const auto& [kind, name] : kKinds) {
    for (const std::size_t k : kFew) {
      for (int draw = 0; draw < kFewDraws; ++draw) {
        const auto own = own_errors(j.fit, j.measured, without, of_source,
                                    drawn(j.fit, j.measured, of_source, k, draw), kind);
        for (std::size_t i = 0; i < of_source.size(); ++i) {
          if (!own[i]) continue;
          j.answer_of(of_source[i]).few[name][static_cast<int>(k)].push_back(*own[i]);
        }
      }
    }
  }
}

// By the fit without the source, but with what the fit of all rows says of one kind of constant.
void judge_known(const Judging& j, const Fit& fit, const Fit::Without& without,
                 const FitRows& of_source) {
  for (const auto& [kind, name] : kKinds) {
    std::vector<double> values = without.values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool known = kind == Kind::any || kind_of(j.fit.constants()[i].parameter->path) == kind;
      if (known) values[i] = fit.answer().values[i];
    }
    const auto errors = errors_at(j.fit, values, of_source);
    for (std::size_t i = 0; i < of_source.size(); ++i) {
      if (errors[i]) j.answer_of(of_source[i]).known[name] = *errors[i];
    }
  }
}

// A run that stands in two files has the same errors in both.
void copy_to_twins(std::vector<AccuracyRow>& rows) {
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
    row.own_draws = at->second->own_draws;
    row.known = at->second->known;
    row.few = at->second->few;
  }
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
  const Judging judging{run_fit, measured, rows};
  const std::size_t n = run_fit.runs().size();
  std::map<std::string, FitRows> sources;
  std::map<std::string, FitRows> groups;
  for (std::size_t row = 0; row < n; ++row) {
    const reader::RunName& name = measured.runs[run_fit.runs()[row]].run.name;
    sources[name.source].push_back(row);
    groups[name.source + '\n' + name.model + '\n' + name.gpu].push_back(row);
    const double r = fit.answer().residuals[row];
    if (std::isfinite(r)) judging.answer_of(row).fit_to_all = std::exp(r) - 1;
  }
  std::size_t done = 0;
  for (const auto& [name, of_group] : groups) {
    progress.say("group left out,", ++done, groups.size());
    const auto errors = errors_at(run_fit, fit.without(marked(n, of_group)).values, of_group);
    for (std::size_t i = 0; i < of_group.size(); ++i) {
      judging.answer_of(of_group[i]).left_out_group = errors[i];
    }
  }
  done = 0;
  for (const auto& [name, of_source] : sources) {
    progress.say("source left out,", ++done, sources.size());
    const Fit::Without without = fit.without(marked(n, of_source));
    const auto errors = errors_at(run_fit, without.values, of_source);
    for (std::size_t i = 0; i < of_source.size(); ++i) {
      judging.answer_of(of_source[i]).left_out_source = errors[i];
    }
    judge_known(judging, fit, without, of_source);
    judge_own(judging, without, of_source);
  }
  copy_to_twins(rows);
}

}  // namespace eratos::apps
