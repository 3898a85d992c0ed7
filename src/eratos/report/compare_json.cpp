#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

#include "eratos/base/check.h"
#include "eratos/report/compare.h"
#include "eratos/report/json.h"
#include "eratos/report/time_parts.h"
#include "eratos/text/dump.h"

namespace eratos::report {

namespace {

using text::Node;

Node change(double a, double b) {
  Node out = Node::mapping();
  out.set("delta", number(b - a));
  if (a != 0) out.set("ratio", number(b / a));
  return out;
}

Node bytes_change(Bytes a, Bytes b) { return change(std::round(a.value), std::round(b.value)); }

// Keys of step_parts(), in its order, as `project` writes them.
constexpr const char* kPartKeys[] = {"compute_s", "bubble_s", "tp_s",   "cp_s",        "ep_s",
                                     "pp_s",      "dp_s",     "host_s", "optimizer_s", "launch_s"};

Node against(const projection::Projection& a, const projection::Projection& b) {
  Node out = Node::mapping();
  out.set("step_s", change(a.time.step.value, b.time.step.value));
  out.set("tokens_per_s_per_gpu",
          change(a.throughput.tokens_per_s_per_gpu, b.throughput.tokens_per_s_per_gpu));
  out.set("tokens_per_s", change(a.throughput.tokens_per_s, b.throughput.tokens_per_s));
  out.set("device_peak_bytes", bytes_change(a.memory.device_peak, b.memory.device_peak));
  out.set("allocated_peak_bytes", bytes_change(a.memory.allocated_peak, b.memory.allocated_peak));
  Node parts = Node::mapping();
  const double delta = b.time.step.value - a.time.step.value;
  const std::vector<TimePart> before = step_parts(a.time);
  const std::vector<TimePart> after = step_parts(b.time);
  ERATOS_CHECK(before.size() == std::size(kPartKeys));
  for (std::size_t i = 0; i < before.size(); ++i) {
    Node part = change(before[i].time.value, after[i].time.value);
    if (delta != 0) {
      part.set("share_of_difference", number((after[i].time.value - before[i].time.value) / delta));
    }
    parts.set(kPartKeys[i], std::move(part));
  }
  out.set("parts", std::move(parts));
  Node modules = Node::mapping();
  for (std::size_t i = 0; i < a.time.by_module.size(); ++i) {
    const double x = a.time.by_module[i].value;
    const double y = b.time.by_module[i].value;
    if (x == 0 && y == 0) continue;
    modules.set(ops::name_of(static_cast<ops::Module>(i)), change(x, y));
  }
  out.set("by_module_s", std::move(modules));
  return out;
}

}  // namespace

std::string compare_json(const std::vector<Compared>& all, const std::vector<Refused>& refused) {
  Node out = document(all[0].answer.version);
  Node jobs = Node::sequence();
  for (std::size_t i = 0; i < all.size(); ++i) {
    Node one = Node::mapping();
    one.set("label", Node::string(all[i].label));
    put_all(one, project_node(all[i].answer));
    one.set("hardware", all[i].hardware);
    if (i > 0) {
      one.set("against_first", against(*all[0].answer.projection, *all[i].answer.projection));
    }
    jobs.append(std::move(one));
  }
  out.set("jobs", std::move(jobs));
  Node list = Node::sequence();
  for (const Difference& d : differences(all)) {
    Node one = Node::mapping();
    one.set("path", Node::string(d.path));
    one.set("values", Node::sequence(d.values));
    list.append(std::move(one));
  }
  out.set("differences", std::move(list));
  Node left_out = Node::sequence();
  for (const Refused& r : refused) {
    Node one = Node::mapping();
    one.set("label", Node::string(r.label));
    Node faults = Node::sequence();
    for (const Diagnostic& d : r.faults) faults.append(Node::string(to_text(d)));
    one.set("faults", std::move(faults));
    left_out.append(std::move(one));
  }
  out.set("refused", std::move(left_out));
  return text::to_json(out) + '\n';
}

}  // namespace eratos::report
