// What the shell sees. Scripts rely on these numbers; docs/USING.md explains them.
#pragma once

#include <string_view>

namespace eratos::apps {

enum ExitCode : int {
  kAnswered = 0,
  kDoesNotFit = 1,  // answered, and the job does not fit (--require-fit); a search found nothing
  kUsage = 2,
  kBadInput = 3,     // every fault on standard error as file:line:column: error: message
  kEnvironment = 4,  // a name that is free but cannot be written, a missing device or library
  kBug = 70,
  kInterrupted = 130,
};

struct ExitMeaning {
  ExitCode code;
  std::string_view what;
};

inline constexpr ExitMeaning kExitMeanings[] = {
    {kAnswered, "answered"},
    {kDoesNotFit,
     "answered, and the job does not fit (with --require-fit), or a search found nothing that does"},
    {kUsage,
     "usage: an unknown command or flag, a missing word, a file or folder in the way of --output"},
    {kBadInput, "bad input: every fault as file:line:column: error: message"},
    {kEnvironment,
     "the environment: what --output or --store names cannot be written (no such folder, no right, "
     "full, locked), mpirun without eratos-mpi, or a device or eratos-device that `measure` lacks"},
    {kBug, "a bug of eratos"},
    {kInterrupted,
     "interrupted; `search` and `tune` answer with the best so far, `measure` keeps what is measured"},
};

}  // namespace eratos::apps
