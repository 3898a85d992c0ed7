#include "eratos/reader/job_patch.h"

#include <algorithm>
#include <string_view>

#include "eratos/reader/import_report.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/text/dump.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

namespace {

using text::Node;

constexpr std::string_view kFixed[] = {"name", "model", "framework", "cluster"};

// Written out: the catalogue need not be read for what is compared by value.
constexpr Expand kAll{.model = true, .framework = true, .cluster = true};

Node changeable(const job::JobSpec& job) {
  Node out = job_to_node(job, kAll);
  for (const std::string_view key : kFixed) out.erase(key);
  return out;
}

}  // namespace

std::vector<std::string> patch_between(const job::JobSpec& from, const job::JobSpec& to) {
  const Node before = changeable(from);
  const Node after = changeable(to);
  std::vector<std::string> out;
  for_each_value(after, "", [&](const std::string& path, const Node& value) {
    const Node* old = text::find_at(before, path);
    if (old != nullptr && *old == value) return;
    out.push_back(path + '=' + (value.is_scalar() ? value.raw() : text::to_json(value, 0)));
  });
  if (from.parallel.tp != to.parallel.tp && from.parallel.etp == to.parallel.etp) {
    out.push_back("parallel.etp=" + std::to_string(to.parallel.etp));
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string job_text(const job::JobSpec& job) {
  Node tree = job_to_node(job, kAll);
  tree.erase("name");
  return text::to_json(tree, 0);
}

}  // namespace eratos::reader
