// What the pages of `project` and `memory` say.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "eratos/report/hybrid.h"
#include "eratos/report/memory_table.h"
#include "eratos/report/memory_timeline.h"
#include "eratos/report/page.h"
#include "eratos/report/quantity.h"
#include "eratos/report/text.h"
#include "eratos/report/time_parts.h"

namespace eratos::report {

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

Page begun(const Answer& a) {
  Page page;
  const std::vector<std::string> lines = lines_of(headline(a, {}));
  if (!lines.empty()) {
    // "MODEL on CLUSTER   64 x PART, ...": the second half is a line of its own.
    const std::size_t gap = lines[0].find("   ");
    page.title = lines[0].substr(0, gap);
    if (gap != std::string::npos) page.lead.push_back(lines[0].substr(gap + 3));
    page.lead.insert(page.lead.end(), lines.begin() + 1, lines.end());
  }
  page.good = a.projection->memory.fits;
  page.facts.emplace_back("memory", verdict(a.projection->memory, {}));
  if (const auto& routing = a.projection->memory.routing; !routing.even) {
    page.facts.emplace_back("routing", uneven_routing(routing));
  }
  std::vector<projection::Warning> all = a.projection->warnings;
  all.insert(all.end(), a.reader_warnings.begin(), a.reader_warnings.end());
  for (const projection::Warning& w : all) {
    page.notes.push_back(fmt::format("{} [{}]", w.message, w.code));
  }
  if (a.defaults > 0) {
    page.notes.push_back(fmt::format(
        "{} values are framework or catalogue defaults; `eratos import` shows each", a.defaults));
  }
  page.version = a.version;
  return page;
}

std::vector<Bar> time_bars(const std::vector<TimePart>& parts, Seconds step) {
  constexpr double kLeastShare = 5e-4;  // what would print as 0.0%
  std::vector<Bar> out;
  for (const TimePart& p : parts) {
    const double share = step.value > 0 ? p.time / step : 0;
    if (share < kLeastShare) continue;
    out.push_back({p.name, seconds_number(p.time, step) + " s", share, percent(share)});
  }
  return out;
}

Section stage_section(const projection::MemoryAnswer& m) {
  Section out;
  out.heading = "memory a GPU, GiB";
  const double room = std::max(m.capacity.value, m.device_peak.value);
  const double limit = room > 0 ? m.capacity.value / room : 1;
  out.note = fmt::format(
      "device = reserved + context; flight = micro-batches in flight; {}",
      limit < 1 ? "a line in the bars marks the capacity" : "the bars end at the capacity");
  for (std::size_t i = 0; i < m.stages.size() && room > 0; ++i) {
    const memory::StageMemory& s = m.stages[i];
    Stack stack{fmt::format("stage {}", i), gib_text(s.device), {}, limit};
    for (const auto& [name, bytes] : {std::pair{"weights", s.parameters},
                                      {"gradients", s.gradients},
                                      {"optimizer", s.optimizer},
                                      {"activations", s.activations},
                                      {"transient", s.transient},
                                      {"allocator reserve", s.reserved - s.allocated},
                                      {"context", s.communication + s.framework}}) {
      stack.parts.emplace_back(name, std::max(0.0, bytes.value / room));
    }
    out.stacks.push_back(std::move(stack));
  }
  out.tables.push_back(stage_rows(m));
  return out;
}

}  // namespace

Page project_page(const Answer& a) {
  const projection::Projection& p = *a.projection;
  Page page = begun(a);
  page.facts.emplace_back("step time", fmt::format("{} ({} to {})", duration(p.time.step),
                                                   duration(p.confidence.step.first),
                                                   duration(p.confidence.step.second)));
  page.facts.emplace_back(
      "throughput", fmt::format("{} tokens/s/GPU, {} tokens/s, {:.2f} sequences/s",
                                thousands(p.throughput.tokens_per_s_per_gpu),
                                thousands(p.throughput.tokens_per_s), p.throughput.samples_per_s));
  page.facts.emplace_back("model rate",
                          fmt::format("{}/GPU, MFU {}", teraflops(p.throughput.model_flops_per_gpu),
                                      percent(p.throughput.mfu)));
  Section step;
  step.heading = "where the step goes";
  step.note = fmt::format("on the critical rank, stage {}", p.time.critical_stage);
  step.bars = time_bars(step_parts(p.time), p.time.step);
  page.sections.push_back(std::move(step));
  Section modules;
  modules.heading = "by module";
  modules.note = "exposed communication of its own included";
  modules.bars = time_bars(module_parts(p.time), p.time.step);
  page.sections.push_back(std::move(modules));
  page.sections.push_back(stage_section(p.memory));
  for (Section& section : hybrid_sections(a)) page.sections.push_back(std::move(section));
  return page;
}

Page memory_page(const Answer& a) {
  const projection::MemoryAnswer& m = a.projection->memory;
  Page page = begun(a);
  page.facts.emplace_back("band",
                          fmt::format("{} to {}", gib_text(a.projection->confidence.peak.first),
                                      gib_text(a.projection->confidence.peak.second)));
  page.sections.push_back(stage_section(m));
  Section saved;
  saved.heading = "saved for backward";
  saved.note = fmt::format("by all micro-batches in flight on stage {}", m.peak_stage);
  Bytes total;
  for (const auto& [module, bytes] : saved_parts(m)) total += bytes;
  for (const auto& [module, bytes] : saved_parts(m)) {
    const double share = bytes / total;
    saved.bars.push_back({std::string(ops::name_of(module)),
                          fmt::format("{:.3f} GiB", bytes.value / kGiB), share, percent(share)});
  }
  page.sections.push_back(std::move(saved));
  if (a.timeline != nullptr) {
    Section timeline;
    timeline.heading = "timeline";
    timeline.note = fmt::format("allocated on stage {}", a.timeline->rank);
    timeline.tables.push_back(phase_rows(*a.timeline, false));
    page.sections.push_back(std::move(timeline));
    Section top;
    top.heading = "most at the peak";
    top.note = fmt::format("of tensors on stage {}", a.timeline->rank);
    top.tables.push_back(top_rows(*a.timeline));
    page.sections.push_back(std::move(top));
    Section fragments;
    fragments.heading = "fragmentation";
    fragments.note = fmt::format("of these allocations alone, {} segments",
                                 a.timeline->expandable ? "expandable" : "fixed");
    fragments.tables.push_back(allocator_rows(*a.timeline));
    page.sections.push_back(std::move(fragments));
  }
  return page;
}

}  // namespace eratos::report
