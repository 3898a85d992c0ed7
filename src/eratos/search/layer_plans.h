// Layers chosen for every candidate of a space: Layers (layers.h) over candidates and modes.
//
// The space's recompute and split axes say which choices there are, and everything else is a
// candidate: a mode for each recomputation of all layers alike, and one for those that go by
// layers. A mode after the first of a candidate looks only for what is faster, and a candidate for
// what is faster than the last of the top.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/calibration/calibration.h"
#include "eratos/projection/projection.h"
#include "eratos/search/layers.h"
#include "eratos/search/space.h"
#include "eratos/search/walk.h"

namespace eratos::search {

// What the framework's own file can say.
struct LayerFreedom {
  bool sets = true;    // any set of layers that are recomputed
  bool every = true;   // every second layer, every third, ...
  bool splits = true;  // any split of layers over stages
};

// Modes for the values of the space's recompute axis.
std::vector<LayerMode> layer_modes(const Space& space, const LayerFreedom& freedom);

// The same space with nothing left to choose of layers: none recomputed, a split that is always
// legal.
Space without_layers(const Space& space, const LayerFreedom& freedom);

struct PlannedCandidate {
  Candidate at;
  LayerPlan plan;
  double figure = 0;  // evaluate.h
};

class LayerPlans {
 public:
  struct Counts {
    std::uint64_t candidates = 0;
    std::uint64_t illegal = 0;
    std::uint64_t refused = 0;  // whose layers cannot be chosen so
    std::uint64_t too_big = 0;
    std::uint64_t slower = 0;  // proven no faster than those that are listed
    std::uint64_t planned = 0;
    std::uint64_t modes = 0;  // looked through, of all candidates
    std::uint64_t sets = 0;   // of layers on a rank, priced
    std::uint64_t deals = 0;  // begun
    std::uint64_t simulated = 0;
    bool proven = false;  // nothing is left
  };

  // `space` is without_layers(). It, the modes and the calibration stay where they are.
  LayerPlans(const Space& space, const std::vector<LayerMode>& modes, const LayerFreedom& freedom,
             std::size_t top, const calibration::Calibration& calibration,
             const projection::Options& options);

  // A piece of work; false when nothing is left.
  bool advance();

  Counts counts() const;
  const Removed& removed() const { return removed_; }
  const std::vector<PlannedCandidate>& top() const { return top_; }
  double progress() const;  // share of the candidates
  // Why the first candidate was refused, if one was.
  const std::optional<Diagnostic>& why_refused() const { return why_refused_; }
  // Where nothing fits: the candidate that lacks least, and what it must hold.
  const std::optional<Candidate>& least() const { return least_; }
  Bytes least_peak() const { return least_peak_; }

 private:
  bool next_candidate();
  bool next_mode();
  void add_work(Counts& to) const;
  void end_mode();
  void end_candidate();
  bool allowed(const LayerMode& mode) const;

  const Space& space_;
  const std::vector<LayerMode>& modes_;
  LayerFreedom freedom_;
  std::size_t most_;
  const calibration::Calibration& calibration_;
  projection::Options options_;
  Cursor cursor_;
  RulesByAxis rules_;
  Walk walk_;
  Removed removed_;
  bool begun_ = false;    // the cursor stands on a candidate
  std::size_t mode_ = 0;  // to be looked through next
  std::unique_ptr<Layers> layers_;
  LayerPlan best_;  // of the candidate
  Bytes candidate_least_;
  Counts counts_;
  std::vector<PlannedCandidate> top_;
  std::optional<Diagnostic> why_refused_;
  std::optional<Candidate> least_;
  Bytes least_peak_;
};

}  // namespace eratos::search
