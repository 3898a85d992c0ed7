// Who answers the asks of a search: threads of this process, ranks of MPI, and what a store knows
// before either of them. Who answers which ask does not change the answer.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "eratos/calibration/calibration.h"
#include "eratos/projection/projection.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/space.h"

namespace eratos::apps {

class Answers {
 public:
  virtual ~Answers() = default;
  // As many tells as asks, in their order; `beside` is done once meanwhile, by some thread.
  virtual void answer(std::span<const search::Ask> asks, std::span<search::Tell> tells,
                      const std::function<void()>& beside) = 0;
};

// Does pieces of work 0 to n - 1, each once and in any order, on so many threads; 0: as many as the
// machine has.
void on_threads(int threads, std::size_t n, const std::function<void(std::size_t)>& one);

// On so many threads; 0: as many as the machine has. All that it refers to outlives it.
std::unique_ptr<Answers> answers_of_threads(const search::Space& space,
                                            const calibration::Calibration& calibration,
                                            const projection::Options& options, int threads);

}  // namespace eratos::apps
