// Ranks: who this process is among them, and how `--ranks N` starts the others.
//
// Four ways lead here: `--ranks N` starts N copies of this program on this host; torchrun, mpirun
// and srun start them themselves and say so in the environment. Ranks meet at a store: a file on
// one host, else MASTER_ADDR:MASTER_PORT.
#pragma once

#include <string>
#include <vector>

namespace eratos::device {

struct Rank {
  int rank = 0;
  int ranks = 1;
  int local = 0;   // among those of one host: which device it takes
  std::string by;  // "" alone, else "--ranks", "torchrun", "mpirun", "srun"
  std::string store_file;
  std::string master_host;  // empty: meet at the file
  int master_port = 0;
  bool agent_serves = false;  // torchrun's agent holds the store already
};

// Errors: Fault kEnvironment where a launcher started several ranks and no meeting place is known.
Rank rank_of_environment();

// Runs `ranks` copies of `arguments` (argv, without --ranks) and waits. When one ends badly the
// others are ended within seconds and what happened is said. Returns the exit code of the whole:
// that of rank 0 where every rank ended in good order, kInterrupted after Ctrl-C, else
// kEnvironment.
int run_ranks(int ranks, const std::vector<std::string>& arguments);

// Ctrl-C or SIGTERM has been received: measuring stops at the next sample.
bool interrupted();
void catch_interrupts();

}  // namespace eratos::device
