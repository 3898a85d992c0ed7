#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "eratos/report/layers.h"
#include "eratos/report/layers_parts.h"
#include "eratos/report/quantity.h"
#include "eratos/report/text.h"

namespace eratos::report {

namespace {

std::string whole(std::uint64_t n) { return thousands(static_cast<double>(n)); }

double tokens(const LayersAnswer& a, double figure) {
  return 1 / figure / a.space->base.cluster.gpus();
}

std::string word_on(const search::Space& space, const search::Candidate& at, std::size_t axis) {
  return space.axes[axis][at.at[axis]].word;
}

// "tp 8, pp 4": the axes that had a choice.
std::string settings(const search::Space& space, const search::Candidate& at) {
  std::string out;
  for (std::size_t i = 0; i < search::kAxes; ++i) {
    if (space.axes[i].size() < 2) continue;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", search::kAxisFacts[i].name,
                       word_on(space, at, i));
  }
  return out;
}

std::string top_table(const LayersAnswer& a, const Style& style) {
  Table table({{"", Align::right},
               {"tokens/s/GPU", Align::right},
               {"step", Align::right},
               {"GiB", Align::right},
               {"recompute"},
               {"candidate"}});
  for (std::size_t n = 0; n < a.top.size(); ++n) {
    const projection::Projection& p = *a.top[n].answer.projection;
    table.row({std::to_string(n + 1), fmt::format("{:.1f}", p.throughput.tokens_per_s_per_gpu),
               duration(p.time.step), gib_number(p.memory.device_peak),
               plan_word(a.top[n].planned->plan), settings(*a.space, a.top[n].planned->at)},
              n == 0);
  }
  return table.text(0, style);
}

std::string stage_table(const LayersAnswer& a, const Style& style) {
  const PlannedAnswer& best = a.top[0];
  const projection::Projection& p = *best.answer.projection;
  const Bytes room = a.capacity;
  Table table({{"stage", Align::right},
               {"layers"},
               {"", Align::right},
               {"recomputed"},
               {"GiB", Align::right},
               {"free", Align::right},
               {"forward", Align::right},
               {"backward", Align::right}});
  const auto& stages = best.planned->plan.stages;
  for (std::size_t r = 0; r < stages.size(); ++r) {
    const search::StagePlan& s = stages[r];
    const int n = static_cast<int>(s.full.size());
    std::string layers = "none";
    if (n > 0) layers = n == 1 ? std::to_string(s.first) : fmt::format("{}-{}", s.first, s.first + n - 1);
    const std::vector<int> again = recomputed_layers(s);
    const Bytes peak = p.memory.stages[r].least;
    table.row({std::to_string(r), layers, std::to_string(n),
               again.empty() ? "-" : static_cast<int>(again.size()) == n ? "all" : runs_of(again),
               gib_number(peak), gib_number(room - peak), duration(p.time.stage_forward[r]),
               duration(p.time.stage_backward[r])});
  }
  return table.text(0, style);
}

std::string proof_line(const LayersAnswer& a) {
  const search::LayerPlans::Counts c = a.plans->counts();
  std::string out = fmt::format("{} candidate{}", whole(c.candidates), c.candidates == 1 ? "" : "s");
  if (c.candidates > 1) {
    out += fmt::format(" = {} illegal + {} not by layers + {} too big + {} slower + {} planned",
                       whole(c.illegal), whole(c.refused), whole(c.too_big), whole(c.slower),
                       whole(c.planned));
    const std::uint64_t rest =
        c.candidates - c.illegal - c.refused - c.too_big - c.slower - c.planned;
    if (rest > 0) out += fmt::format(" + {} not looked at", whole(rest));
  }
  out += fmt::format("; {} sets of layers on a rank, {} deals of layers begun and {} simulated",
                     whole(c.sets), whole(c.deals), whole(c.simulated));
  if (c.proven && !a.top.empty()) out += ": no other choice of layers is faster";
  return out;
}

std::string against_alike(const LayersAnswer& a) {
  if (a.alike == nullptr) return "";
  if (a.alike->top.empty()) {
    return "no choice that treats all stages alike fits\n";
  }
  const search::Found& f = a.alike->top[0];
  const auto split = static_cast<std::size_t>(search::AxisId::split);
  const auto recompute = static_cast<std::size_t>(search::AxisId::recompute);
  return fmt::format(
      "all stages alike: {:.1f} tokens/s/GPU at best (recompute {}, split {}{}); the plan is {}\n",
      tokens(a, f.figure), word_on(*a.alike_space, f.at, recompute),
      word_on(*a.alike_space, f.at, split),
      settings(*a.space, f.at).empty() ? "" : ", " + settings(*a.space, f.at),
      signed_percent(gain_over_alike(a)));
}

std::string why_nothing(const LayersAnswer& a, const Style& style) {
  std::string out;
  if (a.plans->least()) {
    out += style.bad(fmt::format("nothing fits: the least holds {} of {}, {} too many",
                                 gib_text(a.plans->least_peak()), gib_text(a.capacity),
                                 gib_text(a.plans->least_peak() - a.capacity))) +
           "\n";
    const std::string which = settings(*a.space, *a.plans->least());
    if (!which.empty()) out += "it is " + which + "\n";
  } else {
    out += style.bad("nothing is legal") + "\n";
    out += a.deciding.empty() ? "more than one rule stands in the way\n"
                              : "without one of these rules something would be:\n\n";
    Table rules({{"rule"}, {"what it asks for"}});
    for (const search::Rule* r : a.deciding) {
      rules.row({std::string(r->name), std::string(r->reason)});
    }
    if (!a.deciding.empty()) out += rules.text(0, style);
  }
  return out + "\n" + nearby_table(a.nearby, "what would", style);
}

}  // namespace

std::string layers_text(const LayersAnswer& a, const Style& style) {
  std::string out;
  if (a.interrupted) out += style.bad("interrupted: the best so far") + "\n";
  if (a.top.empty()) {
    if (!a.interrupted) out += why_nothing(a, style);
    return out + "\n" + proof_line(a) + "\n";
  }
  out += headline(a.top[0].answer, style) + "\n";
  if (a.top.size() > 1) out += top_table(a, style) + "\n";
  const projection::Projection& p = *a.top[0].answer.projection;
  out += fmt::format("{:.1f} tokens/s/GPU, a step of {}; recompute {}\n\n",
                     p.throughput.tokens_per_s_per_gpu, duration(p.time.step),
                     plan_word(a.top[0].planned->plan));
  out += stage_table(a, style) + "\n";
  out += against_alike(a);
  if (a.own != nullptr) {
    const projection::Projection& own = *a.own->projection;
    out += fmt::format(
        "the job as it came: {:.1f} tokens/s/GPU{}; the plan is {}\n",
        own.throughput.tokens_per_s_per_gpu, own.memory.fits ? "" : ", does not fit",
        signed_percent(p.throughput.tokens_per_s_per_gpu / own.throughput.tokens_per_s_per_gpu - 1));
  }
  out += a.target.empty() ? fmt::format("no writer for files of {}: whether they can say the plan is "
                                        "not known\n",
                                        a.space->base.framework.name)
                          : fmt::format("runs as a file of {} (--best FILE --to {})\n", a.target, a.target);
  return out + "\n" + wrapped(proof_line(a), 96, "      ") + "\n";
}

}  // namespace eratos::report
