// Who answers the asks of a search: threads of this process, ranks of MPI, and what a store knows
// before either of them. Who answers which ask does not change the answer.
#pragma once

#include <memory>
#include <span>

#include "apps/search_run.h"
#include "eratos/search/evaluate.h"

namespace eratos::apps {

class Answers {
 public:
  virtual ~Answers() = default;
  // As many tells as asks, in their order.
  virtual void answer(std::span<const search::Ask> asks, std::span<search::Tell> tells) = 0;
};

// On run.threads threads. What `run` refers to outlives it.
std::unique_ptr<Answers> answers_of_threads(const SearchRun& run);

}  // namespace eratos::apps
