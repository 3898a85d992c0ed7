// What the page of `schedule` says.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "eratos/report/quantity.h"
#include "eratos/report/schedule_answer.h"
#include "eratos/report/timeline.h"

namespace eratos::report {

namespace {

using schedule::RankTime;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

double share_of(Picoseconds part, Picoseconds whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// "117 units", "1.234 s".
std::string time_with_unit(Picoseconds t, const Scale& scale) {
  return time_text(t, scale) + (scale.seconds ? "" : t == scale.one_unit ? " unit" : " units");
}
std::string time_head(const char* what, const Scale& scale) {
  return scale.seconds ? what : fmt::format("{}, units", what);
}
std::string held_with_unit(std::int64_t held, std::int64_t one_held, const Scale& scale) {
  std::string out = held_text(held, one_held, scale);
  if (!scale.bytes) out += held == one_held ? " stage-micro-batch" : " stage-micro-batches";
  return out;
}

// The rank that holds most; of several the first.
int fullest(const schedule::Timing& t) {
  int best = 0;
  for (std::size_t r = 0; r < t.peaks.ranks.size(); ++r) {
    if (t.peaks.ranks[r].held > t.peaks.ranks[index(best)].held) best = static_cast<int>(r);
  }
  return best;
}

Picoseconds bubble_of(const ScheduleRun& run) {
  return run.timing.ranks[index(run.timing.critical_rank)].idle;
}

// Share of all ranks' time in which they neither compute nor transfer.
double idle_share(const schedule::Timing& t) {
  double sum = 0;
  for (const RankTime& r : t.ranks) sum += share_of(r.idle, t.makespan);
  return sum / static_cast<double>(t.ranks.size());
}

std::string shape_text(const schedule::Shape& s, bool chunks) {
  std::string out = fmt::format("{} rank{}", s.pp, s.pp == 1 ? "" : "s");
  if (chunks) out += fmt::format(" of {} chunk{}", s.chunks, s.chunks == 1 ? "" : "s");
  out += fmt::format(", {} micro-batch{}", s.micro_batches, s.micro_batches == 1 ? "" : "es");
  if (s.group_size > 0) out += fmt::format(" in groups of {}", s.group_size);
  if (s.output != schedule::OutputLayer::last_stage) {
    out += fmt::format(", output layer {}", name_of(s.output));
  }
  return out;
}

std::string bounds_text(const ScheduleRun& run, const Scale& scale) {
  if (!run.bounds) return "";
  return time_text(run.bounds->lower, scale) + " to " + time_text(run.bounds->upper, scale);
}

std::string name_with_marks(const ScheduleRun& run) {
  std::string out = run.name;
  if (run.is_auto) out += " (auto)";
  if (!run.remark.empty()) out += " (" + run.remark + ")";
  if (run.over_limit) out += " *";
  return out;
}

Section comparison(const ScheduleAnswer& a) {
  Section out;
  out.heading = "schedules by makespan";
  Table table({{"schedule"},
               {"vpp", Align::right},
               {time_head("makespan", a.scale), Align::right},
               {"ratio", Align::right},
               {"bubble", Align::right},
               {"", Align::right},
               {"step to step", Align::right},
               {"peak", Align::right},
               {"bounds", Align::right}});
  const Picoseconds best = a.runs.front().timing.makespan;
  for (const ScheduleRun& run : a.runs) {
    const schedule::Timing& t = run.timing;
    table.row({name_with_marks(run), std::to_string(run.shape.chunks),
               time_text(t.makespan, a.scale), fmt::format("{:.3f}", share_of(t.makespan, best)),
               time_text(bubble_of(run), a.scale), percent(share_of(bubble_of(run), t.makespan)),
               time_text(t.pitch, a.scale),
               held_text(t.peaks.ranks[index(fullest(t))].held, run.one_held, a.scale),
               bounds_text(run, a.scale)});
  }
  out.tables.push_back(std::move(table));
  out.sentences.emplace_back(
      "bubble: how long the busiest rank stands still; step to step: one step's share of the time "
      "when ranks go on to the next without a barrier; bounds: known without simulating");
  if (std::any_of(a.runs.begin(), a.runs.end(), [](const auto& r) { return r.over_limit; })) {
    out.sentences.emplace_back("* holds more than --memory-limit");
  }
  return out;
}

// Every rank up to 16, beyond that some of them, the ends included.
std::vector<int> shown_ranks(int pp) {
  constexpr int kMostColumns = 16;
  constexpr int kColumns = 9;
  std::vector<int> out;
  if (pp <= kMostColumns) {
    for (int r = 0; r < pp; ++r) out.push_back(r);
    return out;
  }
  for (int i = 0; i < kColumns; ++i) {
    out.push_back(static_cast<int>(std::int64_t{pp - 1} * i / (kColumns - 1)));
  }
  return out;
}

Section peak_comparison(const ScheduleAnswer& a) {
  Section out;
  out.heading = "peak memory by rank";
  out.note = a.scale.bytes ? "GiB of activations"
                           : "in stage-micro-batches: one rank's layers, one micro-batch";
  const std::vector<int> ranks = shown_ranks(a.asked.pp);
  std::vector<Column> columns{{"schedule"}};
  for (const int r : ranks) columns.push_back({fmt::format("rank {}", r), Align::right});
  Table table(std::move(columns));
  for (const ScheduleRun& run : a.runs) {
    std::vector<std::string> cells{run.name};
    for (const int r : ranks) {
      const std::int64_t held = run.timing.peaks.ranks[index(r)].held;
      cells.push_back(a.scale.bytes ? gib_number(Bytes{static_cast<double>(held)})
                                    : held_text(held, run.one_held, a.scale));
    }
    table.row(std::move(cells));
  }
  out.tables.push_back(std::move(table));
  if (static_cast<int>(ranks.size()) < a.asked.pp) {
    out.sentences.push_back(
        fmt::format("{} of {} ranks are shown; --format json has all", ranks.size(), a.asked.pp));
  }
  return out;
}

Section refusals(const ScheduleAnswer& a) {
  Section out;
  out.heading = "not legal here";
  for (const ScheduleRefused& r : a.refused) {
    out.sentences.push_back(fmt::format("{}: {}{}{}", r.name, r.why.message,
                                        r.why.cure.empty() ? "" : "; ", r.why.cure));
  }
  return out;
}

// "5 in flight, 2 wait for W; chunk 1: 3 in flight".
std::string composition(const ScheduleRun& run, int rank) {
  const schedule::Peaks& peaks = run.timing.peaks;
  std::string out;
  for (int c = 0; c < run.shape.chunks; ++c) {
    const std::size_t slot = index(schedule::slot_of(run.shape, rank, c));
    std::string part;
    if (peaks.in_flight[slot] > 0) part = fmt::format("{} in flight", peaks.in_flight[slot]);
    if (peaks.waiting[slot] > 0) {
      part += fmt::format("{}{} waiting for W", part.empty() ? "" : " + ", peaks.waiting[slot]);
    }
    if (part.empty()) continue;
    if (run.shape.chunks > 1) part = fmt::format("chunk {}: {}", c, part);
    out += (out.empty() ? "" : "; ") + part;
  }
  if (peaks.outputs[index(rank)] > 0) {
    out += fmt::format("{}{} between S and T", out.empty() ? "" : "; ", peaks.outputs[index(rank)]);
  }
  return out;
}

// "F6 at 12 units": the action that reaches the peak, and when it starts.
std::string peak_moment(const ScheduleAnswer& a, const ScheduleRun& run, int rank) {
  const std::span<const schedule::Action> actions = a.order->of(rank);
  const auto at = static_cast<std::size_t>(run.timing.peaks.ranks[index(rank)].peak_at);
  if (at >= actions.size()) return "";
  const auto first = static_cast<std::size_t>(a.order->first[index(rank)]);
  return name_of(actions[at], run.shape) + " at " +
         time_with_unit((*a.timeline)[first + at].start, a.scale);
}

Section by_rank(const ScheduleAnswer& a) {
  const ScheduleRun& run = a.runs.front();
  Section out;
  out.heading = "by rank";
  out.note = "busy + transfer + idle = makespan";
  if (!a.scale.seconds) out.note += "; times in units";
  if (!a.scale.bytes) out.note += "; s-mb: stage-micro-batches";
  Table table({{"rank", Align::right},
               {"busy", Align::right},
               {"transfer", Align::right},
               {"idle", Align::right},
               {"idle share", Align::right},
               {fmt::format("peak{}", a.scale.bytes ? "" : ", s-mb"), Align::right},
               {"reached in"},
               {"made of"}});
  for (int r = 0; r < run.shape.pp; ++r) {
    const RankTime& t = run.timing.ranks[index(r)];
    const bool critical = r == run.timing.critical_rank && run.shape.pp > 1;
    table.row({std::to_string(r), time_text(t.busy, a.scale), time_text(t.transfer, a.scale),
               time_text(t.idle, a.scale), percent(share_of(t.idle, run.timing.makespan)),
               held_text(run.timing.peaks.ranks[index(r)].held, run.one_held, a.scale),
               peak_moment(a, run, r), composition(run, r)},
              critical);
  }
  out.tables.push_back(std::move(table));
  return out;
}

Section order_list(const ScheduleAnswer& a) {
  const ScheduleRun& run = a.runs.front();
  Section out;
  out.heading = "order";
  out.note = run.shape.chunks > 1 ? "F forward, B input gradient, W weight gradient, BW both; "
                                    "micro-batch.chunk"
                                  : "F forward, B input gradient, W weight gradient, BW both";
  for (int r = 0; r < run.shape.pp; ++r) {
    const std::span<const schedule::Action> actions = a.order->of(r);
    std::string line = fmt::format("rank {}:", r);
    const std::size_t shown = std::min(actions.size(), a.most_listed);
    for (std::size_t i = 0; i < shown; ++i) {
      line += ' ' + name_of(actions[i], run.shape);
      if (actions[i].with_next) line += '+';
    }
    if (shown < actions.size()) {
      line += fmt::format(" ... and {} more", actions.size() - shown);
    }
    out.sentences.push_back(std::move(line));
  }
  return out;
}

std::string cost_text(const ScheduleCost& c, const Scale& scale) {
  switch (c.kind) {
    case ScheduleCost::Kind::time:
      return time_with_unit(c.value, scale);
    case ScheduleCost::Kind::bytes:
      return gib_text(Bytes{static_cast<double>(c.value)});
    case ScheduleCost::Kind::words:
      return c.words;
  }
  return "";
}

// "forward 1 unit, backward 2 units, send 0 units (defaults); held 1.5 GiB from F to B".
std::string costs_text(const ScheduleAnswer& a) {
  std::string stated;
  std::string defaults;
  for (const ScheduleCost& c : a.costs) {
    std::string& to = c.origin == kDefault ? defaults : stated;
    to += fmt::format("{}{} {}", to.empty() ? "" : ", ", c.name, cost_text(c, a.scale));
    if (!c.origin.empty() && c.origin != kDefault) to += fmt::format(" ({})", c.origin);
  }
  if (!stated.empty() && !defaults.empty()) stated += "; ";
  return stated + (defaults.empty() ? "" : "by default " + defaults);
}

void add_facts(const ScheduleAnswer& a, Page& page) {
  const ScheduleRun& run = a.runs.front();
  const schedule::Timing& t = run.timing;
  page.facts.emplace_back("makespan", time_with_unit(t.makespan, a.scale));
  page.facts.emplace_back(
      "bubble",
      fmt::format("{}, {} of the makespan, on rank {}, the busiest; {} of all ranks' time",
                  time_with_unit(bubble_of(run), a.scale),
                  percent(share_of(bubble_of(run), t.makespan)), t.critical_rank,
                  percent(idle_share(t))));
  page.facts.emplace_back("step to step", time_with_unit(t.pitch, a.scale) +
                                              " when steps follow without a barrier between them");
  const int full = fullest(t);
  page.facts.emplace_back(
      "peak",
      fmt::format("{} on rank {}",
                  held_with_unit(t.peaks.ranks[index(full)].held, run.one_held, a.scale), full));
  if (run.bounds) {
    page.facts.emplace_back(
        "bounds", fmt::format("{}, without simulating",
                              bounds_text(run, a.scale) + (a.scale.seconds ? "" : " units")));
  }
  if (!run.remark.empty()) {
    page.facts.emplace_back("search", fmt::format("{}; {}", run.remark, run.search));
  }
}

}  // namespace

Page schedule_page(const ScheduleAnswer& a) {
  Page page;
  page.version = a.version;
  const bool one = a.order != nullptr;
  if (one) {
    const ScheduleRun& run = a.runs.front();
    page.title = fmt::format("{}   {}", run.name, shape_text(run.shape, true));
  } else {
    page.title = fmt::format("{} schedules   {}", a.runs.size(), shape_text(a.asked, false));
  }
  page.lead.push_back(wrapped(costs_text(a), 96, ""));
  if (one) {
    add_facts(a, page);
    if (!a.drawing.text.empty() || !a.drawing.svg.empty()) {
      Section picture;
      picture.heading = "timeline";
      picture.drawing = a.drawing;
      page.sections.push_back(std::move(picture));
    }
    page.sections.push_back(by_rank(a));
    if (a.most_listed > 0) page.sections.push_back(order_list(a));
  } else {
    page.sections.push_back(comparison(a));
    page.sections.push_back(peak_comparison(a));
    if (!a.refused.empty()) page.sections.push_back(refusals(a));
  }
  page.notes = a.notes;
  return page;
}

}  // namespace eratos::report
