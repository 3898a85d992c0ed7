// eratos search JOB: which configuration should I run?
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/load_job.h"
#include "apps/numbers.h"
#include "apps/output.h"
#include "apps/search_run.h"
#include "apps/winner.h"
#include "eratos/job/job.h"
#include "eratos/projection/projection.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/reader/sayable.h"
#include "eratos/report/search.h"
#include "eratos/report/space.h"
#include "eratos/search/around.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/exhaustive.h"
#include "eratos/search/legality.h"
#include "eratos/search/nearest.h"
#include "eratos/search/space.h"
#include "eratos/search/walk.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

// `tp=1,2`, `vpp!=8` or `rest=job`: a word of --axes that stands by itself.
bool is_axis(const std::string& word) {
  const std::size_t end = word.find_first_of("!=");
  if (end == std::string::npos) return false;
  const std::string name = word.substr(0, end);
  if (name == "rest") return true;
  for (const search::AxisFacts& f : search::kAxisFacts) {
    if (f.name == name || f.alias == name) return true;
  }
  return false;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  while ((begin = text.find_first_not_of(" \t\n", begin)) != std::string::npos) {
    const std::size_t end = text.find_first_of(" \t\n", begin);
    out.push_back(text.substr(begin, end - begin));
    begin = end;
    if (end == std::string::npos) break;
  }
  return out;
}

struct Request {
  Arguments job;  // with JOB as its only word
  std::vector<std::string> axes;
};

// --axes takes one word in quotes or several behind it.
Result<Request> request_of(const Arguments& arguments) {
  Request out{arguments, {}};
  out.job.words.clear();
  for (const std::string& text : arguments.values("--axes")) {
    for (std::string& word : words_of(text)) out.axes.push_back(std::move(word));
  }
  for (const std::string& word : arguments.words) {
    if (is_axis(word)) {
      out.axes.push_back(word);
    } else {
      out.job.words.push_back(word);
    }
  }
  if (out.job.words.size() == 1) return out;
  if (out.job.words.empty()) return fault({.message = "`search` needs JOB"});
  return fault({.message = fmt::format("unexpected word `{}`", out.job.words[1])});
}

int explain_space(const search::Space& space, const Arguments& arguments, Format format) {
  const search::Count count = search::count(space);
  return deliver(format == Format::json ? report::space_json(space, count, std::string(kVersion))
                                        : report::space_text(space, count, style_of(arguments)),
                 arguments, count.legal > 0 ? kAnswered : kDoesNotFit);
}

// What the reports point into; stays where it was made.
struct Shown {
  job::JobSpec spec;
  job::CheckedJob checked;
  projection::Projection projection;
  report::Answer answer;
};

// Errors: not legal; then there is nothing to show.
std::unique_ptr<Shown> show(const Job& job, const job::JobSpec& spec) {
  auto out = std::make_unique<Shown>();
  out->spec = spec;
  if (!job::check(out->spec, out->checked).empty()) return nullptr;
  if (!projection::schedule_faults(out->checked).empty()) return nullptr;
  out->projection = projection::project(out->checked, job.calibration, job.options, *job.workspace);
  out->answer = {.spec = &out->spec,
                 .checked = &out->checked,
                 .projection = &out->projection,
                 .job = reader::job_to_node(out->spec),
                 .version = std::string(kVersion)};
  return out;
}

std::vector<report::Nearby> nearby(const Job& job, const job::JobSpec& spec) {
  constexpr std::size_t kMost = 5;
  std::vector<report::Nearby> out;
  for (const search::Neighbour& n :
       search::nearest_that_fit(spec, job.calibration, job.options, kMost, *job.workspace)) {
    out.push_back({n.change, n.screen.device_peak, n.screen.step_lower_bound});
  }
  return out;
}

int exit_code(const report::SearchAnswer& answer) {
  if (answer.interrupted) return kInterrupted;
  return answer.top.empty() ? kDoesNotFit : kAnswered;
}

constexpr double kTop = 5;

int search_all(const Job& job, const search::Space& space, const Arguments& arguments,
               Format format) {
  search::Exhaustive method(space, {static_cast<std::size_t>(number_of(arguments, "--top", kTop)),
                                    arguments.has("--pareto")});
  const SearchRun run{space, job.calibration, job.options,
                      static_cast<int>(number_of(arguments, "--threads", 0))};
  report::SearchAnswer answer;
  answer.interrupted = !run_method(method, run);
  const search::Outcome& outcome = method.outcome();
  answer.space = &space;
  answer.outcome = &outcome;
  answer.version = std::string(kVersion);
  answer.capacity =
      space.base.cluster.accelerator.memory_visible * (1.0 - job.options.memory_margin);

  std::vector<std::unique_ptr<Shown>> shown;
  search::Evaluator evaluator(space, job.calibration, job.options);
  for (const search::Found& found : outcome.top) {
    job::JobSpec spec = space.base;
    search::apply(space, found.at, spec);
    shown.push_back(show(job, spec));
    answer.top.push_back({shown.back()->answer, found.at,
                          search::steps_around(space, found.at, job.options, evaluator)});
    answer.top.back().within_band = shown.back()->projection.confidence.step.first.value <=
                                    shown.front()->projection.confidence.step.second.value;
  }
  const std::unique_ptr<Shown> own = show(job, space.base);
  if (own != nullptr) answer.own = &own->answer;
  if (outcome.top.empty() && !answer.interrupted) {
    job::JobSpec spec = space.base;
    if (outcome.any_too_big) search::apply(space, outcome.least, spec);
    answer.nearby = nearby(job, spec);
  }
  answer.front = arguments.has("--pareto");
  const int code =
      deliver(format == Format::json ? report::search_json(answer)
                                     : report::search_text(answer, style_of(arguments)),
              arguments, exit_code(answer));
  return shown.empty() ? code : write_winner(shown.front()->spec, arguments, code);
}

}  // namespace

int run_search(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, "text json");
  if (!format) return report_usage(format.error().front().message);
  const Result<Request> request = request_of(arguments);
  if (!request) return report_usage(request.error().front().message);
  if (const std::string why = winner_fault(arguments); !why.empty()) return report_usage(why);
  const Result<std::unique_ptr<Job>> job = prepare_job(request->job);
  if (!job) return report_faults(job.error());
  Diagnostics fixed = search::fixed_faults((*job)->read.job);
  if (!fixed.empty()) {
    reader::locate(fixed, (*job)->read.report);
    return report_faults(fixed);
  }
  Result<search::Space> space = search::space_of((*job)->read.job, request->axes);
  if (!space) return report_faults(space.error());
  reader::keep_sayable(*space);
  if (arguments.has("--explain-space")) return explain_space(*space, arguments, *format);
  return search_all(**job, *space, arguments, *format);
}

}  // namespace eratos::apps
