// Which layers are recomputed, and how many stand on which stage? The shortest step under the
// memory's limit, in the manner of Galvatron's dynamic programming (arXiv 2211.13878, section 4),
// with this model's own memory and schedule in place of sums.
//
// What the answer is proven against: every deal of layers to the ranks, each with at least one,
// and, where recomputation goes by layers, every set of layers that are recomputed in full.
//   A rank's passes do not depend on the others' (projection/ranks.h), and a step is never shorter
//   for a longer pass, so a rank takes the set that fits with the shortest backward, whatever the
//   others do; where layers go to the host as well, one of those of which no other has both passes
//   shorter. Of layers that are alike the first ones are recomputed: the later one that is kept
//   then has the lower pile beneath it, which no order of the same numbers undercuts. What is left
//   are deals: stages.h.
//
// Assumes: a layer that is recomputed takes no less time than one that is kept, keeps no more, and
// its backward works with no less beside what it keeps. Tests look at every architecture of the
// catalogue.
//
// Worked example: 4 layers on 2 ranks, of which the first rank holds two micro-batches, the second
// one: where 3 kept layers fit into the memory, rank 0 recomputes layer 0 and keeps layer 1, rank 1
// keeps both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/calibration/calibration.h"
#include "eratos/job/job.h"
#include "eratos/projection/projection.h"
#include "eratos/projection/ranks.h"
#include "eratos/search/stages.h"

namespace eratos::search {

struct LayerMode {
  enum class What : std::uint8_t {
    each,   // any set of layers in full
    first,  // the first layers of every stage, as many on each
    all,    // as `recompute` says of every layer
  };
  What what = What::each;
  job::RecomputeSpec recompute;  // what a recomputed layer is; of `all`, what every layer is
};

// Where a stage's layers stand and what becomes of them.
struct StagePlan {
  int first = 0;
  std::vector<std::uint8_t> full;  // of its layers: recomputed in full?
  Bytes device_peak;
};

struct LayerPlan {
  job::RecomputeSpec recompute;
  job::LayoutSpec layout;
  std::vector<StagePlan> stages;
  double step = StageSearch::kNever;  // seconds; never: nothing fits
};

// One job and one mode.
class Layers {
 public:
  // Why the job's layers cannot be chosen so, or nothing.
  static std::optional<Diagnostic> refusal(const job::JobSpec& job);

  // `job` is legal with the mode's recomputation and some split of its layers; `deals`: other
  // splits may be taken as well. The calibration stays where it is. Requires that nothing is
  // refused. `known`: a step that is reached already; only a shorter plan is looked for.
  Layers(const job::JobSpec& job, const LayerMode& mode, bool deals,
         const calibration::Calibration& calibration, const projection::Options& options,
         double known = StageSearch::kNever);

  // Does a piece of work: a rank's costs, or so many deals. False when nothing is left to do.
  bool advance();

  // Without stages where nothing that fits is shorter than what was known.
  const LayerPlan& plan() const { return plan_; }
  // No choice of this mode is shorter.
  double lower_bound() const;
  // The least that the fullest rank must hold; where nothing fits it is above the limit.
  Bytes least_peak() const;

  std::uint64_t sets_priced() const { return priced_; }  // sets of layers looked at on a rank
  std::uint64_t deals_begun() const;
  std::uint64_t deals_simulated() const;

 private:
  // What a rank can do with a run of layers: no set has both passes shorter than one of these.
  struct Choice {
    RankChoices costs;
    std::vector<std::vector<std::uint8_t>> full;  // [costs]
    std::vector<Bytes> device_peaks;              // [costs]
    Bytes least{StageSearch::kNever};             // of all sets
    Bytes state;                                  // what no recomputation changes
  };

  const Choice& choice_of(int rank, int first, int count);
  std::vector<std::uint8_t> given_set(int first, int count) const;
  Choice choose(int rank, int first, int count);
  void choose_each(int rank, int first, int count, Choice& out);
  // True where it fits.
  bool try_set(int rank, int first, const std::vector<std::uint8_t>& full, Choice& out);
  void fill_rank(int rank);
  void begin_search();
  void keep_plan();
  job::RecomputeSpec said(const std::vector<StagePlan>& stages) const;
  std::uint16_t class_of(int layer, int position) const;
  int least_layers(int rank) const;

  job::JobSpec spec_;
  LayerMode mode_;
  bool deals_;
  Bytes limit_;
  std::unique_ptr<job::CheckedJob> checked_;
  std::unique_ptr<projection::Ranks> ranks_;
  int first_layers_ = 0;  // of `first`: how many
  int most_first_ = 0;
  std::deque<Choice> choices_;
  std::unordered_map<std::string, const Choice*> known_;  // by rank, and kinds of its layers
  std::unique_ptr<StageTable> table_;
  std::vector<double> least_;  // [(p + 1) * (L + 1)] of the ranks from there on
  int next_rank_ = 0;          // to be priced, the last first
  std::unique_ptr<StageSearch> search_;
  double known_step_;
  LayerPlan plan_;
  double bound_ = StageSearch::kNever;
  Bytes least_peak_{StageSearch::kNever};
  std::uint64_t priced_ = 0;
  std::uint64_t begun_ = 0;
  std::uint64_t simulated_ = 0;
};

}  // namespace eratos::search
