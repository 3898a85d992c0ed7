// The answer of a search: the proof, the best configurations, what binds each, and what stands
// around the winner. JSON keys are a contract (docs/USING.md); the answer holds no times of the
// search itself, so that equal answers are equal bytes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "eratos/report/answer.h"
#include "eratos/report/check.h"
#include "eratos/report/table.h"
#include "eratos/search/around.h"
#include "eratos/search/difference.h"
#include "eratos/search/method.h"
#include "eratos/search/objective.h"

namespace eratos::report {

// One of the top.
struct Ranked {
  Answer answer;
  search::Candidate at;
  double figure = 0;                    // what the search minimised
  std::vector<search::StepAway> steps;  // around it
  bool within_band = false;             // no slower than the end of the winner's band of error
};

// The value that one limit could have if the others stayed as they are, and where.
struct Loosened {
  std::size_t limit = 0;  // its place in the aim
  double value = 0;
  search::Candidate at;
};

struct SearchAnswer {
  const search::Space* space = nullptr;
  const search::Outcome* outcome = nullptr;
  const search::Aim* aim = nullptr;
  std::string method = "exhaustive";
  bool interrupted = false;
  bool front = false;  // the front of the aim's figures was asked for
  std::string version;
  std::vector<Ranked> top;
  const Answer* own = nullptr;  // the job as it came; null where it is not legal
  // What each change contributes on the way to the best; empty without a best.
  std::vector<search::Contribution> from_job;
  std::vector<search::Contribution> from_runner_up;
  // Where nothing fits or nothing is legal: changes of one or two settings that would.
  std::vector<Nearby> nearby;
  std::vector<const search::Rule*> deciding;  // where nothing is legal: each alone stands in the way
  std::vector<Loosened> loosened;  // where something fits and the limits refuse all of it
  Bytes capacity;                  // less the margin
};

std::string search_text(const SearchAnswer& a, const Style& style);
std::string search_json(const SearchAnswer& a);
// The same without what every document begins with.
text::Node search_node(const SearchAnswer& a);

// What keeps a configuration from being faster: "memory" where the best step away from it does not
// fit, else the largest loss.
std::string binds(const Ranked& one, double* share = nullptr);

}  // namespace eratos::report
