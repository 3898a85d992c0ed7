#include <cstddef>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "eratos/report/schedule_answer.h"
#include "eratos/text/csv.h"

namespace eratos::report {

namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

std::string time_cell(Picoseconds t, const Scale& scale) {
  const double one = scale.seconds ? 1e12 : static_cast<double>(scale.one_unit);
  return fmt::format("{}", static_cast<double>(t) / one);
}
std::string held_cell(std::int64_t held, std::int64_t one_held, const Scale& scale) {
  return scale.bytes ? std::to_string(held)
                     : fmt::format("{}", static_cast<double>(held) / static_cast<double>(one_held));
}

std::string by_rank(const ScheduleAnswer& a, std::string_view time, std::string_view size) {
  const ScheduleRun& run = a.runs.front();
  std::string out = fmt::format(
      "schedule,rank,busy_{0},transfer_{0},idle_{0},makespan_{0},peak_{1},in_flight,"
      "waiting_for_weight_gradient\n",
      time, size);
  const schedule::Peaks& peaks = run.timing.peaks;
  for (int r = 0; r < run.shape.pp; ++r) {
    const schedule::RankTime& t = run.timing.ranks[index(r)];
    std::int64_t in_flight = 0;
    std::int64_t waiting = 0;
    for (int c = 0; c < run.shape.chunks; ++c) {
      in_flight += peaks.in_flight[index(schedule::slot_of(run.shape, r, c))];
      waiting += peaks.waiting[index(schedule::slot_of(run.shape, r, c))];
    }
    out += fmt::format("{},{},{},{},{},{},{},{},{}\n", text::csv_field(run.name), r,
                       time_cell(t.busy, a.scale), time_cell(t.transfer, a.scale),
                       time_cell(t.idle, a.scale), time_cell(run.timing.makespan, a.scale),
                       held_cell(peaks.ranks[index(r)].held, run.one_held, a.scale), in_flight,
                       waiting);
  }
  return out;
}

std::string by_schedule(const ScheduleAnswer& a, std::string_view time, std::string_view size) {
  std::string out = fmt::format(
      "schedule,status,reason,vpp,makespan_{0},bubble_{0},step_to_step_{0},lower_bound_{0},"
      "upper_bound_{0},critical_rank,peak_{1},peak_rank\n",
      time, size);
  for (const ScheduleRun& run : a.runs) {
    const schedule::Timing& t = run.timing;
    int full = 0;
    for (std::size_t r = 0; r < t.peaks.ranks.size(); ++r) {
      if (t.peaks.ranks[r].held > t.peaks.ranks[index(full)].held) full = static_cast<int>(r);
    }
    out += fmt::format(
        "{},ok,,{},{},{},{},{},{},{},{},{}\n", text::csv_field(run.name), run.shape.chunks,
        time_cell(t.makespan, a.scale), time_cell(t.ranks[index(t.critical_rank)].idle, a.scale),
        time_cell(t.pitch, a.scale), run.bounds ? time_cell(run.bounds->lower, a.scale) : "",
        run.bounds ? time_cell(run.bounds->upper, a.scale) : "", t.critical_rank,
        held_cell(t.peaks.ranks[index(full)].held, run.one_held, a.scale), full);
  }
  for (const ScheduleRefused& r : a.refused) {
    out +=
        fmt::format("{},refused,{},,,,,,,,,\n", text::csv_field(r.name),
                    text::csv_field(r.why.message + (r.why.cure.empty() ? "" : "; " + r.why.cure)));
  }
  return out;
}

}  // namespace

std::string schedule_csv(const ScheduleAnswer& a) {
  const std::string_view time = a.scale.seconds ? "s" : "units";
  const std::string_view size = a.scale.bytes ? "bytes" : "stage_micro_batches";
  return a.order != nullptr ? by_rank(a, time, size) : by_schedule(a, time, size);
}

}  // namespace eratos::report
