#include "eratos/report/memory_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "eratos/report/quantity.h"

namespace eratos::report {

namespace {

std::vector<std::string> stage_cells(const memory::StageMemory& s, const std::string& name) {
  return {
      name, gib_number(s.parameters), gib_number(s.gradients), gib_number(s.optimizer),
      gib_number(s.activations), gib_number(s.transient), gib_number(s.allocated),
      gib_number(s.reserved), gib_number(s.communication + s.framework), gib_number(s.device),
      // "5+3W": five between forward and backward, three that wait for their weights' gradients.
      s.waiting > 0 ? fmt::format("{:.4g}+{:.4g}W", s.in_flight, s.waiting)
                    : fmt::format("{:.4g}", s.in_flight),
      std::string(memory::name_of(s.moment))};
}

}  // namespace

Table stage_rows(const projection::MemoryAnswer& m) {
  Table table({{"stage"},
               {"weights", Align::right},
               {"grads", Align::right},
               {"optim", Align::right},
               {"activ", Align::right},
               {"trans", Align::right},
               {"alloc", Align::right},
               {"reserved", Align::right},
               {"context", Align::right},
               {"device", Align::right},
               {"flight", Align::right},
               {"peak in"}});
  // Stages that read the same are one line: "1-6".
  std::vector<std::string> cells;
  for (std::size_t first = 0; first < m.stages.size();) {
    std::size_t last = first;
    cells = stage_cells(m.stages[first], "");
    while (last + 1 < m.stages.size() && stage_cells(m.stages[last + 1], "") == cells) ++last;
    cells[0] = first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
    const auto peak = static_cast<std::size_t>(m.peak_stage);
    table.row(cells, first <= peak && peak <= last);
    first = last + 1;
  }
  return table;
}

std::string stage_table(const projection::MemoryAnswer& m, const Style& style) {
  return style.bold("memory a GPU, GiB") +
         style.dim("   device = reserved + context; flight = micro-batches in flight\n") +
         stage_rows(m).text(2, style);
}

std::vector<std::pair<ops::Module, Bytes>> saved_parts(const projection::MemoryAnswer& m) {
  std::vector<std::pair<ops::Module, Bytes>> parts;
  for (std::size_t i = 0; i < m.saved_by_module.size(); ++i) {
    if (m.saved_by_module[i].value <= 0) continue;
    parts.emplace_back(static_cast<ops::Module>(i), m.saved_by_module[i]);
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& x, const auto& y) { return y.second < x.second; });
  return parts;
}

std::string module_table(const projection::MemoryAnswer& m, const Style& style) {
  const auto parts = saved_parts(m);
  Bytes total;
  for (const auto& [module, bytes] : parts) total += bytes;
  Table table({{"module"}, {"GiB", Align::right}, {"share", Align::right}, {""}});
  for (const auto& [module, bytes] : parts) {
    const double share = bytes / total;
    table.row({std::string(ops::name_of(module)), fmt::format("{:.3f}", bytes.value / kGiB),
               percent(share), bar(bytes / parts.front().second, 32)});
  }
  if (!parts.empty()) table.row({"all", fmt::format("{:.3f}", total.value / kGiB), "", ""}, true);
  return style.bold("saved for backward") +
         style.dim(fmt::format("   by all micro-batches in flight on stage {}\n", m.peak_stage)) +
         table.text(2, style);
}

}  // namespace eratos::report
