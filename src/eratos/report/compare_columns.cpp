// A comparison with a column a job, and why each differs from the first.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "eratos/report/compare_parts.h"
#include "eratos/report/quantity.h"

namespace eratos::report {

namespace {

using text::Node;

std::string signed_seconds(Seconds s, Seconds whole) {
  return (s.value < 0 ? "-" : "+") + seconds_number(Seconds{std::abs(s.value)}, whole) + " s";
}

std::string signed_gib(Bytes b) {
  return (b.value < 0 ? "-" : "+") + gib_text(Bytes{std::abs(b.value)});
}

// Names of all, in the order of the first answer that has them.
template <class Part, class PartsOf>
std::vector<std::string> names_of(const std::vector<Compared>& all, PartsOf&& parts_of) {
  std::vector<std::string> out;
  for (const Compared& c : all) {
    for (const Part& p : parts_of(c)) {
      if (std::find(out.begin(), out.end(), p.name) == out.end()) out.push_back(p.name);
    }
  }
  return out;
}

Seconds time_of(const std::vector<TimePart>& parts, const std::string& name) {
  for (const TimePart& p : parts) {
    if (p.name == name) return p.time;
  }
  return Seconds{0};
}

std::vector<Column> job_columns(const std::string& head, std::size_t n) {
  std::vector<Column> out{{head}};
  for (std::size_t i = 0; i < n; ++i) out.push_back({letter(i), Align::right});
  if (n == 2) {
    out.push_back({"B - A", Align::right});
    out.push_back({"B / A", Align::right});
  }
  return out;
}

void add_delta(double a, double b, double unit, int decimals, std::vector<std::string>& row) {
  row.push_back(fmt::format("{:+.{}f}", (b - a) / unit, decimals));
  row.push_back(a > 0 ? times(b / a) : "");
}

Section differs_section(const std::vector<Compared>& all) {
  Section out;
  out.heading = "what differs";
  std::vector<Column> columns{{"field"}};
  for (std::size_t i = 0; i < all.size(); ++i) columns.push_back({letter(i), Align::right});
  Table table(std::move(columns));
  const std::vector<Difference> found = differences(all);
  for (const Difference& d : found) {
    std::vector<std::string> row{d.path};
    for (const Node& value : d.values) row.push_back(cell(value));
    table.row(std::move(row));
  }
  if (found.empty()) {
    out.sentences.emplace_back("nothing: the jobs are the same");
  } else {
    out.tables.push_back(std::move(table));
  }
  return out;
}

Section costs_section(const std::vector<Compared>& all) {
  Section out;
  out.heading = "what it costs";
  out.note = "ratios to A; memory is of the fullest stage";
  Table table({{""},
               {"step", Align::right},
               {"ratio", Align::right},
               {"tokens/s/GPU", Align::right},
               {"ratio", Align::right},
               {"tokens/s", Align::right},
               {"MFU", Align::right},
               {"device GiB", Align::right},
               {"ratio", Align::right},
               {"of", Align::right},
               {"fits"}});
  const projection::Projection& a = *all[0].answer.projection;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const projection::Projection& p = *all[i].answer.projection;
    table.row({letter(i), duration(p.time.step), times(p.time.step / a.time.step),
               thousands(p.throughput.tokens_per_s_per_gpu),
               times(p.throughput.tokens_per_s_per_gpu / a.throughput.tokens_per_s_per_gpu),
               thousands(p.throughput.tokens_per_s), percent(p.throughput.mfu),
               gib_number(p.memory.device_peak), times(p.memory.device_peak / a.memory.device_peak),
               gib_number(p.memory.capacity), p.memory.fits ? "yes" : "no"});
  }
  out.tables.push_back(std::move(table));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < all.size(); ++i) names.push_back(letter(i) + "  " + all[i].label);
  out.stacks = step_stacks(all, names);
  return out;
}

Section time_section(const std::vector<Compared>& all, bool modules) {
  Section out;
  out.heading = modules ? "by module, s" : "where the step goes, s";
  out.note = modules ? "exposed communication of its own included" : "on the critical rank of each";
  const auto parts_of = [&](const Compared& c) {
    const projection::TimeAnswer& t = c.answer.projection->time;
    return modules ? module_parts(t) : step_parts(t);
  };
  const Seconds whole = all[0].answer.projection->time.step;
  const int decimals = whole.value >= 100 ? 2 : whole.value >= 1 ? 3 : 4;
  Table table(job_columns("", all.size()));
  const auto add = [&](const std::string& name, const std::vector<Seconds>& values, bool strong) {
    std::vector<std::string> row{name};
    for (const Seconds s : values) row.push_back(seconds_number(s, whole));
    if (values.size() == 2) add_delta(values[0].value, values[1].value, 1, decimals, row);
    table.row(std::move(row), strong);
  };
  for (const std::string& name : names_of<TimePart>(all, parts_of)) {
    std::vector<Seconds> values;
    bool some = false;
    for (const Compared& c : all) {
      values.push_back(time_of(parts_of(c), name));
      some = some || values.back() / whole >= 5e-4;
    }
    if (some) add(name, values, false);
  }
  if (!modules) {
    std::vector<Seconds> steps;
    for (const Compared& c : all) steps.push_back(c.answer.projection->time.step);
    add("step", steps, true);
  }
  out.tables.push_back(std::move(table));
  return out;
}

Section memory_section(const std::vector<Compared>& all) {
  Section out;
  out.heading = "memory of the fullest stage, GiB";
  const auto parts_of = [](const Compared& c) { return memory_parts(c.answer.projection->memory); };
  Table table(job_columns("", all.size()));
  for (const std::string& name : names_of<MemoryPart>(all, parts_of)) {
    std::vector<std::string> row{name};
    std::vector<Bytes> values;
    for (const Compared& c : all) {
      Bytes bytes;
      for (const MemoryPart& p : parts_of(c)) {
        if (p.name == name) bytes = p.bytes;
      }
      values.push_back(bytes);
      row.push_back(gib_number(bytes));
    }
    if (values.size() == 2) add_delta(values[0].value, values[1].value, kGiB, 1, row);
    table.row(std::move(row));
  }
  out.tables.push_back(std::move(table));
  return out;
}

// "compute -4.1 s (75%), tp communication, exposed -0.5 s (25%)": the parts that move most.
std::string largest(const std::vector<TimePart>& a, const std::vector<TimePart>& b, Seconds delta,
                    Seconds whole, std::size_t most, bool shares) {
  std::vector<TimePart> moves;
  for (const TimePart& p : b) moves.push_back({p.name, p.time - time_of(a, p.name)});
  for (const TimePart& p : a) {
    const bool gone =
        std::none_of(b.begin(), b.end(), [&](const TimePart& q) { return q.name == p.name; });
    if (gone) moves.push_back({p.name, Seconds{-p.time.value}});
  }
  std::stable_sort(moves.begin(), moves.end(), [](const TimePart& x, const TimePart& y) {
    return std::abs(x.time.value) > std::abs(y.time.value);
  });
  std::string out;
  for (std::size_t i = 0; i < moves.size() && i < most; ++i) {
    if (std::abs(moves[i].time.value) < 0.02 * std::abs(delta.value)) break;
    out += (out.empty() ? "" : ", ") + moves[i].name + ' ' + signed_seconds(moves[i].time, whole);
    if (shares) out += fmt::format(" ({:.0f}%)", 100 * (moves[i].time / delta));
  }
  return out;
}

std::string why(const Compared& a, const Compared& b, const std::string& name) {
  const projection::TimeAnswer& ta = a.answer.projection->time;
  const projection::TimeAnswer& tb = b.answer.projection->time;
  const Seconds delta = tb.step - ta.step;
  std::string out = name + ": ";
  if (std::abs(delta.value) < 5e-4 * ta.step.value) {
    out += "the step takes as long as A's";
  } else {
    out +=
        fmt::format("the step takes {} of A's ({}). Of the difference: ", times(tb.step / ta.step),
                    signed_seconds(delta, ta.step)) +
        largest(step_parts(ta), step_parts(tb), delta, ta.step, 4, true);
    const std::string modules =
        largest(module_parts(ta), module_parts(tb), delta, ta.step, 4, false);
    if (!modules.empty()) out += ". By module: " + modules;
  }
  const projection::MemoryAnswer& ma = a.answer.projection->memory;
  const projection::MemoryAnswer& mb = b.answer.projection->memory;
  const Bytes more = mb.device_peak - ma.device_peak;
  if (std::abs(more.value) < 5e-4 * ma.device_peak.value) return out + ". Memory: the same.";
  out += ". Memory " + signed_gib(more);
  std::vector<MemoryPart> moves = memory_parts(mb);
  const std::vector<MemoryPart> before = memory_parts(ma);
  for (std::size_t i = 0; i < moves.size() && i < before.size(); ++i) {
    moves[i].bytes -= before[i].bytes;
  }
  std::stable_sort(moves.begin(), moves.end(), [](const MemoryPart& x, const MemoryPart& y) {
    return std::abs(x.bytes.value) > std::abs(y.bytes.value);
  });
  std::string parts;
  for (std::size_t i = 0; i < moves.size() && i < 2; ++i) {
    if (std::abs(moves[i].bytes.value) < 0.05 * std::abs(more.value)) break;
    parts += (parts.empty() ? ": " : ", ") + moves[i].name + ' ' + signed_gib(moves[i].bytes);
  }
  return out + parts + '.';
}

}  // namespace

std::vector<Section> column_sections(const std::vector<Compared>& all) {
  std::vector<Section> out{differs_section(all), costs_section(all), time_section(all, false),
                           time_section(all, true), memory_section(all)};
  Section reasons;
  reasons.heading = "why";
  for (std::size_t i = 1; i < all.size(); ++i) {
    reasons.sentences.push_back(why(all[0], all[i], letter(i)));
  }
  out.push_back(std::move(reasons));
  return out;
}

}  // namespace eratos::report
