// What `eratos schedule` answers: one schedule in full, or every legal one compared.
//
// A report computes nothing about training: orders, times and peaks are room schedule's, what was
// asked and the costs are the caller's. Times are picoseconds and memory is in the costs' bytes
// until they are written; Scale says in which unit.
//
// Worked example: without durations a forward is 1 unit. 1F1B, p = 4, m = 8, F = 1, BW = 2:
// makespan (m + p - 1)(F + BW) = 33 units, bubble 9 units (27.3%), rank 0 holds 4 micro-batches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/report/page.h"
#include "eratos/schedule/bounds.h"
#include "eratos/schedule/order.h"
#include "eratos/schedule/simulate.h"

namespace eratos::report {

struct Scale {
  bool seconds = false;      // else units without a length
  Picoseconds one_unit = 1;  // picoseconds of one unit
  bool bytes = false;        // else stage-micro-batches: one rank's layers, one micro-batch
};

inline constexpr std::string_view kDefault = "default";

// One cost that went in: "forward", 1 unit, by default.
struct ScheduleCost {
  enum class Kind { time, bytes, words };
  std::string name;
  Kind kind = Kind::words;
  std::int64_t value = 0;  // picoseconds or bytes
  std::string words;
  std::string origin;  // kDefault, "half of backward"; empty where the user said it
};

struct ScheduleRun {
  std::string name;
  schedule::Shape shape;
  schedule::Placement placement = schedule::Placement::looped;
  schedule::Timing timing;
  std::optional<schedule::Bounds> bounds;
  // The costs' bytes that are one stage-micro-batch; read only without bytes.
  std::int64_t one_held = 1;
  bool is_auto = false;     // what Megatron-LM would run
  bool over_limit = false;  // holds more than --memory-limit
  std::string remark;       // "gap 1.2%", "proven"; empty where no search was made
  std::string search;       // who searched, and from where
};

struct ScheduleRefused {
  std::string name;
  Diagnostic why;
};

struct ScheduleAnswer {
  schedule::Shape asked;
  bool asked_chunks = false;  // --vpp was given
  std::string algorithm;      // as asked: a name, "auto" or "all"
  Scale scale;
  std::vector<ScheduleCost> costs;
  std::vector<ScheduleRun> runs;  // by makespan; never empty
  std::vector<ScheduleRefused> refused;
  std::vector<std::string> notes;
  std::string version;

  // With one schedule alone; null when several are compared.
  const schedule::Order* order = nullptr;
  const std::vector<schedule::Interval>* timeline = nullptr;
  std::size_t most_listed = 0;  // actions of a rank that are listed; 0: no list
  Drawing drawing;
};

Page schedule_page(const ScheduleAnswer& a);
std::string schedule_json(const ScheduleAnswer& a);
// One schedule: a line a rank. Several: a line a schedule, the refused ones included.
std::string schedule_csv(const ScheduleAnswer& a);

// "117", "58.5", "0.333": at most three decimals of one unit, or a duration.
std::string time_text(Picoseconds t, const Scale& scale);
// "9 1/2" of a stage-micro-batch, exactly, or GiB.
std::string held_text(std::int64_t held, std::int64_t one_held, const Scale& scale);

}  // namespace eratos::report
