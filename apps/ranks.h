// Several processes of MPI as one: `mpirun -n 4 eratos search ...`.
//
// Rank 0 is the program: it reads, runs the command, prints, and writes every file. The others
// answer what it asks of the model, and print nothing. There are two builds of this header:
// `eratos` (ranks_alone.cpp) knows no MPI, and `eratos-mpi` (ranks_mpi.cpp) does; the first becomes
// the second where it finds itself under mpirun with more than one rank (docs/decisions/0018).
#pragma once

#include <memory>
#include <optional>

#include "apps/answers.h"
#include "apps/search_run.h"

namespace eratos::apps {

// How many processes a launcher of MPI says that it started, this one among them, and which of them
// this one is. Open MPI's gives each a terminal as its standard output, whatever its own is.
struct Launched {
  bool by_mpi = false;
  int ranks = 1;
  int rank = 0;
};
Launched launched_by_mpi();

// At the beginning of main(). A code: this process has served rank 0 to the end, or cannot do what
// was meant; main() returns it.
std::optional<int> begin_ranks(int argc, char** argv);
// At the end of main(), with its code: lets the others go.
int end_ranks(int code);

// Rank 0 of several: signals that end the others end it too, so they ask for the best so far.
bool leads_ranks();

// By this process and the other ranks; null when it is alone.
std::unique_ptr<Answers> answers_of_ranks(const SearchRun& run);

}  // namespace eratos::apps
