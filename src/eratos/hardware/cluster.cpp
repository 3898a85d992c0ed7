#include "eratos/hardware/cluster.h"

#include <algorithm>

namespace eratos::hardware {

namespace {

// One-hop latencies. Source: NVIDIA/nccl@5067397 src/graph/tuning.cc hardware latencies: NVLink
// ring Simple 3.4 us and network ring Simple 14 us a hop; xGMI 2.1 us in ROCm/rccl@0cbce2a.
constexpr double kNvlinkHopS = 3.4e-6;
constexpr double kXgmiHopS = 2.1e-6;
constexpr double kPcieHopS = 5.7e-6;
constexpr double kNetworkHopS = 14e-6;

// Assumes: a hop of a torus, or of a link without a word of its own, takes as long as one of
// NVLink.
double hop_s(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink:
    case LinkKind::torus:
    case LinkKind::other:
      return kNvlinkHopS;
    case LinkKind::xgmi:
      return kXgmiHopS;
    case LinkKind::pcie:
      return kPcieHopS;
    case LinkKind::infiniband:
    case LinkKind::roce:
    case LinkKind::efa:
    case LinkKind::slingshot:
    case LinkKind::ethernet:
      return kNetworkHopS;
  }
  return kNetworkHopS;
}

NetworkLevel scale_up_level(const AcceleratorSpec& part, int gpus) {
  NetworkLevel level;
  level.gpus = gpus;
  level.kind = part.scale_up.link;
  level.bandwidth = part.scale_up.bandwidth;
  level.latency = Seconds{hop_s(level.kind)};
  level.topology = part.scale_up.topology;
  level.in_switch_reduction = part.scale_up.in_switch_reduction;
  return level;
}

}  // namespace

ClusterSpec derive_cluster(const AcceleratorSpec& part, int nodes, int gpus_per_node) {
  ClusterSpec cluster;
  cluster.name = part.name + "-" + std::to_string(nodes) + "x" + std::to_string(gpus_per_node);
  cluster.accelerator = part;
  cluster.nodes = nodes;
  cluster.gpus_per_node = gpus_per_node;
  cluster.source = "derived from the accelerator's own file";
  const int total = nodes * gpus_per_node;
  const int domain = part.scale_up.domain_gpus > part.gpus_per_node
                         ? std::min(part.scale_up.domain_gpus, total)
                         : std::min(part.scale_up.domain_gpus, gpus_per_node);
  cluster.levels.push_back(scale_up_level(part, std::max(1, domain)));
  if (domain < gpus_per_node) {
    NetworkLevel host;
    host.kind = LinkKind::pcie;
    host.gpus = gpus_per_node;
    host.bandwidth = part.host_link;
    host.latency = Seconds{hop_s(host.kind)};
    host.topology = Topology::pcie;
    cluster.levels.push_back(host);
  }
  if (total > cluster.levels.back().gpus) {
    NetworkLevel network;
    network.kind = part.nic_link;
    network.gpus = total;
    network.bandwidth = part.nic_per_gpu;
    network.latency = Seconds{hop_s(network.kind)};
    cluster.levels.push_back(network);
  }
  return cluster;
}

namespace {

bool same(const NetworkLevel& a, const NetworkLevel& b) {
  return a.kind == b.kind && a.gpus == b.gpus && a.bandwidth.value == b.bandwidth.value &&
         a.latency.value == b.latency.value && a.topology == b.topology &&
         a.in_switch_reduction == b.in_switch_reduction;
}

double ratio(BytesPerSecond now, BytesPerSecond before) {
  return now.value > 0 && before.value > 0 ? now.value / before.value : 1.0;
}

}  // namespace

bool follows_from_part(const ClusterSpec& cluster) {
  const ClusterSpec derived =
      derive_cluster(cluster.accelerator, cluster.nodes, cluster.gpus_per_node);
  if (derived.levels.size() != cluster.levels.size()) return false;
  for (std::size_t i = 0; i < derived.levels.size(); ++i) {
    if (!same(derived.levels[i], cluster.levels[i])) return false;
  }
  return true;
}

ClusterSpec with_part(const ClusterSpec& cluster, const AcceleratorSpec& part) {
  ClusterSpec out = cluster;
  out.accelerator = part;
  const ClusterSpec derived = derive_cluster(part, cluster.nodes, cluster.gpus_per_node);
  if (follows_from_part(cluster)) {
    out.levels = derived.levels;
    return out;
  }
  const AcceleratorSpec& before = cluster.accelerator;
  const bool same_domain = part.scale_up.domain_gpus == before.scale_up.domain_gpus;
  out.levels.clear();
  for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
    NetworkLevel level = cluster.levels[i];
    if (i == 0) {
      level.bandwidth.value *= ratio(part.scale_up.bandwidth, before.scale_up.bandwidth);
      if (!same_domain) level.gpus = derived.levels[0].gpus;
    } else if (level.kind == LinkKind::pcie) {
      level.bandwidth.value *= ratio(part.host_link, before.host_link);
    } else {
      level.bandwidth.value *= ratio(part.nic_per_gpu, before.nic_per_gpu);
    }
    const bool adds = out.levels.empty() || level.gpus > out.levels.back().gpus;
    if (adds) out.levels.push_back(level);
  }
  return out;
}

}  // namespace eratos::hardware
