#include "eratos/reader/kineto.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "eratos/reader/pattern_table.h"

namespace eratos::reader {

namespace {

using projection::KernelClass;
using projection::Nanoseconds;
using projection::StepWindow;
using projection::TracedKernel;
using projection::TracedOp;
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

// The second reading keeps what may belong to the step.
struct Kept {
  std::vector<TraceEvent> device;  // kernels, copies, fills
  std::vector<TraceEvent> runtime;
  std::vector<TraceEvent> ops;
  std::vector<TraceEvent> spans;  // modules and annotations
  std::size_t size() const { return device.size() + runtime.size() + ops.size() + spans.size(); }
};

bool launches(std::string_view name) {
  const auto has = [&](std::string_view word) { return name.find(word) != std::string_view::npos; };
  return has("aunch") || has("emcpy") || has("emset");
}

Result<Kept> keep(const OpenTrace& open, const std::string& file, const TraceOptions& options,
                  const Chosen& chosen, std::int64_t device) {
  Kept out;
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

// Spans of each thread that hold one another, as trees.
class Nest {
 public:
  explicit Nest(std::vector<TraceEvent>& events) : events_(events) {
    std::sort(events_.begin(), events_.end(), [](const TraceEvent& a, const TraceEvent& b) {
      return std::tuple(a.process, a.thread, a.start, -a.end, a.external, a.name) <
             std::tuple(b.process, b.thread, b.start, -b.end, b.external, b.name);
    });
    parent_.assign(events_.size(), -1);
    std::vector<int> open;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const bool same = i > 0 && on_one_thread(events_[i], events_[i - 1]);
      if (!same) {
        open.clear();
        thread_begins_[{events_[i].process, events_[i].thread}] = i;
      }
      while (!open.empty() &&
             events_[static_cast<std::size_t>(open.back())].end <= events_[i].start &&
             events_[static_cast<std::size_t>(open.back())].end < events_[i].end) {
        open.pop_back();
      }
      if (!open.empty()) parent_[i] = open.back();
      open.push_back(static_cast<int>(i));
    }
  }

  int parent(int i) const { return parent_[static_cast<std::size_t>(i)]; }

  // The innermost span of a thread around a moment; -1: none.
  int around(std::int64_t process, std::int64_t thread, Nanoseconds moment) const {
    const auto begins = thread_begins_.find({process, thread});
    if (begins == thread_begins_.end()) return -1;
    const auto first = events_.begin() + static_cast<std::ptrdiff_t>(begins->second);
    const auto after = std::partition_point(first, events_.end(), [&](const TraceEvent& e) {
      return e.process == process && e.thread == thread && e.start <= moment;
    });
    if (after == first) return -1;
    int at = static_cast<int>(after - events_.begin()) - 1;
    while (at >= 0 && events_[static_cast<std::size_t>(at)].end < moment) at = parent(at);
    return at;
  }

 private:
  static bool on_one_thread(const TraceEvent& a, const TraceEvent& b) {
    return a.process == b.process && a.thread == b.thread;
  }
  std::vector<TraceEvent>& events_;
  std::vector<int> parent_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> thread_begins_;
};

bool is_backward(std::string_view name) {
  return name.substr(0, 18) == "autograd::engine::" ||
         name.find("Backward") != std::string_view::npos;
}

// What a kernel's name says it is: the first pattern that meets it.
class Classes {
 public:
  KernelClass of(const TraceEvent& e) {
    if (e.kind == EventKind::copy) return KernelClass::copy;
    if (e.kind == EventKind::fill) return KernelClass::fill;
    const auto known = known_.find(e.name);
    if (known != known_.end()) return known->second;
    KernelClass kind = KernelClass::unknown;
    if (const auto row = table_.find(e.name)) {
      const std::string_view word = table_.cell(*row, "class");
      for (std::size_t i = 0; i < static_cast<std::size_t>(KernelClass::count_); ++i) {
        if (projection::name_of(static_cast<KernelClass>(i)) == word) {
          kind = static_cast<KernelClass>(i);
        }
      }
    }
    return known_.emplace(e.name, kind).first->second;
  }

 private:
  const PatternTable table_{"kernel_classes"};
  std::unordered_map<std::string, KernelClass> known_;
};

struct CollectiveName {
  std::string_view word;
  ops::CollectiveKind kind;
};
// In lower case without underscores; the longer words first.
// Source: pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp; NVIDIA/nccl src/device.
constexpr CollectiveName kCollectives[] = {{"reducescatter", ops::CollectiveKind::reduce_scatter},
                                           {"allreduce", ops::CollectiveKind::all_reduce},
                                           {"allgather", ops::CollectiveKind::all_gather},
                                           {"alltoall", ops::CollectiveKind::all_to_all},
                                           {"sendrecv", ops::CollectiveKind::send_recv},
                                           {"send", ops::CollectiveKind::send_recv},
                                           {"recv", ops::CollectiveKind::send_recv}};

std::optional<ops::CollectiveKind> collective_in(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const CollectiveName& known : kCollectives) {
    if (plain.find(known.word) != std::string::npos) return known.kind;
  }
  return std::nullopt;
}

double element_bytes(std::string_view dtype) {
  constexpr std::pair<std::string_view, double> kSizes[] = {
      {"BFloat16", 2}, {"Half", 2}, {"Float8", 1}, {"Float", 4}, {"Double", 8},
      {"Long", 8},     {"Int", 4},  {"Byte", 1},   {"Char", 1},  {"Bool", 1}};
  const std::size_t colon = dtype.rfind(':');
  if (colon != std::string_view::npos) dtype = dtype.substr(colon + 1);
  for (const auto& [name, bytes] : kSizes) {
    if (dtype.substr(0, name.size()) == name) return bytes;
  }
  return 0;
}

void read_message(const TraceEvent& from, projection::TracedMessage& out) {
  if (const auto kind = collective_in(from.collective)) {
    out.known = true;
    out.kind = *kind;
  }
  const double elements = std::max(from.in_elements, from.out_elements);
  if (elements > 0) out.bytes = elements * element_bytes(from.dtype);
  if (from.group_size > 0) out.ranks = static_cast<int>(std::min(from.group_size, 1e9));
}

// Ties what the second reading kept together.
class Linker {
 public:
  Linker(Kept& kept, TracedStep& step)
      : kept_(kept), step_(step), ops_(kept.ops), spans_(kept.spans) {
    for (std::size_t i = 0; i < kept_.runtime.size(); ++i) {
      calls_[kept_.runtime[i].correlation].push_back(i);
    }
    for (std::size_t i = 0; i < kept_.ops.size(); ++i) {
      const TraceEvent& op = kept_.ops[i];
      if (op.external >= 0) by_external_.emplace(op.external, static_cast<int>(i));
      if (op.sequence >= 0 && !backward(static_cast<int>(i))) {
        // The last and so innermost of a sequence number: what made the autograd node.
        forward_[op.sequence] = static_cast<int>(i);
      }
    }
  }

  // Start of the host's call that launched it, or -1.
  Nanoseconds launched(const TraceEvent& kernel) const {
    const TraceEvent* call = call_of(kernel);
    return call == nullptr ? -1 : call->start;
  }

  // Of compute kernels; of several the lowest number.
  std::int64_t busiest_stream() {
    std::map<std::int64_t, Nanoseconds> busy;
    for (const TraceEvent& e : kept_.device) {
      if (classes_.of(e) < KernelClass::communication) busy[e.stream] += e.end - e.start;
    }
    std::int64_t best = -1;
    for (const auto& [stream, time] : busy) {
      if (best < 0 || time > busy.at(best)) best = stream;
    }
    return best;
  }

  void add(const TraceEvent& e) {
    TracedKernel& k = step_.kernels.emplace_back();
    k.name = e.name;
    k.kind = classes_.of(e);
    k.start = e.start;
    k.end = e.end;
    k.stream = e.stream;
    const TraceEvent* call = call_of(e);
    int op = -1;
    int span = -1;
    if (call != nullptr) {
      k.launched = call->start;
      op = ops_.around(call->process, call->thread, call->start);
      span = spans_.around(call->process, call->thread, call->start);
    }
    if (op < 0 && e.external >= 0) {
      const auto at = by_external_.find(e.external);
      if (at != by_external_.end()) op = at->second;
    }
    if (op >= 0) k.backward = backward(op);
    k.op = op_at(op);
    k.module = module_of(op, span, k.backward);
    if (k.kind == KernelClass::communication) message(e, op, k);
  }

 private:
  const TraceEvent* call_of(const TraceEvent& kernel) const {
    if (kernel.correlation < 0) return nullptr;
    const auto at = calls_.find(kernel.correlation);
    if (at == calls_.end()) return nullptr;
    const TraceEvent* best = nullptr;
    for (const std::size_t i : at->second) {
      const TraceEvent& call = kept_.runtime[i];
      if (call.start <= kernel.start && (best == nullptr || call.start > best->start)) best = &call;
    }
    return best;
  }

  bool backward(int op) const {
    for (int at = op; at >= 0; at = ops_.parent(at)) {
      if (is_backward(kept_.ops[static_cast<std::size_t>(at)].name)) return true;
    }
    return false;
  }

  // The op and those around it in the step's own list.
  int op_at(int op) {
    if (op < 0) return -1;
    const auto known = op_index_.find(op);
    if (known != op_index_.end()) return known->second;
    const int parent = op_at_parent(op);
    const TraceEvent& e = kept_.ops[static_cast<std::size_t>(op)];
    const int index = static_cast<int>(step_.ops.size());
    step_.ops.push_back({e.name, parent, backward(op), e.dims, e.types});
    step_.shapes = step_.shapes || std::any_of(e.dims.begin(), e.dims.end(),
                                               [](const auto& d) { return !d.empty(); });
    op_index_.emplace(op, index);
    return index;
  }
  // Without recursion, for a file may nest as deep as it likes: outermost first.
  int op_at_parent(int op) {
    std::vector<int> chain;
    for (int at = ops_.parent(op); at >= 0 && op_index_.count(at) == 0; at = ops_.parent(at)) {
      chain.push_back(at);
    }
    int parent = -1;
    if (!chain.empty()) {
      const int above = ops_.parent(chain.back());
      if (above >= 0) parent = op_index_.at(above);
    } else if (ops_.parent(op) >= 0) {
      return op_index_.at(ops_.parent(op));
    }
    for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
      const TraceEvent& e = kept_.ops[static_cast<std::size_t>(*at)];
      const int index = static_cast<int>(step_.ops.size());
      step_.ops.push_back({e.name, parent, backward(*at), e.dims, e.types});
      op_index_.emplace(*at, index);
      parent = index;
    }
    return parent;
  }

  // The group of the nearest module around that has one; of a backward, around its forward op.
  int module_of(int op, int span, bool is_backward_op) {
    if (is_backward_op) {
      for (int at = op; at >= 0; at = ops_.parent(at)) {
        const TraceEvent& e = kept_.ops[static_cast<std::size_t>(at)];
        const auto made = e.sequence >= 0 ? forward_.find(e.sequence) : forward_.end();
        if (made == forward_.end()) continue;
        const TraceEvent& f = kept_.ops[static_cast<std::size_t>(made->second)];
        span = spans_.around(f.process, f.thread, f.start);
        break;
      }
    }
    for (int at = span; at >= 0; at = spans_.parent(at)) {
      const std::string& name = kept_.spans[static_cast<std::size_t>(at)].name;
      if (const auto row = modules_.find(name)) {
        return module_called(std::string(modules_.cell(*row, "group")));
      }
    }
    return -1;
  }

  int module_called(const std::string& group) {
    const auto at = std::find(step_.modules.begin(), step_.modules.end(), group);
    if (at != step_.modules.end()) return static_cast<int>(at - step_.modules.begin());
    step_.modules.push_back(group);
    return static_cast<int>(step_.modules.size()) - 1;
  }

  // From the kernel's own record, else from the ops around its launch, else from its name.
  void message(const TraceEvent& e, int op, TracedKernel& k) const {
    read_message(e, k.message);
    for (int at = op; at >= 0 && (!k.message.known || k.message.bytes <= 0); at = ops_.parent(at)) {
      const TraceEvent& around = kept_.ops[static_cast<std::size_t>(at)];
      if (!around.collective.empty()) read_message(around, k.message);
      if (!k.message.known && around.name.find("ccl:") != std::string::npos) {
        if (const auto kind = collective_in(around.name)) {
          k.message.known = true;
          k.message.kind = *kind;
        }
      }
    }
    if (k.message.known) return;
    if (const auto kind = collective_in(e.name)) {
      k.message.known = true;
      k.message.kind = *kind;
    }
  }

  Kept& kept_;
  TracedStep& step_;
  Nest ops_;
  Nest spans_;
  Classes classes_;
  const PatternTable modules_{"trace_modules"};
  std::unordered_map<std::int64_t, std::vector<std::size_t>> calls_;
  std::unordered_map<std::int64_t, int> by_external_;
  std::unordered_map<std::int64_t, int> forward_;
  std::unordered_map<int, int> op_index_;
};

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
  Linker linker(*kept, step);

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
