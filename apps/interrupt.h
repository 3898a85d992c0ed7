// Ctrl-C as a question that long work asks between two pieces.
#pragma once

#include <csignal>

namespace eratos::apps {

// While one lives, Ctrl-C asks for the best so far instead of ending the program.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  void (*before_)(int);
  void (*before_term_)(int);  // mpirun ends its processes by SIGTERM, and a second later for good
};

// Has Ctrl-C been pressed during one? It stays so: the work behind ends at once as well.
bool interrupted();

}  // namespace eratos::apps
