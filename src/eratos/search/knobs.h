// In which ways may the model be wrong about a machine? A few factors, each of which moves many
// configurations together: that is what makes one measurement tell something of its siblings.
//
// A knob is a slowdown, in natural logs, of one family of numbers of a calibration or a framework
// profile; 0 leaves them as they are. The whole projection is made again with knobs turned, so that
// traffic which stays hidden costs nothing and traffic which surfaces costs what it should.
//
// Letters: theta_k the k-th knob, tau_k its standard deviation before anything was measured,
// e_ik = d log(step of configuration i) / d theta_k its elasticity.
// Worked example: attention at theta 0.18 runs at exp(-0.18) = 0.835 of its rate, 20 % slower; a
// step of which it is a tenth takes about 2 % longer: e = 0.11.
//
// Assumes: what a model gets wrong on a machine is mostly a factor on a family of kernels, on a
// level of links, on the host, or on what is hidden; what is left is likeness between neighbours.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "eratos/calibration/calibration.h"
#include "eratos/framework/profile.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/space.h"

namespace eratos::search {

struct Knob {
  std::string_view name;
  std::string_view what;
  double sd;  // tau
};

// Source: of the standard deviations: this project's errors with a source left out of the fit
// (docs/ACCURACY.md): medians of 3 to 11 % on rates of kernels; docs/accuracy_ablation.md, which
// names hosts and links as what moves most from one source to the next.
inline constexpr Knob kKnobs[] = {
    {"matrix", "matrix products", 0.10},
    {"grouped", "grouped products of experts against dense ones", 0.15},
    {"small tiles", "products too small for the largest tile", 0.10},
    {"attention", "attention kernels", 0.15},
    {"memory-bound", "kernels bound by the memory's rate", 0.15},
    {"scale-up links", "traffic inside a scale-up domain", 0.35},
    {"network", "traffic between nodes", 0.35},
    {"host", "enqueueing and waiting of the host", 0.30},
    {"hiding", "share of traffic that runs beside compute", 0.20},
};
inline constexpr std::size_t kKnobCount = std::size(kKnobs);
using Knobs = std::array<double, kKnobCount>;

// The numbers of a part and a profile with the knobs turned.
void turn(const Knobs& theta, calibration::Calibration& calibration,
          framework::FrameworkProfile& profile);

// Of one legal job; `step` is its own projected step.
Knobs elasticities_of(const job::JobSpec& job, const calibration::Calibration& calibration,
                      const projection::Options& options, Seconds step, projection::Workspace& w);

// Seconds a token of candidates of one space with knobs turned, and their elasticities there. The
// space and the calibration stay where they are.
class Turned {
 public:
  Turned(const Space& space, const calibration::Calibration& calibration,
         const projection::Options& options, const Knobs& theta);

  struct Point {
    Tell tell;  // at theta
    Knobs elasticity{};
  };
  Point at(const Candidate& candidate);

 private:
  struct World {
    World(const Space& space, const calibration::Calibration& c, const projection::Options& options,
          const Knobs& theta);
    calibration::Calibration calibration;
    Space space;
    Evaluator evaluator;
  };
  std::vector<std::unique_ptr<World>> worlds_;  // theta, then each knob turned further
};

}  // namespace eratos::search
