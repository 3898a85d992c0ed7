// What the shell sees. Scripts rely on these numbers; docs/USING.md explains them.
#pragma once

namespace eratos::apps {

enum ExitCode : int {
  kAnswered = 0,
  kDoesNotFit = 1,  // answered, and the job does not fit (--require-fit)
  kUsage = 2,
  kBadInput = 3,     // every fault on standard error as file:line:column: error: message
  kEnvironment = 4,  // a file that cannot be written, a missing device or library
  kBug = 70,
  kInterrupted = 130,
};

}  // namespace eratos::apps
