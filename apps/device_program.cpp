#include "apps/device_program.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/exit_code.h"
#include "apps/interrupt.h"

namespace eratos::apps {

namespace {

constexpr const char* kName = "eratos-device";
constexpr std::string_view kProgress = "progress ";

bool can_run(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

std::string own_folder() {
  char self[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self);
  if (n <= 0) return "./";
  const std::string path(self, static_cast<std::size_t>(n));
  return path.substr(0, path.rfind('/') + 1);
}

// "progress 12/80 gemm/... 35 s left" as "[=====     ] 12/80 gemm/... 35 s left".
std::string bar(const std::string& progress) {
  constexpr std::size_t kWidth = 24;
  const std::string said = progress.substr(kProgress.size());
  const std::size_t slash = said.find('/');
  const long at = std::strtol(said.c_str(), nullptr, 10);
  const long of =
      slash == std::string::npos ? 0 : std::strtol(said.c_str() + slash + 1, nullptr, 10);
  const std::size_t full =
      of > 0 ? std::min(kWidth, kWidth * static_cast<std::size_t>(std::max(0L, at)) /
                                    static_cast<std::size_t>(of))
             : 0;
  return fmt::format("[{:<{}}] {}", std::string(full, '='), kWidth, said);
}

// What the program writes to standard error, line by line, to ours.
class Relay {
 public:
  void add(const char* text, std::size_t size) {
    rest_.append(text, size);
    for (std::size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n')) {
      line(rest_.substr(0, end));
      rest_.erase(0, end + 1);
    }
  }
  void end() {
    if (!rest_.empty()) line(rest_);
    wipe();
  }

 private:
  void line(const std::string& text) {
    if (text.compare(0, kProgress.size(), kProgress) != 0) {
      wipe();
      std::fprintf(stderr, "%s\n", text.c_str());
    } else if (terminal_) {
      std::fprintf(stderr, "\r\033[K%s", bar(text).c_str());
      std::fflush(stderr);
      drawn_ = true;
    }
  }
  void wipe() {
    if (drawn_) std::fprintf(stderr, "\r\033[K");
    drawn_ = false;
  }

  std::string rest_;
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool drawn_ = false;
};

int cannot_start(const std::string& program) {
  std::fprintf(stderr, "error: %s cannot be started: %s\n", program.c_str(), std::strerror(errno));
  return kEnvironment;
}

}  // namespace

std::string find_device_program(const std::string& given) {
  if (!given.empty()) return can_run(given) ? given : "";
  const std::string here = own_folder();
  for (const std::string& path : {here + kName, here + "../libexec/eratos/" + kName}) {
    if (can_run(path)) return path;
  }
  const char* path = std::getenv("PATH");
  std::string_view folders = path == nullptr ? "" : path;
  while (!folders.empty()) {
    const std::size_t colon = std::min(folders.find(':'), folders.size());
    const std::string in = std::string(folders.substr(0, colon)) + '/' + kName;
    if (colon > 0 && can_run(in)) return in;
    folders.remove_prefix(std::min(colon + 1, folders.size()));
  }
  return "";
}

int run_device_program(const std::string& program, const std::vector<std::string>& flags) {
  int said[2];
  if (pipe(said) != 0) return cannot_start(program);
  const Interruptible guard;
  const pid_t child = fork();
  if (child < 0) return cannot_start(program);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // without us nobody would read what it says
    std::signal(SIGINT, SIG_DFL);
    dup2(said[1], STDERR_FILENO);
    close(said[0]);
    close(said[1]);
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (const std::string& flag : flags) argv.push_back(const_cast<char*>(flag.c_str()));
    argv.push_back(nullptr);
    execv(program.c_str(), argv.data());
    _exit(cannot_start(program));
  }
  close(said[1]);

  Relay relay;
  bool told = false;
  for (;;) {
    if (interrupted() && !told) {
      kill(child, SIGINT);  // a terminal has told it already, a `kill` of this process has not
      told = true;
    }
    pollfd wait{said[0], POLLIN, 0};
    constexpr int kLookEveryMs = 200;
    const int ready = poll(&wait, 1, kLookEveryMs);
    if (ready < 0 && errno != EINTR) break;
    if (ready <= 0) continue;
    char text[4096];
    const ssize_t n = read(said[0], text, sizeof text);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    relay.add(text, static_cast<std::size_t>(n));
  }
  relay.end();
  close(said[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  std::fprintf(stderr,
               "error: %s was ended by signal %d (%s); what was measured is kept: run again with "
               "--resume\n",
               program.c_str(), WTERMSIG(status), strsignal(WTERMSIG(status)));
  return kEnvironment;
}

}  // namespace eratos::apps
