// Stage 3 without a language model: a policy that looks at what binds the best so far, frees the
// axes that can do something about it, and searches those together, beyond what a search has by
// default.
//
// A round: the largest loss of the incumbent that has not been looked at since it became the
// incumbent (search/around.h) names axes; those take every value that could be legal (every set of
// recomputed modules, every order of ranks, every group of sharding: the default space leaves most
// of them out), all others stay where the incumbent has them; the best single change and the best
// of all together become trials. It ends when nothing that binds can be helped, or its budget does.
//
// Worked example: the incumbent loses 14 % to recomputation and 9 % to bubbles. The first round
// frees recompute, offload, sharding and micro: "selective:mlp" instead of "full:3" gains 3 %. Then
// bubbles bind: pp, vpp, schedule, split and micro are freed together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "eratos/agent/session.h"

namespace eratos::agent {

struct Investigation {
  int rounds = 8;
  int simulations = 30;  // trials at that fidelity
  int proposals = 30;    // trials of any kind

  bool off() const { return rounds <= 0 || simulations <= 0 || proposals <= 0; }
};

// Better than all before it, in the space that the policy had freed.
struct Discovery {
  std::shared_ptr<const search::Space> space;
  search::Candidate at;
};

struct Investigated {
  std::vector<Discovery> found;
  int rounds = 0;
  int trials = 0;
  std::string stopped;  // why it ended
};

Investigated investigate(Session& session, const Investigation& budget);

}  // namespace eratos::agent
