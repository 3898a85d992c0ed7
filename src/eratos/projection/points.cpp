#include "eratos/projection/points.h"

#include <algorithm>

namespace eratos::projection {

namespace {

const framework::KernelFactors kAlone;

kernel::KernelContext context_of(const hardware::AcceleratorSpec& part,
                                 const calibration::PartCalibration& calibration,
                                 std::string_view attention, kernel::Setting setting) {
  return kernel::make_context(part, calibration, kAlone, attention, setting);
}

bool has_kernel(const calibration::AttentionTable& table, const std::string& kernel, DType dtype) {
  // fp8 runs at a kernel's 16-bit rows where it has none of its own.
  return std::any_of(table.curves.begin(), table.curves.end(), [&](const auto& curve) {
    return curve.kernel == kernel && (curve.dtype == dtype || dtype == DType::fp8);
  });
}

}  // namespace

const calibration::GemmCurve* library_curve(const calibration::PartCalibration& calibration,
                                            const std::string& library, DType dtype) {
  for (const calibration::LibraryGemm& entry : calibration.libraries) {
    if (entry.library == library && entry.dtype == dtype) return &entry.curve;
  }
  return nullptr;
}

PointPricer::PointPricer(const hardware::AcceleratorSpec& part,
                         const calibration::PartCalibration& calibration)
    : part_(part),
      calibration_(calibration),
      isolated_(context_of(part, calibration, "", kernel::Setting::isolated)),
      training_(context_of(part, calibration, "", kernel::Setting::in_training)) {}

Seconds PointPricer::price(const GemmPoint& point) const {
  const bool training = point.setting == kernel::Setting::in_training;
  const kernel::KernelContext& context = training ? training_ : isolated_;
  Seconds t;
  if (point.library.empty()) {
    t = kernel::time_of(point.product, context);
  } else {
    const calibration::GemmCurve* curve =
        library_curve(calibration_, point.library, point.product.dtype);
    if (curve == nullptr) return Seconds{0};
    t = kernel::time_of(point.product,
                        kernel::with_gemm(context, part_, point.product.dtype, *curve));
  }
  if (point.product.groups > 1) {
    t = max(t, Seconds{context.gemm[static_cast<std::size_t>(point.product.dtype)].launch} +
                   point.product.groups * point.per_group);
  }
  if (!point.cast.empty()) {
    const auto cast =
        std::find_if(calibration_.casts.begin(), calibration_.casts.end(),
                     [&](const calibration::CastCurve& c) { return c.kernel == point.cast; });
    if (cast == calibration_.casts.end()) return Seconds{0};
    t += cast->launch + point.cast_traffic / (part_.memory_bandwidth * cast->share);
  }
  return t + point.fixed;
}

Seconds PointPricer::price(const AttentionPoint& point) const {
  if (!has_kernel(calibration_.attention, point.kernel, point.work.dtype)) return Seconds{0};
  const kernel::KernelContext context =
      context_of(part_, calibration_, point.kernel, kernel::Setting::isolated);
  Seconds t = kernel::time_of(point.work, context);
  if (point.both_passes) {
    ops::Attention backward = point.work;
    backward.backward = true;
    t += kernel::time_of(backward, context);
  }
  if (point.beside.value > 0) t += kernel::time_of(ops::Elementwise{point.beside}, context);
  return t;
}

Seconds PointPricer::price(const CollectivePoint& point) const {
  const collective::CollectiveContext context =
      collective::make_context(point.cluster, calibration_, kAlone);
  const Seconds t = collective::time_of(point.kind, point.bytes,
                                        collective::place(point.group, point.cluster), context);
  return max(t + point.fixed, point.floor);
}

}  // namespace eratos::projection
