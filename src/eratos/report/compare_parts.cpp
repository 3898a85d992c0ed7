#include "eratos/report/compare_parts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "eratos/report/quantity.h"

namespace eratos::report {

using text::Node;

std::vector<MemoryPart> memory_parts(const projection::MemoryAnswer& m) {
  const auto peak = static_cast<std::size_t>(m.peak_stage);
  if (peak >= m.stages.size()) return {};
  const memory::StageMemory& s = m.stages[peak];
  return {{"weights", s.parameters},
          {"gradients", s.gradients},
          {"optimizer", s.optimizer},
          {"activations", s.activations},
          {"transient", s.transient},
          {"allocator reserve", s.reserved - s.allocated},
          {"context", s.communication + s.framework}};
}

std::string letter(std::size_t i) {
  return i < 26 ? std::string(1, static_cast<char>('A' + i)) : fmt::format("#{}", i + 1);
}

std::string cell(const Node& node) {
  if (node.is_null()) return "-";
  if (!node.is_scalar()) return node.describe();
  const auto number = node.as_double();
  if (number && node.scalar_kind() != text::ScalarKind::string && std::abs(*number) >= 1e6) {
    return fmt::format("{:.5g}", *number);
  }
  constexpr std::size_t kMost = 28;
  const std::string& text = node.raw();
  return text.size() <= kMost ? text : text.substr(0, kMost - 3) + "...";
}

std::string times(double ratio) { return fmt::format("{:.3g}x", ratio); }

std::string where(const Compared& c) {
  const job::JobSpec& spec = *c.answer.spec;
  return fmt::format("{} on {}", spec.model.name.empty() ? spec.name : spec.model.name,
                     spec.cluster.name);
}

std::vector<Stack> step_stacks(const std::vector<Compared>& all,
                               const std::vector<std::string>& names) {
  Seconds most;
  for (const Compared& c : all) most = max(most, c.answer.projection->time.step);
  std::vector<Stack> out;
  for (std::size_t i = 0; i < all.size() && most.value > 0; ++i) {
    const projection::TimeAnswer& t = all[i].answer.projection->time;
    Stack stack{names[i], duration(t.step), {}};
    for (const TimePart& p : step_parts(t)) {
      stack.parts.emplace_back(p.name, std::max(0.0, p.time / most));
    }
    out.push_back(std::move(stack));
  }
  return out;
}

std::vector<Difference> differences(const std::vector<Compared>& all) {
  std::vector<std::string> paths;
  std::vector<Node> trees;
  for (const Compared& c : all) {
    Node tree = c.answer.job;
    // A described cluster is a mapping in the job; its figures stand below `hardware`.
    if (c.answer.spec->cluster.name.empty()) {
      tree.erase("cluster");
    } else {
      tree.set("cluster", Node::string(c.answer.spec->cluster.name));
    }
    tree.set("hardware", c.hardware);
    trees.push_back(std::move(tree));
    text::for_each_leaf(trees.back(), [&](const std::string& path, const Node&) {
      if (path != "name" && std::find(paths.begin(), paths.end(), path) == paths.end()) {
        paths.push_back(path);
      }
    });
  }
  std::vector<Difference> out;
  for (const std::string& path : paths) {
    Difference d{path, {}};
    bool same = true;
    for (const Node& tree : trees) {
      const Node* value = text::find_at(tree, path);
      d.values.push_back(value == nullptr ? Node::null() : *value);
      same = same && d.values.back() == d.values.front();
    }
    if (!same) out.push_back(std::move(d));
  }
  return out;
}

}  // namespace eratos::report
