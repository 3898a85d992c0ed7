#include "eratos/report/scaling.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "eratos/report/json.h"
#include "eratos/report/quantity.h"
#include "eratos/report/search_aim.h"
#include "eratos/report/search_parts.h"
#include "eratos/search/knee.h"
#include "eratos/text/dump.h"

namespace eratos::report {

namespace {

using search::Objective;
using text::Node;
using Answers = std::vector<const SearchAnswer*>;

const hardware::ClusterSpec& cluster_of(const SearchAnswer& a) { return a.space->base.cluster; }

// "h100-sxm" of h100-sxm-16x8.
std::string room_of(const SearchAnswer& a) {
  const hardware::ClusterSpec& c = cluster_of(a);
  const std::string size = fmt::format("-{}x{}", c.nodes, c.gpus_per_node);
  return c.name.ends_with(size) ? c.name.substr(0, c.name.size() - size.size()) : c.name;
}

double rate_of(const SearchAnswer& a) {
  return a.top[0].answer.projection->throughput.tokens_per_s_per_gpu;
}

double value_of(const SearchAnswer& a, Objective o) {
  return search::value_of(o, a.aim->terms, measures_of(a.top[0].answer));
}

bool can_be_known(const SearchAnswer& a, Objective o) {
  return search::missing_for(o, a.aim->terms, "").empty();
}

// The sizes of one cluster that have an answer, smallest first.
Answers curve_of(const Answers& each, const std::string& room) {
  Answers out;
  for (const SearchAnswer* a : each) {
    if (room_of(*a) == room && !a->top.empty()) out.push_back(a);
  }
  std::stable_sort(out.begin(), out.end(), [](const SearchAnswer* a, const SearchAnswer* b) {
    return cluster_of(*a).gpus() < cluster_of(*b).gpus();
  });
  return out;
}

std::vector<std::string> rooms_of(const Answers& each) {
  std::vector<std::string> out;
  for (const SearchAnswer* a : each) {
    if (std::find(out.begin(), out.end(), room_of(*a)) == out.end()) out.push_back(room_of(*a));
  }
  return out;
}

double efficiency_of(const Answers& each, const SearchAnswer& a) {
  return rate_of(a) / rate_of(*curve_of(each, room_of(a)).front());
}

const SearchAnswer* knee_of(const Answers& curve) {
  std::vector<search::SizePoint> points;
  for (const SearchAnswer* a : curve) {
    const int gpus = cluster_of(*a).gpus();
    points.push_back({gpus, rate_of(*a) * gpus * a->aim->terms.goodput.useful});
  }
  const std::optional<std::size_t> at = search::knee_of(points);
  return at ? curve[*at] : nullptr;
}

// The size with the lowest figure; nullptr where none has an answer and the figure.
const SearchAnswer* best_at(const Answers& each, Objective o) {
  const SearchAnswer* best = nullptr;
  const bool more = search::facts_of(o).more_is_better;
  for (const SearchAnswer* a : each) {
    if (a->top.empty() || !can_be_known(*a, o)) continue;
    if (best == nullptr ||
        (more ? value_of(*a, o) > value_of(*best, o) : value_of(*a, o) < value_of(*best, o))) {
      best = a;
    }
  }
  return best;
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
  if (a.interrupted) return "interrupted";
  if (!a.loosened.empty()) {
    const search::Limit& limit = a.aim->limits[a.loosened[0].limit];
    return fmt::format("{}: {} at best", limit.text,
                       figure_text(limit.objective, a.loosened[0].value));
  }
  if (!a.outcome->refused.empty()) return "the limits refuse all that fits";
  if (a.outcome->any_too_big) {
    return "nothing fits: lacks " + gib_text(a.outcome->least_peak - a.capacity);
  }
  return "nothing is legal";
}

// Columns beyond the speed: those of the first size, alike for all.
std::vector<Objective> more_columns(const Answers& each) {
  std::vector<Objective> out = more_figures(*each[0]->aim);
  std::erase_if(out, [&](Objective o) {
    return std::any_of(each.begin(), each.end(),
                       [&](const SearchAnswer* a) { return !can_be_known(*a, o); });
  });
  return out;
}

std::string size_words(const SearchAnswer& a) {
  return fmt::format("{} nodes of {}", cluster_of(a).nodes, room_of(a));
}

std::string conclusions(const Scaling& s) {
  std::string out;
  for (const std::string& room : rooms_of(s.each)) {
    const Answers curve = curve_of(s.each, room);
    if (curve.size() < 3) continue;
    const SearchAnswer* knee = knee_of(curve);
    out +=
        knee == nullptr
            ? fmt::format("{}: no knee up to {} nodes, speed times efficiency still rises\n", room,
                          cluster_of(*curve.back()).nodes)
            : fmt::format("{}: the knee is at {} nodes, where speed times efficiency is highest\n",
                          room, cluster_of(*knee).nodes);
  }
  const bool limited = !s.each[0]->aim->limits.empty();
  if (const SearchAnswer* a = best_at(s.each, Objective::cost); a != nullptr) {
    out += fmt::format("cheapest{}: {}, {}", limited ? " within the limits" : "", size_words(*a),
                       figure_text(Objective::cost, value_of(*a, Objective::cost)));
    if (const double tokens = a->aim->terms.tokens; tokens > 0) {
      out += fmt::format(", {} in {}", thousands(value_of(*a, Objective::cost) * tokens),
                         figure_text(Objective::train_time, value_of(*a, Objective::train_time)));
    }
    out += '\n';
  }
  if (const SearchAnswer* a = best_at(s.each, Objective::train_time); a != nullptr) {
    out += fmt::format("soonest{}: {}, {}\n", limited ? " within the limits" : "", size_words(*a),
                       figure_text(Objective::train_time, value_of(*a, Objective::train_time)));
  }
  const job::BatchSpec& batch = s.each[0]->space->base.batch;
  if (s.batch_grows) {
    out += "the batch grows with the accelerators: --scale-batch\n";
  } else if (s.each[0]->space->values(search::AxisId::global).size() > 1) {
    out += "the batch is the best of those listed on every size\n";
  } else {
    out += fmt::format("the batch is {} sequences on every size; --scale-batch lets it grow\n",
                       thousands(batch.global));
  }
  return out;
}

std::string proof_words(const Answers& each) {
  const bool proven = std::all_of(each.begin(), each.end(),
                                  [](const SearchAnswer* a) { return a->outcome->proof.proven; });
  if (proven) return "every line is proven: " + proven_words(*each[0]->aim) + " on its size\n";
  return each.back()->interrupted ? "interrupted: the last line is the best so far\n"
                                  : "the best that was found, without a proof\n";
}

}  // namespace

std::string scaling_text(const Scaling& s, const Style& style) {
  const bool rooms = rooms_of(s.each).size() > 1;
  const bool fails = s.each[0]->aim->terms.goodput.useful < 1;
  const std::vector<Objective> more = more_columns(s.each);
  std::vector<Column> columns;
  if (rooms) columns.push_back({"cluster"});
  columns.insert(columns.end(), {{"nodes", Align::right},
                                 {"GPUs", Align::right},
                                 {"tokens/s", Align::right},
                                 {"tokens/s/GPU", Align::right},
                                 {"efficiency", Align::right}});
  if (fails) columns.push_back({"useful", Align::right});
  for (const Objective o : more) columns.push_back(figure_column(o));
  if (s.batch_grows) columns.push_back({"batch", Align::right});
  columns.insert(columns.end(), {{"step", Align::right}, {"best configuration"}});
  Table table(columns);
  for (const SearchAnswer* a : s.each) {
    const hardware::ClusterSpec& c = cluster_of(*a);
    std::vector<std::string> cells;
    if (rooms) cells.push_back(room_of(*a));
    cells.insert(cells.end(), {std::to_string(c.nodes), thousands(c.gpus())});
    if (a->top.empty()) {
      cells.resize(columns.size() - 1);
      cells.push_back(why_none(*a));
      table.row(std::move(cells));
      continue;
    }
    const projection::Projection& p = *a->top[0].answer.projection;
    cells.insert(cells.end(),
                 {thousands(p.throughput.tokens_per_s), fmt::format("{:.1f}", rate_of(*a)),
                  percent(efficiency_of(s.each, *a))});
    if (fails) cells.push_back(percent(a->aim->terms.goodput.useful));
    for (const Objective o : more) cells.push_back(figure_cell(o, value_of(*a, o)));
    if (s.batch_grows) cells.push_back(std::to_string(a->top[0].answer.spec->batch.global));
    cells.insert(cells.end(), {duration(p.time.step), short_settings(*a)});
    table.row(std::move(cells));
  }
  return table.text(0, style) + '\n' + conclusions(s) + proof_words(s.each);
}

std::string scaling_json(const Scaling& s) {
  Node out = document(s.each.empty() ? "" : s.each[0]->version);
  Node list = Node::sequence();
  const auto name_of = [](const SearchAnswer* a) {
    return a == nullptr ? Node::null() : Node::string(cluster_of(*a).name);
  };
  for (const SearchAnswer* a : s.each) {
    const hardware::ClusterSpec& c = cluster_of(*a);
    Node one = Node::mapping();
    one.set("cluster", Node::string(c.name));
    one.set("nodes", Node::integer(c.nodes));
    one.set("gpus", Node::integer(c.gpus()));
    if (!a->top.empty()) {
      one.set("global_batch", Node::integer(a->top[0].answer.spec->batch.global));
      one.set("efficiency", number(efficiency_of(s.each, *a)));
      one.set("effective_tokens_per_s",
              number(rate_of(*a) * c.gpus() * a->aim->terms.goodput.useful));
    }
    put_all(one, search_node(*a));
    list.append(std::move(one));
  }
  out.set("batch", Node::string(s.batch_grows ? "grows with the accelerators" : "the job's"));
  Node knees = Node::mapping();
  for (const std::string& room : rooms_of(s.each)) {
    knees.set(room, name_of(knee_of(curve_of(s.each, room))));
  }
  out.set("knee", std::move(knees));
  if (!s.each.empty()) {
    out.set("best", name_of(best_at(s.each, s.each[0]->aim->objective)));
    out.set("cheapest", name_of(best_at(s.each, Objective::cost)));
    out.set("soonest", name_of(best_at(s.each, Objective::train_time)));
  }
  out.set("scaling", std::move(list));
  return text::to_json(out) + '\n';
}

}  // namespace eratos::report
