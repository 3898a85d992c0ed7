// A comparison with a line a job: for more jobs than a page has room for columns.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "eratos/report/compare_parts.h"
#include "eratos/report/quantity.h"

namespace eratos::report {

namespace {

// Degrees and counts that are short enough to stand beside a job's figures.
constexpr std::array<std::string_view, 7> kCounts = {"parallel.tp", "parallel.pp", "parallel.vpp",
                                                     "parallel.cp", "parallel.ep", "parallel.etp",
                                                     "batch.micro"};

std::vector<Difference> counts_that_differ(const std::vector<Difference>& found) {
  constexpr std::size_t kMost = 3;
  std::vector<Difference> out;
  for (const Difference& d : found) {
    const bool count = std::find(kCounts.begin(), kCounts.end(), d.path) != kCounts.end();
    if (count && out.size() < kMost) out.push_back(d);
  }
  return out;
}

// "parallel.vpp: 2 (zbv, v-half), 1 (the others)"; with many values, one a job.
std::string difference_text(const Difference& d, const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> groups;
  for (std::size_t i = 0; i < d.values.size(); ++i) {
    const std::string value = cell(d.values[i]);
    const auto known =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == value; });
    if (known != groups.end()) {
      known->second.push_back(i);
    } else {
      groups.push_back({value, {i}});
    }
  }
  const auto most = std::max_element(
      groups.begin(), groups.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::string out = d.path + ": ";
  for (auto g = groups.begin(); g != groups.end(); ++g) {
    out += (g == groups.begin() ? "" : ", ") + g->first + " (";
    if (g == most && g->second.size() > 1) {
      out += "the others)";
      continue;
    }
    for (std::size_t i = 0; i < g->second.size(); ++i) {
      out += (i > 0 ? ", " : "") + names[g->second[i]];
    }
    out += ')';
  }
  return out;
}

Section figures(const std::vector<Compared>& all, const std::vector<std::string>& names,
                const std::vector<Difference>& counts) {
  Section out;
  out.heading = "what each costs";
  const Bytes capacity = all[0].answer.projection->memory.capacity;
  const bool one_capacity = std::all_of(all.begin(), all.end(), [&](const Compared& c) {
    return c.answer.projection->memory.capacity == capacity;
  });
  out.note = "ratio: step to the first's; GiB: device memory of the fullest stage";
  if (one_capacity) out.note += ", of " + gib_number(capacity);
  std::vector<Column> columns{{""}};
  for (const Difference& d : counts) {
    columns.push_back({d.path.substr(d.path.rfind('.') + 1), Align::right});
  }
  for (const char* head : {"step", "ratio", "tokens/s/GPU", "MFU", "bubble", "GiB"}) {
    columns.push_back({head, Align::right});
  }
  if (!one_capacity) columns.push_back({"of", Align::right});
  columns.push_back({"fits"});
  Table table(std::move(columns));
  const projection::Projection& first = *all[0].answer.projection;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const projection::Projection& p = *all[i].answer.projection;
    std::vector<std::string> row{names[i]};
    for (const Difference& d : counts) row.push_back(cell(d.values[i]));
    row.push_back(duration(p.time.step));
    row.push_back(fmt::format("{:.3f}", p.time.step / first.time.step));
    row.push_back(thousands(p.throughput.tokens_per_s_per_gpu));
    row.push_back(percent(p.throughput.mfu));
    row.push_back(percent(p.time.bubble_ratio()));
    row.push_back(gib_number(p.memory.device_peak));
    if (!one_capacity) row.push_back(gib_number(p.memory.capacity));
    row.push_back(p.memory.fits ? "yes" : "no");
    table.row(std::move(row));
  }
  out.tables.push_back(std::move(table));
  out.stacks = step_stacks(all, names);
  return out;
}

// Every job is called by the value that it has.
bool named_by(const Difference& d, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].find(cell(d.values[i])) == std::string::npos) return false;
  }
  return true;
}

Section differs(const std::vector<Difference>& found, const std::vector<Difference>& shown,
                const std::vector<std::string>& names) {
  Section out;
  out.heading = "what differs";
  for (const Difference& d : found) {
    const bool above = std::any_of(shown.begin(), shown.end(),
                                   [&](const Difference& s) { return s.path == d.path; });
    if (!above && !named_by(d, names)) out.sentences.push_back(difference_text(d, names));
  }
  return out;
}

// The ten parts under names short enough to head a column; those that nobody has are left out.
Section times_of(const std::vector<Compared>& all, const std::vector<std::string>& names) {
  constexpr std::array<const char*, 10> kShort = {"compute", "bubble", "tp",   "cp",    "ep",
                                                  "pp",      "dp",     "host", "optim", "launch"};
  Section out;
  out.heading = "where each step goes, s";
  out.note = "on its critical rank; tp to host: communication that is exposed";
  const Seconds whole = all[0].answer.projection->time.step;
  std::vector<std::vector<TimePart>> parts;
  for (const Compared& c : all) parts.push_back(step_parts(c.answer.projection->time));
  std::vector<std::size_t> some;
  for (std::size_t p = 0; p < kShort.size(); ++p) {
    const bool any = std::any_of(parts.begin(), parts.end(),
                                 [&](const auto& each) { return each[p].time / whole >= 5e-4; });
    if (any) some.push_back(p);
  }
  std::vector<Column> columns{{""}};
  for (const std::size_t p : some) columns.push_back({kShort[p], Align::right});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<std::string> row{names[i]};
    for (const std::size_t p : some) row.push_back(seconds_number(parts[i][p].time, whole));
    table.row(std::move(row));
  }
  out.tables.push_back(std::move(table));
  return out;
}

Section memory_of(const std::vector<Compared>& all, const std::vector<std::string>& names) {
  Section out;
  out.heading = "memory of the fullest stage, GiB";
  Table table({{""},
               {"weights", Align::right},
               {"grads", Align::right},
               {"optim", Align::right},
               {"activ", Align::right},
               {"trans", Align::right},
               {"reserve", Align::right},
               {"context", Align::right}});
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<std::string> row{names[i]};
    for (const MemoryPart& p : memory_parts(all[i].answer.projection->memory)) {
      row.push_back(gib_number(p.bytes));
    }
    table.row(std::move(row));
  }
  out.tables.push_back(std::move(table));
  static_assert(kMostColumns == 5);
  out.sentences.emplace_back(
      "two to five jobs side by side also show the modules, and why each differs");
  return out;
}

}  // namespace

std::vector<Section> line_sections(const std::vector<Compared>& all,
                                   const std::vector<std::string>& names) {
  const std::vector<Difference> found = differences(all);
  const std::vector<Difference> counts = counts_that_differ(found);
  std::vector<Section> out{figures(all, names, counts)};
  Section rest = differs(found, counts, names);
  if (!rest.sentences.empty()) out.push_back(std::move(rest));
  out.push_back(times_of(all, names));
  out.push_back(memory_of(all, names));
  return out;
}

}  // namespace eratos::report
