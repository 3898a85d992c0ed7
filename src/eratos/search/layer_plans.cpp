#include "eratos/search/layer_plans.h"

#include <algorithm>
#include <utility>

#include "eratos/search/legality.h"
#include "eratos/search/method.h"

namespace eratos::search {

namespace {

using job::Granularity;

bool is_first_layers(const job::RecomputeSpec& r) {
  return r.granularity == Granularity::full && r.method == job::RecomputeMethod::block &&
         r.layer_ids.empty();
}

// Whole layers with what a policy keeps of them are recomputed by layers too.
bool has_policy(const job::RecomputeSpec& r) {
  return r.granularity == Granularity::full && (!r.policy.empty() || r.kept.any() || r.alternate);
}

double figure_of(double step, const job::JobSpec& s) {
  return step / (static_cast<double>(s.batch.global) * s.batch.sequence);
}

}  // namespace

std::vector<LayerMode> layer_modes(const Space& space, const LayerFreedom& freedom) {
  using What = LayerMode::What;
  std::vector<LayerMode> out;
  job::RecomputeSpec whole;
  whole.granularity = Granularity::full;
  bool first = false;
  bool none = false;
  for (const Value& v : space.values(AxisId::recompute)) {
    const job::RecomputeSpec& r = space.recomputes[static_cast<std::size_t>(v.number)];
    first = first || is_first_layers(r);
    none = none || r.granularity == Granularity::none;
  }
  if (freedom.sets) {
    out.push_back({What::each, whole});
  } else if (first) {
    out.push_back({What::first, whole});
  } else if (none) {
    out.push_back({What::all, {}});
  }
  bool uniform = false;
  for (const Value& v : space.values(AxisId::recompute)) {
    job::RecomputeSpec r = space.recomputes[static_cast<std::size_t>(v.number)];
    if (r.granularity == Granularity::none || is_first_layers(r)) continue;
    // Units of any size take the same time, and those of one layer fit every split.
    if (r.granularity == Granularity::full && r.layer_ids.empty() && !has_policy(r)) {
      if (uniform) continue;
      uniform = true;
      r.layers = 1;
    }
    if (!r.layer_ids.empty() && freedom.sets && !has_policy(r)) continue;
    const bool each = freedom.sets && has_policy(r);
    out.push_back({each ? What::each : What::all, r});
  }
  if (freedom.sets || !freedom.every) return out;
  constexpr int kMostApart = 4;
  for (int every = 2; every <= kMostApart; ++every) {
    job::RecomputeSpec r = whole;
    for (int i = every - 1; i < space.base.model.layers(); i += every) r.layer_ids.push_back(i);
    out.push_back({What::all, r});
  }
  return out;
}

Space without_layers(const Space& space, const LayerFreedom& freedom) {
  Space out = space;
  out.recomputes.push_back({});
  out.axes[static_cast<std::size_t>(AxisId::recompute)] = {
      {static_cast<int>(out.recomputes.size()) - 1, "none"}};
  if (freedom.splits) out.axes[static_cast<std::size_t>(AxisId::split)] = {{2, "balanced"}};
  return out;
}

LayerPlans::LayerPlans(const Space& space, const std::vector<LayerMode>& modes,
                       const LayerFreedom& freedom, std::size_t top,
                       const calibration::Calibration& calibration,
                       const projection::Options& options)
    : space_(space),
      modes_(modes),
      freedom_(freedom),
      most_(top),
      calibration_(calibration),
      options_(options),
      cursor_(space),
      rules_(space),
      walk_(cursor_, rules_, 0, kAxes),
      mode_(modes.size()) {
  counts_.candidates = space.raw();
}

// A framework may refuse a recomputation beside the candidate's other settings.
bool LayerPlans::allowed(const LayerMode& mode) const {
  job::JobSpec job = cursor_.job;
  job.recompute = mode.recompute;
  const Partial whole{space_, cursor_.at, job, *cursor_.scratch};
  for (const Rule* rule : rules_of(space_)) {
    const bool reads = (rule->reads & axis_bit(AxisId::recompute)) != 0;
    if (!reads || rule->ground == Ground::repeat) continue;
    if (rule->refuses(whole)) return false;
  }
  return true;
}

bool LayerPlans::next_candidate() {
  while (walk_.next(removed_)) {
    if (auto why = Layers::refusal(cursor_.job)) {
      ++counts_.refused;
      if (!why_refused_) why_refused_ = std::move(why);
      continue;
    }
    mode_ = 0;
    best_ = {};
    candidate_least_ = Bytes{StageSearch::kNever};
    return true;
  }
  counts_.proven = true;
  return false;
}

bool LayerPlans::next_mode() {
  while (mode_ < modes_.size() && !allowed(modes_[mode_])) ++mode_;
  if (mode_ == modes_.size()) return false;
  double known = best_.step;
  if (top_.size() == most_) {
    const job::JobSpec& s = cursor_.job;
    known = std::min(known, top_.back().figure * s.batch.global * s.batch.sequence);
  }
  layers_ = std::make_unique<Layers>(cursor_.job, modes_[mode_], freedom_.splits, calibration_,
                                     options_, known);
  return true;
}

// Of the mode at hand.
void LayerPlans::add_work(Counts& to) const {
  if (layers_ == nullptr) return;
  to.sets += layers_->sets_priced();
  to.deals += layers_->deals_begun();
  to.simulated += layers_->deals_simulated();
}

LayerPlans::Counts LayerPlans::counts() const {
  Counts out = counts_;
  out.illegal = removed_.total();
  add_work(out);
  return out;
}

void LayerPlans::end_mode() {
  ++counts_.modes;
  add_work(counts_);
  candidate_least_ = min(candidate_least_, layers_->least_peak());
  if (!layers_->plan().stages.empty()) best_ = layers_->plan();
  layers_.reset();
  ++mode_;
}

void LayerPlans::end_candidate() {
  const Bytes limit =
      space_.base.cluster.accelerator.memory_visible * (1.0 - options_.memory_margin);
  if (!best_.stages.empty()) {
    ++counts_.planned;
    const double figure = figure_of(best_.step, cursor_.job);
    const auto place = std::find_if(top_.begin(), top_.end(),
                                    [&](const PlannedCandidate& p) { return figure < p.figure; });
    const std::uint64_t family = family_of(space_, cursor_.at);
    const auto same = std::find_if(top_.begin(), top_.end(), [&](const PlannedCandidate& p) {
      return family_of(space_, p.at) == family;
    });
    if (same != top_.end() && same < place) return;
    const auto index = place - top_.begin();
    if (same != top_.end()) top_.erase(same);
    top_.insert(top_.begin() + index, {cursor_.at, best_, figure});
    if (top_.size() > most_) top_.pop_back();
  } else if (candidate_least_ > limit) {
    ++counts_.too_big;
    if (!least_ || candidate_least_ < least_peak_) {
      least_ = cursor_.at;
      least_peak_ = candidate_least_;
    }
  } else {
    ++counts_.slower;
  }
}

bool LayerPlans::advance() {
  if (layers_ != nullptr) {
    if (!layers_->advance()) end_mode();
    return true;
  }
  if (counts_.proven) return false;
  if (begun_ && next_mode()) return true;
  if (begun_) end_candidate();
  begun_ = next_candidate();
  return begun_;
}

double LayerPlans::progress() const {
  if (counts_.proven) return 1;
  return static_cast<double>(index_of(space_, cursor_.at)) / static_cast<double>(space_.raw());
}

}  // namespace eratos::search
