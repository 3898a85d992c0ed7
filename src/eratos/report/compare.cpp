#include "eratos/report/compare.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "eratos/report/quantity.h"
#include "eratos/report/time_parts.h"

namespace eratos::report {

namespace {

using text::Node;

struct MemoryPart {
  std::string name;
  Bytes bytes;
};

// Parts of the fullest stage, of which its device memory is the sum.
std::vector<MemoryPart> memory_parts(const projection::MemoryAnswer& m) {
  const auto peak = static_cast<std::size_t>(m.peak_stage);
  if (peak >= m.stages.size()) return {};
  const memory::StageMemory& s = m.stages[peak];
  return {{"weights", s.parameters},
          {"gradients", s.gradients},
          {"optimizer", s.optimizer},
          {"activations", s.activations},
          {"transient", s.transient},
          {"allocator reserve", s.reserved - s.allocated},
          {"context", s.communication + s.framework}};
}

std::string letter(std::size_t i) {
  return i < 26 ? std::string(1, static_cast<char>('A' + i)) : fmt::format("#{}", i + 1);
}

// A value of a job as a cell: large figures in powers of ten.
std::string cell(const Node& node) {
  if (node.is_null()) return "-";
  if (!node.is_scalar()) return node.describe();
  const auto number = node.as_double();
  if (number && node.scalar_kind() != text::ScalarKind::string && std::abs(*number) >= 1e6) {
    return fmt::format("{:.5g}", *number);
  }
  constexpr std::size_t kMost = 28;
  const std::string& text = node.raw();
  return text.size() <= kMost ? text : text.substr(0, kMost - 3) + "...";
}

std::string signed_seconds(Seconds s, Seconds whole) {
  return (s.value < 0 ? "-" : "+") + seconds_number(Seconds{std::abs(s.value)}, whole) + " s";
}

std::string signed_gib(Bytes b) {
  return (b.value < 0 ? "-" : "+") + gib_text(Bytes{std::abs(b.value)});
}

std::string times(double ratio) { return fmt::format("{:.3g}x", ratio); }

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
  Seconds most;
  for (const Compared& c : all) most = max(most, c.answer.projection->time.step);
  for (std::size_t i = 0; i < all.size() && most.value > 0; ++i) {
    const projection::TimeAnswer& t = all[i].answer.projection->time;
    Stack stack{letter(i) + "  " + all[i].label, duration(t.step), {}};
    for (const TimePart& p : step_parts(t)) {
      stack.parts.emplace_back(p.name, std::max(0.0, p.time / most));
    }
    out.stacks.push_back(std::move(stack));
  }
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

std::vector<Difference> differences(const std::vector<Compared>& all) {
  std::vector<std::string> paths;
  std::vector<Node> trees;
  for (const Compared& c : all) {
    Node tree = c.answer.job;
    // A described cluster is a mapping in the job; its figures stand below `hardware`.
    if (c.answer.spec->cluster.name.empty()) {
      tree.erase("cluster");
    } else {
      tree.set("cluster", Node::string(c.answer.spec->cluster.name));
    }
    tree.set("hardware", c.hardware);
    trees.push_back(std::move(tree));
    text::for_each_leaf(trees.back(), [&](const std::string& path, const Node&) {
      if (path != "name" && std::find(paths.begin(), paths.end(), path) == paths.end()) {
        paths.push_back(path);
      }
    });
  }
  std::vector<Difference> out;
  for (const std::string& path : paths) {
    Difference d{path, {}};
    bool same = true;
    for (const Node& tree : trees) {
      const Node* value = text::find_at(tree, path);
      d.values.push_back(value == nullptr ? Node::null() : *value);
      same = same && d.values.back() == d.values.front();
    }
    if (!same) out.push_back(std::move(d));
  }
  return out;
}

Page compare_page(const std::vector<Compared>& all, const std::vector<Refused>& refused) {
  Page page;
  page.title = fmt::format("{} jobs compared", all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const job::JobSpec& spec = *all[i].answer.spec;
    page.lead.push_back(fmt::format("{}  {}   {} on {}", letter(i), all[i].label,
                                    spec.model.name.empty() ? spec.name : spec.model.name,
                                    spec.cluster.name));
  }
  page.sections.push_back(differs_section(all));
  page.sections.push_back(costs_section(all));
  page.sections.push_back(time_section(all, false));
  page.sections.push_back(time_section(all, true));
  page.sections.push_back(memory_section(all));
  Section reasons;
  reasons.heading = "why";
  for (std::size_t i = 1; i < all.size(); ++i) {
    reasons.sentences.push_back(why(all[0], all[i], letter(i)));
  }
  page.sections.push_back(std::move(reasons));
  for (const Refused& r : refused) {
    std::string text = r.label + " is left out: ";
    for (std::size_t i = 0; i < r.faults.size(); ++i) {
      text += (i > 0 ? "; " : "") + r.faults[i].message;
    }
    page.notes.push_back(text);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<projection::Warning> warnings = all[i].answer.projection->warnings;
    warnings.insert(warnings.end(), all[i].answer.reader_warnings.begin(),
                    all[i].answer.reader_warnings.end());
    for (const projection::Warning& w : warnings) {
      const std::string text = fmt::format("{} [{}]", w.message, w.code);
      const auto known = std::find_if(page.notes.begin(), page.notes.end(), [&](const auto& n) {
        return n.size() >= text.size() && n.compare(n.size() - text.size(), text.size(), text) == 0;
      });
      if (known == page.notes.end()) {
        page.notes.push_back(letter(i) + ": " + text);
      } else {
        known->insert(known->size() - text.size() - 2, letter(i));
      }
    }
  }
  page.version = all[0].answer.version;
  return page;
}

}  // namespace eratos::report
