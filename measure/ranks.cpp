#include "ranks.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"

namespace eratos::device {

namespace {

volatile std::sig_atomic_t pressed = 0;

extern "C" void on_interrupt(int /*signal*/) { pressed = 1; }

std::string text_in(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// -1 where the environment holds no such number.
int number_in(const char* name) {
  const std::string text = text_in(name);
  char* end = nullptr;
  const long n = std::strtol(text.c_str(), &end, 10);
  return text.empty() || *end != '\0' || n < 0 || n > 1'000'000 ? -1 : static_cast<int>(n);
}

struct Launcher {
  const char* name;
  const char* rank;
  const char* ranks;
  const char* local;
  const char* job;  // tells two starts on one host apart, for the file where ranks meet
};

// Source: torchrun's environment variables (pytorch.org/docs, elastic/run); Open MPI 4 and 5,
// "environmental variables" of mpirun(1); Hydra and Intel MPI (PMI-1); srun(1), "output
// environment".
const Launcher kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_MCA_ess_base_jobid"},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "PMI_JOBID"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_JOB_ID"},
};

struct Child {
  pid_t pid = -1;
  bool ended = false;
  int status = 0;
};

// In good order: it said itself what was wrong.
bool orderly(int status) {
  if (!WIFEXITED(status)) return false;
  const int code = WEXITSTATUS(status);
  return code == kAnswered || code == kUsage || code == kBadInput || code == kEnvironment ||
         code == kInterrupted;
}

std::string how(int status) {
  if (WIFSIGNALED(status)) {
    return std::string("was ended by signal ") + std::to_string(WTERMSIG(status)) + " (" +
           ::strsignal(WTERMSIG(status)) + ')';
  }
  return "ended with exit code " + std::to_string(WEXITSTATUS(status));
}

void end_all(std::vector<Child>& children, int signal) {
  for (const Child& c : children) {
    if (!c.ended) ::kill(c.pid, signal);
  }
}

pid_t start(int rank, int ranks, const std::string& store,
            const std::vector<std::string>& arguments) {
  const pid_t launcher = ::getpid();
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody waits for ranks whose launcher is gone
  if (::getppid() != launcher) ::_exit(kEnvironment);
  ::setenv("ERATOS_DEVICE_RANK", std::to_string(rank).c_str(), 1);
  ::setenv("ERATOS_DEVICE_RANKS", std::to_string(ranks).c_str(), 1);
  ::setenv("ERATOS_DEVICE_STORE", store.c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  ::execv("/proc/self/exe", argv.data());
  std::fprintf(stderr, "error: rank %d cannot be started: %s\n", rank, std::strerror(errno));
  ::_exit(kEnvironment);
}

}  // namespace

bool interrupted() { return pressed != 0; }

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond `ulimit -f` is a failed write, as a full disk is
  std::signal(SIGPIPE, SIG_IGN);
}

Rank rank_of_environment() {
  Rank out;
  if (const int ranks = number_in("ERATOS_DEVICE_RANKS"); ranks > 0) {
    out.rank = number_in("ERATOS_DEVICE_RANK");
    out.ranks = ranks;
    out.local = out.rank;
    out.by = "--ranks";
    out.store_file = text_in("ERATOS_DEVICE_STORE");
    return out;
  }
  for (const Launcher& l : kLaunchers) {
    const int rank = number_in(l.rank);
    const int ranks = number_in(l.ranks);
    if (rank < 0 || ranks < 2) continue;
    const int local = number_in(l.local);
    out.rank = rank;
    out.ranks = ranks;
    out.local = local < 0 ? rank : local;
    out.by = l.name;
    out.master_host = text_in("MASTER_ADDR");
    out.master_port = number_in("MASTER_PORT");
    out.agent_serves = text_in("TORCHELASTIC_USE_AGENT_STORE") == "True";
    if (out.master_host.empty() || out.master_port <= 0) {
      out.master_host.clear();
      const int nodes = number_in("SLURM_NNODES");
      if (nodes > 1 || (out.by == "mpirun" && number_in("OMPI_COMM_WORLD_LOCAL_SIZE") < ranks &&
                        number_in("OMPI_COMM_WORLD_LOCAL_SIZE") > 0)) {
        throw Fault(kEnvironment,
                    "error: ranks on several hosts need a place to meet: set MASTER_ADDR "
                    "(the host of rank 0) and MASTER_PORT (a free port there)");
      }
      out.store_file = "/tmp/eratos-device-" + std::to_string(::getuid()) + '-' +
                       std::to_string(::getppid()) + '-' + text_in(l.job);
    }
    return out;
  }
  return out;
}

int run_ranks(int ranks, const std::vector<std::string>& arguments) {
  char store[] = "/tmp/eratos-device-XXXXXX";
  const int made = ::mkstemp(store);
  if (made < 0) {
    throw Fault(kEnvironment, std::string("error: no file can be made in /tmp where ranks meet: ") +
                                  std::strerror(errno));
  }
  ::close(made);
  std::vector<Child> children(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    children[static_cast<std::size_t>(r)].pid = start(r, ranks, store, arguments);
  }

  int left = ranks;
  int code = -1;           // of the whole, once it is known
  bool told_them = false;  // that they shall end
  double since = 0;
  const auto now = [] {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  while (left > 0) {
    if (interrupted() && !told_them) {
      end_all(children, SIGINT);
      told_them = true;
      since = now();
    }
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) {
      // A rank that waits for a dead one cannot notice a signal before its own time is out.
      if (told_them && now() - since > 3) end_all(children, SIGKILL);
      const timespec pause{0, 20'000'000};
      ::nanosleep(&pause, nullptr);
      continue;
    }
    for (std::size_t r = 0; r < children.size(); ++r) {
      Child& c = children[r];
      if (c.pid != pid) continue;
      c.ended = true;
      c.status = status;
      --left;
      const bool well = WIFEXITED(status) && WEXITSTATUS(status) == kAnswered;
      if (code < 0 && r == 0 && orderly(status)) code = WEXITSTATUS(status);
      if (well || told_them) continue;
      if (code < 0 && !orderly(status)) {
        std::fprintf(
            stderr,
            "error: rank %zu %s; the other ranks were ended. What was measured is kept: run "
            "again with --resume\n",
            r, how(status).c_str());
        code = kEnvironment;
      } else if (code < 0) {
        code = WEXITSTATUS(status);
      }
      end_all(children, SIGTERM);
      told_them = true;
      since = now();
    }
  }
  ::unlink(store);
  if (interrupted()) return kInterrupted;
  return code < 0 ? kEnvironment : code;
}

}  // namespace eratos::device
