#include "eratos/report/plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "eratos/report/json.h"
#include "eratos/report/quantity.h"
#include "eratos/text/dump.h"

namespace eratos::report {

namespace {

using calibration::FieldName;
using calibration::number_text;
using text::Node;

std::string_view kind_name(const calibration::Piece& piece) {
  return calibration::kPieceKinds[static_cast<std::size_t>(piece.kind())];
}

// Every field of a piece: the device program asks for those that it needs.
class LineWriter {
 public:
  explicit LineWriter(std::string& out) : out_(out) {}

  void number(FieldName name, double value, double) { add(name, number_text(value)); }
  void flag(FieldName name, bool value, bool) { add(name, value ? "1" : "0"); }
  template <class E, std::size_t N>
  void word(FieldName name, E value, const std::string_view (&names)[N]) {
    add(name, names[static_cast<std::size_t>(value)]);
  }
  void text(FieldName name, const std::string& value) {
    if (!value.empty()) add(name, value);
  }
  void list(FieldName name, const std::vector<double>& values) {
    if (values.empty()) return;
    std::string all;
    for (const double v : values) all += (all.empty() ? "" : ",") + number_text(v);
    add(name, all);
  }

 private:
  void add(FieldName name, std::string_view value) {
    out_ += fmt::format(" {}={}", name.key, value);
  }

  std::string& out_;
};

class NodeWriter {
 public:
  explicit NodeWriter(Node& out) : out_(out) {}

  void number(FieldName name, double value, double) { out_.set(name.key, report::number(value)); }
  void flag(FieldName name, bool value, bool) { out_.set(name.key, Node::integer(value ? 1 : 0)); }
  template <class E, std::size_t N>
  void word(FieldName name, E value, const std::string_view (&names)[N]) {
    out_.set(name.key, Node::string(std::string(names[static_cast<std::size_t>(value)])));
  }
  void text(FieldName name, const std::string& value) {
    if (!value.empty()) out_.set(name.key, Node::string(value));
  }
  void list(FieldName name, const std::vector<double>& values) {
    if (values.empty()) return;
    Node list = Node::sequence();
    for (const double v : values) list.append(report::number(v));
    out_.set(name.key, std::move(list));
  }

 private:
  Node& out_;
};

std::string degree(double from, double to) {
  return fmt::format("{} -> {}", number_text(from), number_text(to));
}

std::string small_job(const projection::Downscaled& small, const Style& style) {
  std::string out =
      "\n" + style.bold("What one device runs of it, and what the way back restores") + "\n";
  if (small.steps.empty()) out += "  all of it\n";
  Table table({{"rule"}, {"from, to"}, {"restored"}, {"how"}});
  for (const projection::DownscaleStep& s : small.steps) {
    table.row({s.what, degree(s.from, s.to), s.restored, s.how});
  }
  if (!small.steps.empty()) out += table.text(2, style);
  if (!small.legal) return out + "  no job of its own: " + small.why + "\n";
  return out + fmt::format("  {} by the model, which {}\n", gib_text(small.needed),
                           small.fits ? "fits" : "does not fit");
}

}  // namespace

std::string plan_lines(const projection::Plan& plan) {
  std::string out = fmt::format("eratos-plan {}\njob {} {}\n", kPlanVersion, plan.job, plan.digest);
  for (const projection::PlannedPiece& p : plan.pieces) {
    out += fmt::format("piece {} id={} dtype={} count={}", kind_name(p.piece), p.id,
                       name_of(p.piece.dtype), number_text(p.count));
    LineWriter writer(out);
    calibration::each_field(p.piece.work, writer);
    out += '\n';
  }
  return out;
}

std::string plan_text(const projection::Plan& plan, const Style& style) {
  std::string out = style.bold(fmt::format("Plan of measurements of {}, {} pieces", plan.job,
                                           plan.pieces.size())) +
                    "\n";
  double whole = 0;
  for (const projection::PlannedPiece& p : plan.pieces) {
    const auto kind = p.piece.kind();
    if (kind != calibration::PieceKind::block) whole += p.count * p.modelled.value;
  }
  Table table({{"a step", Align::right},
               {"one, modelled", Align::right},
               {"share", Align::right},
               {"piece"}});
  for (const projection::PlannedPiece& p : plan.pieces) {
    const double all = p.count * p.modelled.value;
    table.row({p.count > 0 ? thousands(p.count) : "",
               p.modelled.value > 0 ? duration(p.modelled) : "",
               all > 0 && whole > 0 ? percent(all / whole) : "", p.id});
  }
  out += table.text(2, style);
  out += "  Shares are of a rank's kernels and exchanges; a block is made of such kernels.\n";
  out += small_job(plan.small, style);
  if (plan.unplanned.empty()) return out;
  out += "\n" + style.bold("No piece of its own, so measured kernel by kernel or modelled") + "\n";
  for (const projection::Unplanned& u : plan.unplanned) {
    out += fmt::format("  {}: {}\n", u.what, u.why);
  }
  return out;
}

std::string plan_json(const projection::Plan& plan, const std::string& version) {
  Node out = document(version);
  Node job = Node::mapping();
  job.set("name", Node::string(plan.job));
  job.set("digest", Node::string(plan.digest));
  out.set("job", std::move(job));
  Node pieces = Node::sequence();
  for (const projection::PlannedPiece& p : plan.pieces) {
    Node row = Node::mapping();
    row.set("id", Node::string(p.id));
    row.set("kind", Node::string(std::string(kind_name(p.piece))));
    row.set("dtype", Node::string(std::string(name_of(p.piece.dtype))));
    row.set("count", number(p.count));
    row.set("modelled_s", number(p.modelled.value));
    NodeWriter writer(row);
    calibration::each_field(p.piece.work, writer);
    pieces.append(std::move(row));
  }
  out.set("pieces", std::move(pieces));
  Node steps = Node::sequence();
  for (const projection::DownscaleStep& s : plan.small.steps) {
    Node row = Node::mapping();
    row.set("rule", Node::string(s.what));
    row.set("from", number(s.from));
    row.set("to", number(s.to));
    row.set("restored", Node::string(s.restored));
    row.set("how", Node::string(s.how));
    steps.append(std::move(row));
  }
  Node small = Node::mapping();
  small.set("steps", std::move(steps));
  small.set("fits", Node::boolean(plan.small.legal && plan.small.fits));
  small.set("needed_bytes", number(plan.small.needed.value));
  if (!plan.small.why.empty()) small.set("why", Node::string(plan.small.why));
  out.set("small_job", std::move(small));
  Node unplanned = Node::sequence();
  for (const projection::Unplanned& u : plan.unplanned) {
    Node row = Node::mapping();
    row.set("what", Node::string(u.what));
    row.set("why", Node::string(u.why));
    unplanned.append(std::move(row));
  }
  out.set("unplanned", std::move(unplanned));
  return text::to_json(out) + '\n';
}

}  // namespace eratos::report
