// The mixed-integer program of a schedule (cbc.h says which), as plain arrays that any solver
// takes.
#pragma once

#include <cstdint>
#include <vector>

#include "eratos/schedule/optimal.h"
#include "eratos/schedule/optimal_graph.h"

namespace eratos::solver {

struct Entry {
  int column = 0;
  double value = 0;
};

// low <= sum of entries; every row of ours is of this kind.
struct Row {
  double low = 0;
  std::vector<Entry> entries;
};

// Minimise column `makespan`. Columns: starts of all actions, the makespan, binaries.
struct Model {
  int starts = 0;
  int makespan = 0;
  std::vector<double> lower;
  std::vector<double> upper;
  std::vector<Row> rows;
  std::vector<double> start;  // a feasible point: the warm start
  double unit = 1;            // picoseconds in 1 of the program's time
  // All times are whole: the makespan is a whole number of units.
  bool whole = false;
  int binaries() const { return static_cast<int>(lower.size()) - makespan - 1; }
};

// `best` is complete and fits.
Model build_model(const schedule::OptimalProblem& problem, const schedule::Solution& best);

// The actions of each rank by the middle of the time in which they run: starts that differ from the
// end before them by a solver's tolerance do not change it.
std::vector<std::vector<int>> order_of(const schedule::ActionGraph& graph,
                                       const std::vector<double>& middles);

}  // namespace eratos::solver
