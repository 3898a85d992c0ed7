// Traces written by hand, for the tests of this folder.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "eratos/reader/kineto.h"

namespace eratos::reader {

class TextSource final : public TraceSource {
 public:
  explicit TextSource(std::string text) : text_(std::move(text)) {}
  // A few bytes at a time, so that a buffer's end falls everywhere.
  std::size_t read(char* to, std::size_t most) override {
    const std::size_t n = std::min({most, text_.size() - at_, std::size_t{4093}});
    std::memcpy(to, text_.data() + at_, n);
    at_ += n;
    return n;
  }

 private:
  std::string text_;
  std::size_t at_ = 0;
};

inline OpenTrace open_text(const std::string& text) {
  return [text]() -> Result<std::unique_ptr<TraceSource>> {
    return std::make_unique<TextSource>(text);
  };
}

inline Result<projection::TracedStep> read_text(const std::string& text,
                                                TraceOptions options = {}) {
  return read_trace_step(open_text(text), "t.json", options);
}

// One complete event; `rest` holds further keys of `args`.
inline std::string event(std::string_view category, std::string_view name, double start,
                         double length, int thread, std::string_view args = "") {
  return R"({"ph": "X", "cat": ")" + std::string(category) + R"(", "name": ")" + std::string(name) +
         R"(", "pid": )" + (category == "kernel" ? "0" : "100") + R"(, "tid": )" +
         std::to_string(thread) + R"(, "ts": )" + std::to_string(start) + R"(, "dur": )" +
         std::to_string(length) + R"(, "args": {)" + std::string(args) + "}},\n";
}
inline std::string trace_of(const std::string& events) {
  return R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}, "traceEvents": [
)" + events +
         R"({"ph": "i", "s": "g", "pid": "Traces", "tid": "x", "ts": 1, "name": "end"}]})";
}

// Three steps of 100 us, the device 10 us behind the host. Step 2: a product of [8, 4] and [4, 6]
// in forward (20 us), the same op's weight gradient in backward (10 us), an all-reduce beside it.
inline std::string three_steps() {
  std::string e;
  for (int step = 1; step <= 3; ++step) {
    const double t = 100.0 * step;
    const auto id = [&](int i) { return std::to_string(step * 10 + i); };
    e += event("user_annotation", "ProfilerStep#" + std::to_string(step), t, 100, 1);
    e += event("python_function", "nn.Module: SelfAttention_0", t + 1, 20, 1);
    e += event("cpu_op", "aten::linear", t + 2, 10, 1,
               R"("External id": )" + id(1) + R"(, "Sequence number": 7)");
    e += event("cpu_op", "aten::mm", t + 3, 8, 1,
               R"("External id": )" + id(2) +
                   R"(, "Sequence number": 7, "Input Dims": [[8, 4], [4, 6]], )"
                   R"("Input type": ["c10::BFloat16", "c10::BFloat16"])");
    e += event("cuda_runtime", "cudaLaunchKernel", t + 4, 2, 1, R"("correlation": )" + id(1));
    e += event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", t + 30, 20, 2,
               R"("Sequence number": 7)");
    e += event("cpu_op", "aten::mm", t + 32, 8, 2, R"("Input Dims": [[4, 8], [8, 6]])");
    e += event("cuda_runtime", "cudaLaunchKernel", t + 33, 2, 2, R"("correlation": )" + id(2));
    e += event("cpu_op", "record_param_comms", t + 50, 8, 2,
               R"("Collective name": "allreduce", "In msg nelems": 24, "Out msg nelems": 24, )"
               R"("Group size": 8, "dtype": "BFloat16")");
    e += event("cuda_runtime", "cudaLaunchKernelExC", t + 51, 2, 2, R"("correlation": )" + id(3));
    e += event("kernel", "nvjet_tst_128x64_NTN", t + 14, 20, 7,
               R"("stream": 7, "correlation": )" + id(1));
    e += event("kernel", "nvjet_tst_64x64_TNN", t + 54, 10, 7,
               R"("stream": 7, "correlation": )" + id(2));
    e += event("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", t + 60, 14, 9,
               R"("stream": 9, "correlation": )" + id(3));
  }
  return trace_of(e);
}

}  // namespace eratos::reader
