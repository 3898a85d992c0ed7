#include "eratos/report/hybrid.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "eratos/projection/hybrid.h"
#include "eratos/report/json.h"
#include "eratos/report/quantity.h"
#include "eratos/report/time_parts.h"

namespace eratos::report {

namespace {

using projection::HybridAnswer;
using projection::Origin;
using text::Node;

constexpr int kBarColumns = 48;

std::string ratio(double value) { return fmt::format("{:.3f}", value); }

std::string measured_by(const HybridAnswer& h) {
  const calibration::MeasuredProvenance& p = h.provenance;
  std::string out = p.device.empty() ? "an unnamed device" : p.device;
  if (!p.date_utc.empty()) out += ", " + p.date_utc.substr(0, 10);
  if (!p.libtorch.empty()) out += ", libtorch " + p.libtorch;
  if (!p.source.empty()) out += ", " + p.source;
  return out;
}

std::vector<Bar> share_bars(const HybridAnswer& h) {
  std::vector<Bar> out;
  for (std::size_t o = 0; o < projection::kOrigins; ++o) {
    const std::string error = h.error[o] > 0 ? fmt::format("+- {}", percent(h.error[o])) : "";
    out.push_back({std::string(projection::name_of(static_cast<Origin>(o))), error, h.share[o],
                   percent(h.share[o])});
  }
  return out;
}

// "layer" of "block/layer/forward/...".
std::string what_of(const std::string& id) {
  const std::size_t from = id.find('/') + 1;
  return id.substr(from, id.find('/', from) - from);
}

Table span_rows(const HybridAnswer& h) {
  Table table({{"module"},
               {"pass"},
               {"times", Align::right},
               {"measured", Align::right},
               {"its kernels", Align::right},
               {"unattributed", Align::right}});
  for (const projection::SpanRow& s : h.spans) {
    const Seconds beyond = s.measured - s.kernels;
    const std::string sign = beyond.value < 0 ? "-" : "";
    table.row({fmt::format("{}: {}", s.module, what_of(s.id)), s.backward ? "backward" : "forward",
               thousands(s.count), duration(s.measured), duration(s.kernels),
               sign + duration(Seconds{std::abs(beyond.value)})});
  }
  return table;
}

Table family_rows(const HybridAnswer& h) {
  Table table({{"family"},
               {"points", Align::right},
               {"measured/modelled", Align::right},
               {"spread", Align::right},
               {"factor taken", Align::right}});
  for (const projection::Family& f : h.families) {
    table.row({f.name, thousands(f.points), ratio(f.median), percent(f.spread), ratio(f.factor)});
  }
  return table;
}

Table restored_rows(const HybridAnswer& h, Seconds step) {
  Table table({{"restored"}, {"from, to"}, {"s", Align::right}, {"share", Align::right}, {"how"}});
  for (const projection::RestoredTerm& t : h.restored) {
    table.row({t.what, fmt::format("{} -> {}", t.from, t.to), seconds_number(t.seconds, step),
               percent(step.value > 0 ? t.seconds / step : 0), t.how});
  }
  table.row({"step", "", seconds_number(step, step), percent(1), ""}, true);
  return table;
}

// A table of what took how long, simulated and with measurements.
class BothRows {
 public:
  BothRows(const std::string& head, Seconds step)
      : step_(step),
        table_({{head},
                {"simulated", Align::right},
                {"measured", Align::right},
                {"measured/simulated", Align::right}}) {}

  void row(const std::string& name, Seconds simulated, Seconds measured, bool strong = false) {
    constexpr double kLeastShare = 5e-4;  // what would print as 0
    if (max(simulated, measured) < step_ * kLeastShare) return;
    table_.row({name, seconds_number(simulated, step_), seconds_number(measured, step_),
                simulated.value > 0 ? ratio(measured / simulated) : ""},
               strong);
  }
  Table take() { return std::move(table_); }

 private:
  Seconds step_;
  Table table_;
};

std::vector<Table> both_tables(const Answer& a) {
  const projection::TimeAnswer& simulated = a.simulated->time;
  const projection::TimeAnswer& hybrid = a.projection->time;
  BothRows modules("by module, s", simulated.step);
  const std::vector<TimePart> after = module_parts(hybrid);
  for (const TimePart& part : module_parts(simulated)) {
    const auto same = [&](const TimePart& p) { return p.name == part.name; };
    const auto at = std::find_if(after.begin(), after.end(), same);
    modules.row(part.name, part.time, at == after.end() ? Seconds{0} : at->time);
  }
  modules.row("unattributed", Seconds{0}, a.hybrid->unattributed);
  BothRows all("by part, s", simulated.step);
  const std::vector<TimePart> parts = step_parts(simulated);
  const std::vector<TimePart> others = step_parts(hybrid);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    all.row(parts[i].name, parts[i].time, others[i].time);
  }
  all.row("step", simulated.step, hybrid.step, true);
  return {modules.take(), all.take()};
}

std::vector<std::string> memory_lines(const projection::MemoryAnchor& m) {
  if (m.phases == 0) return {};
  std::vector<std::string> out;
  out.push_back(
      fmt::format("small job, measured: {} allocated, {} reserved; by the model {} and {}",
                  gib_text(m.measured_allocated), gib_text(m.measured_reserved),
                  gib_text(m.modelled_allocated), gib_text(m.modelled_reserved)));
  out.push_back(fmt::format("this job: device peak {} with the allocator as measured, at most {}",
                            gib_text(m.device_peak), gib_text(m.upper_bound)));
  return out;
}

std::vector<std::string> interpolation_lines(const HybridAnswer& h) {
  std::vector<std::string> out;
  for (const projection::Interpolation& i : h.interpolations) {
    out.push_back(fmt::format("{}: between {} and {}", i.id, i.below, i.above));
  }
  return out;
}

std::string matched(const HybridAnswer& h) {
  return fmt::format("{} of the file's {} pieces are this job's; band {} of the simulation's",
                     h.matched, h.pieces, ratio(h.narrowing));
}

}  // namespace

std::vector<Section> hybrid_sections(const Answer& a) {
  if (a.hybrid == nullptr) return {};
  const HybridAnswer& h = *a.hybrid;
  std::vector<Section> out;
  out.push_back({.heading = "what the step is known from",
                 .note = measured_by(h),
                 .bars = share_bars(h),
                 .sentences = {matched(h)}});
  if (a.simulated != nullptr) {
    out.push_back({.heading = "simulated and measured", .tables = both_tables(a)});
  }
  if (!h.spans.empty()) {
    out.push_back({.heading = "measured modules",
                   .note = fmt::format("one run each; {} of the step is beyond their kernels",
                                       duration(Seconds{std::abs(h.unattributed.value)})),
                   .tables = {span_rows(h)}});
  }
  if (!h.families.empty()) {
    out.push_back({.heading = "calibrated families",
                   .note = "what was not measured itself takes its family's factor",
                   .tables = {family_rows(h)}});
  }
  if (!h.interpolations.empty()) {
    out.push_back({.heading = "interpolated", .sentences = interpolation_lines(h)});
  }
  out.push_back({.heading = "from one device to the job",
                 .note = "on the critical rank",
                 .tables = {restored_rows(h, a.projection->time.step)}});
  if (h.memory.phases > 0) {
    out.push_back({.heading = "measured memory", .sentences = memory_lines(h.memory)});
  }
  return out;
}

std::string hybrid_text(const Answer& a, const Style& style) {
  std::string out;
  for (const Section& s : hybrid_sections(a)) {
    out += '\n' + style.bold(s.heading);
    if (!s.note.empty()) out += style.dim("   " + s.note);
    out += '\n';
    for (const Bar& b : s.bars) {
      out += fmt::format("  {} {} {}  ", padded(b.name, 13), padded(b.note, 6, Align::right),
                         padded(b.value, 9, Align::right)) +
             style.bar(bar(b.share, kBarColumns)) + '\n';
    }
    for (const Table& t : s.tables) out += t.text(2, style);
    for (const std::string& line : s.sentences) out += "  " + line + '\n';
  }
  return out;
}

void put_shares(const Answer& a, Node& provenance) {
  if (a.hybrid == nullptr) {
    provenance.set("measured_fraction", number(0));
    return;
  }
  const HybridAnswer& h = *a.hybrid;
  for (std::size_t o = 0; o < projection::kOrigins; ++o) {
    const std::string name(projection::name_of(static_cast<Origin>(o)));
    provenance.set(name + "_fraction", number(h.share[o]));
  }
  Node by = Node::mapping();
  const calibration::MeasuredProvenance& p = h.provenance;
  by.set("source", Node::string(p.source));
  by.set("device", Node::string(p.device));
  by.set("device_kind", Node::string(p.device_kind));
  by.set("date_utc", Node::string(p.date_utc));
  by.set("libtorch", Node::string(p.libtorch));
  by.set("ranks", Node::integer(p.ranks));
  by.set("noisy", Node::boolean(p.noisy));
  by.set("pieces", Node::integer(static_cast<std::int64_t>(h.pieces)));
  by.set("matched_pieces", Node::integer(static_cast<std::int64_t>(h.matched)));
  by.set("band_narrowing", number(h.narrowing));
  provenance.set("measured", std::move(by));
}

namespace {

Node span_nodes(const HybridAnswer& h) {
  Node out = Node::sequence();
  for (const projection::SpanRow& s : h.spans) {
    Node row = Node::mapping();
    row.set("module", Node::string(s.module));
    row.set("pass", Node::string(s.backward ? "backward" : "forward"));
    row.set("id", Node::string(s.id));
    row.set("origin", Node::string(std::string(projection::name_of(s.origin))));
    row.set("count", number(s.count));
    row.set("measured_s", number(s.measured.value));
    row.set("kernels_s", number(s.kernels.value));
    row.set("unattributed_s", number((s.measured - s.kernels).value));
    out.append(std::move(row));
  }
  return out;
}

Node family_nodes(const HybridAnswer& h) {
  Node out = Node::sequence();
  for (const projection::Family& f : h.families) {
    Node row = Node::mapping();
    row.set("family", Node::string(f.name));
    row.set("points", Node::integer(f.points));
    row.set("median_ratio", number(f.median));
    row.set("spread", number(f.spread));
    row.set("factor", number(f.factor));
    row.set("error", number(f.error));
    out.append(std::move(row));
  }
  return out;
}

Node restored_nodes(const HybridAnswer& h) {
  Node out = Node::sequence();
  for (const projection::RestoredTerm& t : h.restored) {
    Node row = Node::mapping();
    row.set("what", Node::string(t.what));
    row.set("from", number(t.from));
    row.set("to", number(t.to));
    row.set("how", Node::string(t.how));
    row.set("seconds_s", number(t.seconds.value));
    out.append(std::move(row));
  }
  return out;
}

Node interpolation_nodes(const HybridAnswer& h) {
  Node out = Node::sequence();
  for (const projection::Interpolation& i : h.interpolations) {
    Node row = Node::mapping();
    row.set("id", Node::string(i.id));
    row.set("below", Node::string(i.below));
    row.set("above", Node::string(i.above));
    out.append(std::move(row));
  }
  return out;
}

Node anchor_node(const projection::MemoryAnchor& m) {
  const auto bytes = [](Bytes b) { return number(std::round(b.value)); };
  Node out = Node::mapping();
  out.set("phases", Node::integer(m.phases));
  out.set("measured_allocated_bytes", bytes(m.measured_allocated));
  out.set("measured_reserved_bytes", bytes(m.measured_reserved));
  out.set("measured_context_bytes", bytes(m.measured_context));
  out.set("modelled_allocated_bytes", bytes(m.modelled_allocated));
  out.set("modelled_reserved_bytes", bytes(m.modelled_reserved));
  out.set("modelled_context_bytes", bytes(m.modelled_context));
  out.set("device_peak_bytes", bytes(m.device_peak));
  out.set("upper_bound_bytes", bytes(m.upper_bound));
  return out;
}

}  // namespace

void put_hybrid(const Answer& a, Node& out) {
  if (a.hybrid == nullptr) return;
  const HybridAnswer& h = *a.hybrid;
  Node hybrid = Node::mapping();
  hybrid.set("unattributed_s", number(h.unattributed.value));
  hybrid.set("modules", span_nodes(h));
  hybrid.set("families", family_nodes(h));
  hybrid.set("interpolations", interpolation_nodes(h));
  hybrid.set("restored", restored_nodes(h));
  if (h.memory.phases > 0) hybrid.set("memory", anchor_node(h.memory));
  out.set("hybrid", std::move(hybrid));
}

}  // namespace eratos::report
