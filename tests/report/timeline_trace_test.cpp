#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "eratos/report/timeline.h"
#include "eratos/report/timeline_parts.h"
#include "timeline_hand.h"

namespace eratos::report {
namespace {

using Json = nlohmann::json;
using Thread = std::pair<int, int>;  // pid, tid

struct Seen {
  double start = 0;
  double end = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

// What the "Trace Event Format" asks of each event, and what Perfetto and speedscope make of it:
// slices of a thread lie apart or inside one another, whether a viewer adds start and duration as
// doubles or rounds both to nanoseconds first.
Json checked(const std::string& text) {
  Json trace = Json::parse(text);
  EXPECT_TRUE(trace.at("otherData").is_object());
  EXPECT_EQ(trace.at("displayTimeUnit"), "ms");
  std::set<int> processes;
  std::set<Thread> threads;
  std::map<Thread, std::vector<Seen>> slices;
  std::map<std::int64_t, std::pair<int, int>> flows;  // how many begin and end
  for (const Json& e : trace.at("traceEvents")) {
    const std::string ph = e.at("ph");
    const int pid = e.at("pid");
    EXPECT_GT(pid, 0);
    if (ph == "M") {
      const std::string name = e.at("name");
      EXPECT_TRUE(e.at("args").is_object());
      if (name == "process_name") processes.insert(pid);
      if (name == "thread_name") threads.insert({pid, e.at("tid")});
      continue;
    }
    EXPECT_TRUE(e.at("ts").is_number());
    EXPECT_GE(e.at("ts").get<double>(), 0);
    EXPECT_TRUE(processes.count(pid)) << "events after the name of their process";
    if (ph == "C") {
      EXPECT_EQ(e.at("args").size(), 1U);
      EXPECT_TRUE(e.at("args").front().is_number());
      continue;
    }
    const Thread thread{pid, e.at("tid")};
    EXPECT_TRUE(e.at("name").is_string());
    EXPECT_TRUE(e.at("cat").is_string());
    if (ph == "X") {
      EXPECT_TRUE(threads.count(thread));
      const double ts = e.at("ts");
      const double dur = e.at("dur");
      EXPECT_GE(dur, 0);
      const std::int64_t start = std::llround(ts * 1000);
      slices[thread].push_back({ts, ts + dur, start, start + std::llround(dur * 1000)});
      // Exact beside a viewer's reckoning.
      EXPECT_NEAR(e.at("args").at("duration_us").get<double>(), dur, 1e-3);
    } else if (ph == "s") {
      ++flows[e.at("id")].first;
    } else if (ph == "f") {
      EXPECT_EQ(e.at("bp"), "e");
      ++flows[e.at("id")].second;
    } else {
      ADD_FAILURE() << "phase " << ph;
    }
  }
  for (const auto& [id, ends] : flows) {
    EXPECT_EQ(ends.first, 1) << id;
    EXPECT_EQ(ends.second, 1) << id;
  }
  // Arrows hang on slices.
  for (const Json& e : trace.at("traceEvents")) {
    if (e.at("ph") != "s" && e.at("ph") != "f") continue;
    const std::int64_t ns = std::llround(e.at("ts").get<double>() * 1000);
    const auto& on = slices[{e.at("pid"), e.at("tid")}];
    EXPECT_TRUE(std::any_of(on.begin(), on.end(), [&](const Seen& s) {
      return s.start_ns <= ns && (ns < s.end_ns || s.start_ns == s.end_ns);
    })) << e.dump();
  }
  for (auto& [thread, list] : slices) {
    std::stable_sort(list.begin(), list.end(), [](const Seen& a, const Seen& b) {
      return a.start != b.start ? a.start < b.start : a.end > b.end;
    });
    std::vector<Seen> open;
    for (const Seen& s : list) {
      while (!open.empty() && open.back().end <= s.start) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(s.end, open.back().end) << "as doubles, tid " << thread.second;
      }
      open.push_back(s);
    }
    open.clear();
    for (const Seen& s : list) {
      while (!open.empty() && open.back().end_ns <= s.start_ns) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(s.end_ns, open.back().end_ns) << "as nanoseconds";
      }
      open.push_back(s);
    }
  }
  return trace;
}

std::size_t count(const Json& trace, const std::string& ph) {
  const Json& events = trace.at("traceEvents");
  return static_cast<std::size_t>(
      std::count_if(events.begin(), events.end(), [&](const Json& e) { return e.at("ph") == ph; }));
}

TEST(TimelineTrace, EveryScheduleKeepsTheRules) {
  for (const Case& c : kTimelineCases) {
    for (const Times times : {Times::equal, Times::uneven}) {
      SCOPED_TRACE(c.name);
      const Drawn d(c.name, c.p, c.v, c.m, times);
      const Json trace = checked(timeline_trace(d.timeline));
      const std::size_t messages = messages_of(d.timeline).size();
      // Sends that take time are slices of their own.
      const std::size_t sends = times == Times::uneven ? messages : 0;
      EXPECT_EQ(count(trace, "X"), d.order.actions.size() + sends);
      EXPECT_EQ(count(trace, "s"), messages);
    }
  }
}

TEST(TimelineTrace, StartsAndDurationsAreExact) {
  const Drawn d("1f1b", 2, 1, 2, Times::uneven);
  const Json trace = checked(timeline_trace(d.timeline));
  // Rank 0's F0 from 0 for 10.000613 us.
  const auto& events = trace.at("traceEvents");
  const auto first =
      std::find_if(events.begin(), events.end(), [](const Json& e) { return e.at("ph") == "X"; });
  ASSERT_NE(first, events.end());
  EXPECT_EQ(first->at("name"), "F0");
  EXPECT_EQ(first->at("cat"), "forward");
  EXPECT_EQ(first->at("args").at("micro-batch"), 0);
  EXPECT_EQ(first->at("args").at("chunk"), 0);
  EXPECT_EQ(first->at("args").at("duration_us"), 10.000613);
  // F1 starts where F0 ends, to the picosecond.
  EXPECT_NE(timeline_trace(d.timeline).find("\"ts\":10.000613,"), std::string::npos);
}

TEST(TimelineTrace, MemoryIsACounterOfEveryRank) {
  Drawn d("zbv", 4, 2, 12);
  d.timeline.memory = {"micro-batches", 12};
  const Json trace = checked(timeline_trace(d.timeline));
  std::map<int, double> most;
  std::map<int, double> last;
  for (const Json& e : trace.at("traceEvents")) {
    if (e.at("ph") != "C") continue;
    const double value = e.at("args").at("micro-batches");
    most[e.at("pid")] = std::max(most[e.at("pid")], value);
    last[e.at("pid")] = value;
  }
  ASSERT_EQ(most.size(), 4U);
  for (int rank = 0; rank < 4; ++rank) {
    const auto held =
        static_cast<double>(d.timing.peaks.ranks[static_cast<std::size_t>(rank)].held);
    EXPECT_DOUBLE_EQ(most[rank + 1], held / 12);
    EXPECT_EQ(last[rank + 1], 0);
  }
}

// An op inside its action, one that laps over its end, a collective, the optimizer after the drain.
TEST(TimelineTrace, OpsAndStreams) {
  Drawn d("1f1b", 2, 1, 2, Times::uneven);
  d.timeline.ranks.resize(2);
  const schedule::Interval f0 = d.intervals[0];
  const Picoseconds end = end_of(d.timeline);
  d.timeline.ranks[0].name = "stage \"zero\"";
  d.timeline.ranks[0].spans = {{"attention", Stream::compute, f0.start, f0.end - f0.start, 0},
                               {"tail", Stream::compute, f0.end - 1'000, 2'000'000, 0},
                               {"all-gather", Stream::tp, f0.start + 1, 77, 0},
                               {"all-gather", Stream::tp, f0.start + 5, 77, 0},
                               {"optimizer", Stream::compute, end, 5'000'000}};
  const Json trace = checked(timeline_trace(d.timeline));
  std::map<std::string, std::set<int>> threads;
  std::set<std::string> names;
  std::map<std::string, int> tids;
  for (const Json& e : trace.at("traceEvents")) {
    if (e.at("ph") == "M" && e.at("name") == "thread_name") {
      threads[e.at("args").at("name")].insert(e.at("pid").get<int>());
    }
    if (e.at("ph") == "M" && e.at("name") == "process_name") names.insert(e.at("args").at("name"));
    if (e.at("ph") == "X" && e.at("pid") == 1) tids[e.at("name")] = e.at("tid");
  }
  EXPECT_EQ(names, (std::set<std::string>{"stage \"zero\"", "rank 1"}));
  EXPECT_EQ(threads["compute"], (std::set<int>{1, 2}));
  EXPECT_EQ(threads["TP"], std::set<int>{1});
  EXPECT_EQ(threads["TP 2"], std::set<int>{1});
  EXPECT_EQ(threads["compute 2"], std::set<int>{1});
  EXPECT_EQ(tids["attention"], tids["F0"]);
  EXPECT_EQ(tids["optimizer"], tids["F0"]);
  EXPECT_NE(tids["tail"], tids["F0"]);
}

TEST(TimelineTrace, TooManyActionsBecomeColumnsAndSaySo) {
  const Drawn d("1f1b", 4, 1, 200, Times::uneven);
  const Json all = checked(timeline_trace(d.timeline));
  EXPECT_FALSE(all.at("otherData").contains("remark"));
  const Json few = checked(timeline_trace(d.timeline, {.most_actions = 1'000}));
  EXPECT_LT(few.at("traceEvents").size(), all.at("traceEvents").size() / 2);
  const std::string remark = few.at("otherData").at("remark");
  EXPECT_NE(remark.find("1600 actions are too many"), std::string::npos) << remark;
  double busy = 0;
  for (const Json& e : few.at("traceEvents")) {
    if (e.at("ph") != "X" || e.at("pid") != 1) continue;
    for (const char* kind : {"forward_us", "backward_us"}) {
      if (e.at("args").contains(kind)) busy += e.at("args").at(kind).get<double>();
    }
  }
  EXPECT_NEAR(busy, static_cast<double>(d.timing.ranks[0].busy) / 1e6, 1e-5);
}

// Two ranks that share the output layer, by hand: F0 on rank 0 to 10 and on rank 1 to 20, S on both
// from 25 (a broadcast of 5 on the way to rank 0) to 27, all meet for 3, T from 30 to 33, all meet
// for 4.
TEST(TimelineTrace, CollectivesOfACutOutputLayer) {
  using schedule::Kind;
  schedule::Order order;
  const schedule::Shape shape{.pp = 2, .output = schedule::OutputLayer::two_barriers};
  begin_order(shape, schedule::Placement::looped, order);
  for (int rank = 0; rank < 2; ++rank) {
    for (const Kind k : {Kind::forward, Kind::output, Kind::output_gradient, Kind::backward}) {
      order.actions.push_back({0, 0, k});
    }
    end_rank(order);
  }
  const std::vector<schedule::ChunkCost> chunks(2, {.forward = 10, .backward = 20});
  const std::vector<schedule::OutputCost> outputs(2, {2, 3, 0});
  Timeline t;
  t.order = &order;
  t.costs.chunks = chunks;
  t.costs.outputs = outputs;
  t.costs.output_links = {5, 3, 4};
  schedule::Workspace w;
  schedule::Timing timing;
  std::vector<schedule::Interval> intervals;
  ASSERT_TRUE(simulate(order, t.costs, w, timing, &intervals).has_value());
  t.intervals = intervals;
  const std::vector<Span> all = collectives_of(t);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "broadcast 0");
  EXPECT_EQ(all[0].start, 20);
  EXPECT_EQ(all[1].start, 27);
  EXPECT_EQ(all[1].duration, 3);
  EXPECT_EQ(all[2].name, "barrier T0");
  EXPECT_EQ(all[2].start, 33);
  const Json trace = checked(timeline_trace(t));
  // Eight actions and three collectives on each of two ranks.
  EXPECT_EQ(count(trace, "X"), 8U + 6U);
}

TEST(TimelineTrace, PartOfTheStep) {
  const Drawn d("1f1b", 4, 1, 12);
  const Json trace = checked(timeline_trace(
      d.timeline, {.from = 100'000'000, .to = 200'000'000, .first_rank = 1, .last_rank = 2}));
  EXPECT_EQ(trace.at("otherData").at("part"), "from 100 to 200 of 450 us, ranks 1 to 2 of 4");
  for (const Json& e : trace.at("traceEvents")) {
    EXPECT_TRUE(e.at("pid") == 2 || e.at("pid") == 3);
  }
  EXPECT_LT(count(trace, "X"), 20U);
  EXPECT_GT(count(trace, "X"), 8U);
}

}  // namespace
}  // namespace eratos::report
