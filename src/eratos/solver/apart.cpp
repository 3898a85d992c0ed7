#include "eratos/solver/apart.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace eratos::solver {
namespace {

using Clock = std::chrono::steady_clock;

bool write_all(int file, const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t n = write(file, bytes, count);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n;
    count -= static_cast<std::size_t>(n);
  }
  return true;
}

// The child: never returns.
[[noreturn]] void work_and_exit(const std::function<std::vector<double>()>& work, int out) {
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would wait for it
#endif
  // The user's Ctrl-C ends it, whatever handler the parent has; where a library puts one of its
  // own, the parent ends it.
  signal(SIGINT, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  if (const int nowhere = open("/dev/null", O_WRONLY); nowhere >= 0) {
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
  }
  bool done = false;
  try {
    const std::vector<double> result = work();
    done = write_all(out, reinterpret_cast<const char*>(result.data()),
                     result.size() * sizeof(double));
  } catch (...) {
    done = false;
  }
  _exit(done ? 0 : 1);
}

}  // namespace

std::optional<std::vector<double>> run_apart(const std::function<std::vector<double>()>& work,
                                             double seconds, const std::function<bool()>& goes_on) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child < 0) {
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    return std::nullopt;
  }
  if (child == 0) {
    close(pipe_ends[0]);
    work_and_exit(work, pipe_ends[1]);
  }
  close(pipe_ends[1]);

  const Clock::time_point begin = Clock::now();
  std::vector<char> bytes;
  bool ended = false;
  for (;;) {
    const double left = seconds - std::chrono::duration<double>(Clock::now() - begin).count();
    if (left <= 0 || (goes_on && !goes_on())) break;
    constexpr double kAsked = 0.1;  // seconds
    const double patience = std::fmin(left, goes_on ? kAsked : 1e6);
    pollfd wait{.fd = pipe_ends[0], .events = POLLIN, .revents = 0};
    const int ready = poll(&wait, 1, static_cast<int>(std::ceil(patience * 1e3)));
    if (ready < 0 && errno != EINTR) break;
    if (ready <= 0) continue;
    char part[65536];
    const ssize_t n = read(pipe_ends[0], part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    if (n == 0) {
      ended = true;
      break;
    }
    bytes.insert(bytes.end(), part, part + n);
  }
  close(pipe_ends[0]);
  if (!ended) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  std::vector<double> result(bytes.size() / sizeof(double));
  std::memcpy(result.data(), bytes.data(), result.size() * sizeof(double));
  return result;
}

}  // namespace eratos::solver
