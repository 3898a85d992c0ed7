#include "eratos/report/memory_timeline.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "eratos/base/units.h"
#include "eratos/report/json.h"
#include "eratos/report/quantity.h"

namespace eratos::report {

namespace {

constexpr int kBarColumns = 32;

std::string gib(std::int64_t bytes) {
  return fmt::format("{:.3f}", static_cast<double>(bytes) / kGiB);
}

}  // namespace

Table phase_rows(const projection::MemoryTimeline& t, bool bars) {
  std::vector<Column> columns{{"phase"}, {"at", Align::right}, {"GiB", Align::right}};
  if (bars) columns.push_back({""});
  Table table(std::move(columns));
  std::int64_t highest = 1;
  for (const projection::Phase& p : t.phases) highest = std::max(highest, p.bytes);
  for (const projection::Phase& p : t.phases) {
    std::vector<std::string> cells{p.name, duration(to_seconds(p.time)), gib(p.bytes)};
    if (bars) {
      cells.push_back(
          bar(static_cast<double>(p.bytes) / static_cast<double>(highest), kBarColumns));
    }
    table.row(std::move(cells), p.bytes == highest);
  }
  return table;
}

Table top_rows(const projection::MemoryTimeline& t) {
  Table table(
      {{"tensor"}, {"module"}, {"held as"}, {"copies", Align::right}, {"GiB", Align::right}});
  for (const projection::PeakTensor& p : t.top) {
    table.row({p.tensor, std::string(ops::name_of(p.module)),
               std::string(projection::name_of(p.held)), fmt::format("{}", p.copies),
               gib(p.bytes)});
  }
  return table;
}

Table allocator_rows(const projection::MemoryTimeline& t) {
  Table table({{"simulated allocator"}, {"GiB", Align::right}, {"of allocated", Align::right}});
  const auto row = [&](const char* what, std::int64_t bytes) {
    const double share = static_cast<double>(bytes) / static_cast<double>(t.peak);
    table.row({what, gib(bytes), fmt::format("{:.3f}", share)});
  };
  if (t.peak <= 0) return table;
  row("reserved by the end of the step", t.reserved);
  row("reserved at the peak", t.reserved_at_peak);
  row("of it with live blocks", t.held_at_peak);
  return table;
}

std::string timeline_tables(const projection::MemoryTimeline& t, const Style& style) {
  return style.bold("timeline") + style.dim(fmt::format("   allocated on stage {}\n", t.rank)) +
         phase_rows(t, true).text(2, style) + '\n' + style.bold("most at the peak") +
         style.dim(fmt::format("   of tensors on stage {}\n", t.rank)) + top_rows(t).text(2, style) +
         '\n' + style.bold("fragmentation") +
         style.dim(fmt::format("   of these allocations alone, {} segments\n",
                               t.expandable ? "expandable" : "fixed")) +
         allocator_rows(t).text(2, style);
}

text::Node timeline_node(const projection::MemoryTimeline& t) {
  text::Node phases = text::Node::sequence();
  for (const projection::Phase& p : t.phases) {
    text::Node one = text::Node::mapping();
    one.set("phase", text::Node::string(p.name));
    one.set("time_s", number(to_seconds(p.time).value));
    one.set("allocated_bytes", text::Node::integer(p.bytes));
    phases.append(std::move(one));
  }
  text::Node top = text::Node::sequence();
  for (const projection::PeakTensor& p : t.top) {
    text::Node one = text::Node::mapping();
    one.set("tensor", text::Node::string(p.tensor));
    one.set("module", text::Node::string(std::string(ops::name_of(p.module))));
    one.set("held_as", text::Node::string(std::string(projection::name_of(p.held))));
    one.set("copies", text::Node::integer(p.copies));
    one.set("bytes", text::Node::integer(p.bytes));
    top.append(std::move(one));
  }
  text::Node out = text::Node::mapping();
  out.set("stage", text::Node::integer(t.rank));
  text::Node allocator = text::Node::mapping();
  allocator.set("expandable_segments", text::Node::boolean(t.expandable));
  allocator.set("reserved_bytes", text::Node::integer(t.reserved));
  allocator.set("reserved_at_peak_bytes", text::Node::integer(t.reserved_at_peak));
  allocator.set("held_at_peak_bytes", text::Node::integer(t.held_at_peak));
  out.set("phases", std::move(phases));
  out.set("top_tensors", std::move(top));
  out.set("allocator", std::move(allocator));
  return out;
}

}  // namespace eratos::report
