#include "eratos/reader/kineto.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "eratos/reader/kineto_links.h"

namespace eratos::reader {

namespace {

using projection::Nanoseconds;
using projection::StepWindow;
using projection::TracedStep;

constexpr std::string_view kStep = "ProfilerStep#";
constexpr std::size_t kMostSteps = 1'000'000;

std::optional<std::int64_t> step_number(std::string_view name) {
  if (name.substr(0, kStep.size()) != kStep) return std::nullopt;
  std::int64_t number = 0;
  const char* begin = name.data() + kStep.size();
  const char* end = name.data() + name.size();
  const auto [last, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || last != end) return std::nullopt;
  return number;
}

struct Span {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
};

// What the first reading finds.
struct Survey {
  TraceHeader header;
  std::map<std::int64_t, Span> steps;        // by number; the first of each
  std::map<std::int64_t, Nanoseconds> busy;  // of each device: sum of its kernels
  std::map<std::int64_t, Span> extent;       // of its kernels
  std::uint64_t kernels = 0;
  std::uint64_t repeated_steps = 0;
};

Result<Survey> survey(const OpenTrace& open, const std::string& file, const TraceLimits& limits) {
  Survey out;
  auto source = open();
  if (!source) return faults(source.error());
  const auto header = read_events(**source, file, limits, [&](const TraceEvent& e) {
    if (!e.timed) return;
    if (e.kind == EventKind::annotation) {
      const auto number = step_number(e.name);
      if (!number || out.steps.size() >= kMostSteps) return;
      if (!out.steps.emplace(*number, Span{e.start, e.end}).second) ++out.repeated_steps;
    }
    if (!e.on_device()) return;
    if (e.kind == EventKind::kernel) ++out.kernels;
    if (out.busy.size() >= 4096 && out.busy.count(e.device) == 0) return;
    out.busy[e.device] += e.end - e.start;
    const auto [at, fresh] = out.extent.emplace(e.device, Span{e.start, e.end});
    if (!fresh) {
      at->second.begin = std::min(at->second.begin, e.start);
      at->second.end = std::max(at->second.end, e.end);
    }
  });
  if (!header) return faults(header.error());
  out.header = *header;
  if (out.kernels == 0) {
    return fault({{file, 0, 0},
                  fmt::format("{} events, and no kernel of a device among them", out.header.events),
                  out.header.events == 0
                      ? "is this a trace of the PyTorch profiler?"
                      : "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
                  {}});
  }
  return out;
}

std::string steps_text(const std::map<std::int64_t, Span>& steps) {
  std::string out;
  std::size_t shown = 0;
  for (const auto& [number, span] : steps) {
    if (++shown > 20) return out + ", ...";
    out += (out.empty() ? "" : ", ") + std::to_string(number);
  }
  return out;
}

// The step to look at, its annotation, and that of the next one.
struct Chosen {
  std::int64_t number = -1;
  Span span;
  std::optional<Span> next;
};

Result<Chosen> choose(const Survey& s, const std::string& file, const TraceOptions& options,
                      std::int64_t device) {
  Chosen out;
  if (s.steps.empty()) {
    if (options.step) {
      return fault({{file, 0, 0},
                    "the trace has no steps",
                    "leave --step out to take all of it; torch.profiler marks steps where "
                    "prof.step() is called",
                    {}});
    }
    out.span = s.extent.at(device);
    return out;
  }
  const auto with_next = [&](std::map<std::int64_t, Span>::const_iterator at) {
    Chosen chosen{at->first, at->second, std::nullopt};
    const auto next = std::next(at);
    if (next != s.steps.end() && next->first == at->first + 1 &&
        next->second.begin >= at->second.begin) {
      chosen.next = next->second;
    }
    return chosen;
  };
  if (options.step) {
    const auto at = s.steps.find(*options.step);
    if (at == s.steps.end()) {
      return fault({{file, 0, 0},
                    fmt::format("the trace has no step {}", *options.step),
                    "its steps are " + steps_text(s.steps),
                    {}});
    }
    return with_next(at);
  }
  // By length, then by number; the last step of several is often not whole.
  std::vector<std::pair<Nanoseconds, std::int64_t>> lengths;
  for (auto at = s.steps.begin(); at != s.steps.end(); ++at) {
    if (std::next(at) == s.steps.end() && s.steps.size() > 1) continue;
    lengths.emplace_back(at->second.end - at->second.begin, at->first);
  }
  std::sort(lengths.begin(), lengths.end());
  return with_next(s.steps.find(lengths[(lengths.size() - 1) / 2].second));
}

bool launches(std::string_view name) {
  const auto has = [&](std::string_view word) { return name.find(word) != std::string_view::npos; };
  return has("aunch") || has("emcpy") || has("emset");
}

Result<StepEvents> keep(const OpenTrace& open, const std::string& file, const TraceOptions& options,
                        const Chosen& chosen, std::int64_t device) {
  StepEvents out;
  bool too_many = false;
  // Kernels of a step may run when the host is a step ahead of them; of a short trace, whose
  // launches all fit into the device's queue, even later. What is later still is kept while it is
  // little.
  constexpr std::size_t kMostLate = 500'000;
  std::vector<TraceEvent> late;
  bool keep_late = true;
  const Nanoseconds length = std::max<Nanoseconds>(chosen.span.end - chosen.span.begin, 1);
  const Nanoseconds first = chosen.span.begin;
  const Nanoseconds last =
      (chosen.next ? chosen.next->end : chosen.span.end) + (chosen.number >= 0 ? 2 * length : 0);
  auto source = open();
  if (!source) return faults(source.error());
  const auto read = read_events(**source, file, options.limits, [&](const TraceEvent& e) {
    if (!e.timed || too_many) return;
    // Without steps what launched the first kernel lies before it.
    const bool near = e.end >= first && e.start <= last;
    if (e.on_device()) {
      if (e.device != device) return;
      if (near) {
        out.device.push_back(e);
      } else if (keep_late && e.start > last) {
        late.push_back(e);
        keep_late = late.size() <= kMostLate;
        if (!keep_late) late = {};
      }
    } else if (chosen.number < 0 || near) {
      if (e.kind == EventKind::runtime && e.correlation >= 0 && launches(e.name)) {
        out.runtime.push_back(e);
      }
      if (e.kind == EventKind::host_op) out.ops.push_back(e);
      const bool module = e.kind == EventKind::python && e.name.substr(0, 10) == "nn.Module:";
      const bool note = e.kind == EventKind::annotation && !step_number(e.name);
      if (module || note) out.spans.push_back(e);
    }
    too_many = out.size() > options.limits.step_events;
  });
  if (!read) return faults(read.error());
  out.device.insert(out.device.end(), late.begin(), late.end());
  if (too_many) {
    return fault({{file, 0, 0},
                  fmt::format("a step of more than {} events", options.limits.step_events),
                  "record fewer steps, or without Python stacks (with_stack=False)",
                  {}});
  }
  return out;
}

void add_note(std::vector<std::string>& notes, std::uint64_t count, const char* what) {
  if (count > 0) notes.push_back(fmt::format("{} {}", count, what));
}

}  // namespace

Result<TracedStep> read_trace_step(const OpenTrace& open, const std::string& file,
                                   const TraceOptions& options) {
  const auto found = survey(open, file, options.limits);
  if (!found) return faults(found.error());
  TracedStep step;
  step.file = file;
  // The busiest device; of several the lowest number.
  for (const auto& [device, busy] : found->busy) {
    if (found->busy.count(step.device_id) == 0 || busy > found->busy.at(step.device_id)) {
      step.device_id = device;
    }
  }
  if (options.device) step.device_id = *options.device;
  if (found->busy.count(step.device_id) == 0) {
    std::string known;
    for (const auto& [device, busy] : found->busy) {
      known += (known.empty() ? "" : ", ") + std::to_string(device);
    }
    return fault({{file, 0, 0},
                  fmt::format("no kernel of device {}", step.device_id),
                  "the trace has kernels of device " + known,
                  {}});
  }
  for (const auto& [id, name] : found->header.devices) {
    if (id == step.device_id) step.device = name;
  }
  step.rank = static_cast<int>(std::clamp<std::int64_t>(found->header.rank, -1, 1'000'000'000));
  step.world = static_cast<int>(std::clamp<std::int64_t>(found->header.world, 0, 1'000'000'000));
  for (const auto& [number, span] : found->steps) step.steps.push_back(number);
  add_note(step.notes, found->header.untimed, "events without a time");
  add_note(step.notes, found->header.negative, "events of a negative length");
  add_note(step.notes, found->repeated_steps, "steps whose number is there already");

  const auto chosen = choose(*found, file, options, step.device_id);
  if (!chosen) return faults(chosen.error());
  step.number = chosen->number;
  auto kept = keep(open, file, options, *chosen, step.device_id);
  if (!kept) return faults(kept.error());
  std::sort(kept->device.begin(), kept->device.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return std::tuple(a.start, a.end, a.stream, a.correlation, a.name) <
           std::tuple(b.start, b.end, b.stream, b.correlation, b.name);
  });
  StepLinks linker(*kept, step);

  step.begin = chosen->span.begin;
  step.end = chosen->span.end;
  step.window = chosen->number < 0 ? StepWindow::whole : StepWindow::host;
  if (chosen->number >= 0) {
    // Streams of communication begin early and wait: the step turns where the busiest of the others
    // does.
    const std::int64_t main = linker.busiest_stream();
    std::optional<Nanoseconds> first;
    std::optional<Nanoseconds> first_of_next;
    Nanoseconds last = step.end;
    for (const TraceEvent& e : kept->device) {
      const Nanoseconds launched = linker.launched(e);
      if (launched < 0) continue;
      if (launched >= chosen->span.begin && launched < chosen->span.end) {
        if (!first && e.stream == main) first = e.start;
        last = std::max(last, e.end);
      }
      if (chosen->next && e.stream == main && launched >= chosen->next->begin &&
          launched < chosen->next->end && !first_of_next) {
        first_of_next = e.start;
      }
    }
    if (first && first_of_next && *first_of_next > *first) {
      step.window = StepWindow::device;
      step.begin = *first;
      step.end = *first_of_next;
    } else {
      step.end = last;
    }
  }
  for (const TraceEvent& e : kept->device) {
    if (e.start >= step.end || e.end <= step.begin) continue;
    linker.add(e);
  }
  if (step.kernels.empty() || step.length() <= 0) {
    return fault({{file, 0, 0},
                  step.number < 0 ? std::string("its kernels take no time")
                                  : fmt::format("no kernel ran during step {}", step.number),
                  found->steps.size() > 1
                      ? "choose another with --step: " + steps_text(found->steps)
                      : "record a step in which the accelerator works",
                  {}});
  }
  return step;
}

}  // namespace eratos::reader
