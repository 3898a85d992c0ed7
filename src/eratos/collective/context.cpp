#include <algorithm>
#include <string_view>
#include <tuple>

#include "eratos/calibration/curves.h"
#include "eratos/collective/algorithms.h"

namespace eratos::collective {

namespace {

// PCIe between the cards of one node, of its nominal rate. Source: 55.4 of 63 GB/s host to device,
// stas00/ml-engineering@744d01e; device to device is no better.
constexpr double kPcieShare = 0.87;
// A network without a calibration. Source: 0.95 of 8 x 50 GB/s on H100 (coreweave/nccl-tests),
// 0.81 on H20, 0.86 on LUMI; the middle.
constexpr double kNetworkShare = 0.87;
// A scale-up link without fitted rows. Source: 340 to 380 of 450 GB/s for rings on H100 and H200.
constexpr double kScaleUpShare = 0.78;

constexpr std::array<Algorithm, 5> kFitted{Algorithm::ring, Algorithm::in_switch, Algorithm::mesh,
                                           Algorithm::pairwise, Algorithm::direct};
constexpr std::array<ops::CollectiveKind, 5> kKinds{
    ops::CollectiveKind::all_reduce, ops::CollectiveKind::all_gather,
    ops::CollectiveKind::reduce_scatter, ops::CollectiveKind::all_to_all,
    ops::CollectiveKind::send_recv};

void insert_sorted(CurveRows& rows, const CurveRow& row) {
  if (rows.size() == CurveRows::capacity()) return;
  rows.push_back(row);
  std::sort(rows.begin(), rows.end(),
            [](const CurveRow& a, const CurveRow& b) { return a.gpus < b.gpus; });
}

void add_piece(CurvePieces& pieces, const calibration::CollectiveCurve& curve,
               ops::CollectiveKind kind, Algorithm algorithm, const CurveRow& row) {
  if (pieces.size() == CurvePieces::capacity()) return;
  pieces.push_back({kind, static_cast<std::uint8_t>(algorithm),
                    static_cast<std::uint16_t>(std::max(1, curve.domains)), row.gpus,
                    curve.from.value, row.alpha, row.seconds_per_byte, row.gamma});
  const auto place = [](const CurvePiece& p) {
    return std::tuple(p.kind, p.algorithm, p.domains, p.gpus, p.from);
  };
  std::sort(pieces.begin(), pieces.end(),
            [&](const CurvePiece& a, const CurvePiece& b) { return place(a) < place(b); });
}

double share_of(const hardware::NetworkLevel& level, std::size_t index, bool between_nodes,
                const calibration::PartCalibration& calibration) {
  if (between_nodes) {
    return calibration.network.share > 0 ? calibration.network.share : kNetworkShare;
  }
  if (index > 0 || level.topology == hardware::Topology::pcie) return kPcieShare;
  return kScaleUpShare;
}

}  // namespace

std::string_view name_of(Algorithm a) {
  switch (a) {
    case Algorithm::none:
      return "none";
    case Algorithm::ring:
      return "ring";
    case Algorithm::tree:
      return "tree";
    case Algorithm::in_switch:
      return "in_switch";
    case Algorithm::mesh:
      return "mesh";
    case Algorithm::hierarchical:
      return "hierarchical";
    case Algorithm::pairwise:
      return "pairwise";
    case Algorithm::two_stage:
      return "two_stage";
    case Algorithm::direct:
      return "direct";
    case Algorithm::count_:
      break;
  }
  return "?";
}

GroupPlacement place(parallel::Group group, const hardware::ClusterSpec& cluster) {
  GroupPlacement placement;
  placement.size = std::max(1, group.size);
  for (const hardware::NetworkLevel& level : cluster.levels) {
    placement.members.push_back(parallel::members_in_domain(group, level.gpus));
  }
  if (placement.members.empty()) placement.members.push_back(placement.size);
  placement.members.back() = placement.size;
  return placement;
}

CollectiveContext make_context(const hardware::ClusterSpec& cluster,
                               const calibration::PartCalibration& calibration,
                               const framework::KernelFactors& factors) {
  CollectiveContext context;
  const hardware::ScaleUp& own = cluster.accelerator.scale_up;
  context.gpus_per_node = cluster.gpus_per_node;
  context.network_alpha = calibration.network.alpha.value;
  context.network_gamma = calibration.network.gamma;
  context.network_decay = factors.network_decay;
  context.composed_reduce_scatter = factors.reduce_scatter_by_all_reduce;
  // Nodes that join fewer accelerators than the part can spread all of its links over those: a V100
  // has two links to each of three others in a node of four. A cluster of one domain may be half of
  // one.
  const bool own_nodes = !hardware::follows_from_part(cluster) && cluster.levels.size() > 1;
  context.mesh_size = std::max(2, own_nodes ? cluster.levels[0].gpus : own.domain_gpus);

  for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
    const hardware::NetworkLevel& level = cluster.levels[i];
    LevelConstants constants;
    constants.gpus = level.gpus;
    constants.latency = level.latency.value;
    // The innermost level is the scale-up fabric even where it spans nodes (NVL72).
    constants.between_nodes = i > 0 && level.gpus > cluster.gpus_per_node;
    constants.in_switch_reduction = level.in_switch_reduction;
    const double rate = level.bandwidth.value * factors.collective *
                        share_of(level, i, constants.between_nodes, calibration);
    constants.seconds_per_byte = rate > 0 ? 1.0 / rate : 0.0;
    context.levels.push_back(constants);
  }
  if (context.levels.empty()) return context;

  context.direct_links = cluster.levels[0].topology == hardware::Topology::mesh;
  const double stated = cluster.levels[0].bandwidth.value;
  const double scale =
      (own.bandwidth.value > 0 && stated > 0 ? stated / own.bandwidth.value : 1.0) *
      factors.collective;
  for (const calibration::CollectiveCurve& curve : calibration.collectives) {
    for (const ops::CollectiveKind kind : kKinds) {
      if (curve.kind != ops::name_of(kind)) continue;
      for (const Algorithm algorithm : kFitted) {
        if (curve.algorithm != name_of(algorithm) || curve.busbw.value <= 0) continue;
        const bool inside = curve.domains <= 1;
        const double links = inside && algorithm == Algorithm::mesh ? curve.gpus - 1.0 : 1.0;
        const double faster = inside ? scale : factors.collective;
        const CurveRow row{curve.gpus, curve.alpha.value, links / (curve.busbw.value * faster),
                           curve.gamma / faster};
        if (calibration::in_pieces(calibration.collectives, curve))
          add_piece(context.pieces, curve, kind, algorithm, row);
        if (!inside || !calibration::is_last_piece(calibration.collectives, curve)) continue;
        insert_sorted(
            context.curves[static_cast<std::size_t>(kind)][static_cast<std::size_t>(algorithm)],
            row);
      }
    }
  }
  return context;
}

}  // namespace eratos::collective
