#include "apps/tune_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "eratos/report/plot.h"
#include "eratos/report/quantity.h"
#include "eratos/report/table.h"
#include "eratos/search/axes.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

using agent::Answer;
using agent::Figure;
using agent::Trial;
using agent::Verdict;
using report::Align;
using report::Section;
using report::Table;

constexpr std::size_t kMostSteps = 12;
constexpr std::size_t kMostTrials = 60;

std::string tokens(const Figure& f) {
  return fmt::format("{} ({} to {})", report::thousands(f.value), report::thousands(f.low),
                     report::thousands(f.high));
}

std::string seconds(const Figure& f) {
  return fmt::format("{} ({} to {})", report::duration(Seconds{f.value}),
                     report::duration(Seconds{f.low}), report::duration(Seconds{f.high}));
}

std::string memory(const Figure& f) {
  return fmt::format("{} ({} to {})", report::gib_text(Bytes{f.value}),
                     report::gib_number(Bytes{f.low}), report::gib_number(Bytes{f.high}));
}

std::string measured_text(const agent::Measured& m) {
  if (m.out_of_memory) return "ran out of memory";
  std::string out = fmt::format("{} tokens/s/GPU, {}", report::thousands(m.tokens_per_s_per_gpu),
                                report::duration(Seconds{m.step_s}));
  if (m.device_peak_bytes > 0) out += ", peak " + report::gib_text(Bytes{m.device_peak_bytes});
  return out;
}

std::string ahead_text(const agent::Ahead& a) {
  if (a.measured)
    return fmt::format("{} of trial {}, both measured", report::signed_percent(a.gain),
                       a.of->number);
  return fmt::format("{} of trial {} (band {} to {})", report::signed_percent(a.gain), a.of->number,
                     report::signed_percent(a.low), report::signed_percent(a.high));
}

std::string fit_text(const Trial& t) {
  switch (t.verdict) {
    case Verdict::fits:
      return t.fidelity == agent::Fidelity::memory
                 ? "fits"
                 : fmt::format("fits, {} tokens/s/GPU",
                               report::thousands(t.projected.tokens_per_s_per_gpu.value));
    case Verdict::too_big:
      return fmt::format("does not fit: {} a GPU",
                         report::gib_text(Bytes{t.projected.device_peak_bytes.value}));
    case Verdict::illegal:
      return "is not legal: " + (t.why.empty() ? std::string("?") : t.why.front());
    case Verdict::ran_out:
      return "ran out of memory when measured";
    case Verdict::failed:
      return "could not be measured";
  }
  return "";
}

Section winner_section(const Answer& a) {
  Section out;
  out.heading = "what to run, and why";
  const Trial& w = *a.winner;
  out.sentences.push_back("Trial " + std::to_string(w.number) + ": " + w.reason + ".");
  out.sentences.push_back("Set: " + agent::text_of(w.patch));
  if (!a.changes.empty()) {
    Table table({{"changed against the best baseline that fits"}});
    for (const std::string& c : a.changes) table.row({c});
    out.tables.push_back(std::move(table));
  }
  if (!a.contributions.empty()) {
    Table table({{"axis by axis"}, {"gain", Align::right}, {"GiB a GPU", Align::right}});
    for (const search::Contribution& c : a.contributions) {
      std::string what;
      for (const auto& change : c.changes) {
        what += (what.empty() ? "" : ", ") + std::string(search::facts_of(change.axis).name) + " " +
                change.from + " -> " + change.to;
      }
      table.row({what, report::signed_percent(c.gain()),
                 report::gib_number(c.device_peak) + (c.fits ? "" : ", does not fit")});
    }
    out.tables.push_back(std::move(table));
  }
  if (!a.losses.empty()) {
    std::string binds;
    for (const search::Loss& l : a.losses) {
      if (l.share < 0.005) continue;
      binds += (binds.empty() ? "" : ", ") + std::string(l.what) + " " + report::percent(l.share);
    }
    out.sentences.push_back("Of its step that is no work at peak rate: " + binds + ".");
  }
  return out;
}

Section stages_section(const Answer& a) {
  Section out;
  out.heading = "stages";
  Table table({{"stage"}, {""}, {"trials", Align::right}, {"what happened"}});
  for (const agent::Stage& s : a.stages) {
    table.row({s.name, s.on ? "on" : "off", std::to_string(s.trials), s.what});
  }
  out.tables.push_back(std::move(table));
  return out;
}

Section refined_section(const agent::Refined& r) {
  Section out;
  out.heading = "what the measurements taught";
  Table table(
      {{"knob of the model"}, {"against the model", Align::right}, {"give or take", Align::right}});
  for (std::size_t k = 0; k < search::kKnobCount; ++k) {
    table.row({std::string(search::kKnobs[k].what),
               report::signed_percent(std::exp(r.learned.mean[k]) - 1),
               report::percent(std::exp(r.learned.sd[k]) - 1)});
  }
  out.note =
      "time of each family against what the model says; what is measured of one "
      "configuration tells of others by these";
  out.tables.push_back(std::move(table));
  out.sentences.push_back(
      fmt::format("Memory held that the model does not know: {} of the capacity, "
                  "give or take {}.",
                  report::percent(r.learned.buffer_mean), report::percent(r.learned.buffer_sd)));
  out.sentences.push_back(fmt::format("{} measured; it ended because {}.", r.measured, r.stopped));
  if (r.expected_step_s > 0 && r.measured > 0) {
    out.sentences.push_back(fmt::format("Of the choice a step of {} is expected, give or take {}.",
                                        report::duration(Seconds{r.expected_step_s}),
                                        report::percent(std::exp(r.expected_sd) - 1)));
  }
  return out;
}

Section sensitivity_section(const Answer& a) {
  Section out;
  out.heading = "one step away";
  const search::Space& space = a.session->space();
  const double here =
      1 / (a.winner->projected.tokens_per_s_per_gpu.value * space.base.cluster.gpus());
  Table table({{"step"}, {"speed", Align::right}, {"GiB a GPU", Align::right}, {""}});
  std::size_t rows = 0;
  for (const search::StepAway& s : a.sensitivity) {
    if (s.refused_by != nullptr || rows++ == kMostSteps) break;
    const auto& values = space.values(s.axis);
    table.row({fmt::format("{} {} -> {}", search::facts_of(s.axis).name, values[s.from].word,
                           values[s.to].word),
               report::signed_percent(here / s.figure - 1), report::gib_number(s.device_peak),
               s.fits ? "" : "does not fit"});
  }
  out.tables.push_back(std::move(table));
  return out;
}

double speed_of(const Trial& t) {
  return t.measured && !t.measured->out_of_memory ? t.measured->tokens_per_s_per_gpu
                                                  : t.projected.tokens_per_s_per_gpu.value;
}

// By stage, and what was measured apart: their figures are not the model's.
std::vector<report::PlotSeries> series_of(const Answer& a, bool by_memory) {
  std::map<std::string, report::PlotSeries> by_name;
  for (const auto& t : a.session->trials()) {
    if (!t->fits() || t->fidelity == agent::Fidelity::memory) continue;
    const std::string name = t->measured ? "measured" : t->stage;
    report::PlotSeries& s = by_name[name];
    s.name = name;
    s.mark = name == "measured" ? 'M' : name[0];
    const double peak = t->measured && t->measured->device_peak_bytes > 0
                            ? t->measured->device_peak_bytes
                            : t->projected.device_peak_bytes.value;
    s.points.push_back({by_memory ? peak / kGiB : t->number, speed_of(*t),
                        fmt::format("trial {}: {:.0f} tokens/s/GPU, {}", t->number, speed_of(*t),
                                    agent::text_of(t->patch))});
  }
  std::vector<report::PlotSeries> out;
  for (auto& [name, s] : by_name) out.push_back(std::move(s));
  return out;
}

Section incumbent_section(const Answer& a) {
  Section out;
  out.heading = "incumbent against trial";
  report::Plot plot{.x = "trial", .y = "tokens/s/GPU", .series = series_of(a, false)};
  report::PlotSeries best{.name = "best so far by the model", .line = true, .mark = '-'};
  double most = 0;
  for (const auto& t : a.session->trials()) {
    if (!t->fits() || t->fidelity == agent::Fidelity::memory) continue;
    if (t->projected.tokens_per_s_per_gpu.value <= most) continue;
    most = t->projected.tokens_per_s_per_gpu.value;
    best.points.push_back({static_cast<double>(t->number), most, ""});
  }
  if (!best.points.empty()) {
    best.points.push_back({static_cast<double>(a.session->trials().size()), most, ""});
  }
  plot.series.insert(plot.series.begin(), std::move(best));
  out.drawing = report::draw(plot);
  return out;
}

Section pareto_section(const Answer& a) {
  Section out;
  out.heading = "speed against memory";
  const hardware::AcceleratorSpec& part = a.session->space().base.cluster.accelerator;
  report::Plot plot{.x = "GiB a GPU",
                    .y = "tokens/s/GPU",
                    .series = series_of(a, true),
                    .limit_x = part.memory_visible.value / kGiB,
                    .limit = "capacity"};
  // Those that no trial beats in both.
  std::vector<report::PlotPoint> all;
  for (const report::PlotSeries& s : plot.series)
    all.insert(all.end(), s.points.begin(), s.points.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& x, const auto& y) { return x.x != y.x ? x.x < y.x : x.y > y.y; });
  report::PlotSeries front{.name = "nothing tried beats these in both", .line = true, .mark = '-'};
  double most = 0;
  for (const report::PlotPoint& p : all) {
    if (p.y <= most) continue;
    most = p.y;
    front.points.push_back({p.x, p.y, ""});
  }
  plot.series.insert(plot.series.begin(), std::move(front));
  out.drawing = report::draw(plot);
  return out;
}

Section trials_section(const Answer& a) {
  Section out;
  out.heading = "what was tried";
  Table table({{"trial", Align::right},
               {"stage"},
               {"fidelity"},
               {"tokens/s/GPU", Align::right},
               {"GiB", Align::right},
               {"verdict"},
               {"patch"},
               {"reason"}});
  const auto& trials = a.session->trials();
  for (std::size_t i = 0; i < std::min(kMostTrials, trials.size()); ++i) {
    const Trial& t = *trials[i];
    const double speed = speed_of(t);
    table.row({std::to_string(t.number), t.stage, std::string(name_of(t.fidelity)),
               speed > 0 ? report::thousands(speed) : "",
               t.projected.device_peak_bytes.value > 0
                   ? report::gib_number(Bytes{t.projected.device_peak_bytes.value})
                   : "",
               std::string(name_of(t.verdict)), agent::text_of(t.patch), t.reason});
  }
  out.tables.push_back(std::move(table));
  if (trials.size() > kMostTrials) {
    out.sentences.push_back(
        fmt::format("{} more stand in trials.jsonl.", trials.size() - kMostTrials));
  }
  return out;
}

void add_facts(const Answer& a, report::Page& page) {
  const auto fact = [&](const char* name, std::string value) {
    page.facts.emplace_back(name, std::move(value));
  };
  const Trial& w = *a.winner;
  fact("winner", fmt::format("trial {} of {}", w.number, a.session->trials().size()));
  fact("projected tokens/s/GPU", tokens(w.projected.tokens_per_s_per_gpu));
  fact("projected step", seconds(w.projected.step_s));
  fact("projected peak", memory(w.projected.device_peak_bytes));
  if (w.measured) fact("measured", measured_text(*w.measured));
  if (a.behind_optimum) {
    const bool proven = a.seeds.outcome.proof.proven;
    const double behind = *a.behind_optimum;
    fact(proven ? "against the proven optimum" : "against the best found",
         behind > 1e-12    ? fmt::format("{} behind by the model", report::percent(behind))
         : behind < -1e-12 ? fmt::format("{} ahead: outside the space that was searched whole",
                                         report::percent(-behind))
                           : "is it");
  }
  if (a.baseline != nullptr) fact("the job as it came", fit_text(*a.baseline));
  if (a.best_baseline != nullptr && a.best_baseline != a.baseline) {
    fact("best near it that fits",
         fmt::format("trial {}: {}, {}", a.best_baseline->number,
                     agent::text_of(a.best_baseline->patch), fit_text(*a.best_baseline)));
  }
  if (a.ahead_of_baseline) fact("ahead of the job as it came", ahead_text(*a.ahead_of_baseline));
  if (a.ahead_of_best_baseline && a.best_baseline != a.baseline) {
    fact("ahead of the best near it", ahead_text(*a.ahead_of_best_baseline));
  }
  if (a.refined && a.refined->next) {
    fact("next best measurement",
         (a.refined->next->patch == w.patch ? std::string("the winner itself")
                                            : agent::text_of(a.refined->next->patch)) +
             (a.refined->next->gain > 0
                  ? fmt::format(" (expected to gain {})", report::percent(a.refined->next->gain))
              : a.refined->next->patch == w.patch
                  ? ""
                  : " (the fastest with room for memory that the model does not know of)"));
  }
}

}  // namespace

report::Page tune_page(const Answer& a, const TuneFiles& files) {
  report::Page page;
  const job::JobSpec& base = a.session->space().base;
  page.title = fmt::format("eratos tune: {} on {}", base.model.name, base.cluster.name);
  page.version = std::string(kVersion);
  page.good = a.winner != nullptr;
  if (a.interrupted) page.lead.push_back("Interrupted: the best so far. --resume goes on.");
  if (a.winner == nullptr) {
    page.lead.push_back(a.refined && a.refined->measured > 0
                            ? "Nothing is known to fit: what was measured ran out of memory, and "
                              "nothing else is safe."
                            : "Nothing legal fits.");
  } else {
    add_facts(a, page);
    page.sections.push_back(winner_section(a));
  }
  page.sections.push_back(stages_section(a));
  if (a.refined && a.refined->measured > 0) page.sections.push_back(refined_section(*a.refined));
  if (a.winner != nullptr && !a.sensitivity.empty())
    page.sections.push_back(sensitivity_section(a));
  page.sections.push_back(incumbent_section(a));
  page.sections.push_back(pareto_section(a));
  page.sections.push_back(trials_section(a));
  std::string names;
  for (const std::string& f : files.winner) names += (names.empty() ? "" : ", ") + f;
  if (!names.empty()) page.notes.push_back(fmt::format("written in {}: {}", files.folder, names));
  for (const std::string& u : files.unsaid) page.notes.push_back(u);
  return page;
}

}  // namespace eratos::apps
