// How much of the time on a machine that fails is work that counts?
//
// Letters: M mean time between failures of the whole job, d seconds a checkpoint holds it up, R
// seconds from a failure to work again, tau work between two checkpoints.
//   wall time of one interval: M e^(R/M) (e^((tau + d)/M) - 1);  useful share: tau over that
//   tau at its best: sqrt(2 d M) (1 + sqrt(d/2M)/3 + (d/2M)/9) - d, and M where d is 2 M or more
// Source: J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps,
// Future Generation Computer Systems 22 (2006), equations 20 and 37; its first term is Young's,
// CACM 17 (1974).
// Assumes: failures of nodes are independent and come at one rate, and any of them ends the step.
//
// Worked example: M 24 h, d 5 min: tau 116.7 minutes (117 in Daly's figure 3).
#pragma once

#include "eratos/base/units.h"

namespace eratos::search {

struct Failures {
  double mtbf_hours = 0;  // of one node, or of one accelerator; 0: nothing fails
  bool of_gpu = false;
  Seconds write;    // d
  Seconds restart;  // R
  Seconds every;    // tau; 0: the best one
};

// Shares of the wall time; they sum to 1.
struct Goodput {
  double useful = 1;
  double writing = 0;  // checkpoints
  double redone = 0;   // work that a failure undid
  double restarting = 0;
  Seconds between_failures;  // M; 0: nothing fails
  Seconds interval;          // tau
};

Seconds best_interval(Seconds between_failures, Seconds write);
// With `every` alone and no failures checkpoints still hold the job up.
Goodput goodput_of(const Failures& failures, int nodes, int gpus);

}  // namespace eratos::search
