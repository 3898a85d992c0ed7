#include "eratos/search/difference.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "eratos/base/check.h"
#include "eratos/search/axes.h"

namespace eratos::search {

namespace {

using AxisList = std::vector<std::size_t>;

// Two values on every axis that differs, the first of `from`.
Space between(const Space& space, const Settings& from, const Settings& to) {
  Space out;
  out.base = space.base;
  out.recomputes = space.recomputes;
  for (std::size_t i = 0; i < kAxes; ++i) {
    out.axes[i] = {from[i]};
    if (from[i].number != to[i].number) out.axes[i].push_back(to[i]);
  }
  return out;
}

struct Figure {
  double seconds = 0;  // a token
  bool fits = false;
  Bytes device_peak;
};

class Path {
 public:
  Path(const Space& pair, const calibration::Calibration& calibration,
       const projection::Options& options, projection::Workspace& w)
      : pair_(pair), calibration_(calibration), options_(options), w_(w) {
    for (std::size_t i = 0; i < kAxes; ++i) {
      if (pair.axes[i].size() > 1) left_.push_back(i);
    }
    const std::optional<Figure> first = figure_at(at_);
    ERATOS_CHECK(first.has_value());
    here_ = *first;
  }

  std::vector<Contribution> walk() {
    std::vector<Contribution> out;
    while (!left_.empty()) out.push_back(next());
    return out;
  }

 private:
  // Nothing where it is not legal.
  std::optional<Figure> figure_at(const Candidate& at) {
    job::JobSpec job = pair_.base;
    apply(pair_, at, job);
    if (!job::check(job, *checked_).empty()) return std::nullopt;
    if (!projection::schedule_faults(*checked_).empty()) return std::nullopt;
    const projection::Projection p = projection::project(*checked_, calibration_, options_, w_);
    const double tokens = static_cast<double>(job.batch.global) * job.batch.sequence;
    return Figure{p.time.step.value / tokens, p.memory.fits, p.memory.device_peak};
  }

  Candidate with(const AxisList& axes) const {
    Candidate out = at_;
    for (const std::size_t i : axes) out.at[i] = 1;
    return out;
  }

  // The fastest legal of those that change `many` axes and begin as `chosen` does.
  void choose(std::size_t many, std::size_t from, AxisList& chosen,
              std::optional<std::pair<AxisList, Figure>>& best) {
    if (chosen.size() == many) {
      const std::optional<Figure> f = figure_at(with(chosen));
      if (f && (!best || f->seconds < best->second.seconds)) best = {chosen, *f};
      return;
    }
    for (std::size_t i = from; i < left_.size(); ++i) {
      chosen.push_back(left_[i]);
      choose(many, i + 1, chosen, best);
      chosen.pop_back();
    }
  }

  Contribution next() {
    constexpr std::size_t kMostTogether = 3;  // then all that are left
    std::optional<std::pair<AxisList, Figure>> best;
    for (std::size_t many = 1; !best && many <= kMostTogether && many < left_.size(); ++many) {
      AxisList chosen;
      choose(many, 0, chosen, best);
    }
    if (!best) {
      const std::optional<Figure> last = figure_at(with(left_));
      ERATOS_CHECK(last.has_value());
      best = {left_, *last};
    }
    Contribution out;
    for (const std::size_t i : best->first) {
      out.changes.push_back({static_cast<AxisId>(i), pair_.axes[i][0].word, pair_.axes[i][1].word});
      std::erase(left_, i);
    }
    out.before = here_.seconds;
    out.after = best->second.seconds;
    out.fits = best->second.fits;
    out.device_peak = best->second.device_peak;
    at_ = with(best->first);
    here_ = best->second;
    return out;
  }

  const Space& pair_;
  const calibration::Calibration& calibration_;
  const projection::Options& options_;
  projection::Workspace& w_;
  std::unique_ptr<job::CheckedJob> checked_ = std::make_unique<job::CheckedJob>();
  Candidate at_;
  Figure here_;
  AxisList left_;
};

}  // namespace

Settings settings_of(const Space& space, const Candidate& candidate) {
  Settings out;
  for (std::size_t i = 0; i < kAxes; ++i) out[i] = space.axes[i][candidate.at[i]];
  return out;
}

Settings settings_of_job(const Space& space) {
  Settings out;
  for (std::size_t i = 0; i < kAxes; ++i) out[i] = value_of_job(space, static_cast<AxisId>(i));
  return out;
}

std::vector<Contribution> contributions(const Space& space, const Settings& from,
                                        const Settings& to,
                                        const calibration::Calibration& calibration,
                                        const projection::Options& options,
                                        projection::Workspace& w) {
  const Space pair = between(space, from, to);
  return Path(pair, calibration, options, w).walk();
}

}  // namespace eratos::search
