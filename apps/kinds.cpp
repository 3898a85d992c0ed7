#include "apps/kinds.h"

#include <vector>

#include <fmt/format.h>

namespace eratos::apps {

Result<KindWord> kind_called(const std::string& word) {
  constexpr KindWord kKinds[] = {{"models", reader::Kind::models},
                                 {"accelerators", reader::Kind::accelerators},
                                 {"clusters", reader::Kind::clusters},
                                 {"schedules", std::nullopt},
                                 {"calibrations", reader::Kind::calibrations},
                                 {"frameworks", reader::Kind::frameworks},
                                 {"parameters", std::nullopt}};
  std::vector<std::string> known;
  for (const KindWord& k : kKinds) {
    if (word == k.word || word + 's' == k.word) return k;
    known.emplace_back(k.word);
  }
  const std::string near = nearest_name(word, known);
  const std::string hint = near.empty() ? fmt::format("known: {}", fmt::join(known, ", "))
                                        : fmt::format("did you mean `{}`?", near);
  return fault({{}, fmt::format("unknown kind `{}`; {}", word, hint)});
}

text::Node parameter_node(const calibration::Parameter& p) {
  using text::Node;
  Node out = Node::mapping();
  out.set("path", Node::string(std::string(p.path)));
  out.set("owner", Node::string(p.owner == calibration::Owner::part ? "part" : "framework"));
  out.set("least", Node::number(p.least));
  out.set("most", Node::number(p.most));
  out.set("spread", Node::number(p.spread));
  out.set("why", Node::string(std::string(p.why)));
  out.set("source", Node::string(std::string(p.source)));
  return out;
}

}  // namespace eratos::apps
