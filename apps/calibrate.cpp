// eratos calibrate RUNS.csv ...: the constants of a part and of a framework that measured runs ask
// for, as a file for --calibration. Tables of kernels and collectives (points.h) have a fit of their
// own.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>

#include "apps/calibrate_logs.h"
#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/measured_runs.h"
#include "apps/numbers.h"
#include "apps/output.h"
#include "apps/points.h"
#include "apps/run_fit.h"
#include "eratos/base/crc32.h"
#include "eratos/report/json.h"
#include "eratos/report/quantity.h"
#include "eratos/report/table.h"
#include "eratos/text/dump.h"
#include "eratos/text/tree.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

using calibration::Fit;
using calibration::FitAnswer;
using calibration::Owner;
using report::ErrorSummary;
using text::Node;

constexpr int kFolds = 5;

// What the fit found, ready to be printed.
struct Calibrated {
  const RunFit* fit = nullptr;
  FitAnswer answer;
  ErrorSummary before;
  ErrorSummary after;
  ErrorSummary held_back;  // rows judged by the fit of the other folds; n 0 with one row
};

ErrorSummary summary_of(const std::vector<double>& log_ratios) {
  std::vector<double> errors;
  for (const double r : log_ratios) {
    if (std::isfinite(r)) errors.push_back(std::exp(r) - 1);
  }
  return report::summarise(errors);
}

// Residuals of the problem's rows at `x`; rows that `only` leaves out stay NaN.
std::vector<double> residuals_of(const RunFit& fit, const std::vector<double>& x) {
  std::vector<calibration::Probe> probes;
  for (std::size_t i = 0; i < fit.runs().size(); ++i) {
    probes.push_back({static_cast<int>(i), -1, 0});
  }
  std::vector<double> out(probes.size());
  fit.evaluate(x, probes, out);
  return out;
}

std::vector<double> cross_validated(const RunFit& run_fit, const Fit& fit,
                                    const MeasuredRuns& measured) {
  const std::size_t n = run_fit.runs().size();
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](std::size_t i) {
    const reader::RunName& name = measured.runs[run_fit.runs()[i]].run.name;
    return std::make_pair(crc32(name.id), name.line);
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  const int folds = std::min<int>(kFolds, static_cast<int>(n));
  std::vector<double> out(n);
  for (int fold = 0; fold < folds; ++fold) {
    std::vector<bool> left_out(n, false);
    std::vector<calibration::Probe> probes;
    for (std::size_t i = static_cast<std::size_t>(fold); i < n; i += static_cast<std::size_t>(folds)) {
      left_out[order[i]] = true;
      probes.push_back({static_cast<int>(order[i]), -1, 0});
    }
    std::vector<double> judged(probes.size());
    run_fit.evaluate(fit.without(left_out).values, probes, judged);
    for (std::size_t i = 0; i < probes.size(); ++i) {
      out[static_cast<std::size_t>(probes[i].row)] = judged[i];
    }
  }
  return out;
}

double rounded(double value) { return std::stod(fmt::format("{:.4g}", value)); }

void set_at(Node& root, const std::string& path, Node value) {
  Node* at = &root;
  std::size_t begin = 0;
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    const std::string key = path.substr(begin, dot - begin);
    if (at->find(key) == nullptr) at->set(key, Node::mapping());
    at = at->find(key);
    begin = dot + 1;
  }
  at->set(path.substr(begin), std::move(value));
}

Node error_node(const ErrorSummary& s) {
  Node out = Node::mapping();
  out.set("n", Node::integer(s.n));
  if (s.n == 0) return out;
  out.set("median_abs", Node::number(rounded(s.median_abs)));
  out.set("p90_abs", Node::number(rounded(s.p90_abs)));
  out.set("mean", Node::number(rounded(s.mean)));
  return out;
}

// How much of what is known of it the rows say: 0 nothing, 1 everything.
double said_by_rows(const Calibrated& c, std::size_t i) {
  const double share = c.answer.uncertainty[i] / c.fit->problem().parameters[i].spread;
  return std::clamp(1 - share * share, 0.0, 1.0);
}

Node constants_node(const Calibrated& c) {
  Node list = Node::sequence();
  for (std::size_t i = 0; i < c.fit->constants().size(); ++i) {
    const FittedConstant& constant = c.fit->constants()[i];
    Node one = Node::mapping();
    one.set("owner", Node::string(constant.owner));
    one.set("path", Node::string(std::string(constant.parameter->path)));
    one.set("before", Node::number(rounded(constant.before)));
    one.set("prior", Node::number(rounded(constant.prior)));
    one.set("spread", Node::number(rounded(constant.spread)));
    one.set("after", Node::number(rounded(c.answer.values[i])));
    one.set("uncertainty", Node::number(rounded(c.answer.uncertainty[i])));
    one.set("said_by_rows", Node::number(rounded(said_by_rows(c, i))));
    one.set("rows", Node::integer(c.answer.informing[i]));
    one.set("at_bound", Node::boolean(c.answer.at_bound[i]));
    list.append(std::move(one));
  }
  return list;
}

Node fit_node(const Calibrated& c) {
  Node fit = Node::mapping();
  fit.set("rows", Node::integer(static_cast<std::int64_t>(c.fit->runs().size())));
  Node sources = Node::sequence();
  for (const std::string& source : c.fit->sources()) {
    sources.append(Node::string(source.empty() ? "not named" : source));
  }
  fit.set("sources", std::move(sources));
  fit.set("free_parameters", Node::integer(c.fit->free_parameters()));
  fit.set("converged", Node::boolean(c.answer.converged));
  fit.set("error_before", error_node(c.before));
  fit.set("error_after", error_node(c.after));
  if (c.held_back.n > 0) fit.set("error_cross_validated", error_node(c.held_back));
  fit.set("parameters", constants_node(c));
  return fit;
}

// The file for --calibration: constants that some row informs.
Node file_node(const Calibrated& c) {
  Node parts = Node::mapping();
  Node frameworks = Node::mapping();
  for (std::size_t i = 0; i < c.fit->constants().size(); ++i) {
    const FittedConstant& constant = c.fit->constants()[i];
    if (c.answer.informing[i] == 0) continue;
    Node& of = constant.parameter->owner == Owner::part ? parts : frameworks;
    if (of.find(constant.owner) == nullptr) of.set(constant.owner, Node::mapping());
    set_at(*of.find(constant.owner), std::string(constant.parameter->path),
           Node::number(rounded(c.answer.values[i])));
  }
  Node out = Node::mapping();
  out.set("eratos", Node::string(std::string(kVersion)));
  if (parts.size() > 0) out.set("parts", std::move(parts));
  if (frameworks.size() > 0) out.set("frameworks", std::move(frameworks));
  out.set("fit", fit_node(c));
  return out;
}

std::string error_line(const char* what, const ErrorSummary& s) {
  return fmt::format("  {:<38} {:>7} median, {:>7} at the 90th percentile, {:>7} mean\n", what,
                     report::percent(s.median_abs), report::percent(s.p90_abs),
                     report::signed_percent(s.mean));
}

std::string verdict(const Calibrated& c, std::size_t i) {
  if (c.answer.at_bound[i]) return "at its bound";
  const double said = said_by_rows(c, i);
  return said > 0.75 ? "the rows say it" : said > 0.2 ? "partly" : "hardly";
}

std::string report_text(const Calibrated& c, const report::Style& style) {
  using report::Align;
  report::Table table({{"constant"},
                       {"before", Align::right},
                       {"after", Align::right},
                       {"+-", Align::right},
                       {"rows", Align::right},
                       {"informed"}});
  std::string unseen;
  for (std::size_t i = 0; i < c.fit->constants().size(); ++i) {
    const FittedConstant& constant = c.fit->constants()[i];
    if (constant.of_class) continue;
    if (c.answer.informing[i] == 0) {
      unseen += (unseen.empty() ? "" : ", ") + constant.name();
      continue;
    }
    table.row({constant.name(), fmt::format("{:.3g}", constant.before),
               fmt::format("{:.3g}", c.answer.values[i]),
               report::percent(c.answer.uncertainty[i]), std::to_string(c.answer.informing[i]),
               verdict(c, i)});
  }
  std::string out = fmt::format("{} runs of {} source{}, {} free parameters{}\n\n",
                                c.fit->runs().size(), c.fit->sources().size(),
                                c.fit->sources().size() == 1 ? "" : "s", c.fit->free_parameters(),
                                c.answer.converged ? "" : " (the fit did not settle)");
  out += table.text(2, style);
  if (!unseen.empty()) {
    out += '\n' + report::wrapped("no row informs: " + unseen, 96, "  ") + '\n';
  }
  out += "\nerror of throughput\n" + error_line("before", c.before) + error_line("after", c.after);
  if (c.held_back.n > 0) {
    out += error_line("after, rows left out of their own fit", c.held_back);
  }
  return out;
}

// Every row that says nothing here, with its place and why.
Diagnostics unusable(const MeasuredRuns& measured) {
  Diagnostics out;
  for (const report::AccuracyRow& row : measured.rows) {
    if (row.ok()) continue;
    out.push_back({.where = {row.file, row.line, 1},
                   .message = "`" + row.id + "`: " + row.skipped +
                              (row.detail.empty() ? "" : ": " + row.detail)});
  }
  for (const MeasuredRun& each : measured.runs) {
    const report::AccuracyRow& row = measured.rows[each.row];
    std::string why;
    if (measured_speed(each.run.measured) <= 0) why = "states no speed";
    if (!row.suspect.empty()) why = "is suspect: " + row.suspect;
    if (why.empty()) continue;
    out.push_back({.where = {row.file, row.line, 1}, .message = "`" + row.id + "` " + why});
  }
  return out;
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

}  // namespace

int run_calibrate(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, "text json");
  if (!format) return report_usage(format.error().front().message);
  if (any_points(arguments.words)) return calibrate_points(arguments);
  if (any_logs(arguments.words)) return calibrate_logs(arguments);
  // A fit may take a minute; a name that is taken is said before.
  const std::string file = arguments.value("--output");
  if (!file.empty() && exists(file) && !arguments.has("--force")) {
    return write_named(file, "", arguments);
  }
  Result<MeasuredRuns> measured = read_measured_runs(arguments);
  if (!measured) return report_faults(measured.error());
  const bool shipped = arguments.has("--shipped");
  const RunFit run_fit(*measured, shipped ? FitOf::catalogue : FitOf::users_own,
                       number_of(arguments, "--mfu-min", 0));
  const Diagnostics left = unusable(*measured);
  if (run_fit.runs().empty()) {
    if (!left.empty()) return report_faults(left);
    return report_faults(
        {{.where = {.file = arguments.words.front()}, .message = "no run that can be fitted"}});
  }
  for (const Diagnostic& d : left) {
    if (!shipped) std::fprintf(stderr, "not used: %s\n", to_text(d).c_str());
  }

  Calibrated c;
  c.fit = &run_fit;
  std::vector<double> before;
  for (const FittedConstant& constant : run_fit.constants()) before.push_back(constant.before);
  c.before = summary_of(residuals_of(run_fit, before));
  const auto started = std::chrono::steady_clock::now();
  calibration::FitOptions options;
  options.progress = [&](int step) {
    const auto now = std::chrono::steady_clock::now();
    if (now - started < std::chrono::seconds(1)) return;
    std::fprintf(stderr, "step %d of at most %d\n", step + 1, options.most_steps);
  };
  const Fit fit(run_fit.problem(), options);
  c.answer = fit.answer();
  c.after = summary_of(c.answer.residuals);
  if (run_fit.runs().size() > 1) {
    c.held_back = summary_of(cross_validated(run_fit, fit, *measured));
  }

  if (!file.empty()) {
    const int written = write_named(file, text::to_yaml(file_node(c)), arguments);
    if (written != kAnswered) return written;
  }
  Arguments to_terminal = arguments;
  to_terminal.flags.erase("--output");
  if (*format == Format::json) {
    Node out = report::document(std::string(kVersion));
    out.set("fit", fit_node(c));
    return deliver(text::to_json(out) + '\n', to_terminal, kAnswered);
  }
  std::string text = report_text(c, style_of(to_terminal));
  if (file.empty()) text += "\n-o FILE writes them for --calibration\n";
  return deliver(text, to_terminal, kAnswered);
}

}  // namespace eratos::apps
