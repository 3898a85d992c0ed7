// --memory FILE: what earlier runs measured and learned of a model on a machine, offered to the
// next.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/load_job.h"
#include "eratos/agent/refinement.h"
#include "eratos/agent/session.h"
#include "eratos/store/machine_memory.h"
#include "eratos/text/tree.h"

namespace eratos::apps {

struct Remembered {
  struct One {
    std::string digest;
    agent::Measured measured;
  };
  agent::Learned learned;
  std::vector<One> measured;
  std::string said;  // for the report: "6 measurements, learned by this version"
};

class TuneMemory {
 public:
  // "": nothing is remembered and nothing kept. Errors as exit codes, said on standard error.
  int open(const std::string& file, const Job& job);
  // What the file has. A resumed run is offered what its first start was: `prior.json` of its
  // folder.
  Result<Remembered> offer(agent::Records& records);
  // In place of what the file has; both, where a run learned more.
  int keep(const agent::Session& session, const agent::Learned& learned, const Remembered& before);

 private:
  std::unique_ptr<store::MachineMemory> file_;
  store::MachineKey key_;
};

}  // namespace eratos::apps
