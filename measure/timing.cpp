#include "timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "machine.h"
#include "statistics.h"

namespace eratos::device {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A sample lasts as long as this at least, so that the clock's grain (tens of ns) and the marks
// around it weigh less than a thousandth.
constexpr double kSampleS = 1e-3;
constexpr int kMostCalls = 2000;
constexpr int kLeastSamples = 5;
constexpr int kMostSamples = 60;
constexpr int kAtOnce = 5;  // samples between two looks at the clock
// A thread that shares its processor is set aside every few milliseconds, so some hundred times a
// second; one alone a few times. Source: Linux, Documentation/scheduler/sched-design-CFS, base
// slice.
constexpr double kSwitchesPerSecond = 50;

double all_of(const std::vector<std::vector<double>>& samples) {
  double sum = 0;
  for (const std::vector<double>& piece : samples) sum += piece.back();
  return sum;
}

}  // namespace

Timing time_work(Work& work, std::size_t pieces, double share_s,
                 const std::function<bool()>& stop) {
  Timing out;
  const Clock::time_point start = Clock::now();

  // Warm up until a call takes as long as the one before, or a quarter of the share has gone.
  double last = 0;
  for (int i = 0; i < 10; ++i) {
    std::vector<std::vector<double>> cold(pieces);
    work.sample(1, 1, cold);
    ++out.warm_up;
    const double now = all_of(cold);
    const bool steady = last > 0 && std::abs(now - last) <= 0.1 * last;
    last = now;
    if (stop() || (steady && out.warm_up >= 3) || since(start) > 0.25 * share_s) break;
  }
  out.calls =
      std::clamp(static_cast<int>(std::ceil(kSampleS / std::max(last, 1e-9))), 1, kMostCalls);

  out.samples.resize(pieces);
  const long switches = involuntary_switches();
  const Clock::time_point sampling = Clock::now();
  while (!stop()) {
    const int have = static_cast<int>(out.samples[0].size());
    const bool slow = last * out.calls > 0.1;
    work.sample(out.calls, slow ? 1 : kAtOnce, out.samples);
    double widest = 0;
    for (const std::vector<double>& piece : out.samples) {
      widest = std::max(widest, summarise(piece).interval);
    }
    out.narrow = widest <= kNarrow;
    const int now = static_cast<int>(out.samples[0].size());
    if (now <= have) break;
    if (now >= kMostSamples || (now >= kLeastSamples && out.narrow)) break;
    if (since(start) > share_s && (now >= kLeastSamples || since(start) > 3 * share_s)) break;
  }
  const double lasted = since(sampling);
  const double limit = 2 + kSwitchesPerSecond * lasted;
  out.disturbed = static_cast<double>(involuntary_switches() - switches) > limit;
  return out;
}

}  // namespace eratos::device
