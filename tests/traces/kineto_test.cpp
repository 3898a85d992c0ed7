// One step out of a trace: what belongs to it, who launched it, and files that are no traces.
#include "eratos/reader/kineto.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "eratos/base/rng.h"
#include "eratos/projection/step_account.h"
#include "traces/trace_text.h"

namespace eratos::reader {
namespace {

using projection::IdleCause;
using projection::KernelClass;
using projection::StepAccount;
using projection::StepWindow;
using projection::TracedStep;

void expect_adds_up(const TracedStep& step) {
  const StepAccount a = projection::account_of(step);
  EXPECT_EQ(a.step, step.end - step.begin);
  EXPECT_EQ(a.busy_total() + a.idle_total(), a.step);
  EXPECT_EQ(std::accumulate(a.own.begin(), a.own.end(), projection::Nanoseconds{0}),
            a.busy_total());
}

TEST(Kineto, TakesTheMedianStepByTheDevicesWindow) {
  const auto step = read_text(three_steps());
  ASSERT_TRUE(step) << step.error().front().message;
  EXPECT_EQ(step->number, 1);  // of steps 1 and 2, both whole and of one length, the first
  EXPECT_EQ(step->window, StepWindow::device);
  EXPECT_EQ(step->begin, 114'000);
  EXPECT_EQ(step->end, 214'000);
  EXPECT_EQ(step->device, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(step->rank, 3);
  EXPECT_EQ(step->world, 8);
  EXPECT_TRUE(step->shapes);
  ASSERT_EQ(step->kernels.size(), 3U);
  expect_adds_up(*step);
}

TEST(Kineto, TheLastStepEndsWithItsLastKernelOrTheHost) {
  TraceOptions options;
  options.step = 3;
  const auto step = read_text(three_steps(), options);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->window, StepWindow::host);
  EXPECT_EQ(step->begin, 300'000);
  EXPECT_EQ(step->end, 400'000);
  expect_adds_up(*step);
}

TEST(Kineto, TiesKernelsToOpsModulesAndMessages) {
  const auto step = read_text(three_steps());
  ASSERT_TRUE(step);
  const auto& forward = step->kernels[0];
  EXPECT_EQ(forward.kind, KernelClass::gemm);
  EXPECT_EQ(forward.launched, 104'000);
  EXPECT_FALSE(forward.backward);
  ASSERT_GE(forward.op, 0);
  const auto& op = step->ops[static_cast<std::size_t>(forward.op)];
  EXPECT_EQ(op.name, "aten::mm");
  EXPECT_EQ(op.dims, (std::vector<std::vector<double>>{{8, 4}, {4, 6}}));
  ASSERT_GE(op.parent, 0);
  EXPECT_EQ(step->ops[static_cast<std::size_t>(op.parent)].name, "aten::linear");
  const auto& backward = step->kernels[1];
  EXPECT_TRUE(backward.backward);
  // By the sequence number of the forward op, whose Python ran on another thread.
  ASSERT_EQ(step->modules, std::vector<std::string>{"attention"});
  EXPECT_EQ(forward.module, 0);
  EXPECT_EQ(backward.module, 0);
  const auto& message = step->kernels[2].message;
  EXPECT_TRUE(message.known);
  EXPECT_EQ(message.kind, ops::CollectiveKind::all_reduce);
  EXPECT_EQ(message.bytes, 48);
  EXPECT_EQ(message.ranks, 8);
}

TEST(Kineto, HandWorkedAccount) {
  const auto step = read_text(three_steps());
  ASSERT_TRUE(step);
  const StepAccount a = projection::account_of(*step);
  // 114 to 134 product, 154 to 164 product, 160 to 174 all-reduce, idle to 214.
  EXPECT_EQ(a.busy[static_cast<std::size_t>(KernelClass::gemm)], 30'000);
  EXPECT_EQ(a.busy[static_cast<std::size_t>(KernelClass::communication)], 10'000);
  EXPECT_EQ(a.hidden, 4'000);
  // Launched at 133: before the device went idle at 134.
  EXPECT_EQ(a.idle[static_cast<std::size_t>(IdleCause::queued)], 20'000);
  EXPECT_EQ(a.idle[static_cast<std::size_t>(IdleCause::tail)], 40'000);
}

TEST(Account, HandWorkedExampleOfTheHeader) {
  TracedStep step;
  step.end = 100;
  step.kernels = {
      {.name = "g", .kind = KernelClass::gemm, .start = 10, .end = 40, .launched = 2},
      {.name = "n", .kind = KernelClass::communication, .start = 30, .end = 70, .launched = 5}};
  const StepAccount a = projection::account_of(step);
  EXPECT_EQ(a.busy[static_cast<std::size_t>(KernelClass::gemm)], 30);
  EXPECT_EQ(a.busy[static_cast<std::size_t>(KernelClass::communication)], 30);
  EXPECT_EQ(a.idle[static_cast<std::size_t>(IdleCause::host)], 2);
  EXPECT_EQ(a.idle[static_cast<std::size_t>(IdleCause::launch)], 8);
  EXPECT_EQ(a.idle[static_cast<std::size_t>(IdleCause::tail)], 30);
  EXPECT_EQ(a.hidden, 10);
}

TEST(Account, EveryNanosecondIsInOneClass) {
  Rng rng(7);
  for (int round = 0; round < 400; ++round) {
    TracedStep step;
    step.begin = 1000;
    step.end = step.begin + 1 + static_cast<std::int64_t>(rng.below(3000));
    const std::size_t n = rng.below(40);
    // The obvious way beside it: one nanosecond after the other.
    for (std::size_t i = 0; i < n; ++i) {
      projection::TracedKernel k;
      k.kind = static_cast<KernelClass>(rng.below(static_cast<std::size_t>(KernelClass::count_)));
      k.start = 500 + static_cast<std::int64_t>(rng.below(4000));
      k.end = k.start + static_cast<std::int64_t>(rng.below(300));
      k.launched = rng.below(3) == 0 ? -1 : k.start - static_cast<std::int64_t>(rng.below(400));
      step.kernels.push_back(k);
    }
    expect_adds_up(step);
    projection::Nanoseconds busy = 0;
    for (projection::Nanoseconds t = step.begin; t < step.end; ++t) {
      bool any = false;
      for (const auto& k : step.kernels) any = any || (k.start <= t && t < k.end);
      busy += any ? 1 : 0;
    }
    ASSERT_EQ(projection::account_of(step).busy_total(), busy) << "round " << round;
  }
}

TEST(Kineto, ATraceWithoutStepsIsOneWindow) {
  std::string text = three_steps();
  for (std::size_t at = text.find("ProfilerStep"); at != std::string::npos;
       at = text.find("ProfilerStep")) {
    text[at] = 'p';
  }
  const auto step = read_text(text);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->window, StepWindow::whole);
  EXPECT_EQ(step->begin, 114'000);
  EXPECT_EQ(step->end, 374'000);
  EXPECT_EQ(step->kernels.size(), 9U);
  TraceOptions options;
  options.step = 1;
  const auto asked = read_text(text, options);
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().front().message, "the trace has no steps");
}

TEST(Kineto, ReadsTheListOfTheOlderProfiler) {
  const auto step = read_text(
      R"([{"name": "aten::mm", "ph": "X", "ts": 1.5, "dur": 9, "tid": 1, "pid": "CPU functions",
           "args": {}},
          {"name": "aten::mm", "ph": "X", "ts": 4.25, "dur": 2.5, "tid": 7, "pid": "CUDA functions",
           "args": {}}])");
  ASSERT_TRUE(step) << step.error().front().message;
  ASSERT_EQ(step->kernels.size(), 1U);
  EXPECT_EQ(step->kernels[0].start, 4250);
  EXPECT_EQ(step->kernels[0].end, 6750);
  EXPECT_EQ(step->kernels[0].launched, -1);
}

TEST(Kineto, LargeTimesStayWholeNanoseconds) {
  const auto step = read_text(trace_of(
      R"({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7,
          "ts": 1695835542514261.123, "dur": 0.877},)"));
  ASSERT_TRUE(step);
  EXPECT_EQ(step->begin, 1695835542514261123);
  EXPECT_EQ(step->length(), 877);
}

TEST(Kineto, UnsortedEventsRepeatedIdsAndOverlappingStepsAreRead) {
  // The same events backwards give the same step.
  const std::string text = three_steps();
  std::vector<std::string> lines;
  const std::size_t begin = text.find("{\"ph\"");
  const std::size_t end = text.find("{\"ph\": \"i\"");
  for (std::size_t at = begin; at < end;) {
    const std::size_t next = text.find('\n', at) + 1;
    lines.push_back(text.substr(at, next - at));
    at = next;
  }
  std::string reversed = text.substr(0, begin);
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) reversed += *line;
  reversed += text.substr(end);
  const auto a = read_text(text);
  const auto b = read_text(reversed);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->begin, b->begin);
  EXPECT_EQ(a->end, b->end);
  ASSERT_EQ(a->kernels.size(), b->kernels.size());
  for (std::size_t i = 0; i < a->kernels.size(); ++i) {
    EXPECT_EQ(a->kernels[i].launched, b->kernels[i].launched);
    EXPECT_EQ(a->kernels[i].backward, b->kernels[i].backward);
  }
  // A correlation id twice: the later call before the kernel counts.
  const auto twice = read_text(
      trace_of(event("cuda_runtime", "cudaLaunchKernel", 1, 1, 1, R"("correlation": 5)") +
               event("cuda_runtime", "cudaLaunchKernel", 3, 1, 1, R"("correlation": 5)") +
               event("cuda_runtime", "cudaLaunchKernel", 30, 1, 1, R"("correlation": 5)") +
               event("kernel", "k", 10, 5, 7, R"("correlation": 5)")));
  ASSERT_TRUE(twice);
  EXPECT_EQ(twice->kernels[0].launched, 3000);
  // Steps that overlap, and one number twice.
  const auto overlap = read_text(trace_of(event("user_annotation", "ProfilerStep#1", 0, 50, 1) +
                                          event("user_annotation", "ProfilerStep#1", 10, 50, 1) +
                                          event("user_annotation", "ProfilerStep#2", 20, 60, 1) +
                                          event("kernel", "k", 30, 5, 7)));
  ASSERT_TRUE(overlap);
  expect_adds_up(*overlap);
  EXPECT_EQ(overlap->notes, std::vector<std::string>{"1 steps whose number is there already"});
}

TEST(Kineto, EventsWithoutATimeAreCountedAndLeftOut) {
  const auto step =
      read_text(trace_of(event("kernel", "k", 10, 5, 7) + event("kernel", "k", 20, -5, 7) +
                         R"({"ph": "X", "cat": "kernel", "name": "k", "pid": 0},)"));
  ASSERT_TRUE(step);
  EXPECT_EQ(step->kernels.size(), 1U);
  EXPECT_EQ(step->notes,
            (std::vector<std::string>{"1 events without a time", "1 events of a negative length"}));
}

std::string message_of(const std::string& text, TraceOptions options = {}) {
  const auto read = read_text(text, options);
  if (read) return "";
  return read.error().front().message;
}

TEST(Foreign, EachKindSaysWhatItIs) {
  EXPECT_EQ(message_of(""), "is empty");
  EXPECT_EQ(message_of("{\"model\": 1}"), "JSON, but no trace: it has no `traceEvents`");
  EXPECT_EQ(message_of("17"), "JSON, but no trace: it has no `traceEvents`");
  EXPECT_EQ(message_of("model: llama"), "not JSON at byte 1: `m`");
  EXPECT_EQ(message_of("{\"traceEvents\": []}"), "0 events, and no kernel of a device among them");
  EXPECT_EQ(message_of(trace_of(event("cpu_op", "aten::mm", 1, 2, 1))),
            "2 events, and no kernel of a device among them");
  EXPECT_EQ(message_of(three_steps(), {.step = 9}), "the trace has no step 9");
  EXPECT_EQ(message_of(three_steps(), {.device = 5}), "no kernel of device 5");
}

TEST(Foreign, LimitsHold) {
  TraceOptions options;
  options.limits.bytes = 500;
  EXPECT_EQ(message_of(three_steps(), options), "larger than 500 bytes");
  options.limits = {};
  options.limits.value_bytes = 1000;
  EXPECT_EQ(
      message_of("{\"traceEvents\": [{\"name\": \"" + std::string(5000, 'x') + "\"}]}", options),
      "a value of more than 1000 bytes");
  EXPECT_EQ(message_of(std::string(100, '[')), "nested deeper than 64 levels");
  EXPECT_EQ(message_of(std::string(3'000'000, '[')), "nested deeper than 64 levels");
  options.limits = {};
  options.limits.step_events = 5;
  EXPECT_EQ(message_of(three_steps(), options), "a step of more than 5 events");
}

TEST(Fuzz, CutAnywhereIsAFaultWithItsPlace) {
  const std::string text = three_steps();
  for (std::size_t n = 1; n < text.size(); n += 7) {
    const auto read = read_text(text.substr(0, n));
    ASSERT_FALSE(read) << n;
    const Diagnostic& d = read.error().front();
    ASSERT_GT(d.where.line, 0) << n;
    ASSERT_NE(d.message.find("ends after " + std::to_string(n) + " bytes"), std::string::npos)
        << n << ": " << d.message;
  }
}

TEST(Fuzz, DamagedBytesNeverBreakTheSum) {
  const std::string text = three_steps();
  Rng rng(11);
  int read_whole = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string damaged = text;
    const std::size_t changes = 1 + rng.below(4);
    for (std::size_t i = 0; i < changes; ++i) {
      const std::size_t at = rng.below(damaged.size());
      switch (rng.below(4)) {
        case 0:
          damaged[at] = static_cast<char>(rng.below(256));
          break;
        case 1:
          damaged[at] = static_cast<char>('0' + rng.below(10));
          break;
        case 2:
          std::swap(damaged[at], damaged[rng.below(damaged.size())]);
          break;
        default:
          damaged.erase(at, 1 + rng.below(30));
          break;
      }
    }
    const auto read = read_text(damaged);
    if (!read) {
      ASSERT_FALSE(read.error().front().message.empty());
      continue;
    }
    ++read_whole;
    expect_adds_up(*read);
  }
  EXPECT_GT(read_whole, 100);  // digits and names may change without a fault
}

}  // namespace
}  // namespace eratos::reader
