#include "eratos/report/anchor.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "eratos/report/json.h"
#include "eratos/report/quantity.h"

namespace eratos::report {

namespace {

using projection::CarriedPart;
using projection::Explained;
using text::Node;

constexpr double kLeastShown = 5e-4;  // what would print as 0.0%
constexpr double kDoubtful = 3;       // standard deviations: one run in 370 by chance
constexpr CarriedPart kStepParts[] = {CarriedPart::kernels, CarriedPart::launch,
                                      CarriedPart::communication};

double relative(double log_ratio) { return std::exp(log_ratio) - 1; }

std::string value_text(double value) { return fmt::format("{:.4g}", value); }

// "kernels -3.1%, launch -0.4%; the run's own -0.5%"
std::string shares_text(const Explained& e, bool step) {
  std::string out;
  const auto add = [&](std::string_view name, double share) {
    if (std::abs(share) < kLeastShown) return;
    out += (out.empty() ? "" : ", ") + fmt::format("{} {}", name, signed_percent(relative(share)));
  };
  if (step) {
    for (const CarriedPart part : kStepParts) add(projection::name_of(part), e.explained(part));
  } else {
    add("held outside live tensors", e.explained(CarriedPart::memory));
  }
  if (out.empty()) out = "nothing that carries";
  return out + fmt::format("; the run's own {}", signed_percent(relative(e.unexplained())));
}

// What the run's step is made of: where a residual can be.
std::string exercised_text(const projection::TimeAnswer& t) {
  std::string out;
  for (const auto& [name, part] : {std::pair{"compute", t.compute},
                                   {"launch", t.launch},
                                   {"exposed communication", t.exposed.total()},
                                   {"bubble", t.bubble},
                                   {"optimizer", t.optimizer}}) {
    const double share = part / t.step;
    if (share < kLeastShown) continue;
    out += (out.empty() ? "" : ", ") + fmt::format("{} {}", name, percent(share));
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> facts_of(const AnchorAnswer& a) {
  std::vector<std::pair<std::string, std::string>> out;
  out.emplace_back("run", a.run);
  out.emplace_back("on", a.what);
  for (const std::string& line : a.differs) {
    out.emplace_back(out.size() == 2 ? "its job differs" : "", line);
  }
  if (const auto& e = a.anchor.step) {
    out.emplace_back(
        "its step",
        fmt::format("measured {}, projected {}: {}", duration(Seconds{e->measured}),
                    duration(Seconds{e->projected}), signed_percent(relative(e->residual()))));
    out.emplace_back("made of", exercised_text(a.anchor.projection.time));
    out.emplace_back("explained by", shares_text(*e, true));
  }
  if (const auto& e = a.anchor.peak) {
    out.emplace_back(
        "its peak",
        fmt::format("measured {} {}, projected {}: {}", gib_text(Bytes{e->measured}), a.peak_kind,
                    gib_text(Bytes{e->projected}), signed_percent(relative(e->residual()))));
    out.emplace_back("explained by", shares_text(*e, false));
  }
  std::string alone = duration(a.alone.time.step) + " a step";
  if (a.anchor.peak) alone += ", " + gib_text(a.alone.memory.device_peak) + " a GPU";
  out.emplace_back("without it, this job", alone);
  return out;
}

Table carried_table(const AnchorAnswer& a) {
  Table table({{"carried"},
               {"before", Align::right},
               {"after", Align::right},
               {"of the run", Align::right},
               {"of this job", Align::right}});
  for (const CarriedConstant& c : a.constants) {
    if (!c.carried || std::abs(c.constant.explains) < kLeastShown) continue;
    table.row({std::string(c.constant.parameter->path), value_text(c.constant.before),
               value_text(c.constant.after), signed_percent(relative(c.constant.explains)),
               signed_percent(relative(c.effect))});
  }
  return table;
}

// What the table leaves out.
std::vector<std::string> remarks(const AnchorAnswer& a) {
  std::vector<std::string> out = a.notes;
  const auto doubt = [&](const std::optional<Explained>& e, std::string_view what) {
    if (!e || std::abs(e->residual()) <= kDoubtful * e->expected) return;
    out.push_back(fmt::format(
        "its {} is {:.0f} times as far off as constants spread: is it a run of this job?", what,
        std::abs(e->residual()) / e->expected));
  };
  doubt(a.anchor.step, "step");
  doubt(a.anchor.peak, "peak");
  int small = 0;
  for (const CarriedConstant& c : a.constants) {
    if (!c.carried) {
      out.push_back(std::string(c.constant.parameter->path) + " is not carried: " + c.why_not);
    } else if (std::abs(c.constant.explains) < kLeastShown) {
      ++small;
    }
  }
  if (small > 0) {
    out.push_back(
        fmt::format("{} more constant{} below 0.05% of the run", small, small == 1 ? "" : "s"));
  }
  return out;
}

Node explained_node(const Explained& e, bool step) {
  Node out = Node::mapping();
  out.set("ratio", number(e.measured / e.projected));
  out.set("log", number(e.residual()));
  out.set("expected_log", number(e.expected));
  Node by = Node::mapping();
  if (step) {
    for (const CarriedPart part : kStepParts) {
      by.set(std::string(projection::name_of(part)), number(e.explained(part)));
    }
  } else {
    by.set("memory", number(e.explained(CarriedPart::memory)));
  }
  by.set("own", number(e.unexplained()));
  out.set("log_by_part", std::move(by));
  return out;
}

Node constant_node(const CarriedConstant& c) {
  Node out = Node::mapping();
  out.set("constant", Node::string(std::string(c.constant.parameter->path)));
  out.set(
      "part",
      Node::string(std::string(projection::name_of(projection::part_of(*c.constant.parameter)))));
  out.set("before", number(c.constant.before));
  out.set("after", number(c.constant.after));
  out.set("run_log", number(c.constant.explains));
  if (c.carried) {
    out.set("job_log", number(c.effect));
  } else {
    out.set("why_not", Node::string(c.why_not));
  }
  return out;
}

}  // namespace

std::string anchor_text(const AnchorAnswer& a, const Style& style) {
  std::string out =
      style.bold("anchor") + style.dim("   one measured run, and what it changes here\n");
  Table facts({{""}, {""}});
  for (auto& [name, value] : facts_of(a)) facts.row({name, value});
  out += facts.text(2, style);
  const Table carried = carried_table(a);
  if (!carried.rows().empty()) out += carried.text(2, style);
  for (const std::string& line : remarks(a)) out += "  " + wrapped(line, 93, "    ") + '\n';
  return out;
}

Node anchor_node(const AnchorAnswer& a) {
  Node measured = Node::mapping();
  Node projected = Node::mapping();
  Node residual = Node::mapping();
  if (const auto& e = a.anchor.step) {
    measured.set("step_s", number(e->measured));
    measured.set("tokens_per_s_per_gpu", number(a.tokens_per_s_per_gpu));
    projected.set("step_s", number(e->projected));
    projected.set("step_anchored_s", number(e->anchored));
    residual.set("step", explained_node(*e, true));
  }
  if (const auto& e = a.anchor.peak) {
    measured.set("peak_bytes", number(std::round(e->measured)));
    measured.set("peak_kind", Node::string(a.peak_kind));
    projected.set("peak_bytes", number(std::round(e->projected)));
    projected.set("peak_anchored_bytes", number(std::round(e->anchored)));
    residual.set("peak", explained_node(*e, false));
  }
  const projection::TimeAnswer& t = a.anchor.projection.time;
  Node exercised = Node::mapping();
  exercised.set("compute_s", number(t.compute.value));
  exercised.set("launch_s", number(t.launch.value));
  exercised.set("exposed_s", number(t.exposed.total().value));
  exercised.set("bubble_s", number(t.bubble.value));
  exercised.set("optimizer_s", number(t.optimizer.value));
  Node differs = Node::sequence();
  for (const std::string& line : a.differs) differs.append(Node::string(line));
  Node carried = Node::sequence();
  Node not_carried = Node::sequence();
  for (const CarriedConstant& c : a.constants) {
    (c.carried ? carried : not_carried).append(constant_node(c));
  }
  Node notes = Node::sequence();
  for (const std::string& line : a.notes) notes.append(Node::string(line));
  Node alone = Node::mapping();
  alone.set("step_s", number(a.alone.time.step.value));
  alone.set("device_peak_bytes", number(std::round(a.alone.memory.device_peak.value)));

  Node out = Node::mapping();
  out.set("run", Node::string(a.run));
  out.set("what", Node::string(a.what));
  out.set("differs", std::move(differs));
  out.set("measured", std::move(measured));
  out.set("projected", std::move(projected));
  out.set("residual", std::move(residual));
  out.set("exercised", std::move(exercised));
  out.set("carried", std::move(carried));
  out.set("not_carried", std::move(not_carried));
  out.set("notes", std::move(notes));
  out.set("unanchored", std::move(alone));
  return out;
}

Section anchor_section(const AnchorAnswer& a) {
  Section out;
  out.heading = "anchor";
  out.note = "one measured run, and what it changes here";
  Table facts({{"of the run"}, {""}});
  for (auto& [name, value] : facts_of(a)) facts.row({name, value});
  out.tables.push_back(std::move(facts));
  Table carried = carried_table(a);
  if (!carried.rows().empty()) out.tables.push_back(std::move(carried));
  out.sentences = remarks(a);
  return out;
}

}  // namespace eratos::report
