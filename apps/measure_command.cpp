#include "apps/measure_command.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "eratos/text/file.h"
#include "eratos/text/json.h"
#include "eratos/text/tree.h"

namespace eratos::apps {

namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostPrinted = 16'000'000;
constexpr auto kPoll = std::chrono::milliseconds(20);

struct Place {
  std::string lock, job, config, out, rc;
};

Place place_of(const MeasureRequest& r) {
  const std::string stem = (fs::path(r.folder) / r.digest).string();
  return {stem + ".lock", stem + ".yaml", stem + ".config", stem + ".out", stem + ".rc"};
}

Diagnostic cannot(const std::string& path, const char* what) {
  return {.where = {.file = path}, .message = fmt::format("{}: {}", what, std::strerror(errno))};
}

// What the child does; never returns. The lock's descriptor stays open in it and its children.
[[noreturn]] void become(const MeasureRequest& r, const Place& at) {
  ::setpgid(0, 0);
  ::setenv("ERATOS_JOB", at.job.c_str(), 1);
  ::setenv("ERATOS_DIGEST", r.digest.c_str(), 1);
  if (r.config.empty()) {
    ::unsetenv("ERATOS_CONFIG");
  } else {
    ::setenv("ERATOS_CONFIG", at.config.c_str(), 1);
  }
  if (r.benchmark_gpus > 0) {
    ::setenv("ERATOS_BENCHMARK_GPUS", std::to_string(r.benchmark_gpus).c_str(), 1);
  }
  if (!r.benchmark_arch.empty()) {
    ::setenv("ERATOS_BENCHMARK_ARCH", r.benchmark_arch.c_str(), 1);
  }
  ::setenv("ERATOS_MEASURE_COMMAND", r.command.c_str(), 1);
  ::setenv("ERATOS_MEASURE_OUT", at.out.c_str(), 1);
  ::setenv("ERATOS_MEASURE_RC", at.rc.c_str(), 1);
  // The status takes its name only once it is whole, so that it is there or not.
  ::execl("/bin/sh", "sh", "-c",
          "sh -c \"$ERATOS_MEASURE_COMMAND\" > \"$ERATOS_MEASURE_OUT\" 2>&1 < /dev/null; "
          "echo $? > \"$ERATOS_MEASURE_RC.part\" && "
          "mv \"$ERATOS_MEASURE_RC.part\" \"$ERATOS_MEASURE_RC\"",
          static_cast<char*>(nullptr));
  ::_exit(127);
}

// An answer that is there already, of this run or of one that was killed.
std::optional<Result<agent::Measured>> finished(const MeasureRequest& r, const Place& at) {
  std::error_code none;
  if (!fs::exists(at.rc, none)) return std::nullopt;
  const Result<std::string> status = text::read_file(at.rc);
  const Result<std::string> printed = text::read_file(at.out, kMostPrinted);
  if (!status) return Result<agent::Measured>(faults(status.error()));
  if (!printed) return Result<agent::Measured>(faults(printed.error()));
  Result<agent::Measured> measured = measured_from(*printed, r);
  if (!measured && *status != "0\n") {
    Diagnostics bad = measured.error();
    bad.front().message = fmt::format("the command ended with status {} and {}",
                                      status->substr(0, status->find('\n')), bad.front().message);
    bad.front().where.file = at.out;
    return Result<agent::Measured>(faults(std::move(bad)));
  }
  return measured;
}

}  // namespace

Result<agent::Measured> measured_from(const std::string& printed, const MeasureRequest& r) {
  std::string last;
  std::size_t end = printed.size();
  while (end > 0 && last.empty()) {
    const std::size_t line_end = printed.find_last_not_of(" \t\r\n", end - 1);
    if (line_end == std::string::npos) break;
    const std::size_t begin = printed.rfind('\n', line_end);
    last = printed.substr(begin == std::string::npos ? 0 : begin + 1,
                          line_end - (begin == std::string::npos ? -1 : begin));
    end = 0;
  }
  const auto node = text::parse_json(last, "the command's last line");
  if (last.empty()) {
    return fault(
        {.message = "it printed nothing", .cure = "print {\"step_s\": SECONDS} at the end"});
  }
  if (!node || !node->is_mapping()) {
    return fault({.message = "its last line is no JSON mapping: " + text::excerpt(last),
                  .cure = "print {\"step_s\": SECONDS} at the end"});
  }
  agent::Measured out;
  // What is said and is no figure is a fault of the command: taken for left out, a peak of -1 would
  // teach the memory nothing without a word.
  std::string wrong;
  const auto number = [&](const char* key) {
    const text::Node* at = node->find(key);
    if (at == nullptr) return 0.0;
    const Result<double> value = at->as_double(key);
    const bool good = value && std::isfinite(*value) && *value >= 0;
    if (!good) wrong += fmt::format("{}\"{}\"", wrong.empty() ? "" : ", ", key);
    return good ? *value : 0.0;
  };
  if (const text::Node* oom = node->find("out_of_memory")) {
    const Result<bool> value = oom->as_bool();
    if (!value) wrong += "\"out_of_memory\"";
    out.out_of_memory = value.value_or(false);
  }
  out.step_s = number("step_s");
  out.tokens_per_s_per_gpu = number("tokens_per_s_per_gpu");
  out.device_peak_bytes = number("device_peak_bytes");
  out.cost_s = number("cost_s");
  out.source = "command " + r.command;
  if (!wrong.empty()) {
    return fault({.message = fmt::format("its last line has no figure in {}: {}", wrong,
                                         text::excerpt(last)),
                  .cure = "leave out what is not known; figures are numbers of 0 or more"});
  }
  if (out.out_of_memory && (out.step_s > 0 || out.tokens_per_s_per_gpu > 0)) {
    return fault(
        {.message = "its last line states a time and that memory ran out: " + text::excerpt(last),
         .cure = "print one of them"});
  }
  if (!out.out_of_memory && out.step_s <= 0 && out.tokens_per_s_per_gpu > 0) {
    out.step_s = r.tokens_per_step / (out.tokens_per_s_per_gpu * r.gpus);
  }
  if (!out.out_of_memory && out.step_s > 0 && out.tokens_per_s_per_gpu <= 0) {
    out.tokens_per_s_per_gpu = r.tokens_per_step / (out.step_s * r.gpus);
  }
  if (!out.out_of_memory && out.step_s <= 0) {
    return fault(
        {.message = "its last line states no time: " + text::excerpt(last),
         .cure = "print \"step_s\" or \"tokens_per_s_per_gpu\", or \"out_of_memory\": true"});
  }
  return out;
}

Result<agent::Measured> measure_by_command(const MeasureRequest& r,
                                           const std::function<bool()>& interrupted) {
  std::error_code failed;
  fs::create_directories(r.folder, failed);
  const Place at = place_of(r);
  // Without O_CLOEXEC: the command holds it too.
  const int lock = ::open(at.lock.c_str(), O_RDWR | O_CREAT, 0644);
  if (lock < 0) return fault(cannot(at.lock, "cannot be opened"));
  struct Closed {
    int file;
    ~Closed() { ::close(file); }
  } closed{lock};
  bool said = false;
  while (::flock(lock, LOCK_EX | LOCK_NB) != 0) {  // a command of a run that was killed
    if (!std::exchange(said, true)) {
      std::fprintf(stderr,
                   "tune: the command of a run that was ended still measures; waiting: %s\n",
                   at.lock.c_str());
    }
    if (interrupted()) return fault({.message = "interrupted"});
    std::this_thread::sleep_for(kPoll);
  }
  if (auto answer = finished(r, at)) {
    if (*answer) return *std::move(answer);
    // It failed, which says nothing of the job and may have been the device: asked again.
    for (const std::string& old : {at.rc, at.out}) fs::remove(old, failed);
  }
  for (const auto& [path, content] : {std::pair{&at.job, &r.job}, {&at.config, &r.config}}) {
    if (content->empty()) continue;
    if (const Result<void> w = text::write_file(*path, *content, text::Overwrite::yes); !w) {
      return faults(w.error());
    }
  }
  const pid_t child = ::fork();
  if (child < 0) return fault(cannot(at.out, "no process can be made"));
  if (child == 0) become(r, at);
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) break;
    if (interrupted()) {
      ::kill(-child, SIGTERM);
      ::waitpid(child, &status, 0);
      if (auto answer = finished(r, at)) return *std::move(answer);  // in the last moment
      return fault({.message = "interrupted"});
    }
    std::this_thread::sleep_for(kPoll);
  }
  if (auto answer = finished(r, at)) return *std::move(answer);
  return fault({.where = {.file = at.out}, .message = "the command ended without a status"});
}

}  // namespace eratos::apps
