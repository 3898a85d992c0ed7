#include "eratos/report/search_advice.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "eratos/report/json.h"
#include "eratos/report/quantity.h"
#include "eratos/report/search_parts.h"
#include "eratos/report/text.h"

namespace eratos::report {

namespace {

using text::Node;

constexpr double kShown = 0.005;  // of a step, of a rate

const projection::Projection& best_of(const SearchAnswer& a) { return *a.top[0].answer.projection; }

// Words behind a label, under one another.
std::string labelled(const char* label, const std::string& words) {
  constexpr std::size_t kLabel = 23;
  // Wrapping drops repeated spaces: the label is put in afterwards.
  std::string out = wrapped(std::string(kLabel, '.') + words, 96, std::string(kLabel, ' '));
  return out.replace(0, kLabel, fmt::format("{:<{}}", label, kLabel)) + '\n';
}

std::string losses_line(const SearchAnswer& a) {
  const projection::Projection& p = best_of(a);
  std::string out = fmt::format("{} work at the part's peak rate", percent(p.throughput.mfu));
  for (const search::Loss& l : search::losses_of(p)) {
    if (l.share < kShown) continue;
    const std::string_view what =
        l.what == "kernel efficiency" ? "kernels below that rate" : l.what;
    out += fmt::format(", {} {}", percent(l.share), what);
  }
  return labelled("its step is", out);
}

std::string help_line(const SearchAnswer& a) {
  const std::string words = help_words(a, a.top[0]);
  return labelled("would help most",
                  words.empty() ? "no single change is faster, whether it fits or not" : words);
}

std::string change_words(const search::Contribution& c) {
  std::string out;
  for (const auto& [axis, from, to] : c.changes) {
    out += fmt::format("{}{} {} -> {}", out.empty() ? "" : ", ", search::facts_of(axis).name, from,
                       to);
  }
  return out;
}

// A line for each change that matters, and the others together.
std::string contribution_lines(const std::vector<search::Contribution>& all) {
  std::vector<const search::Contribution*> shown;
  std::string rest;
  double before = 1;
  double after = 1;
  for (const search::Contribution& c : all) {
    if (std::abs(c.gain()) >= kShown) {
      shown.push_back(&c);
      continue;
    }
    rest += (rest.empty() ? "" : ", ") + change_words(c);
    before *= c.before;
    after *= c.after;
  }
  std::stable_sort(shown.begin(), shown.end(), [](const auto* x, const auto* y) {
    return std::abs(x->gain()) > std::abs(y->gain());
  });
  std::string out;
  const auto line = [](double gain, const std::string& words) {
    return fmt::format("  {:>8}  {}\n", signed_percent(gain),
                       wrapped(words, 86, std::string(12, ' ')));
  };
  for (const search::Contribution* c : shown) out += line(c->gain(), change_words(*c));
  if (!rest.empty()) out += line(before / after - 1, rest);
  return out;
}

std::string job_lines(const SearchAnswer& a) {
  if (a.own == nullptr) return "";
  const projection::Projection& own = *a.own->projection;
  const double ratio =
      best_of(a).throughput.tokens_per_s_per_gpu / own.throughput.tokens_per_s_per_gpu;
  const std::string fit =
      own.memory.fits
          ? ""
          : fmt::format(
                ", does not fit by {}",
                gib_text(own.memory.least_peak - own.memory.capacity * (1.0 - own.memory.margin)));
  std::string out =
      fmt::format("the job as it came: {:.1f} tokens/s/GPU{}; the best is {}\n",
                  own.throughput.tokens_per_s_per_gpu, fit, signed_percent(ratio - 1));
  return out + contribution_lines(a.from_job);
}

std::string runner_up_lines(const SearchAnswer& a) {
  if (a.top.size() < 2) return "";
  const double ratio = best_of(a).throughput.tokens_per_s_per_gpu /
                       a.top[1].answer.projection->throughput.tokens_per_s_per_gpu;
  return fmt::format("the runner-up: the best is {}\n", signed_percent(ratio - 1)) +
         contribution_lines(a.from_runner_up);
}

double figure_of(const SearchAnswer& a) {
  const job::BatchSpec& b = a.top[0].answer.spec->batch;
  return best_of(a).time.step.value / (static_cast<double>(b.global) * b.sequence);
}

int rivals_listed(const SearchAnswer& a) {
  return static_cast<int>(
      std::count_if(a.top.begin() + 1, a.top.end(), [](const Ranked& r) { return r.within_band; }));
}

std::string_view verdict(const search::Basin& b) {
  if (b.steps == 0) return "alone";
  if (2 * b.within >= b.steps) return "broad basin";
  return 5 * b.within <= b.steps ? "sharp peak" : "ridge";
}

// Of an axis the step that costs least, of those that are legal and fit.
struct Along {
  search::AxisId axis;
  double gain;
};
std::vector<Along> along_axes(const SearchAnswer& a) {
  const double figure = figure_of(a);
  std::vector<Along> out;
  for (const search::StepAway& s : a.top[0].steps) {
    if (s.refused_by != nullptr || !s.fits) continue;
    const double gain = figure / s.figure - 1;
    if (!out.empty() && out.back().axis == s.axis) {
      out.back().gain = std::max(out.back().gain, gain);
    } else {
      out.push_back({s.axis, gain});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Along& x, const Along& y) { return x.gain < y.gain; });
  return out;
}

std::string basin_lines(const SearchAnswer& a) {
  const search::Basin b = search::basin_of(a.top[0].steps, best_of(a), figure_of(a));
  const auto& [low, high] = best_of(a).confidence.step;
  const double step = best_of(a).time.step.value;
  const std::string steps = b.steps > 0
                                ? fmt::format("{} of {} single steps that fit", b.within, b.steps)
                                : std::string("no single step is legal and fits");
  std::string words = fmt::format(
      "{}: {}{} {} of {} others listed, are within the band of error ({} to {})", verdict(b), steps,
      b.steps > 0 ? ", and" : ";", rivals_listed(a), a.top.size() - 1,
      signed_percent(low.value / step - 1), signed_percent(high.value / step - 1));
  if (b.within + rivals_listed(a) > 0) words += "; measure before you choose among them";
  std::string out = labelled("around it", words);
  std::string steep;
  std::string flat;
  for (const Along& one : along_axes(a)) {
    const std::string name(search::facts_of(one.axis).name);
    if (one.gain <= -0.02) {
      steep += fmt::format("{}{} {}", steep.empty() ? "" : ", ", name, signed_percent(one.gain));
    } else {
      flat += (flat.empty() ? "" : ", ") + name;
    }
  }
  if (!steep.empty()) out += labelled("steep along", steep);
  if (!flat.empty()) out += labelled("flat along", flat + " (less than 2%)");
  return out;
}

std::string memory_lines(const SearchAnswer& a) {
  const projection::Projection& p = best_of(a);
  if (!search::may_run_out(p)) return "";
  std::string words = fmt::format("its band of error ends at {}, the device has {}",
                                  gib_text(p.confidence.peak.second), gib_text(p.memory.capacity));
  const search::StepAway* safer = search::safer_step(a.top[0].steps, p);
  words += safer == nullptr
               ? "; no single step keeps all of its band inside"
               : fmt::format("; if it does: {}, {}, {} less", step_words(*a.space, *safer),
                             signed_percent(figure_of(a) / safer->figure - 1),
                             gib_text(p.memory.device_peak - safer->device_peak));
  return labelled("may run out of memory", words);
}

Node contributions_node(const SearchAnswer& a, const std::vector<search::Contribution>& all) {
  Node list = Node::sequence();
  for (const search::Contribution& c : all) {
    Node changes = Node::sequence();
    for (const auto& [axis, from, to] : c.changes) {
      Node change = Node::mapping();
      change.set("axis", Node::string(std::string(search::facts_of(axis).name)));
      change.set("from", Node::string(from));
      change.set("to", Node::string(to));
      changes.append(std::move(change));
    }
    Node one = Node::mapping();
    one.set("changes", std::move(changes));
    one.set("gain", number(c.gain()));
    one.set("tokens_per_s_per_gpu", number(tokens_per_gpu(a, c.after)));
    one.set("fits", Node::boolean(c.fits));
    one.set("device_peak_bytes", number(std::round(c.device_peak.value)));
    list.append(std::move(one));
  }
  return list;
}

Node basin_node(const SearchAnswer& a) {
  const search::Basin b = search::basin_of(a.top[0].steps, best_of(a), figure_of(a));
  Node out = Node::mapping();
  out.set("verdict", Node::string(std::string(verdict(b))));
  out.set("steps_that_fit", Node::integer(b.steps));
  out.set("steps_within_band", Node::integer(b.within));
  out.set("rivals_listed", Node::integer(rivals_listed(a)));
  Node axes = Node::mapping();
  for (const Along& one : along_axes(a)) {
    axes.set(std::string(search::facts_of(one.axis).name), number(one.gain));
  }
  out.set("least_loss_by_axis", std::move(axes));
  return out;
}

Node safer_node(const SearchAnswer& a) {
  const projection::Projection& p = best_of(a);
  const search::StepAway* s =
      search::may_run_out(p) ? search::safer_step(a.top[0].steps, p) : nullptr;
  if (s == nullptr) return Node::null();
  const std::vector<search::Value>& values = a.space->values(s->axis);
  Node out = Node::mapping();
  out.set("axis", Node::string(std::string(search::facts_of(s->axis).name)));
  out.set("from", Node::string(values[s->from].word));
  out.set("to", Node::string(values[s->to].word));
  out.set("gain", number(figure_of(a) / s->figure - 1));
  out.set("device_peak_bytes", number(std::round(s->device_peak.value)));
  return out;
}

}  // namespace

std::string help_words(const SearchAnswer& a, const Ranked& one) {
  const search::StepAway* s = best_change(one);
  if (s == nullptr) return "";
  std::string out =
      fmt::format("{}: {}", step_words(*a.space, *s), signed_percent(one.figure / s->aimed - 1));
  if (!s->fits) out += fmt::format(", lacks {}", gib_text(s->missing));
  return out;
}

std::string advice_text(const SearchAnswer& a) {
  std::string out = losses_line(a) + help_line(a) + memory_lines(a) + basin_lines(a);
  for (const std::string& part : {job_lines(a), runner_up_lines(a)}) {
    if (!part.empty()) out += '\n' + part;
  }
  return out;
}

void add_losses(const Ranked& one, Node& out) {
  const projection::Projection& p = *one.answer.projection;
  Node losses = Node::mapping();
  for (const search::Loss& l : search::losses_of(p)) {
    if (l.share > 0) losses.set(std::string(l.what), number(l.share));
  }
  out.set("losses", std::move(losses));
  out.set("may_run_out_of_memory", Node::boolean(search::may_run_out(p)));
}

void add_advice(const SearchAnswer& a, Node& out) {
  out.set("basin", basin_node(a));
  out.set("if_out_of_memory", safer_node(a));
  if (a.own != nullptr) out.set("difference_from_job", contributions_node(a, a.from_job));
  if (a.top.size() > 1) {
    out.set("difference_from_runner_up", contributions_node(a, a.from_runner_up));
  }
}

}  // namespace eratos::report
