#include <charconv>
#include <cstdlib>
#include <string_view>

#include "apps/ranks.h"

namespace eratos::apps {

namespace {

// Of the environment; -1 where it holds none.
int number_in(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return -1;
  const std::string_view s = text;
  int n = -1;
  const auto [at, error] = std::from_chars(s.data(), s.data() + s.size(), n);
  return error == std::errc() && at == s.data() + s.size() ? n : -1;
}

}  // namespace

Launched launched_by_mpi() {
  struct Names {
    const char* ranks;
    const char* rank;
  };
  // Open MPI's mpirun; MPICH, Intel MPI and Slurm's PMI; Slurm's PMIx, which names no size of its
  // own.
  for (const Names& n :
       {Names{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, Names{"PMI_SIZE", "PMI_RANK"},
        Names{"SLURM_STEP_NUM_TASKS", "PMIX_RANK"}}) {
    const int ranks = number_in(n.ranks);
    const int rank = number_in(n.rank);
    if (ranks > 0 && rank >= 0) return {true, ranks, rank};
  }
  return {};
}

}  // namespace eratos::apps
