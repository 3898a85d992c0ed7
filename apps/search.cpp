// eratos search JOB: which configuration should I run?
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/load_job.h"
#include "apps/nearby.h"
#include "apps/numbers.h"
#include "apps/output.h"
#include "apps/search_layers.h"
#include "apps/search_run.h"
#include "apps/search_store.h"
#include "apps/shown.h"
#include "apps/winner.h"
#include "eratos/hardware/cluster.h"
#include "eratos/job/job.h"
#include "eratos/reader/sayable.h"
#include "eratos/report/scaling.h"
#include "eratos/report/search.h"
#include "eratos/report/space.h"
#include "eratos/search/anneal.h"
#include "eratos/search/around.h"
#include "eratos/search/blame.h"
#include "eratos/search/difference.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/exhaustive.h"
#include "eratos/search/legality.h"
#include "eratos/search/space.h"
#include "eratos/search/sweep.h"
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

// A job, its space, and what a search of it found; the answer points into the rest.
struct Searched {
  std::unique_ptr<Job> job;
  search::Space space;
  search::Outcome outcome;
  std::vector<std::unique_ptr<Shown>> shown;
  std::unique_ptr<Shown> own;
  report::SearchAnswer answer;
};

Result<std::unique_ptr<Searched>> prepare_search(const Request& request) {
  Result<std::unique_ptr<Job>> job = prepare_job(request.job);
  if (!job) return faults(job.error());
  Diagnostics fixed = search::fixed_faults((*job)->read.job);
  if (!fixed.empty()) {
    reader::locate(fixed, (*job)->read.report);
    return faults(std::move(fixed));
  }
  Result<search::Space> space = search::space_of((*job)->read.job, request.axes);
  if (!space) return faults(space.error());
  reader::keep_sayable(*space);
  auto out = std::make_unique<Searched>();
  out->job = *std::move(job);
  out->space = *std::move(space);
  return out;
}

constexpr double kTop = 5;

// Above it, sweeps first: seconds that make an interrupted search worth something, and cut early.
constexpr std::uint64_t kSeeded = 10'000'000;

std::unique_ptr<search::Method> make_method(const std::string& name, const SearchRun& run,
                                            search::Wanted wanted) {
  if (name == "sweep") return std::make_unique<search::Sweep>(run.space, wanted.top);
  if (name == "anneal") {
    return std::make_unique<search::Anneal>(run.space, wanted.top, run.seed, run.budget);
  }
  std::vector<search::Found> seeds;
  if (run.space.raw() > kSeeded) {
    search::Sweep sweep(run.space, wanted.top);
    run_method(sweep, run);  // interrupted or not
    seeds = sweep.outcome().top;
  }
  return std::make_unique<search::Exhaustive>(run.space, wanted, search::Batches{}, seeds);
}

// "" when --method can do what is asked.
std::string method_fault(const Arguments& arguments) {
  const std::string name = arguments.value("--method", "exhaustive");
  if (name != "exhaustive" && name != "sweep" && name != "layers" && name != "anneal") {
    return fmt::format("unknown method `{}`; known: exhaustive, sweep, layers, anneal", name);
  }
  for (const char* flag : {"--seed", "--budget"}) {
    if (name != "anneal" && arguments.has(flag)) {
      return fmt::format("`{}` is of --method anneal", flag);
    }
  }
  if (name != "exhaustive" && arguments.has("--pareto")) {
    return "`--pareto` is proven, which takes --method exhaustive";
  }
  return "";
}

// What separates the best from the job and from the runner-up.
void compare_best(Searched& s) {
  const std::vector<search::Found>& top = s.outcome.top;
  if (top.empty()) return;
  const auto to_best = [&](const search::Settings& from) {
    return search::contributions(s.space, from, search::settings_of(s.space, top[0].at),
                                 s.job->calibration, s.job->options, *s.job->workspace);
  };
  if (s.own != nullptr) s.answer.from_job = to_best(search::settings_of_job(s.space));
  if (top.size() > 1) {
    s.answer.from_runner_up = to_best(search::settings_of(s.space, top[1].at));
  }
}

// kAnswered, or why the file of --store cannot be used.
int run(Searched& s, const Arguments& arguments, search::Wanted wanted, SearchStore& store) {
  const Job& job = *s.job;
  const SearchRun run{s.space, job.calibration, job.options,
                      static_cast<int>(number_of(arguments, "--threads", 0)), &store,
                      static_cast<std::uint64_t>(number_of(arguments, "--seed", 0)),
                      static_cast<std::uint64_t>(number_of(arguments, "--budget", 8192))};
  if (const int code = store.begin(run); code != kAnswered) return code;
  report::SearchAnswer& answer = s.answer;
  const std::string name = arguments.value("--method", "exhaustive");
  const std::unique_ptr<search::Method> method = make_method(name, run, wanted);
  answer.method = name;
  answer.interrupted = !run_method(*method, run);
  s.outcome = method->outcome();
  answer.space = &s.space;
  answer.outcome = &s.outcome;
  answer.front = wanted.front;
  answer.version = std::string(kVersion);
  answer.capacity =
      s.space.base.cluster.accelerator.memory_visible * (1.0 - job.options.memory_margin);
  search::Evaluator evaluator(s.space, job.calibration, job.options);
  for (const search::Found& found : s.outcome.top) {
    job::JobSpec spec = s.space.base;
    search::apply(s.space, found.at, spec);
    s.shown.push_back(show(job, spec));
    answer.top.push_back({s.shown.back()->answer, found.at,
                          search::steps_around(s.space, found.at, job.options, evaluator)});
    answer.top.back().within_band = search::is_rival(s.shown.front()->projection,
                                                     s.outcome.top[0].figure, found.figure);
  }
  s.own = show(job, s.space.base);
  if (s.own != nullptr) answer.own = &s.own->answer;
  compare_best(s);
  if (s.outcome.top.empty() && !answer.interrupted) {
    job::JobSpec spec = search::pinned_job(s.space);
    if (s.outcome.any_too_big) {
      search::apply(s.space, s.outcome.least, spec);
    } else {
      answer.deciding = search::deciding_rules(s.space);
    }
    answer.nearby = nearby(job, spec);
  }
  return kAnswered;
}

int search_once(const Request& request, const Arguments& arguments, Format format) {
  Result<std::unique_ptr<Searched>> prepared = prepare_search(request);
  if (!prepared) return report_faults(prepared.error());
  Searched& s = **prepared;
  if (arguments.has("--explain-space")) return explain_space(s.space, arguments, format);
  SearchStore store(arguments);
  const search::Wanted wanted{static_cast<std::size_t>(number_of(arguments, "--top", kTop)),
                              arguments.has("--pareto")};
  if (const int code = run(s, arguments, wanted, store); code != kAnswered) return code;
  const int found = s.answer.interrupted   ? kInterrupted
                    : s.answer.top.empty() ? kDoesNotFit
                                           : kAnswered;
  const int code = store.end(
      deliver(format == Format::json ? report::search_json(s.answer)
                                     : report::search_text(s.answer, style_of(arguments)),
              arguments, found));
  return s.shown.empty() ? code : write_winner(s.shown.front()->spec, arguments, code);
}

// "4..64": 4, 8, 16, 32, 64. Empty when it is neither a number nor a range.
std::vector<int> sizes_of(const std::string& text) {
  const std::size_t dots = text.find("..");
  const auto number = [](std::string_view s) {
    int n = 0;
    const auto [at, error] = std::from_chars(s.data(), s.data() + s.size(), n);
    return error == std::errc() && at == s.data() + s.size() ? n : 0;
  };
  const int from = number(std::string_view(text).substr(0, dots));
  const int to = dots == std::string::npos ? from : number(std::string_view(text).substr(dots + 2));
  std::vector<int> out;
  if (from < 1 || to > hardware::kMostAccelerators) return out;
  for (long long n = from; n <= to; n *= 2) out.push_back(static_cast<int>(n));
  return out;
}

// One search a size, each proven by itself.
int search_sizes(const Request& request, const std::vector<int>& sizes, const Arguments& arguments,
                 Format format) {
  std::vector<std::unique_ptr<Searched>> all;
  std::vector<const report::SearchAnswer*> answers;
  bool any = false;
  SearchStore store(arguments);
  for (const int nodes : sizes) {
    Request sized = request;
    sized.job.flags["--nodes"] = {std::to_string(nodes)};
    Result<std::unique_ptr<Searched>> prepared = prepare_search(sized);
    if (!prepared) return report_faults(prepared.error());
    all.push_back(*std::move(prepared));
    if (const int code = run(*all.back(), arguments, {1, false}, store); code != kAnswered) {
      return code;
    }
    answers.push_back(&all.back()->answer);
    any = any || !all.back()->shown.empty();
    if (all.back()->answer.interrupted) break;
  }
  const int found = answers.back()->interrupted ? kInterrupted : any ? kAnswered : kDoesNotFit;
  return store.end(deliver(format == Format::json
                               ? report::scaling_json(answers)
                               : report::scaling_text(answers, style_of(arguments)),
                           arguments, found));
}

}  // namespace

int run_search(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, "text json");
  if (!format) return report_usage(format.error().front().message);
  const Result<Request> request = request_of(arguments);
  if (!request) return report_usage(request.error().front().message);
  if (const std::string why = winner_fault(arguments); !why.empty()) return report_usage(why);
  if (const std::string why = method_fault(arguments); !why.empty()) return report_usage(why);
  if (const std::string why = store_fault(arguments); !why.empty()) return report_usage(why);
  const std::vector<int> sizes = sizes_of(arguments.value("--nodes", "1"));
  if (sizes.empty()) {
    return report_usage(fmt::format("`--nodes {}` is no number of nodes and no range such as 4..64",
                                    arguments.value("--nodes")));
  }
  if (arguments.value("--method") == "layers") {
    if (sizes.size() > 1) return report_usage("`--method layers` is of one cluster: name one --nodes");
    for (const char* flag : {"--store", "--resume"}) {
      if (arguments.has(flag)) {
        return report_usage(fmt::format("`{}` keeps candidates, and `--method layers` asks for none", flag));
      }
    }
    return search_layers(request->job, request->axes, arguments, *format);
  }
  if (sizes.size() == 1) return search_once(*request, arguments, *format);
  for (const char* flag : {"--best", "--pareto", "--explain-space", "--top"}) {
    if (arguments.has(flag)) {
      return report_usage(fmt::format("`{}` is of one cluster, not of several --nodes", flag));
    }
  }
  return search_sizes(*request, sizes, arguments, *format);
}

}  // namespace eratos::apps
