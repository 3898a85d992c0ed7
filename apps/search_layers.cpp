#include "apps/search_layers.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include <unistd.h>

#include <fmt/format.h>

#include "apps/exit_code.h"
#include "apps/interrupt.h"
#include "apps/load_job.h"
#include "apps/nearby.h"
#include "apps/numbers.h"
#include "apps/search_run.h"
#include "apps/shown.h"
#include "apps/winner.h"
#include "eratos/base/check.h"
#include "eratos/reader/sayable.h"
#include "eratos/report/layers.h"
#include "eratos/report/quantity.h"
#include "eratos/report/space.h"
#include "eratos/search/axes.h"
#include "eratos/search/blame.h"
#include "eratos/search/exhaustive.h"
#include "eratos/search/layer_plans.h"
#include "eratos/search/legality.h"
#include "eratos/search/walk.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

using search::AxisId;

// The user's words, and the job's own value on every axis that they leave open.
Result<std::vector<std::string>> pinned(const std::vector<std::string>& words) {
  std::vector<std::string> out = words;
  for (const search::AxisFacts& f : search::kAxisFacts) {
    bool said = false;
    for (const std::string& word : words) {
      const std::string name = word.substr(0, word.find_first_of("!="));
      said = said || name == f.name || (!f.alias.empty() && name == f.alias);
    }
    const bool chosen = f.id == AxisId::recompute || f.id == AxisId::split;
    if (said && chosen) {
      return fault({.where = {.file = "--axes"},
                    .message = fmt::format("`--method layers` chooses {} itself", f.name),
                    .cure = "leave it out, or take --method exhaustive"});
    }
    if (!said && !chosen) out.push_back(std::string(f.name) + "=job");
  }
  std::erase_if(out, [](const std::string& word) { return word.rfind("rest=", 0) == 0; });
  return out;
}

// Every block recomputation there is, where the space has any.
void add_blocks(search::Space& space) {
  std::vector<search::Value>& values = space.axes[static_cast<std::size_t>(AxisId::recompute)];
  const auto has = [&](const std::string& word) {
    for (const search::Value& v : values) {
      if (v.word == word) return true;
    }
    return false;
  };
  if (!has("full:1")) return;
  int least_stages = space.values(AxisId::pp)[0].number;
  for (const search::Value& v : space.values(AxisId::pp))
    least_stages = std::min(least_stages, v.number);
  const int most = space.base.model.layers() / least_stages;
  constexpr std::size_t kMostValues = 255;
  for (int k = 1; k <= most && values.size() < kMostValues; ++k) {
    const std::string word = fmt::format("full:{}", k);
    if (has(word)) continue;
    if (const auto value = search::value_of(space, AxisId::recompute, word))
      values.push_back(*value);
  }
}

struct Prepared {
  std::unique_ptr<Job> job;
  std::string target;
  search::LayerFreedom freedom;
  search::Space alike;  // all stages alike
  search::Space space;
  std::vector<search::LayerMode> modes;
};

Result<std::unique_ptr<Prepared>> prepare(const Arguments& job_words,
                                          const std::vector<std::string>& axes,
                                          const Arguments& arguments) {
  auto words = pinned(axes);
  if (!words) return faults(words.error());
  Result<std::unique_ptr<Job>> job = prepare_job(job_words);
  if (!job) return faults(job.error());
  Diagnostics fixed = search::fixed_faults((*job)->read.job);
  if (!fixed.empty()) {
    reader::locate(fixed, (*job)->read.report);
    return faults(std::move(fixed));
  }
  auto space = search::space_of((*job)->read.job, *words);
  if (!space) return faults(space.error());
  auto out = std::make_unique<Prepared>();
  out->job = *std::move(job);
  out->alike = *std::move(space);
  out->target = arguments.value("--to");
  if (out->target.empty()) out->target = reader::target_of(out->alike.base.framework);
  reader::keep_sayable(out->alike);
  out->freedom = reader::layer_freedom(out->alike, out->target);
  add_blocks(out->alike);
  out->space = search::without_layers(out->alike, out->freedom);
  out->modes = search::layer_modes(out->alike, out->freedom);
  return out;
}

// A line a second on standard error, after the first.
class Progress {
 public:
  void tell(const search::LayerPlans& plans, int gpus) {
    const auto now = std::chrono::steady_clock::now();
    const bool long_run = now - began_ > std::chrono::seconds(10);
    if (now - last_ < std::chrono::seconds(long_run && !terminal_ ? 10 : 1)) return;
    last_ = now;
    told_ = true;
    const search::LayerPlans::Counts c = plans.counts();
    std::string line = fmt::format(
        "layers: {} of {} candidates, {} modes, {} sets of layers and {} deals ({} simulated)",
        report::percent(plans.progress()), report::thousands(static_cast<double>(c.candidates)),
        report::thousands(static_cast<double>(c.modes)),
        report::thousands(static_cast<double>(c.sets)),
        report::thousands(static_cast<double>(c.deals)),
        report::thousands(static_cast<double>(c.simulated)));
    if (!plans.top().empty()) {
      line += fmt::format(", best {:.1f} tokens/s/GPU", 1 / plans.top()[0].figure / gpus);
    }
    std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
    std::fflush(stderr);
  }

  Progress() = default;
  ~Progress() {
    if (terminal_ && told_) std::fprintf(stderr, "\r\033[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool told_ = false;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_ = began_;
};

// False when Ctrl-C ended it.
bool run_plans(search::LayerPlans& plans, int gpus) {
  const Interruptible guard;
  Progress progress;
  while (!interrupted()) {
    if (!plans.advance()) return true;
    progress.tell(plans, gpus);
  }
  return false;
}

}  // namespace

int search_layers(const Arguments& job_words, const std::vector<std::string>& axes,
                  const Arguments& arguments, Format format) {
  Result<std::unique_ptr<Prepared>> prepared = prepare(job_words, axes, arguments);
  if (!prepared) return report_faults(prepared.error());
  Prepared& p = **prepared;
  const Job& job = *p.job;
  const report::Style style = style_of(arguments);
  if (arguments.has("--explain-space")) {
    const search::Count count = search::count(p.space);
    return deliver(format == Format::json
                       ? report::space_json(p.space, count, std::string(kVersion))
                       : report::space_text(p.space, count, style),
                   arguments, count.legal > 0 ? kAnswered : kDoesNotFit);
  }
  constexpr double kTop = 5;
  const auto top = static_cast<std::size_t>(number_of(arguments, "--top", kTop));
  search::LayerPlans plans(p.space, p.modes, p.freedom, top, job.calibration, job.options);
  report::LayersAnswer answer;
  answer.interrupted = !run_plans(plans, p.space.base.cluster.gpus());
  const search::LayerPlans::Counts counts = plans.counts();
  if (counts.refused > 0 && counts.refused + counts.illegal == counts.candidates) {
    Diagnostics why{*plans.why_refused()};
    reader::locate(why, job.read.report);
    if (why[0].where.file.empty()) why[0].where.file = job_words.words[0];
    return report_faults(why);
  }
  search::Exhaustive alike(p.alike, {1, false});
  if (!answer.interrupted) {
    const search::Aim fastest;
    const SearchRun run{.space = p.alike,
                        .calibration = job.calibration,
                        .options = job.options,
                        .aim = fastest,
                        .threads = static_cast<int>(number_of(arguments, "--threads", 0))};
    answer.interrupted = !run_method(alike, run);
    answer.alike = &alike.outcome();
  }
  answer.space = &p.space;
  answer.plans = &plans;
  answer.version = std::string(kVersion);
  answer.alike_space = &p.alike;
  answer.target = p.target;
  answer.capacity =
      p.space.base.cluster.accelerator.memory_visible * (1.0 - job.options.memory_margin);
  std::vector<std::unique_ptr<Shown>> shown;
  for (const search::PlannedCandidate& planned : plans.top()) {
    job::JobSpec spec = p.space.base;
    search::apply(p.space, planned.at, spec);
    spec.recompute = planned.plan.recompute;
    spec.layout = planned.plan.layout;
    shown.push_back(show(job, spec));
    // The plan was priced rank by rank: the whole job says the same.
    ERATOS_CHECK(shown.back() != nullptr && shown.back()->projection.memory.fits);
    ERATOS_CHECK(shown.back()->projection.time.step.value == planned.plan.step);
    answer.top.push_back({shown.back()->answer, &planned});
  }
  const std::unique_ptr<Shown> own = show(job, p.space.base);
  if (own != nullptr) answer.own = &own->answer;
  if (answer.top.empty() && !answer.interrupted) {
    job::JobSpec spec = p.space.base;
    if (plans.least()) {
      search::apply(p.space, *plans.least(), spec);
    } else {
      spec = search::pinned_job(p.space);
      answer.deciding = search::deciding_rules(p.space);
    }
    answer.nearby = nearby(job, spec);
  }
  const int found = answer.interrupted ? kInterrupted : shown.empty() ? kDoesNotFit : kAnswered;
  const int code = deliver(
      format == Format::json ? report::layers_json(answer) : report::layers_text(answer, style),
      arguments, found);
  return shown.empty() ? code : write_winner(shown.front()->spec, arguments, code);
}

}  // namespace eratos::apps
