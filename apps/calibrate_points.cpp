// eratos calibrate POINTS.csv ...: curves of kernels and collectives from the lines that are not
// held out.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/exit_code.h"
#include "apps/output.h"
#include "apps/points.h"
#include "eratos/projection/fit_points.h"
#include "eratos/report/fitted_points.h"

namespace eratos::apps {

namespace {

using projection::AttentionPoint;
using projection::CollectivePoint;
using projection::GemmPoint;
using projection::Sample;
using report::FittedCurve;

// The lines of one curve, those that the fit may see apart from the others.
template <class P>
struct Lines {
  std::vector<Sample<P>> seen;
  std::vector<Sample<P>> held_out;
  std::set<std::string> sources;

  void add(const reader::Point& point) {
    (point.held_out ? held_out : seen).push_back({std::get<P>(point.work), point.measured});
    // The first words: repository or document.
    const std::size_t end = point.source.find(' ', point.source.find(' ') + 1);
    if (!point.held_out) sources.insert(point.source.substr(0, end));
  }
  std::string source_text() const {
    std::string out;
    for (const std::string& source : sources) out += (out.empty() ? "" : ", ") + source;
    return out;
  }
};

template <class P>
report::FitErrors errors_of(const MeasuredPart& part, const calibration::PartCalibration& fitted,
                            const Lines<P>& lines) {
  const projection::PointPricer pricer(part.spec, fitted);
  const auto mean = [&](const std::vector<Sample<P>>& samples) {
    double sum = 0;
    for (const auto& s : samples) sum += std::abs(pricer.price(s.point) / s.measured - 1);
    return samples.empty() ? 0 : sum / static_cast<double>(samples.size());
  };
  return {static_cast<int>(lines.seen.size()), mean(lines.seen),
          static_cast<int>(lines.held_out.size()), mean(lines.held_out)};
}

// A part whose calibration has one rate for both 16-bit formats gets one fit of both.
bool one_rate(const MeasuredPart& part) {
  return part.calibration.gemm_of(DType::bf16).peak_fraction ==
         part.calibration.gemm_of(DType::fp16).peak_fraction;
}

void fit_products(const MeasuredPart& part, const std::vector<const reader::Point*>& points,
                  std::vector<FittedCurve>& out) {
  std::map<std::pair<std::string, DType>, Lines<GemmPoint>> groups;
  for (const reader::Point* p : points) {
    const auto* work = std::get_if<GemmPoint>(&p->work);
    if (work == nullptr) continue;
    reader::Point same = *p;
    DType& dtype = std::get<GemmPoint>(same.work).product.dtype;
    if (dtype == DType::fp16 && one_rate(part)) dtype = DType::bf16;
    groups[{work->library, dtype}].add(same);
  }
  for (const auto& [key, lines] : groups) {
    const auto fit = projection::fit_gemm(part.spec, part.calibration, lines.seen);
    if (!fit) continue;
    calibration::PartCalibration fitted;
    fitted.casts = fit->casts;
    if (key.first.empty()) {
      fitted.gemm[static_cast<std::size_t>(key.second)] = fit->curve;
    } else {
      fitted.libraries.push_back({key.first, key.second, fit->curve});
    }
    FittedCurve curve;
    curve.gemm = {key.first, key.second, fit->curve};
    curve.errors = errors_of(part, fitted, lines);
    curve.sources = lines.source_text();
    out.push_back(curve);
    if (key.second == DType::bf16 && key.first.empty() && one_rate(part)) {
      out.push_back(curve);
      out.back().gemm.dtype = DType::fp16;
    }
    curve.kind = FittedCurve::Kind::cast;
    for (const calibration::CastCurve& cast : fit->casts) {
      curve.cast = cast;
      out.push_back(curve);
    }
  }
}

void fit_attentions(const MeasuredPart& part, const std::vector<const reader::Point*>& points,
                    std::vector<FittedCurve>& out) {
  using Key = std::tuple<std::string, DType, bool, bool, double>;
  std::map<Key, Lines<AttentionPoint>> groups;
  for (const reader::Point* p : points) {
    const auto* work = std::get_if<AttentionPoint>(&p->work);
    if (work == nullptr || work->both_passes) continue;
    const ops::Attention& a = work->work;
    if (a.head_dim != a.v_head_dim) continue;  // priced by the table's mla
    groups[{work->kernel, a.dtype, a.backward, !a.causal, a.head_dim}].add(*p);
  }
  for (const auto& [key, lines] : groups) {
    const auto fit = projection::fit_attention(part.spec, part.calibration, lines.seen);
    if (!fit) continue;
    calibration::PartCalibration fitted;
    fitted.elementwise = part.calibration.elementwise;
    fitted.attention.default_kernel = fit->kernel;
    fitted.attention.curves.push_back(*fit);
    FittedCurve curve;
    curve.kind = FittedCurve::Kind::attention;
    curve.attention = *fit;
    curve.errors = errors_of(part, fitted, lines);
    curve.sources = lines.source_text();
    out.push_back(curve);
  }
}

// Which of the algorithms with curves a group inside one domain runs: as select.cpp allows them.
std::string algorithm_of(const MeasuredPart& part, const CollectivePoint& work) {
  const hardware::NetworkLevel& domain = work.cluster.levels[0];
  if (work.kind == ops::CollectiveKind::send_recv) return "direct";
  if (domain.topology == hardware::Topology::mesh) return "mesh";
  if (work.kind == ops::CollectiveKind::all_to_all) return "pairwise";
  if (work.kind != ops::CollectiveKind::all_reduce || !domain.in_switch_reduction) return "ring";
  for (const calibration::CollectiveCurve& curve : part.calibration.collectives) {
    if (curve.algorithm == "in_switch" && curve.gpus <= work.group.size) return "in_switch";
  }
  return "ring";
}

void fit_collectives(const MeasuredPart& part, const std::vector<const reader::Point*>& points,
                     std::vector<FittedCurve>& out) {
  using Key = std::tuple<ops::CollectiveKind, std::string, int>;
  std::map<Key, Lines<CollectivePoint>> groups;
  for (const reader::Point* p : points) {
    const auto* work = std::get_if<CollectivePoint>(&p->work);
    if (work == nullptr) continue;
    // Launched eagerly, a small message shows its host and not its links.
    if (20 * max(work->fixed, work->floor) > p->measured) continue;
    groups[{work->kind, algorithm_of(part, *work), work->group.size}].add(*p);
  }
  for (const auto& [key, lines] : groups) {
    const auto fit = projection::fit_collective(std::get<1>(key), lines.seen);
    if (!fit) continue;
    // Beside the part's other curves: one collective is bounded by what others take.
    calibration::PartCalibration fitted = part.calibration;
    const auto same = std::find_if(
        fitted.collectives.begin(), fitted.collectives.end(), [&](const auto& old) {
          return old.kind == fit->kind && old.algorithm == fit->algorithm && old.gpus == fit->gpus;
        });
    if (same != fitted.collectives.end()) fitted.collectives.erase(same);
    fitted.collectives.push_back(*fit);
    FittedCurve curve;
    curve.kind = FittedCurve::Kind::collective;
    curve.collective = *fit;
    curve.errors = errors_of(part, fitted, lines);
    curve.sources = lines.source_text();
    out.push_back(curve);
  }
}

}  // namespace

int calibrate_points(const Arguments& arguments) {
  const auto points = load_points(arguments.words);
  if (!points) return report_faults(points.error());
  const std::map<std::string, MeasuredPart> parts = load_parts(*points);
  report::FittedParts fitted;
  for (const auto& [name, part] : parts) {
    std::vector<const reader::Point*> own;
    for (const reader::Point& p : *points) {
      if (p.part == name && p.skipped.empty()) own.push_back(&p);
    }
    std::vector<FittedCurve> curves;
    fit_products(part, own, curves);
    fit_attentions(part, own, curves);
    fit_collectives(part, own, curves);
    if (!curves.empty()) fitted.emplace(name, std::move(curves));
  }
  const std::string text = arguments.has("--output")
                               ? report::fitted_yaml(fitted)
                               : report::fitted_text(fitted, style_of(arguments));
  return deliver(text, arguments, kAnswered);
}

}  // namespace eratos::apps
