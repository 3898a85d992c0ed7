// eratos measure JOB: the plan of what to measure for a job, and the measuring of it by
// eratos-device.
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/device_program.h"
#include "apps/exit_code.h"
#include "apps/measure_plan.h"
#include "apps/output.h"
#include "eratos/report/plan.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

// The plan as a file that goes with this process, however it ends. Errors: kEnvironment.
class PlanFile {
 public:
  explicit PlanFile(const std::string& lines) : file_(memfd_create("plan", MFD_CLOEXEC)) {
    std::size_t done = 0;
    while (file_ >= 0 && done < lines.size()) {
      const ssize_t n = write(file_, lines.data() + done, lines.size() - done);
      if (n <= 0) return;
      done += static_cast<std::size_t>(n);
    }
    whole_ = file_ >= 0;
  }
  ~PlanFile() {
    if (file_ >= 0) close(file_);
  }
  PlanFile(const PlanFile&) = delete;
  PlanFile& operator=(const PlanFile&) = delete;

  bool whole() const { return whole_; }
  // For other processes.
  std::string path() const { return fmt::format("/proc/{}/fd/{}", getpid(), file_); }

 private:
  int file_;
  bool whole_ = false;
};

int without_program(const std::string& given) {
  if (!given.empty()) {
    std::fprintf(stderr, "error: %s: is no program that can be run\n", given.c_str());
    return kEnvironment;
  }
  std::fputs(
      "error: eratos-device is not there: neither beside eratos, nor in ../libexec/eratos, nor on "
      "the path.\n"
      "It needs libtorch and is built by itself. Debian: apt-get install libtorch-dev libgloo-dev, "
      "then build eratos again. In a container with PyTorch, in a checkout of eratos:\n"
      "  cmake -S measure -B build-device \\\n"
      "    -DCMAKE_PREFIX_PATH=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')\n"
      "  cmake --build build-device -j\n"
      "then --device-program build-device/eratos-device. `eratos measure JOB --plan` needs none.\n",
      stderr);
  return kEnvironment;
}

}  // namespace

int run_measure(const Arguments& arguments) {
  const bool has_job = !arguments.words.empty();
  const bool has_file = arguments.has("--plan-file");
  if (arguments.has("--plan")) {
    if (!has_job || has_file) return report_usage("`measure --plan` needs JOB, and no --plan-file");
    return print_plan(arguments);
  }
  if (has_job == has_file) {
    return report_usage("`measure` needs JOB, or the plan of one in --plan-file");
  }
  if (!arguments.has("--output")) {
    return report_usage("`measure` needs -o FILE for what it measures; --plan prints what that is");
  }
  if (arguments.has("--format")) return report_usage("`--format` is for --plan");
  const std::string device = arguments.value("--device", "cpu");
  if (device != "cpu" && device != "cuda") {
    return report_usage(
        fmt::format("`--device {}`: known are cpu and cuda (ROCm is cuda)", device));
  }

  std::string lines;
  if (has_job) {
    const Result<projection::Plan> plan = plan_of(arguments);
    if (!plan) return report_faults(plan.error());
    lines = report::plan_lines(*plan);
  }
  const std::string given = arguments.value("--device-program");
  const std::string program = find_device_program(given);
  if (program.empty()) return without_program(given);
  const PlanFile file(lines);
  if (!file.whole()) {
    std::fputs("error: there is no memory for the plan\n", stderr);
    return kEnvironment;
  }

  std::vector<std::string> flags{
      "--plan",    has_file ? arguments.value("--plan-file") : file.path(),
      "--output",  arguments.value("--output"),
      "--device",  device,
      "--commit",  fmt::format("eratos {}", kVersion),
      "--progress"};
  for (const char* flag : {"--ranks", "--threads", "--budget"}) {
    if (!arguments.has(flag)) continue;
    flags.emplace_back(flag);
    flags.push_back(arguments.value(flag));
  }
  for (const char* flag : {"--resume", "--force"}) {
    if (arguments.has(flag)) flags.emplace_back(flag);
  }
  return run_device_program(program, flags);
}

}  // namespace eratos::apps
