#include "eratos/projection/step_account.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace eratos::projection {

namespace {

enum Tier : std::size_t { compute, communication, moving, kTiers };

Tier tier_of(KernelClass kind) {
  if (kind == KernelClass::communication) return communication;
  return kind == KernelClass::copy || kind == KernelClass::fill ? moving : compute;
}

struct Edge {
  Nanoseconds at = 0;
  bool begins = false;
  std::size_t kernel = 0;
};

template <class T, std::size_t N>
T sum_of(const std::array<T, N>& parts) {
  T sum = 0;
  for (const T part : parts) sum += part;
  return sum;
}

}  // namespace

std::string_view name_of(KernelClass kind) {
  constexpr std::array<std::string_view, static_cast<std::size_t>(KernelClass::count_)> kNames{
      "gemm",          "gemm_part", "attention",   "norm",      "activation", "rotary",
      "loss",          "embedding", "optimizer",   "permute",   "router",     "scan",
      "convolution",   "quantize",  "elementwise", "reduction", "random",     "unknown",
      "communication", "copy",      "fill"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name_of(IdleCause cause) {
  constexpr std::array<std::string_view, static_cast<std::size_t>(IdleCause::count_)> kNames{
      "host", "launch", "queued", "untold", "tail"};
  return kNames[static_cast<std::size_t>(cause)];
}

Nanoseconds StepAccount::busy_total() const { return sum_of(busy); }
Nanoseconds StepAccount::idle_total() const { return sum_of(idle); }

StepAccount account_of(const TracedStep& step) {
  StepAccount out;
  out.step = step.length();
  out.own.assign(step.kernels.size(), 0);
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < step.kernels.size(); ++i) {
    const TracedKernel& k = step.kernels[i];
    const Nanoseconds begin = std::max(k.start, step.begin);
    const Nanoseconds end = std::min(k.end, step.end);
    if (k.start < step.end && k.end >= step.begin) {
      ++out.kernels[static_cast<std::size_t>(k.kind)];
    }
    if (end <= begin) continue;
    edges.push_back({begin, true, i});
    edges.push_back({end, false, i});
  }
  // Ends before begins, so that one kernel after another leaves no idle time and no overlap.
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return std::tuple(a.at, a.begins, a.kernel) < std::tuple(b.at, b.begins, b.kernel);
  });

  std::array<std::set<std::pair<Nanoseconds, std::size_t>>, kTiers> running;
  const auto idle = [&](Nanoseconds from, Nanoseconds to, const TracedKernel* next) {
    const auto add = [&](IdleCause cause, Nanoseconds time) {
      out.idle[static_cast<std::size_t>(cause)] += time;
    };
    if (next == nullptr) return add(IdleCause::tail, to - from);
    if (next->launched < 0) return add(IdleCause::untold, to - from);
    if (next->launched <= from) return add(IdleCause::queued, to - from);
    const Nanoseconds launched = std::min(next->launched, to);
    add(IdleCause::host, launched - from);
    add(IdleCause::launch, to - launched);
  };
  Nanoseconds now = step.begin;
  for (const Edge& edge : edges) {
    const Nanoseconds passed = edge.at - now;
    if (passed > 0) {
      const auto first = std::find_if(running.begin(), running.end(),
                                      [](const auto& set) { return !set.empty(); });
      if (first == running.end()) {
        idle(now, edge.at, &step.kernels[edge.kernel]);
      } else {
        const std::size_t kernel = first->begin()->second;
        out.own[kernel] += passed;
        out.busy[static_cast<std::size_t>(step.kernels[kernel].kind)] += passed;
        if (first == running.begin() && !running[communication].empty()) out.hidden += passed;
      }
      now = edge.at;
    }
    const TracedKernel& k = step.kernels[edge.kernel];
    const std::pair<Nanoseconds, std::size_t> place{k.start, edge.kernel};
    if (edge.begins) {
      running[tier_of(k.kind)].insert(place);
    } else {
      running[tier_of(k.kind)].erase(place);
    }
  }
  if (step.end > now) idle(now, step.end, nullptr);
  return out;
}

}  // namespace eratos::projection
