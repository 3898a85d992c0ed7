// What `eratos schedule` is asked for: the shape, and what an action takes and holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/arguments.h"
#include "eratos/base/diagnostic.h"
#include "eratos/reader/times.h"
#include "eratos/report/schedule_answer.h"
#include "eratos/schedule/order.h"
#include "eratos/schedule/simulate.h"

namespace eratos::apps {

struct ScheduleRequest {
  std::string algorithm;  // a name, "auto" or "all"
  schedule::Shape shape;
  bool chunks_given = false;
  report::Scale scale;

  // One rank's layers, one micro-batch, where no file has the times of every stage.
  reader::StageTimes rank;
  std::optional<reader::Times> times;
  std::string times_file;

  schedule::Sends sends = schedule::Sends::overlapped;
  double hideable = 0;             // share of F and B that a pass of the other direction can hide
  Picoseconds output_forward = 0;  // the output layer's forward, one micro-batch, uncut
  std::int64_t output_held = 0;    // bytes it holds from its forward to its backward, uncut
  Picoseconds barrier = 0;         // each collective of a cut output layer
  // Most that a rank may hold: bytes, or stage-micro-batches.
  std::optional<double> limit;
  bool limit_is_bytes = false;
  Seconds time_limit{30};  // of the solver

  std::vector<report::ScheduleCost> costs;  // as the answer says them
  std::vector<std::string> notes;
};

// From the flags. Errors, all of them wrong use: a duration or size that is none, units mixed with
// durations, flags that contradict one another.
Result<ScheduleRequest> schedule_request(const Arguments& arguments);
// Reads --times, if it is there, and what follows from it. Errors: those of read_times(), and a
// number of stages that the ranks do not divide.
Result<void> add_times(ScheduleRequest& request);

// Costs of one schedule's shape, by slot, and the tables they point into.
struct ScheduleCosts {
  std::vector<schedule::ChunkCost> chunks;
  std::vector<schedule::LinkCost> links;
  std::vector<schedule::OutputCost> outputs;
  std::vector<std::int64_t> limits;
  std::int64_t one_held = 1;  // what one stage-micro-batch holds, in the bytes of `chunks`
  schedule::Costs view;

  ScheduleCosts() = default;
  ScheduleCosts(ScheduleCosts&&) = default;
  ScheduleCosts& operator=(ScheduleCosts&&) = default;
};

// The model's stages put on the ranks. `splits`: the schedule runs B and W apart. Errors: a file
// with fewer stages than the shape, or without the halves of a split backward; sums beyond 64 bits.
Result<ScheduleCosts> costs_of(const ScheduleRequest& request, const schedule::Shape& shape,
                               schedule::Placement placement, bool splits);

}  // namespace eratos::apps
