// PART-NxM from the part alone, for parts of every kind of scale-up domain.
#include "eratos/hardware/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "eratos/hardware/accelerator.h"
#include "eratos/reader/catalogue.h"

namespace eratos::hardware {
namespace {

ClusterSpec derive(const char* part, int nodes, int gpus_per_node) {
  const auto spec = reader::load_accelerator(part);
  EXPECT_TRUE(spec.has_value()) << part;
  return derive_cluster(spec ? *spec : AcceleratorSpec{}, nodes, gpus_per_node);
}

void expect_level(const NetworkLevel& level, LinkKind kind, int gpus, double bandwidth) {
  EXPECT_EQ(level.kind, kind);
  EXPECT_EQ(level.gpus, gpus);
  EXPECT_EQ(level.bandwidth.value, bandwidth);
  EXPECT_GT(level.latency.value, 0);
}

TEST(DeriveCluster, SwitchedNodes) {
  const ClusterSpec c = derive("h100-sxm", 16, 8);
  EXPECT_EQ(c.name, "h100-sxm-16x8");
  EXPECT_EQ(c.gpus(), 128);
  ASSERT_EQ(c.levels.size(), 2u);
  expect_level(c.levels[0], LinkKind::nvlink, 8, 450e9);
  EXPECT_TRUE(c.levels[0].in_switch_reduction);
  expect_level(c.levels[1], LinkKind::infiniband, 128, 50e9);
}

TEST(DeriveCluster, OneNodeHasNoNetwork) {
  EXPECT_EQ(derive("h100-sxm", 1, 8).levels.size(), 1u);
  const ClusterSpec four = derive("h100-sxm", 1, 4);
  ASSERT_EQ(four.levels.size(), 1u);
  EXPECT_EQ(four.levels[0].gpus, 4);
}

// The NVLink domain of 72 spans 18 trays of 4, however the trays are counted.
TEST(DeriveCluster, RackScaleDomain) {
  ClusterSpec c = derive("gb200", 18, 4);
  ASSERT_EQ(c.levels.size(), 1u);
  expect_level(c.levels[0], LinkKind::nvlink, 72, 900e9);
  EXPECT_TRUE(c.levels[0].in_switch_reduction);

  c = derive("gb200", 36, 4);
  ASSERT_EQ(c.levels.size(), 2u);
  EXPECT_EQ(c.levels[0].gpus, 72);
  expect_level(c.levels[1], LinkKind::infiniband, 144, 50e9);

  c = derive("gb200", 9, 8);
  ASSERT_EQ(c.levels.size(), 1u);
  EXPECT_EQ(c.levels[0].gpus, 72);

  // A cluster smaller than the domain.
  EXPECT_EQ(derive("gb200", 2, 4).levels[0].gpus, 8);
}

TEST(DeriveCluster, AmpereSwitchesDoNotReduce) {
  EXPECT_FALSE(derive("a100-80g", 2, 8).levels[0].in_switch_reduction);
}

// mi250x counts one of the two dies of a package: 8 in a node of 4 packages.
TEST(DeriveCluster, Mi250xDies) {
  const ClusterSpec c = derive("mi250x", 128, 8);
  ASSERT_EQ(c.levels.size(), 2u);
  expect_level(c.levels[0], LinkKind::xgmi, 8, 100e9);
  EXPECT_FALSE(c.levels[0].in_switch_reduction);
  EXPECT_EQ(c.levels[1].gpus, 1024);
  EXPECT_EQ(c.levels[1].bandwidth.value, 12.5e9);
}

TEST(DeriveCluster, MeshOfAmd) {
  const ClusterSpec c = derive("mi300x", 2, 8);
  expect_level(c.levels[0], LinkKind::xgmi, 8, c.accelerator.scale_up.bandwidth.value);
  EXPECT_EQ(c.levels[0].topology, Topology::mesh);
}

TEST(DeriveCluster, PciePartsAlone) {
  const ClusterSpec c = derive("l40s", 2, 8);
  ASSERT_EQ(c.levels.size(), 2u);
  expect_level(c.levels[0], LinkKind::pcie, 8, 31.5e9);
  EXPECT_FALSE(c.levels[0].in_switch_reduction);
  EXPECT_EQ(c.levels[1].gpus, 16);
}

// A bridge joins pairs; the pairs of a node meet over PCIe, the nodes over their cards.
TEST(DeriveCluster, BridgedPairs) {
  const ClusterSpec c = derive("h100-pcie", 4, 8);
  ASSERT_EQ(c.levels.size(), 3u);
  expect_level(c.levels[0], LinkKind::nvlink, 2, 300e9);
  EXPECT_FALSE(c.levels[0].in_switch_reduction);
  expect_level(c.levels[1], LinkKind::pcie, 8, 63e9);
  expect_level(c.levels[2], LinkKind::infiniband, 32, 50e9);
}

TEST(DeriveCluster, LevelsNestForEveryPartOfTheCatalogue) {
  for (const std::string& name : reader::names_of(reader::Kind::accelerators)) {
    const auto part = reader::load_accelerator(name);
    ASSERT_TRUE(part.has_value()) << name;
    const int node = part->gpus_per_node;
    const int whole = std::max(node, part->scale_up.domain_gpus);
    // Without a known network a part stays within its domain (check() refuses the rest).
    const int most = part->nic_per_gpu.value > 0 ? 4 : 1;
    for (const int nodes : {1, most * whole / node}) {
      const ClusterSpec c = derive_cluster(*part, nodes, node);
      ASSERT_GE(c.levels.size(), 1u) << name;
      EXPECT_EQ(c.levels.back().gpus, c.gpus()) << name;
      for (std::size_t i = 0; i < c.levels.size(); ++i) {
        EXPECT_GT(c.levels[i].bandwidth.value, 0) << name;
        if (i > 0) {
          EXPECT_GT(c.levels[i].gpus, c.levels[i - 1].gpus) << name;
          EXPECT_EQ(c.levels[i].gpus % c.levels[i - 1].gpus, 0) << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace eratos::hardware
