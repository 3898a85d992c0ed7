#include "eratos/reader/kineto_links.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "eratos/reader/pattern_table.h"

namespace eratos::reader {

namespace {

using projection::KernelClass;
using projection::Nanoseconds;
using projection::TracedKernel;
using projection::TracedStep;

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

}  // namespace

// Ties what the second reading kept together.
class StepLinks::Linker {
 public:
  Linker(StepEvents& kept, TracedStep& step)
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

  StepEvents& kept_;
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

StepLinks::StepLinks(StepEvents& events, TracedStep& step)
    : linker_(std::make_unique<Linker>(events, step)) {}
StepLinks::~StepLinks() = default;
Nanoseconds StepLinks::launched(const TraceEvent& kernel) const {
  return linker_->launched(kernel);
}
std::int64_t StepLinks::busiest_stream() { return linker_->busiest_stream(); }
void StepLinks::add(const TraceEvent& kernel) { linker_->add(kernel); }

}  // namespace eratos::reader
