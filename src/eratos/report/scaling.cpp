#include "eratos/report/scaling.h"

#include <fmt/format.h>

#include "eratos/report/json.h"
#include "eratos/report/quantity.h"
#include "eratos/report/search_parts.h"
#include "eratos/text/dump.h"

namespace eratos::report {

namespace {

using text::Node;

double rate_of(const SearchAnswer& a) {
  return a.top[0].answer.projection->throughput.tokens_per_s_per_gpu;
}

// Of the smallest cluster with an answer; 0 where none has one.
double first_rate(const std::vector<const SearchAnswer*>& each) {
  for (const SearchAnswer* a : each) {
    if (!a->top.empty()) return rate_of(*a);
  }
  return 0;
}

// "tp 4, pp 2, micro 2": values of the axes with a choice, but switches and those that change
// nothing.
std::string short_settings(const SearchAnswer& a) {
  std::string out;
  for (std::size_t i = 0; i < search::kAxes; ++i) {
    const std::string& word = a.space->axes[i][a.top[0].at.at[i]].word;
    const bool idle = word == "1" || word == "0" || word == "none" || word == "even" ||
                      word == "auto" || word == "true" || word == "false";
    if (a.space->axes[i].size() < 2 || idle) continue;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", search::kAxisFacts[i].name, word);
  }
  return out;
}

std::string why_none(const SearchAnswer& a) {
  if (a.outcome->any_too_big) {
    return "nothing fits: lacks " + gib_text(a.outcome->least_peak - a.capacity);
  }
  return a.interrupted ? "interrupted" : "nothing is legal";
}

}  // namespace

std::string scaling_text(const std::vector<const SearchAnswer*>& each, const Style& style) {
  Table table({{"nodes", Align::right},
               {"GPUs", Align::right},
               {"tokens/s", Align::right},
               {"tokens/s/GPU", Align::right},
               {"efficiency", Align::right},
               {"step", Align::right},
               {"best configuration"}});
  const double first = first_rate(each);
  bool proven = true;
  for (const SearchAnswer* a : each) {
    const hardware::ClusterSpec& c = a->space->base.cluster;
    proven = proven && a->outcome->proof.proven;
    std::vector<std::string> cells{std::to_string(c.nodes), thousands(c.gpus())};
    if (a->top.empty()) {
      cells.insert(cells.end(), {"", "", "", "", why_none(*a)});
    } else {
      const projection::Projection& p = *a->top[0].answer.projection;
      cells.insert(cells.end(),
                   {thousands(p.throughput.tokens_per_s), fmt::format("{:.1f}", rate_of(*a)),
                    percent(rate_of(*a) / first), duration(p.time.step), short_settings(*a)});
    }
    table.row(std::move(cells));
  }
  return table.text(0, style) + (proven ? "\nevery line is proven: nothing is faster on its size\n"
                                 : each.back()->interrupted
                                     ? "\ninterrupted: the last line is the best so far\n"
                                     : "\nthe best that was found, without a proof\n");
}

std::string scaling_json(const std::vector<const SearchAnswer*>& each) {
  Node out = document(each.empty() ? "" : each[0]->version);
  Node list = Node::sequence();
  const double first = first_rate(each);
  for (const SearchAnswer* a : each) {
    const hardware::ClusterSpec& c = a->space->base.cluster;
    Node one = Node::mapping();
    one.set("nodes", Node::integer(c.nodes));
    one.set("gpus", Node::integer(c.gpus()));
    if (!a->top.empty()) {
      one.set("efficiency", number(rate_of(*a) / first));
    }
    put_all(one, search_node(*a));
    list.append(std::move(one));
  }
  out.set("scaling", std::move(list));
  return text::to_json(out) + '\n';
}

}  // namespace eratos::report
