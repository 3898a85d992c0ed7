#include "eratos/reader/recompute_policy.h"

#include <string>

#include "eratos/base/check.h"
#include "eratos/reader/pattern_table.h"

namespace eratos::reader {

bool set_policy(std::string_view name, job::RecomputeSpec& out) {
  static const PatternTable policies("recompute_policies");
  const auto line = policies.find(name);
  if (!line) return false;
  out.granularity = job::Granularity::full;
  out.policy = std::string(name);
  out.kept.reset();
  out.alternate = policies.cell(*line, "products") == "alternate";
  const std::string words = std::string(policies.cell(*line, "kept")) + ' ';
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t end = words.find(' ', begin);
    const std::string_view word = std::string_view(words).substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) continue;
    bool known = false;
    for (std::size_t m = 0; m < out.kept.size(); ++m) {
      if (ops::name_of(static_cast<ops::Module>(m)) != word) continue;
      out.kept.set(m);
      known = true;
    }
    ERATOS_CHECK(known);  // the table is part of the program
  }
  return true;
}

}  // namespace eratos::reader
