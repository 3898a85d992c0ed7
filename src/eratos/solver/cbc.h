// CBC as a schedule::Solver: the problem as a mixed-integer program.
//
// Start times are continuous, the makespan is minimised; every pair of actions of one rank whose
// order is open has a binary and two rows, one for each order, the other switched off by a constant
// that is no larger than the windows of the two starts ask for (big M). A rank's limit is a row for
// each action that takes bytes: those before it, decided or by their binaries, and its own.
// What the windows that the warm start leaves (no start so late that the makespan could not be
// shorter) decide is decided before CBC sees it. Micro-batches are in order on each chunk, so none
// of them can be exchanged for another. Source: A. S. Manne, "On the Job-Shop Scheduling Problem",
// Operations Research 8 (1960), for the program; Carlier and Pinson, "An Algorithm for Solving the
// Job-Shop Problem", Management Science 35 (1989), for decisions from windows.
//
// Worked example: 1F1B's problem, 8 stages, 16 micro-batches, no limit: 256 starts, the makespan
// and at most 960 binaries.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "eratos/base/units.h"
#include "eratos/schedule/optimal.h"

namespace eratos::solver {

// "cbc 2.10.8", or "" when CBC was not there as eratos was built or its library is not here now.
std::string_view cbc_name();

// CBC 2.10.8 can crash when its time is up (CglPreProcess::postProcess), looks at the clock between
// nodes only and keeps state of the process, so it runs in a child (apart.h).
// Null where cbc_name() is "". seconds_left is asked when the solver starts, goes_on ten times a
// second while it works: false kills it.
std::unique_ptr<schedule::Solver> make_cbc(std::function<double()> seconds_left,
                                           std::function<bool()> goes_on = {});

}  // namespace eratos::solver
