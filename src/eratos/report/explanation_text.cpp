#include <string>
#include <utility>

#include <fmt/format.h>

#include "eratos/report/text.h"

namespace eratos::report {

namespace {

constexpr std::size_t kColumns = 96;

// One node and what is below it. `lead` stands before its first line, `rest` before the others.
void append(const projection::Explanation& e, const std::string& lead, const std::string& rest,
            const Style& style, std::string& out) {
  out += style.dim(lead) + style.bold(e.key) + " = " + e.value;
  if (!e.kind.empty()) out += style.dim("  [" + e.kind + "]");
  out += '\n';
  const std::string below = rest + (e.inputs.empty() ? "    " : "│   ");
  const auto detail = [&](const std::string& text) {
    out += style.dim(below + wrapped(text, kColumns, below)) + '\n';
  };
  if (!e.formula.empty()) detail("= " + e.formula);
  if (!e.source.empty()) detail("Source: " + e.source);
  for (std::size_t i = 0; i < e.inputs.size(); ++i) {
    const bool last = i + 1 == e.inputs.size();
    append(e.inputs[i], rest + (last ? "└── " : "├── "), rest + (last ? "    " : "│   "), style,
           out);
  }
}

}  // namespace

std::string explanation_text(const projection::Explanation& e, const Style& style) {
  std::string out;
  append(e, "", "", style, out);
  return out;
}

}  // namespace eratos::report
