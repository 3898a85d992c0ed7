// Stage 2: the first trials, the same for everyone. No model of language, no chance.
//
//   baseline   the job as it came, and, where it does not fit, the nearest jobs that do
//   single     each axis by itself, moved to its best value from there; the axes in order of what
//              that gains, so that a reader sees which matter
//   optimum    the best of each family (search/method.h) of the whole space by the model, proven
//              where the space could be searched to its end
//   around     what stands one step from that optimum and within its band of error
//
// Worked example: Mixtral 8x22B, pp 4, micro-batch 2 on 32 MI355X does not fit; nearest is
// micro-batch 1. From there tp, pp, ep and recomputation each gain by themselves; the optimum
// changes several together.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eratos/agent/session.h"
#include "eratos/search/method.h"

namespace eratos::agent {

struct Seeds {
  std::vector<const Trial*> nearest;          // jobs near the baseline that fit, where it does not
  search::Outcome outcome;                    // of the search of the whole space
  bool searched = false;                      // it was made, whether it came to its end or not
  std::vector<search::Candidate> candidates;  // of the session's space, best first
  int trials = 0;
};

// At most `most` trials beside the baseline and what is nearest to it; 0: the baseline alone.
Seeds plant_seeds(Session& session, int most);

// The candidate of the session's space that is this job; nothing where there is none.
std::optional<search::Candidate> candidate_of(Session& session, const job::JobSpec& spec);

}  // namespace eratos::agent
