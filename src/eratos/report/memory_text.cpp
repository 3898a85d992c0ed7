#include <string>

#include <fmt/format.h>

#include "eratos/report/memory_table.h"
#include "eratos/report/memory_timeline.h"
#include "eratos/report/quantity.h"
#include "eratos/report/text.h"

namespace eratos::report {

namespace {

std::string_view moment_words(memory::Moment m) {
  switch (m) {
    case memory::Moment::forward:
      return "in the forward pass of the last micro-batch that is in flight";
    case memory::Moment::loss:
      return "in the loss, with the logits and their gradient alive";
    case memory::Moment::backward:
      return "in the backward pass of the first micro-batch that leaves";
    case memory::Moment::optimizer:
      return "in the optimizer step";
  }
  return "";
}

}  // namespace

std::string memory_text(const Answer& a, const Style& style) {
  const projection::MemoryAnswer& m = a.projection->memory;
  Table facts({{""}, {""}});
  facts.row({"memory", verdict(m, style)});
  facts.row(
      {"band", fmt::format("{} to {} allocated", gib_text(a.projection->confidence.peak.first),
                           gib_text(a.projection->confidence.peak.second))});
  if (!m.routing.even) facts.row({"routing", uneven_routing(m.routing)});
  const auto peak = static_cast<std::size_t>(m.peak_stage);
  if (peak < m.stages.size()) {
    const memory::StageMemory& s = m.stages[peak];
    std::string where(moment_words(s.moment));
    if (s.moment != memory::Moment::optimizer) {
      where += fmt::format(", {}", ops::name_of(s.peak_module));
      if (s.peak_program[0] != '\0') where += fmt::format(" of {}", s.peak_program);
    }
    facts.row({"peak", where});
  }
  std::string out = headline(a, style) + '\n' + facts.text(0, style) + '\n';
  out += stage_table(m, style) + '\n' + module_table(m, style);
  if (a.timeline != nullptr) out += '\n' + timeline_tables(*a.timeline, style);
  const std::string after = notes(a, style);
  if (!after.empty()) out += '\n' + after;
  return out;
}

}  // namespace eratos::report
