#include "eratos/report/trace_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "eratos/projection/hybrid.h"
#include "eratos/report/json.h"
#include "eratos/report/quantity.h"

namespace eratos::report {

namespace {

using projection::IdleCause;
using projection::KernelClass;
using projection::MatchedBy;
using projection::MatchRow;
using projection::Nanoseconds;
using projection::StepWindow;
using text::Node;

double seconds(Nanoseconds ns) { return static_cast<double>(ns) * 1e-9; }
std::string time(double s) { return s > 0 ? duration(Seconds{s}) : std::string("-"); }
std::string time(Nanoseconds ns) { return time(seconds(ns)); }

// Milliseconds with three decimals: whole microseconds, so that what is shown adds up.
std::string milliseconds_text(Nanoseconds ns) {
  return fmt::format("{:.3f}", static_cast<double>(ns) * 1e-6);
}

std::string_view words_of(KernelClass kind) {
  switch (kind) {
    case KernelClass::gemm:
      return "products";
    case KernelClass::gemm_part:
      return "parts of products";
    case KernelClass::attention:
      return "attention";
    case KernelClass::norm:
      return "norms";
    case KernelClass::activation:
      return "activations";
    case KernelClass::rotary:
      return "rotary";
    case KernelClass::loss:
      return "loss";
    case KernelClass::embedding:
      return "embedding";
    case KernelClass::optimizer:
      return "optimizer";
    case KernelClass::permute:
      return "permutation of tokens";
    case KernelClass::router:
      return "router";
    case KernelClass::scan:
      return "scans";
    case KernelClass::convolution:
      return "convolutions";
    case KernelClass::quantize:
      return "casts and scales";
    case KernelClass::elementwise:
      return "other elementwise kernels";
    case KernelClass::reduction:
      return "reductions";
    case KernelClass::random:
      return "random numbers";
    case KernelClass::unknown:
      return "unknown kernels";
    case KernelClass::communication:
      return "exposed communication";
    case KernelClass::copy:
      return "copies";
    case KernelClass::fill:
      return "fills";
    case KernelClass::count_:
      break;
  }
  return "?";
}

std::string_view words_of(IdleCause cause) {
  switch (cause) {
    case IdleCause::host:
      return "idle: the host had not launched what comes next";
    case IdleCause::launch:
      return "idle: launched, not begun";
    case IdleCause::queued:
      return "idle: launched before, waits for an event or a stream";
    case IdleCause::untold:
      return "idle: the trace does not say why";
    case IdleCause::tail:
      return "idle: behind the last kernel";
    case IdleCause::count_:
      break;
  }
  return "?";
}

// One class of the account.
struct Part {
  std::string key;
  std::string words;
  std::size_t kernels = 0;
  Nanoseconds own = 0;
  double modelled = 0;  // s; 0: not modelled by itself
};

std::vector<Part> parts_of(const TraceAnswer& a) {
  std::vector<Part> out;
  for (std::size_t i = 0; i < static_cast<std::size_t>(KernelClass::count_); ++i) {
    const auto kind = static_cast<KernelClass>(i);
    Part part{std::string(projection::name_of(kind)), std::string(words_of(kind)),
              a.account->kernels[i], a.account->busy[i], a.match->modelled[i]};
    // The model's exposed share, not what all its messages take.
    if (kind == KernelClass::communication) {
      part.key = "exposed_communication";
      part.modelled = a.projection->time.exposed.total().value;
    }
    if (part.kernels > 0 || part.own > 0 || part.modelled > 0) out.push_back(std::move(part));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Part& x, const Part& y) { return x.own > y.own; });
  for (std::size_t i = 0; i < static_cast<std::size_t>(IdleCause::count_); ++i) {
    const auto cause = static_cast<IdleCause>(i);
    Part part{"idle_" + std::string(projection::name_of(cause)), std::string(words_of(cause)), 0,
              a.account->idle[i], 0};
    if (part.own > 0) out.push_back(std::move(part));
  }
  return out;
}

std::string window_text(const projection::TracedStep& step) {
  switch (step.window) {
    case StepWindow::device:
      return "from its first kernel to the first of the next step";
    case StepWindow::host:
      return "the host's step, and on to its last kernel";
    case StepWindow::whole:
      return "the whole trace, for it has no steps";
  }
  return "";
}

std::string share(Nanoseconds part, Nanoseconds whole) {
  return whole > 0 ? percent(static_cast<double>(part) / static_cast<double>(whole)) : "-";
}

Section account_section(const TraceAnswer& a) {
  Section out;
  out.heading = "where the step went";
  Table table({{""},
               {"kernels", Align::right},
               {"measured, ms", Align::right},
               {"share", Align::right},
               {"modelled, ms", Align::right}});
  for (const Part& part : parts_of(a)) {
    table.row({part.words, part.kernels > 0 ? thousands(static_cast<double>(part.kernels)) : "-",
               milliseconds_text(part.own), share(part.own, a.account->step),
               part.modelled > 0 ? fmt::format("{:.3f}", part.modelled * 1e3) : "-"});
  }
  table.row({"the step", "", milliseconds_text(a.account->step), "100.0%",
             fmt::format("{:.3f}", a.projection->time.step.value * 1e3)},
            true);
  out.tables.push_back(std::move(table));
  const Nanoseconds exposed = a.account->busy[static_cast<std::size_t>(KernelClass::communication)];
  out.sentences.push_back(
      fmt::format("communication: {} in all, of which {} beside compute and {} exposed",
                  time(exposed + a.account->hidden), time(a.account->hidden), time(exposed)));
  out.sentences.push_back(fmt::format(
      "of the busy time {} matched by sizes or order, {} by kind, {} of no op of the program",
      share(a.match->matched, a.account->busy_total()),
      share(a.match->by_kind, a.account->busy_total()),
      share(a.match->unattributed, a.account->busy_total())));
  return out;
}

std::string found_text(const MatchRow& row) {
  if (row.by == MatchedBy::nothing) return "0";
  return thousands(static_cast<double>(row.found));
}

Section ops_section(const TraceAnswer& a) {
  Section out;
  out.heading = "op by op";
  out.note = "one run of each, and how often a step has it; a kind of kernels in whole";
  Table table({{"op"},
               {"pass"},
               {"module"},
               {"expected", Align::right},
               {"found", Align::right},
               {"by"},
               {"measured", Align::right},
               {"modelled", Align::right},
               {"", Align::right},
               {"of the step", Align::right}});
  std::size_t shown = 0;
  for (const MatchRow& row : a.match->rows) {
    if (shown++ == a.top) break;
    const bool kind = row.by == MatchedBy::kind;
    const double measured = kind ? seconds(row.own) : row.median;
    table.row(
        {row.what, row.pass, row.modules, thousands(row.expected), found_text(row),
         std::string(name_of(row.by)), time(measured),
         time(kind ? row.modelled : row.modelled_each()),
         row.by == MatchedBy::nothing || row.modelled <= 0 ? "-" : signed_percent(row.error()),
         share(row.own, a.account->step)});
  }
  out.tables.push_back(std::move(table));
  if (a.match->rows.size() > a.top) {
    out.sentences.push_back(
        fmt::format("and {} more: --top lists them", a.match->rows.size() - a.top));
  }
  return out;
}

Section modules_section(const TraceAnswer& a) {
  Section out;
  out.heading = "module by module";
  Table table({{"module"},
               {"measured", Align::right},
               {"share", Align::right},
               {"modelled", Align::right},
               {"", Align::right}});
  for (const projection::ModuleRow& m : a.match->modules) {
    const double error = m.modelled > 0 ? seconds(m.own) / m.modelled - 1 : 0;
    table.row({m.name, time(m.own), share(m.own, a.account->step), time(m.modelled),
               m.modelled > 0 && m.own > 0 ? signed_percent(error) : "-"});
  }
  out.tables.push_back(std::move(table));
  return out;
}

// The middle of a template's name says little.
std::string short_name(const std::string& name) {
  constexpr std::size_t kLongest = 68;
  if (width(name) <= kLongest) return name;
  return name.substr(0, kLongest - 3) + "...";
}

Section unmatched_section(const TraceAnswer& a) {
  Section out;
  out.heading = "kernels of no op of the program";
  Table table({{"kernel"},
               {"kind"},
               {"sizes"},
               {"times", Align::right},
               {"in all", Align::right},
               {"of the step", Align::right}});
  std::size_t shown = 0;
  for (const projection::UnmatchedKernel& u : a.match->unmatched) {
    if (shown++ == a.top) break;
    table.row({short_name(u.name), std::string(projection::name_of(u.kind)),
               u.shape.empty() ? "-" : u.shape, thousands(static_cast<double>(u.count)),
               time(u.own), share(u.own, a.account->step)});
  }
  out.tables.push_back(std::move(table));
  if (a.match->unmatched.size() > a.top) {
    out.sentences.push_back(
        fmt::format("and {} more: --top lists them", a.match->unmatched.size() - a.top));
  }
  return out;
}

std::string_view name_of_window(StepWindow window) {
  switch (window) {
    case StepWindow::device:
      return "device";
    case StepWindow::host:
      return "host";
    case StepWindow::whole:
      return "whole";
  }
  return "";
}

Node ns(Nanoseconds value) { return Node::integer(value); }

Node row_node(const MatchRow& row) {
  Node out = Node::mapping();
  out.set("op", Node::string(row.what));
  out.set("pass", Node::string(row.pass));
  out.set("modules", Node::string(row.modules));
  out.set("matched_by", Node::string(std::string(name_of(row.by))));
  out.set("expected", number(row.expected));
  out.set("found", Node::integer(static_cast<std::int64_t>(row.found)));
  out.set("step_ns", ns(row.own));
  if (row.by != MatchedBy::nothing) out.set("measured_median_s", number(row.median));
  out.set("modelled_each_s", number(row.modelled_each()));
  out.set("modelled_s", number(row.modelled));
  if (row.by != MatchedBy::nothing && row.modelled > 0) out.set("error", number(row.error()));
  return out;
}

// Where the trace names its device, is it the job's part?
bool of_part(const TraceAnswer& a) {
  if (a.step->device.empty()) return true;
  calibration::MeasuredProvenance of;
  of.device = a.step->device;
  return projection::measured_on(of, a.part);
}

}  // namespace

Page trace_page(const TraceAnswer& a) {
  const projection::TracedStep& step = *a.step;
  Page page;
  page.title = a.job;
  page.version = a.version;
  page.lead.push_back(
      fmt::format("{}: {}{}{}", step.file,
                  step.number >= 0 ? fmt::format("step {} of {}", step.number, step.steps.size())
                                   : std::string("no steps"),
                  step.device.empty() ? std::string() : ", " + step.device,
                  step.rank >= 0 ? fmt::format(", rank {}", step.rank) : std::string()));
  page.lead.push_back(window_text(step));
  const double measured = seconds(step.length());
  const double modelled = a.projection->time.step.value;
  page.facts.emplace_back("measured step", time(measured));
  page.facts.emplace_back("modelled step", fmt::format("{} ({})", time(modelled),
                                                       signed_percent(modelled / measured - 1)));
  page.sections.push_back(account_section(a));
  page.sections.push_back(ops_section(a));
  if (!a.match->modules.empty()) page.sections.push_back(modules_section(a));
  if (!a.match->unmatched.empty()) page.sections.push_back(unmatched_section(a));
  if (!of_part(a)) {
    page.notes.push_back(fmt::format(
        "the trace's device calls itself {}, and what is modelled is {}: are they one part?",
        step.device, a.part));
  }
  if (!step.shapes) {
    page.notes.push_back(
        "no sizes were recorded: ops are matched by order or kind; record_shapes=True says more");
  }
  if (step.shapes && a.match->matched == 0) {
    page.notes.push_back(
        "sizes were recorded, and none of them is of an op of the job: is JOB the job that ran?");
  }
  for (const std::string& note : step.notes) page.notes.push_back("left out: " + note);
  return page;
}

Node trace_node(const TraceAnswer& a) {
  const projection::TracedStep& step = *a.step;
  Node out = Node::mapping();
  Node trace = Node::mapping();
  trace.set("file", Node::string(step.file));
  trace.set("device", Node::string(step.device));
  trace.set("device_id", Node::integer(step.device_id));
  if (step.rank >= 0) trace.set("rank", Node::integer(step.rank));
  if (step.number >= 0) trace.set("step", Node::integer(step.number));
  Node steps = Node::sequence();
  for (const std::int64_t s : step.steps) steps.append(Node::integer(s));
  trace.set("steps", std::move(steps));
  trace.set("window", Node::string(std::string(name_of_window(step.window))));
  trace.set("shapes", Node::boolean(step.shapes));
  Node notes = Node::sequence();
  for (const std::string& n : step.notes) notes.append(Node::string(n));
  trace.set("left_out", std::move(notes));
  out.set("trace", std::move(trace));

  out.set("step_ns", ns(a.account->step));
  out.set("step_s", number(seconds(a.account->step)));
  out.set("modelled_step_s", number(a.projection->time.step.value));
  Node account = Node::sequence();
  for (const Part& part : parts_of(a)) {
    Node one = Node::mapping();
    one.set("class", Node::string(part.key));
    one.set("ns", ns(part.own));
    one.set("kernels", Node::integer(static_cast<std::int64_t>(part.kernels)));
    if (part.modelled > 0) one.set("modelled_s", number(part.modelled));
    account.append(std::move(one));
  }
  out.set("account", std::move(account));
  out.set("hidden_communication_ns", ns(a.account->hidden));
  Node attribution = Node::mapping();
  attribution.set("matched_ns", ns(a.match->matched));
  attribution.set("by_class_ns", ns(a.match->by_kind));
  attribution.set("unattributed_ns", ns(a.match->unattributed));
  attribution.set("idle_ns", ns(a.account->idle_total()));
  out.set("attribution", std::move(attribution));
  out.set("stage", Node::integer(a.match->stage));
  Node rows = Node::sequence();
  for (const MatchRow& row : a.match->rows) rows.append(row_node(row));
  out.set("ops", std::move(rows));
  Node modules = Node::sequence();
  for (const projection::ModuleRow& m : a.match->modules) {
    Node one = Node::mapping();
    one.set("module", Node::string(m.name));
    one.set("ns", ns(m.own));
    one.set("modelled_s", number(m.modelled));
    modules.append(std::move(one));
  }
  out.set("modules", std::move(modules));
  Node unmatched = Node::sequence();
  for (const projection::UnmatchedKernel& u : a.match->unmatched) {
    Node one = Node::mapping();
    one.set("kernel", Node::string(u.name));
    one.set("class", Node::string(std::string(projection::name_of(u.kind))));
    if (!u.shape.empty()) one.set("sizes", Node::string(u.shape));
    one.set("count", Node::integer(static_cast<std::int64_t>(u.count)));
    one.set("ns", ns(u.own));
    unmatched.append(std::move(one));
  }
  out.set("unmatched", std::move(unmatched));
  return out;
}

}  // namespace eratos::report
