#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "eratos/report/json.h"
#include "eratos/report/schedule_answer.h"
#include "eratos/report/timeline.h"
#include "eratos/text/dump.h"

namespace eratos::report {

namespace {

using text::Node;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

// Keys end in their unit: `makespan_s`, or `makespan_units` where no duration was given.
class Writer {
 public:
  explicit Writer(const Scale& scale) : scale_(scale) {}

  void time(Node& to, const char* key, Picoseconds t) const {
    if (scale_.seconds) {
      to.set(std::string(key) + "_s", number(static_cast<double>(t) / 1e12));
    } else {
      to.set(std::string(key) + "_units",
             number(static_cast<double>(t) / static_cast<double>(scale_.one_unit)));
    }
  }
  void held(Node& to, const char* key, std::int64_t held, std::int64_t one_held) const {
    if (scale_.bytes) {
      to.set(std::string(key) + "_bytes", Node::integer(held));
    } else {
      to.set(std::string(key) + "_stage_micro_batches",
             number(static_cast<double>(held) / static_cast<double>(one_held)));
    }
  }

 private:
  const Scale& scale_;
};

double share_of(Picoseconds part, Picoseconds whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

Node rank_node(const ScheduleAnswer& a, const ScheduleRun& run, int r, const Writer& w) {
  const schedule::RankTime& t = run.timing.ranks[index(r)];
  const schedule::Peaks& peaks = run.timing.peaks;
  Node out = Node::mapping();
  out.set("rank", Node::integer(r));
  w.time(out, "busy", t.busy);
  w.time(out, "transfer", t.transfer);
  w.time(out, "idle", t.idle);
  w.held(out, "peak", peaks.ranks[index(r)].held, run.one_held);
  const auto at = static_cast<std::size_t>(peaks.ranks[index(r)].peak_at);
  if (a.order != nullptr && at < a.order->of(r).size()) {
    const auto first = static_cast<std::size_t>(a.order->first[index(r)]);
    out.set("peak_action", Node::string(name_of(a.order->of(r)[at], run.shape)));
    w.time(out, "peak_action_start", (*a.timeline)[first + at].start);
  }
  Node chunks = Node::sequence();
  for (int c = 0; c < run.shape.chunks; ++c) {
    const std::size_t slot = index(schedule::slot_of(run.shape, r, c));
    Node chunk = Node::mapping();
    chunk.set("chunk", Node::integer(c));
    chunk.set("stage", Node::integer(schedule::stage_of(run.shape, run.placement, r, c)));
    chunk.set("in_flight", Node::integer(peaks.in_flight[slot]));
    chunk.set("waiting_for_weight_gradient", Node::integer(peaks.waiting[slot]));
    chunks.append(std::move(chunk));
  }
  out.set("chunks_at_peak", std::move(chunks));
  if (run.shape.output != schedule::OutputLayer::last_stage) {
    out.set("outputs_at_peak", Node::integer(peaks.outputs[index(r)]));
  }
  if (a.order != nullptr && a.most_listed > 0) {
    Node order = Node::sequence();
    const auto actions = a.order->of(r);
    for (std::size_t i = 0; i < actions.size() && i < a.most_listed; ++i) {
      order.append(
          Node::string(name_of(actions[i], run.shape) + (actions[i].with_next ? "+" : "")));
    }
    out.set("actions", Node::integer(static_cast<std::int64_t>(actions.size())));
    out.set("order", std::move(order));
  }
  return out;
}

Node run_node(const ScheduleAnswer& a, const ScheduleRun& run, const Writer& w) {
  const schedule::Timing& t = run.timing;
  Node out = Node::mapping();
  out.set("schedule", Node::string(run.name));
  out.set("vpp", Node::integer(run.shape.chunks));
  out.set("auto", Node::boolean(run.is_auto));
  w.time(out, "makespan", t.makespan);
  const Picoseconds bubble = t.ranks[index(t.critical_rank)].idle;
  w.time(out, "bubble", bubble);
  out.set("bubble_ratio", number(share_of(bubble, t.makespan)));
  double idle = 0;
  for (const schedule::RankTime& r : t.ranks) idle += share_of(r.idle, t.makespan);
  out.set("idle_ratio", number(idle / static_cast<double>(t.ranks.size())));
  out.set("critical_rank", Node::integer(t.critical_rank));
  w.time(out, "step_to_step", t.pitch);
  if (run.bounds) {
    w.time(out, "lower_bound", run.bounds->lower);
    w.time(out, "upper_bound", run.bounds->upper);
  }
  int full = 0;
  for (std::size_t r = 0; r < t.peaks.ranks.size(); ++r) {
    if (t.peaks.ranks[r].held > t.peaks.ranks[index(full)].held) full = static_cast<int>(r);
  }
  w.held(out, "peak", t.peaks.ranks[index(full)].held, run.one_held);
  out.set("peak_rank", Node::integer(full));
  out.set("over_limit", Node::boolean(run.over_limit));
  if (!run.remark.empty()) {
    out.set("proven", Node::boolean(run.remark == "proven"));
    out.set("search", Node::string(run.search));
  }
  Node ranks = Node::sequence();
  for (int r = 0; r < run.shape.pp; ++r) ranks.append(rank_node(a, run, r, w));
  out.set("ranks", std::move(ranks));
  return out;
}

}  // namespace

std::string schedule_json(const ScheduleAnswer& a) {
  const Writer w(a.scale);
  Node out = document(a.version);
  out.set("algorithm", Node::string(a.algorithm));
  out.set("pp", Node::integer(a.asked.pp));
  if (a.asked_chunks) out.set("vpp", Node::integer(a.asked.chunks));
  out.set("micro_batches", Node::integer(a.asked.micro_batches));
  if (a.asked.group_size > 0) out.set("group_size", Node::integer(a.asked.group_size));
  out.set("output_layer", Node::string(std::string(name_of(a.asked.output))));
  Node costs = Node::mapping();
  Node defaults = Node::sequence();
  for (const ScheduleCost& c : a.costs) {
    std::string key = c.name;
    std::replace(key.begin(), key.end(), ' ', '_');
    if (c.kind == ScheduleCost::Kind::time) {
      w.time(costs, key.c_str(), c.value);
    } else if (c.kind == ScheduleCost::Kind::bytes) {
      costs.set(key + "_bytes", Node::integer(c.value));
    } else {
      costs.set(key, Node::string(c.words));
    }
    if (c.origin == kDefault) defaults.append(Node::string(key));
  }
  out.set("costs", std::move(costs));
  out.set("default_costs", std::move(defaults));
  Node runs = Node::sequence();
  for (const ScheduleRun& run : a.runs) runs.append(run_node(a, run, w));
  out.set("schedules", std::move(runs));
  Node refused = Node::sequence();
  for (const ScheduleRefused& r : a.refused) {
    Node one = Node::mapping();
    one.set("schedule", Node::string(r.name));
    one.set("message", Node::string(r.why.message));
    if (!r.why.cure.empty()) one.set("cure", Node::string(r.why.cure));
    if (!r.why.field.empty()) one.set("field", Node::string(r.why.field));
    refused.append(std::move(one));
  }
  out.set("refused", std::move(refused));
  Node notes = Node::sequence();
  for (const std::string& note : a.notes) notes.append(Node::string(note));
  out.set("notes", std::move(notes));
  return text::to_json(out) + '\n';
}

}  // namespace eratos::report
