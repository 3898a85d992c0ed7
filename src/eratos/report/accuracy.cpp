#include "eratos/report/accuracy.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

namespace eratos::report {

namespace {

struct Errors {
  std::vector<double> throughput;
  std::vector<double> left_out_source;
  std::vector<double> left_out_group;
  std::vector<double> own;
  std::vector<double> memory;
  int steps_in_band = 0;
  int peaks_in_band = 0;

  Group group() const {
    Group out{summarise(throughput), summarise(left_out_source), summarise(left_out_group),
              summarise(own), summarise(memory)};
    if (out.throughput.n > 0) {
      out.throughput.in_band = static_cast<double>(steps_in_band) / out.throughput.n;
    }
    if (out.memory.n > 0) out.memory.in_band = static_cast<double>(peaks_in_band) / out.memory.n;
    return out;
  }
};

void add(const AccuracyRow& row, Errors& to) {
  const auto speed = row.throughput_error();
  if (speed && row.suspect.empty() && row.excluded.empty()) {
    to.throughput.push_back(*speed);
    to.steps_in_band += *row.step_in_band() ? 1 : 0;
    if (row.left_out_source) to.left_out_source.push_back(*row.left_out_source);
    if (row.left_out_group) to.left_out_group.push_back(*row.left_out_group);
    if (row.own) to.own.push_back(*row.own);
  }
  if (const auto memory = row.memory_error()) {
    to.memory.push_back(*memory);
    to.peaks_in_band += *row.memory_in_band() ? 1 : 0;
  }
}

std::map<std::string, Group> grouped(
    const std::vector<AccuracyRow>& rows,
    const std::function<const std::string&(const AccuracyRow&)>& key) {
  std::map<std::string, Errors> errors;
  for (const AccuracyRow& row : rows) {
    if (row.ok()) add(row, errors[key(row)]);
  }
  std::map<std::string, Group> out;
  for (const auto& [name, of_name] : errors) out[name] = of_name.group();
  return out;
}

Feasibility feasibility(const std::vector<AccuracyRow>& rows) {
  Feasibility out;
  for (const AccuracyRow& row : rows) {
    if (!row.ok() || row.outcome.empty()) continue;
    if (row.outcome == "oom") {
      ++out.n_oom;
      out.false_fits += row.fits ? 1 : 0;
    } else {
      ++out.n_fits;
      out.false_oom += row.fits ? 0 : 1;
    }
  }
  return out;
}

// Further apart than this two speeds are not the same. Reruns of one configuration differ by 1 to
// 2%.
constexpr double kApart = 0.03;
constexpr double kClose = 0.05;

SchedulePair pair_of(const AccuracyRow& a, const AccuracyRow& b) {
  SchedulePair out{a.id, b.id};
  if (a.throughput_error() && b.throughput_error() && a.suspect.empty() && b.suspect.empty() &&
      a.from == b.from) {
    const double measured = b.measured_speed / a.measured_speed;
    if (std::max(measured, 1 / measured) > 1 + kApart) {
      out.measured_speed = measured;
      out.projected_speed = b.projected_speed / a.projected_speed;
    }
  }
  if (a.memory_error() && b.memory_error() && a.memory_kind == b.memory_kind) {
    out.measured_memory = b.measured_memory / a.measured_memory;
    out.projected_memory = b.projected_memory / a.projected_memory;
  }
  return out;
}

std::map<std::string, SchedulePairs> schedule_pairs(const std::vector<AccuracyRow>& rows) {
  std::map<std::string, std::vector<const AccuracyRow*>> alike;
  for (const AccuracyRow& row : rows) {
    if (row.ok() && !row.but_schedule.empty()) alike[row.family + row.but_schedule].push_back(&row);
  }
  std::map<std::string, SchedulePairs> out;
  for (const auto& [key, group] : alike) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      for (std::size_t j = i + 1; j < group.size(); ++j) {
        if (group[i]->schedule == group[j]->schedule) continue;
        const SchedulePair pair = pair_of(*group[i], *group[j]);
        if (pair.measured_speed == 0 && pair.measured_memory == 0) continue;
        SchedulePairs& to = out[group[i]->family];
        if (pair.measured_speed > 0) {
          ++to.speed_pairs;
          to.ordered += pair.ordered() ? 1 : 0;
        }
        if (pair.measured_memory > 0) {
          ++to.memory_pairs;
          to.close += pair.close() ? 1 : 0;
        }
        to.all.push_back(pair);
      }
    }
  }
  return out;
}

}  // namespace

bool SchedulePair::close() const {
  return std::abs(projected_memory / measured_memory - 1) <= kClose;
}

std::optional<double> AccuracyRow::throughput_error() const {
  if (!ok() || measured_speed <= 0 || projected_speed <= 0) return std::nullopt;
  return projected_speed / measured_speed - 1;
}

std::optional<double> AccuracyRow::memory_error() const {
  if (!ok() || measured_memory.value <= 0) return std::nullopt;
  return projected_memory / measured_memory - 1;
}

std::optional<bool> AccuracyRow::step_in_band() const {
  const auto error = throughput_error();
  if (!error) return std::nullopt;
  const double measured = 1 + *error;  // step times are as the speeds, the other way round
  return step_band.first <= measured && measured <= step_band.second;
}

std::optional<bool> AccuracyRow::memory_in_band() const {
  const auto error = memory_error();
  if (!error) return std::nullopt;
  const double measured = 1 / (1 + *error);
  return memory_band.first <= measured && measured <= memory_band.second;
}

double percentile(const std::vector<double>& ascending, double share) {
  if (ascending.empty()) return 0;
  const double at = share * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  return ascending[below] +
         (at - static_cast<double>(below)) * (ascending[above] - ascending[below]);
}

ErrorSummary summarise(const std::vector<double>& errors) {
  ErrorSummary out;
  out.n = static_cast<int>(errors.size());
  if (errors.empty()) return out;
  std::vector<double> magnitudes;
  double sum = 0;
  int within = 0;
  for (const double e : errors) {
    magnitudes.push_back(std::abs(e));
    sum += e;
    within += std::abs(e) <= 0.1 ? 1 : 0;
  }
  std::sort(magnitudes.begin(), magnitudes.end());
  out.median_abs = percentile(magnitudes, 0.5);
  out.p90_abs = percentile(magnitudes, 0.9);
  out.mean = sum / static_cast<double>(errors.size());
  out.within_10 = static_cast<double>(within) / static_cast<double>(errors.size());
  return out;
}

Accuracy summarise(const std::vector<AccuracyRow>& rows) {
  Accuracy out;
  Errors all;
  std::vector<double> suspect;
  for (const AccuracyRow& row : rows) {
    ++out.rows;
    if (!row.ok()) {
      ++out.skipped[row.skipped];
      continue;
    }
    ++out.projected;
    add(row, all);
    const auto speed = row.throughput_error();
    if (speed && !row.suspect.empty()) suspect.push_back(*speed);
  }
  out.all = all.group();
  out.suspect = summarise(suspect);
  out.feasibility = feasibility(rows);
  out.schedules = schedule_pairs(rows);
  out.ranking = rank_layouts(rows);
  out.picks = pick_layouts(rows);
  out.by_gpu = grouped(rows, [](const AccuracyRow& r) -> const std::string& { return r.gpu; });
  out.by_framework =
      grouped(rows, [](const AccuracyRow& r) -> const std::string& { return r.framework; });
  out.by_family =
      grouped(rows, [](const AccuracyRow& r) -> const std::string& { return r.family; });
  return out;
}

}  // namespace eratos::report
