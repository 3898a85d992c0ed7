// One measured kernel or collective, alone, and what the models say it takes.
//
// Answers "how far is the price of this product, attention or all-reduce from its measurement?",
// for the tables that `eratos validate` reads and for the fits of fit_points.h. Nothing of a
// training step is in these prices: no framework's factor, no overlap, no host.
//
// Worked example: 8192 x 14336 x 4096 in bf16 on an H100 is priced at 1.22 ms; a table that says
// 785 TFLOP/s says 1.226 ms. The error is -0.5%.
#pragma once

#include <string>
#include <variant>

#include "eratos/base/units.h"
#include "eratos/calibration/calibration.h"
#include "eratos/collective/collective.h"
#include "eratos/hardware/cluster.h"
#include "eratos/kernel/kernel.h"
#include "eratos/ops/ops.h"
#include "eratos/parallel/parallel.h"

namespace eratos::projection {

// A product, with what else the measurement holds.
struct GemmPoint {
  ops::Gemm product;
  // in_training: the table was taken at the part's power limit, where its large products run at the
  // rate of a step.
  kernel::Setting setting = kernel::Setting::isolated;
  std::string library;  // of the calibration's `gemm_libraries`; "": the one that frameworks call
  std::string cast;     // of its `casts`: a kernel that casts A first; "": none
  Bytes cast_traffic;
  Seconds per_group;  // a harness that launches each group by itself takes at least this for one
  Seconds fixed;      // its call from Python, where the clock runs meanwhile
};

struct AttentionPoint {
  ops::Attention work;
  std::string kernel;
  bool both_passes = false;  // forward, then backward
  Bytes beside;  // traffic of a kernel of its own beside it (rotary and cache of a server)
};

// `group` of the cluster's ranks; bytes as nccl-tests count them.
struct CollectivePoint {
  ops::CollectiveKind kind = ops::CollectiveKind::all_reduce;
  Bytes bytes;
  hardware::ClusterSpec cluster;
  parallel::Group group;
  Seconds fixed;  // of launching it eagerly instead of from a graph
  Seconds floor;  // no faster than its host launches one after another
};

using PointWork = std::variant<GemmPoint, AttentionPoint, CollectivePoint>;

// The curve of a library for a format, or nullptr.
const calibration::GemmCurve* library_curve(const calibration::PartCalibration& calibration,
                                            const std::string& library, DType dtype);

// What a part sustains in both settings and with each kernel that the points name.
class PointPricer {
 public:
  PointPricer(const hardware::AcceleratorSpec& part,
              const calibration::PartCalibration& calibration);

  // Seconds, or 0 where the calibration lacks the library, the cast or the kernel that the point
  // names.
  Seconds price(const GemmPoint& point) const;
  Seconds price(const AttentionPoint& point) const;
  Seconds price(const CollectivePoint& point) const;
  Seconds price(const PointWork& work) const {
    return std::visit([this](const auto& point) { return price(point); }, work);
  }

 private:
  const hardware::AcceleratorSpec& part_;
  const calibration::PartCalibration& calibration_;
  kernel::KernelContext isolated_;
  kernel::KernelContext training_;
};

}  // namespace eratos::projection
