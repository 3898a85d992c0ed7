#include "apps/run_log.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace eratos::apps {

namespace {

constexpr std::string_view kElapsed = "elapsed time per iteration (ms):";
constexpr std::size_t kWarmUp = 2;  // steps whose time is not the job's

std::vector<double> steps_of(const std::string& log) {
  std::vector<double> out;
  for (std::size_t at = log.find(kElapsed); at != std::string::npos;
       at = log.find(kElapsed, at + 1)) {
    std::size_t begin = at + kElapsed.size();
    while (begin < log.size() && log[begin] == ' ') ++begin;
    double ms = 0;
    const auto read = std::from_chars(log.data() + begin, log.data() + log.size(), ms);
    if (read.ec == std::errc() && ms > 0) out.push_back(ms / 1000);
  }
  return out;
}

bool ran_out(const std::string& log) {
  for (const std::string_view word :
       {"OutOfMemoryError", "CUDA out of memory", "HIP out of memory"}) {
    if (log.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

Result<agent::Measured> measured_from_log(const std::string& log, const MeasureRequest& request) {
  if (Result<agent::Measured> stated = measured_from(log, request)) return stated;
  std::vector<double> steps = steps_of(log);
  agent::Measured out;
  if (steps.size() <= kWarmUp) {
    if (ran_out(log)) {
      out.out_of_memory = true;
      return out;
    }
    return fault({.message = fmt::format("the log has {} steps, and the first {} warm up",
                                         steps.size(), kWarmUp),
                  .cure = "let the run log more steps"});
  }
  steps.erase(steps.begin(), steps.begin() + kWarmUp);
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  out.step_s = *middle;
  out.tokens_per_s_per_gpu = request.tokens_per_step / (out.step_s * request.gpus);
  return out;
}

}  // namespace eratos::apps
