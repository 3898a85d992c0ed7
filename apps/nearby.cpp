#include "apps/nearby.h"

#include <cstddef>
#include <utility>

#include "eratos/hardware/cluster.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/sayable.h"
#include "eratos/search/nearest.h"

namespace eratos::apps {

namespace {

constexpr std::size_t kMost = 5;
constexpr int kMostGrowth = 64;  // of the nodes

// 2, 4, ... times the nodes.
std::vector<hardware::ClusterSpec> larger_than(const hardware::ClusterSpec& cluster) {
  std::vector<hardware::ClusterSpec> out;
  for (int times = 2; times <= kMostGrowth; times *= 2) {
    Result<hardware::ClusterSpec> more = reader::with_nodes(cluster, cluster.nodes * times);
    if (!more) break;
    out.push_back(*std::move(more));
  }
  return out;
}

}  // namespace

std::vector<report::Nearby> nearby(const Job& job, const job::JobSpec& spec) {
  std::vector<report::Nearby> out;
  const std::vector<hardware::ClusterSpec> larger = larger_than(spec.cluster);
  for (const search::Neighbour& n : search::nearest_that_fit(
           spec, job.calibration, job.options, kMost, *job.workspace, larger,
           reader::says_offload(spec))) {
    out.push_back({n.change, n.screen.device_peak, n.screen.step_lower_bound});
  }
  return out;
}

}  // namespace eratos::apps
