// `eratos` itself, which knows no MPI: alone, or replaced by eratos-mpi.
#include <climits>
#include <cstdio>
#include <string>

#include <unistd.h>

#include "apps/exit_code.h"
#include "apps/ranks.h"

namespace eratos::apps {

namespace {

// The program of that name beside this one.
std::string beside(const char* name) {
  char self[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self);
  if (n <= 0) return name;
  std::string path(self, static_cast<std::size_t>(n));
  return path.substr(0, path.rfind('/') + 1) + name;
}

}  // namespace

std::optional<int> begin_ranks(int /*argc*/, char** argv) {
  const Launched launched = launched_by_mpi();
  if (launched.ranks == 1) return std::nullopt;
  const std::string other = beside("eratos-mpi");
  execv(other.c_str(), argv);
  if (launched.rank == 0) {
    std::fprintf(
        stderr,
        "error: %d processes of MPI would each search alone and print the same answer: %s is "
        "not there; build eratos with -DERATOS_MPI=ON (Debian: libopenmpi-dev openmpi-bin), or "
        "run it without mpirun, on threads\n",
        launched.ranks, other.c_str());
  }
  return kEnvironment;
}

int end_ranks(int code) { return code; }

bool leads_ranks() { return false; }

std::unique_ptr<Answers> answers_of_ranks(const SearchRun& /*run*/) { return nullptr; }

}  // namespace eratos::apps
