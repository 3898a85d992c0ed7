// eratos search JOB: which configuration should I run?
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/aim.h"
#include "apps/answers.h"
#include "apps/axis_words.h"
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
#include "apps/sizes.h"
#include "apps/winner.h"
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
#include "eratos/search/objective.h"
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

struct Request {
  Arguments job;  // with JOB as its only word
  std::vector<std::string> axes;
  std::vector<std::string> front;  // figures of --pareto
};

// --axes takes one word in quotes or several behind it.
Result<Request> request_of(const Arguments& arguments) {
  Request out{arguments, {}, {}};
  out.job.words.clear();
  for (const std::string& text : arguments.values("--axes")) {
    for (std::string& word : axis_words(text)) out.axes.push_back(std::move(word));
  }
  for (const std::string& word : arguments.words) {
    if (is_axis(word)) {
      out.axes.push_back(word);
    } else if (is_front(word, arguments.has("--pareto"))) {
      out.front.push_back(word);
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
  search::Aim aim;
  search::Outcome outcome;
  std::vector<std::unique_ptr<Shown>> shown;
  std::unique_ptr<Shown> own;
  report::SearchAnswer answer;
};

Result<std::unique_ptr<Searched>> prepare_search(const Request& request, const Wishes& wishes) {
  Result<std::unique_ptr<Job>> job = prepare_job(request.job);
  if (!job) return faults(job.error());
  Diagnostics fixed = search::fixed_faults((*job)->read.job);
  if (!fixed.empty()) {
    reader::locate(fixed, (*job)->read.report);
    return faults(std::move(fixed));
  }
  Result<search::Space> space = search::space_of((*job)->read.job, request.axes);
  if (!space) return faults(space.error());
  Result<search::Aim> aim = aim_of(wishes, (*job)->read.job.cluster, (*job)->options.memory_margin);
  if (!aim) return faults(aim.error());
  reader::keep_sayable(*space, [&](std::size_t n, const std::function<void(std::size_t)>& one) {
    on_threads(static_cast<int>(number_of(request.job, "--threads", 0)), n, one);
  });
  auto out = std::make_unique<Searched>();
  out->job = *std::move(job);
  out->space = *std::move(space);
  out->aim = *std::move(aim);
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

// What an answer is after.
constexpr const char* kAims[] = {
    "--objective", "--require",          "--within",           "--tokens", "--price",
    "--mtbf",      "--checkpoint-write", "--checkpoint-every", "--restart"};

// "" when --explain-space, which only counts, is not asked for an answer as well.
std::string count_fault(const Arguments& arguments) {
  if (!arguments.has("--explain-space")) return "";
  std::vector<const char*> of_answers(std::begin(kAims), std::end(kAims));
  of_answers.insert(of_answers.end(), {"--best", "--pareto", "--top"});
  for (const char* flag : of_answers) {
    if (!arguments.has(flag)) continue;
    return fmt::format("`{}` is of an answer, and `--explain-space` only counts", flag);
  }
  return "";
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

// Where the limits refuse all that fits: how far each alone would have to give, proven the same
// way. Where nothing fits whatever the limits are, that is the outcome.
std::vector<report::Loosened> loosen(Searched& s, const std::string& method, const SearchRun& run) {
  std::vector<report::Loosened> out;
  if (s.outcome.refused.empty()) return out;
  const auto search = [&](const search::Aim& aim) -> std::optional<search::Outcome> {
    const SearchRun again{run.space,   run.calibration, run.options, aim,
                          run.threads, run.store,       run.seed,    run.budget};
    const std::unique_ptr<search::Method> one = make_method(method, again, {1, false});
    if (!run_method(*one, again)) return std::nullopt;
    return one->outcome();
  };
  search::Aim aim = s.aim;
  aim.front.clear();
  for (std::size_t i = 0; i < s.aim.limits.size(); ++i) {
    aim.objective = s.aim.limits[i].objective;
    aim.limits = s.aim.limits;
    aim.limits.erase(aim.limits.begin() + static_cast<std::ptrdiff_t>(i));
    const std::optional<search::Outcome> without = search(aim);
    if (!without) return out;
    for (const search::Found& f : without->top) {
      const search::Measures m = search::measures_of(s.space, f);
      out.push_back({i, search::value_of(aim.objective, aim.terms, m), f.at});
    }
  }
  if (!out.empty()) return out;
  aim.limits.clear();
  std::optional<search::Outcome> anything = search(aim);
  if (anything && anything->top.empty()) s.outcome = *std::move(anything);
  return out;
}

// Drops what has no time: too long to be simulated. False where nothing else is left.
bool keep_timed(search::Outcome& outcome) {
  const auto no_time = [](const search::Found& f) { return !std::isfinite(f.per_token); };
  const std::size_t dropped = std::erase_if(outcome.top, no_time);
  std::erase_if(outcome.front, no_time);
  return dropped == 0 || !outcome.top.empty();
}

// kAnswered, why the file of --store cannot be used, or that no step can be timed.
int run(Searched& s, const Arguments& arguments, search::Wanted wanted, SearchStore& store) {
  const Job& job = *s.job;
  const SearchRun run{s.space,
                      job.calibration,
                      job.options,
                      s.aim,
                      static_cast<int>(number_of(arguments, "--threads", 0)),
                      &store,
                      static_cast<std::uint64_t>(number_of(arguments, "--seed", 0)),
                      static_cast<std::uint64_t>(number_of(arguments, "--budget", 8192))};
  if (const int code = store.begin(run); code != kAnswered) return code;
  report::SearchAnswer& answer = s.answer;
  const std::string name = arguments.value("--method", "exhaustive");
  const std::unique_ptr<search::Method> method = make_method(name, run, wanted);
  answer.method = name;
  answer.interrupted = !run_method(*method, run);
  s.outcome = method->outcome();
  if (!keep_timed(s.outcome)) {
    return report_faults(
        {{.message = fmt::format("{}: a step of every configuration that fits would take more than "
                                 "11 days of work on its pipeline ranks",
                                 s.space.base.model.name),
          .cure = "is the batch or the sequence right?"}});
  }
  answer.space = &s.space;
  answer.outcome = &s.outcome;
  answer.aim = &s.aim;
  answer.front = wanted.front;
  answer.version = std::string(kVersion);
  answer.capacity =
      s.space.base.cluster.accelerator.memory_visible * (1.0 - job.options.memory_margin);
  search::Evaluator evaluator(s.space, job.calibration, job.options);
  for (const search::Found& found : s.outcome.top) {
    job::JobSpec spec = s.space.base;
    search::apply(s.space, found.at, spec);
    s.shown.push_back(show(job, spec));
    answer.top.push_back({s.shown.back()->answer, found.at, found.figure,
                          search::steps_around(s.space, found.at, job.options, s.aim, evaluator)});
    answer.top.back().within_band =
        search::is_rival(s.shown.front()->projection, s.outcome.top[0].per_token, found.per_token);
  }
  s.own = show(job, s.space.base);
  if (s.own != nullptr) answer.own = &s.own->answer;
  compare_best(s);
  if (s.outcome.top.empty() && !answer.interrupted) answer.loosened = loosen(s, name, run);
  if (s.outcome.top.empty() && !answer.interrupted && s.outcome.refused.empty()) {
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

// A price that no cluster of the search can use is most likely a slip.
void say_idle_prices(const Wishes& wishes, const std::vector<std::string>& parts) {
  for (const auto& [part, price] : wishes.prices) {
    if (std::find(parts.begin(), parts.end(), part) != parts.end()) continue;
    std::fprintf(stderr, "search: `--price %s=%g` is used nowhere: no cluster here is of it\n",
                 part.c_str(), price);
  }
}

int search_once(const Request& request, const Wishes& wishes, const Arguments& arguments,
                Format format) {
  Result<std::unique_ptr<Searched>> prepared = prepare_search(request, wishes);
  if (!prepared) return report_faults(prepared.error());
  Searched& s = **prepared;
  say_idle_prices(wishes, {s.space.base.cluster.accelerator.name});
  if (arguments.has("--explain-space")) return explain_space(s.space, arguments, format);
  SearchStore store(arguments);
  const search::Wanted wanted{static_cast<std::size_t>(number_of(arguments, "--top", kTop)),
                              arguments.has("--pareto")};
  if (const int code = run(s, arguments, wanted, store); code != kAnswered) return code;
  const int found = s.answer.interrupted   ? kInterrupted
                    : s.answer.top.empty() ? kDoesNotFit
                                           : kAnswered;
  const int code =
      store.end(deliver(format == Format::json ? report::search_json(s.answer)
                                               : report::search_text(s.answer, style_of(arguments)),
                        arguments, found));
  return s.shown.empty() ? code : write_winner(s.shown.front()->spec, arguments, code);
}

// The job's batch at a size where it grows with the accelerators. Errors: no whole sequences.
Result<Request> with_batch(const Request& sized, const job::JobSpec& first, int gpus) {
  const long long global = static_cast<long long>(first.batch.global) * gpus;
  if (global % first.cluster.gpus() != 0) {
    return fault({.message = fmt::format("`--scale-batch`: {} sequences on {} accelerators are no "
                                         "whole number on {}",
                                         first.batch.global, first.cluster.gpus(), gpus),
                  .cure = "choose sizes that are multiples of the first, or list gbs with --axes"});
  }
  Request out = sized;
  out.job.flags["--set"].push_back(fmt::format("batch.global={}", global / first.cluster.gpus()));
  return out;
}

// One search a size, each proven by itself.
int search_sizes(const Request& request, const Wishes& wishes, const std::vector<Size>& sizes,
                 const Arguments& arguments, Format format) {
  std::vector<std::unique_ptr<Searched>> all;
  report::Scaling scaling;
  scaling.batch_grows = arguments.has("--scale-batch");
  bool any = false;
  SearchStore store(arguments);
  for (const Size& size : sizes) {
    Request sized = request;
    sized.job = at_size(request.job, size);
    Result<std::unique_ptr<Searched>> prepared = prepare_search(sized, wishes);
    if (prepared && scaling.batch_grows && !all.empty()) {
      const int gpus = (*prepared)->job->read.job.cluster.gpus();
      const Result<Request> grown = with_batch(sized, all[0]->job->read.job, gpus);
      if (!grown) return report_faults(grown.error());
      prepared = prepare_search(*grown, wishes);
    }
    if (!prepared) return report_faults(prepared.error());
    all.push_back(*std::move(prepared));
    if (const int code = run(*all.back(), arguments, {1, false}, store); code != kAnswered) {
      return code;
    }
    scaling.each.push_back(&all.back()->answer);
    any = any || !all.back()->shown.empty();
    if (all.back()->answer.interrupted) break;
  }
  std::vector<std::string> parts;
  for (const auto& one : all) parts.push_back(one->space.base.cluster.accelerator.name);
  if (!scaling.each.back()->interrupted) say_idle_prices(wishes, parts);
  const int found = scaling.each.back()->interrupted ? kInterrupted : any ? kAnswered : kDoesNotFit;
  return store.end(deliver(format == Format::json
                               ? report::scaling_json(scaling)
                               : report::scaling_text(scaling, style_of(arguments)),
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
  if (const std::string why = count_fault(arguments); !why.empty()) return report_usage(why);
  if (const std::string why = same_file(arguments); !why.empty()) return report_usage(why);
  for (const char* flag : {"--best", "--output"}) {
    if (!arguments.has(flag)) continue;
    if (const int code = place_fault(arguments.value(flag), arguments); code != kAnswered) {
      return code;
    }
  }
  const Result<std::vector<Size>> sizes = sizes_of(request->job);
  if (!sizes) return report_usage(sizes.error().front().message);
  if (arguments.value("--method") == "layers") {
    if (sizes->size() > 1)
      return report_usage("`--method layers` is of one cluster: name one --nodes");
    for (const char* flag : {"--store", "--resume"}) {
      if (arguments.has(flag)) {
        return report_usage(
            fmt::format("`{}` keeps candidates, and `--method layers` asks for none", flag));
      }
    }
    for (const char* flag : kAims) {
      if (arguments.has(flag)) {
        return report_usage(
            fmt::format("`{}`: `--method layers` is after the shortest step", flag));
      }
    }
    return search_layers(request->job, request->axes, arguments, *format);
  }
  const Result<Wishes> wishes = wishes_of(arguments, request->front);
  if (!wishes) return report_faults(wishes.error());
  if (sizes->size() == 1) {
    if (arguments.has("--scale-batch")) {
      return report_usage("`--scale-batch` is of several --nodes or --cluster");
    }
    return search_once(*request, *wishes, arguments, *format);
  }
  for (const char* flag : {"--best", "--pareto", "--explain-space", "--top"}) {
    if (arguments.has(flag)) {
      return report_usage(fmt::format("`{}` is of one cluster, not of several", flag));
    }
  }
  return search_sizes(*request, *wishes, *sizes, arguments, *format);
}

}  // namespace eratos::apps
