// eratos schedule: one pipeline schedule in full, or every legal one compared: time, bubble,
// memory.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/numbers.h"
#include "apps/output.h"
#include "apps/pictures.h"
#include "apps/schedule_request.h"
#include "apps/schedule_run.h"
#include "eratos/parallel/parallel.h"
#include "eratos/report/quantity.h"
#include "eratos/report/schedule_answer.h"
#include "eratos/report/timeline.h"
#include "eratos/schedule/registry.h"
#include "eratos/solver/solver.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

using schedule::Schedule;

constexpr std::string_view kOptimal = "optimal";

// Says on standard error what is being worked on, once the whole has taken a second.
class Progress {
 public:
  void step(std::string_view name, std::size_t done, std::size_t all) const {
    if (std::chrono::steady_clock::now() - began_ < std::chrono::seconds(1)) return;
    std::fprintf(stderr, "%s\n", fmt::format("{} ({} of {})", name, done + 1, all).c_str());
  }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// Ctrl-C ends the search and not the program; a second one ends the program as ever.
volatile std::sig_atomic_t interrupted = 0;
extern "C" void interrupt(int) { interrupted = 1; }

class Interruptible {
 public:
  Interruptible() {
    struct sigaction handler {};
    handler.sa_handler = interrupt;
    handler.sa_flags = static_cast<int>(SA_RESETHAND);
    sigemptyset(&handler.sa_mask);
    sigaction(SIGINT, &handler, &before_);
    // Whoever started the program so that Ctrl-C does not reach it (nohup, `&` in a script).
    if (before_.sa_handler == SIG_IGN) sigaction(SIGINT, &before_, nullptr);
  }
  ~Interruptible() { sigaction(SIGINT, &before_, nullptr); }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  struct sigaction before_ {};
};

// Once a second on a terminal's standard error, one line that is written over: what a search has
// found so far.
class SearchProgress {
 public:
  SearchProgress(const report::Scale& scale, Seconds limit) : scale_(scale), limit_(limit) {}
  ~SearchProgress() {
    if (shown_ > 0) std::fprintf(stderr, "\r%*s\r", width_, "");
  }
  SearchProgress(const SearchProgress&) = delete;
  SearchProgress& operator=(const SearchProgress&) = delete;

  void show(const solver::Found& found) {
    if (!terminal_ || found.makespan == 0 || found.seconds.value < shown_ + 1) return;
    shown_ = found.seconds.value;
    const char* unit = scale_.seconds ? "" : " units";
    const std::string line =
        fmt::format("{:.0f} s of {:.0f}: best {}{}, none below {}{}; Ctrl-C takes the best", shown_,
                    limit_.value, report::time_text(found.makespan, scale_), unit,
                    report::time_text(found.lower, scale_), unit);
    const auto size = static_cast<int>(line.size());
    std::fprintf(stderr, "\r%-*s", width_, line.c_str());
    if (size > width_) width_ = size;
    std::fflush(stderr);
  }

 private:
  report::Scale scale_;
  Seconds limit_;
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  double shown_ = 0;
  int width_ = 0;
};

// The best order found when it is proven, the time is up or the user has had enough.
Result<Ran> search_optimal(const ScheduleRequest& request) {
  const Interruptible interruptible;
  SearchProgress progress(request.scale, request.time_limit);
  Seconds searched;
  Result<Ran> ran = run_optimal(request, [&](const solver::Found& found) {
    progress.show(found);
    searched = found.seconds;
    return interrupted == 0;
  });
  if (ran && interrupted != 0) {
    ran->run.search += fmt::format(", interrupted after {}", report::duration(searched));
  }
  return ran;
}

Diagnostic named(std::string_view name, Diagnostic d) {
  if (d.message.find(name) == std::string::npos) d.message = fmt::format("{}: {}", name, d.message);
  return d;
}

report::ScheduleAnswer answer_to(const ScheduleRequest& request) {
  report::ScheduleAnswer a;
  a.asked = request.shape;
  a.asked_chunks = request.chunks_given;
  a.algorithm = request.algorithm;
  a.scale = request.scale;
  a.costs = request.costs;
  a.notes = request.notes;
  a.version = kVersion;
  return a;
}

// What must be known to read the numbers right.
void add_notes(const ScheduleRequest& request, report::ScheduleAnswer& a) {
  const auto any = [&](auto is) {
    return std::any_of(a.runs.begin(), a.runs.end(), [&](const report::ScheduleRun& run) {
      const Schedule* s = schedule::find(run.name);
      return s != nullptr && is(*s);
    });
  };
  if (!request.scale.seconds) {
    a.notes.emplace_back(
        "times are in units: 1 unit is the forward of one micro-batch through one rank's layers, "
        "unless --forward says otherwise");
  }
  if (any([](const Schedule& s) { return s.placement == parallel::Placement::bidirectional; })) {
    a.notes.emplace_back(
        "bidirectional schedules hold two copies of the model: every rank has the parameters of "
        "two stages");
  }
  if (request.hideable == 0 && any([](const Schedule& s) { return s.side_by_side; })) {
    a.notes.emplace_back(
        "a forward and a backward side by side take the sum of both; --hideable SHARE says how "
        "much of each is communication that the other hides");
  }
  if (request.algorithm == kOptimal && !solver::solver_note().empty()) {
    a.notes.emplace_back(solver::solver_note());
  }
  if (request.shape.output != schedule::OutputLayer::last_stage && request.output_held == 0) {
    a.notes.emplace_back(
        "what the cut output layer holds between S and T is not counted; --output-held BYTES says "
        "it");
  }
  for (const report::ScheduleRun& run : a.runs) {
    if (run.name != "interleaved-1f1b") continue;
    const schedule::Shape& shape = run.shape;
    const int group = shape.group_size > 0 ? shape.group_size : shape.pp;
    const int rest = shape.micro_batches % group;
    if (shape.micro_batches >= group && (rest == 0 || rest >= shape.pp)) continue;
    a.notes.push_back(fmt::format(
        "Megatron-LM refuses {} micro-batches in groups of {} on {} ranks: a group must not be "
        "larger than a step, nor the last one smaller than the pipeline{}",
        shape.micro_batches, group, shape.pp,
        rest > 0 && rest < shape.pp ? "; here that one is ordered as if it were full" : ""));
  }
  if (!request.limit && any([](const Schedule& s) { return s.generate_for != nullptr; })) {
    a.notes.emplace_back(
        "without --memory-limit, schedules that take one use what suits time best");
  }
}

int columns_of(const Arguments& arguments) {
  constexpr int kColumns = 96;
  if (arguments.has("--width")) return static_cast<int>(number_of(arguments, "--width", kColumns));
  winsize size{};
  if (!arguments.has("--output") && isatty(STDOUT_FILENO) != 0 &&
      ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  return kColumns;
}

bool utf8() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  return report::is_utf8(variable("LC_ALL"), variable("LC_CTYPE"), variable("LANG"));
}

report::Timeline picture_of(const Ran& ran, const report::Scale& scale) {
  report::Timeline t;
  t.order = &ran.order;
  t.costs = ran.costs.view;
  t.intervals = ran.timeline;
  t.title = fmt::format("{}, {} ranks, {} micro-batches", ran.run.name, ran.run.shape.pp,
                        ran.run.shape.micro_batches);
  const schedule::Timing& timing = ran.run.timing;
  const auto critical = static_cast<std::size_t>(timing.critical_rank);
  const double bubble = timing.makespan > 0 ? static_cast<double>(timing.ranks[critical].idle) /
                                                  static_cast<double>(timing.makespan)
                                            : 0;
  t.facts.push_back(fmt::format("makespan {}{}", report::time_text(timing.makespan, scale),
                                scale.seconds ? "" : " units"));
  t.facts.push_back("bubble " + report::percent(bubble));
  if (!scale.bytes) t.memory = {"stage-micro-batches", ran.run.one_held};
  if (!scale.seconds) {
    t.time_unit = "units";
    t.one_time = scale.one_unit;
  }
  t.version = kVersion;
  return t;
}

std::string render(const report::ScheduleAnswer& a, Format format, const Arguments& arguments) {
  switch (format) {
    case Format::text:
      return report::page_text(report::schedule_page(a), style_of(arguments));
    case Format::json:
      return report::schedule_json(a);
    case Format::csv:
      return report::schedule_csv(a);
    case Format::markdown:
      return report::page_markdown(report::schedule_page(a));
    case Format::html:
      return report::page_html(report::schedule_page(a));
  }
  return "";
}

int one_schedule(const ScheduleRequest& request, const Ran& ran, bool svg, Format format,
                 const Arguments& arguments) {
  const report::Timeline picture = picture_of(ran, request.scale);
  const Result<report::View> view = view_of(picture, arguments);
  if (!view) {
    report_faults(view.error());
    return kUsage;
  }
  const int written = write_pictures(picture, *view, arguments);
  if (written != kAnswered) return written;
  if (svg) return deliver(report::timeline_svg(picture, *view), arguments, kAnswered);
  report::ScheduleAnswer a = answer_to(request);
  a.asked = ran.run.shape;
  a.runs.push_back(ran.run);
  a.order = &ran.order;
  a.timeline = &ran.timeline;
  constexpr std::size_t kMostListed = 400;
  if (arguments.has("--order")) a.most_listed = kMostListed;
  add_notes(request, a);
  if (ran.run.over_limit) {
    const Schedule* known = schedule::find(ran.run.name);
    const bool looks = known != nullptr && known->generate == nullptr;
    a.notes.push_back(fmt::format("{} {}", ran.run.name,
                                  looks ? "found no order within --memory-limit"
                                        : "takes no limit, and holds more than --memory-limit"));
  }
  report::Timeline inside = picture;
  inside.title.clear();  // the page around has said both
  inside.facts.clear();
  if (format == Format::html) {
    a.drawing.svg = report::timeline_svg(inside, *view);
  } else if (format == Format::text || format == Format::markdown) {
    report::Terminal terminal;
    terminal.columns = columns_of(arguments);
    terminal.colour = format == Format::text && style_of(arguments).colour;
    terminal.unicode = utf8();
    a.drawing.text = report::timeline_text(inside, terminal, *view);
  }
  return deliver(render(a, format, arguments), arguments, kAnswered);
}

int all_schedules(const ScheduleRequest& request, Format format, const Arguments& arguments) {
  report::ScheduleAnswer a = answer_to(request);
  const Progress progress;
  const std::size_t all = std::size(schedule::kSchedules) + 1;
  bool own = false;
  const auto take = [&](std::string_view name, Result<Ran> ran) {
    if (ran) {
      a.runs.push_back(std::move(ran->run));
    } else {
      a.refused.push_back({std::string(name), ran.error().front()});
    }
  };
  for (std::size_t i = 0; i + 1 < all; ++i) {
    const Schedule& s = *schedule::kSchedules[i];
    progress.step(s.name, i, all);
    const schedule::Shape shape = shape_for(request, s, true);
    Result<Ran> ran = run_numbers(request, s, shape);
    if (ran) {
      ran->run.is_auto = &s == &automatic(request.shape);
      own = own || (request.chunks_given && shape.chunks != request.shape.chunks);
    }
    take(s.name, std::move(ran));
  }
  if (is_small(request)) {
    progress.step(kOptimal, all - 1, all);
    take(kOptimal, run_small_optimal(request));
  } else {
    a.notes.emplace_back(
        "optimal is left out: the shape is too large to search in a moment; --algorithm optimal "
        "takes its time");
  }
  if (a.runs.empty()) {
    Diagnostics why;
    for (const report::ScheduleRefused& r : a.refused) why.push_back(named(r.name, r.why));
    return report_faults(why);
  }
  std::stable_sort(a.runs.begin(), a.runs.end(),
                   [](const report::ScheduleRun& x, const report::ScheduleRun& y) {
                     return x.timing.makespan < y.timing.makespan;
                   });
  if (own) {
    a.notes.push_back(fmt::format("schedules that do not take --vpp {} run with their own number",
                                  request.shape.chunks));
  }
  add_notes(request, a);
  return deliver(render(a, format, arguments), arguments, kAnswered);
}

// Usage faults of the flags that draw or list one schedule; "" when there are none.
std::string misplaced(const Arguments& arguments, bool all, bool svg) {
  const std::string view = view_flag(arguments);
  const std::string format = arguments.value("--format", "text");
  if (all) {
    if (svg) return "`--format svg` draws one schedule; name it with --algorithm";
    for (const std::string& flag :
         {std::string("--trace"), std::string("--svg"), std::string("--html"), view,
          std::string("--order"), std::string("--width")}) {
      if (arguments.has(flag)) {
        return fmt::format("`{}` is for one schedule; name it with --algorithm", flag);
      }
    }
  }
  if (!view.empty() && !is_drawn(arguments) && (format == "json" || format == "csv")) {
    return fmt::format("`{}` says what a picture shows, and --format {} has none", view, format);
  }
  if (arguments.has("--width") && format != "text" && format != "markdown") {
    return fmt::format("`--width` is of the picture in text, and --format {} has none", format);
  }
  if (arguments.has("--order") && (svg || format == "csv")) {
    return fmt::format("`--order` lists actions, and --format {} has no place for them", format);
  }
  return same_file(arguments);
}

// Flags of one schedule that another is asked for; "" when there are none.
std::string of_another(const Arguments& arguments, std::string_view algorithm,
                       std::string_view runs) {
  if (arguments.has("--time-limit") && algorithm != kOptimal) {
    return "`--time-limit` is of --algorithm optimal";
  }
  if (arguments.has("--group-size") && algorithm != "all" && runs != "interleaved-1f1b") {
    return fmt::format("`--group-size` is of interleaved-1f1b, and {} runs{}", runs,
                       algorithm == "auto" ? "; --vpp 2 or more makes it interleaved" : "");
  }
  return "";
}

}  // namespace

int run_schedule(const Arguments& arguments) {
  const bool svg = arguments.value("--format") == "svg";
  const Result<Format> format = format_of(arguments, "text json csv markdown html svg");
  if (!format) return report_usage(format.error().front().message);
  Result<ScheduleRequest> request = schedule_request(arguments);
  if (!request) {
    report_faults(request.error());
    return kUsage;
  }
  const bool all = request->algorithm == "all";
  const bool optimal = request->algorithm == kOptimal;
  const std::string wrong = misplaced(arguments, all, svg);
  if (!wrong.empty()) return report_usage(wrong);
  const Schedule* s = schedule::find(request->algorithm);
  if (s == nullptr && !all && request->algorithm != "auto" && request->algorithm != kOptimal) {
    std::vector<std::string> known{"auto", "all"};
    for (const Schedule* each : schedule::kSchedules) known.emplace_back(each->name);
    const std::string near = nearest_name(request->algorithm, known);
    return report_usage(fmt::format("unknown schedule `{}`; {}", request->algorithm,
                                    near.empty() ? fmt::format("known: {}", fmt::join(known, ", "))
                                                 : fmt::format("did you mean `{}`?", near)));
  }
  if (const Result<void> read = add_times(*request); !read) return report_faults(read.error());
  if (s == nullptr) s = &automatic(request->shape);
  const std::string other = of_another(arguments, request->algorithm, optimal ? kOptimal : s->name);
  if (!other.empty()) return report_usage(other);
  if (all) return all_schedules(*request, *format, arguments);
  const schedule::Shape shape =
      request->algorithm == "auto" ? request->shape : shape_for(*request, *s, false);
  Result<Ran> ran = optimal ? search_optimal(*request) : run_in_full(*request, *s, shape);
  if (!ran) {
    Diagnostics why;
    for (const Diagnostic& d : ran.error()) why.push_back(named(optimal ? kOptimal : s->name, d));
    return report_faults(why);
  }
  ran->run.is_auto = request->algorithm == "auto";
  return one_schedule(*request, *ran, svg, *format, arguments);
}

}  // namespace eratos::apps
