// What a search asks of the model, and what it is told: plain values, so that a method knows
// nothing of projections and whoever runs it decides on how many threads.
//
// A figure is what is minimised: seconds of a step for each token of its batch, so that candidates
// of different batches compare. Worked example: a step of 12.8 s over 512 sequences of 2048 tokens
// has the figure 12.8 / 1,048,576 = 12.2 us. A search for something else puts its own figure there
// before a method is told (objective.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "eratos/base/units.h"
#include "eratos/calibration/calibration.h"
#include "eratos/projection/projection.h"
#include "eratos/projection/time.h"
#include "eratos/search/space.h"

namespace eratos::search {

struct Ask {
  enum class What : std::uint8_t {
    bound,    // at least which figure, whatever the axes from `open` on are? `recompute` or `pp`
    screen,   // does it fit, and at least which figure, its overlap switches being as they are or
              // off?
    project,  // which figure?
  };
  What what = What::screen;
  Candidate at;
  AxisId open = AxisId::count_;
};

// At most three figures of a front.
inline constexpr std::size_t kMostAlong = 3;
using Along = std::array<double, kMostAlong>;

struct Tell {
  bool fits = false;
  Bytes least_peak;   // what it cannot do without
  Bytes device_peak;  // what it holds at most
  double figure = 0;  // of a bound and of a screen: never above the one that is projected
  // Seconds an accelerator computes for each token of the batch; of the two a bound from below.
  double busy = 0;
  // What the search is after makes of the five above (objective.h); make_plain() for speed.
  double per_token = 0;  // seconds of a step for each token of its batch
  Along along{};         // its place against a front, less is better; zeros beyond its figures
  int refused_by = -1;   // place of the first limit against it; -1: none is
  double beyond = 0;     // how far, as a share of the limits; 0: within all
};

// What an answer is to a search for speed, and for the front of memory and speed.
void make_plain(Tell& tell);

// Answers asks, one after the other; one a thread. The answer to an ask does not depend on those
// before it.
class Evaluator {
 public:
  Evaluator(const Space& space, const calibration::Calibration& calibration,
            const projection::Options& options);

  Tell answer(const Ask& ask);

  // The candidate as a job, checked. Valid until the next call. Errors: the candidate is legal, or
  // the program is wrong and stops.
  const job::CheckedJob& checked(const Candidate& candidate);
  projection::Projection project(const Candidate& candidate);
  // What a projection of the last candidate comes to.
  Tell told(const projection::Projection& p) const;

 private:
  void price(const job::CheckedJob& job);
  Tell bound(const Ask& ask);
  double per_token(Seconds time) const;
  Tell told(bool fits, Bytes least, Bytes peak, Seconds step, Seconds busy) const;

  const Space& space_;
  const calibration::Calibration& calibration_;
  projection::Options options_;
  Candidate at_;
  job::JobSpec job_;
  job::JobSpec whole_;  // without pipeline and sharding, every overlap that the space has
  std::unique_ptr<job::CheckedJob> checked_;
  projection::WorkspacePtr workspace_;
  projection::Pricing pricing_;  // of the space's part, cluster and framework
  bool priced_ = false;
  bool has_bound_ = false;
};

}  // namespace eratos::search
