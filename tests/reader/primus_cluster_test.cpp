#include "eratos/reader/primus_cluster.h"

#include <gtest/gtest.h>

#include <string>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/decode.h"
#include "eratos/reader/read_job.h"
#include "eratos/reader/set_value.h"
#include "expect.h"

namespace eratos::reader {
namespace {

const std::string kExamples = std::string(ERATOS_SOURCE_DIR) + "/tests/data/primus/examples/";
const std::string kHardware = kExamples + "hardware_configs/mi355x.yaml";

TEST(PrimusCluster, HardwareConfiguration) {
  const auto one = good(load_cluster(kHardware));
  EXPECT_EQ(one.accelerator.name, "mi355x");
  EXPECT_EQ(one.gpus(), 8);
  ASSERT_EQ(one.levels.size(), 1U);
  EXPECT_DOUBLE_EQ(one.levels[0].bandwidth.value, 537.6e9);
  EXPECT_DOUBLE_EQ(one.levels[0].latency.value, 0.45e-6);
  EXPECT_EQ(one.levels[0].topology, hardware::Topology::mesh);
}

// 16 nodes of 8: beyond the pod of 64 its own rate.
TEST(PrimusCluster, NodesReachTheLevelsOfTheFile) {
  JobRead read = good(read_job("llama2-7b", Environment{}));
  good(apply_cluster(read, kHardware, 16));
  const hardware::ClusterSpec& c = read.job.cluster;
  EXPECT_EQ(c.gpus(), 128);
  ASSERT_EQ(c.levels.size(), 3U);
  EXPECT_EQ(c.levels[1].gpus, 64);
  EXPECT_DOUBLE_EQ(c.levels[1].bandwidth.value, 50e9);
  EXPECT_EQ(c.levels[2].gpus, 128);
  EXPECT_DOUBLE_EQ(c.levels[2].bandwidth.value, 25e9);
}

TEST(PrimusCluster, EveryPart) {
  for (const char* part : {"mi300x", "mi325x", "mi350x", "mi355x"}) {
    EXPECT_EQ(good(load_cluster(kExamples + "hardware_configs/" + part + ".yaml")).accelerator.name,
              part);
  }
}

TEST(PrimusCluster, TargetCluster) {
  const auto c =
      good(load_cluster(kExamples + "agents/tuning_agent/target_cluster_mi355x_4nodes.yaml"));
  EXPECT_EQ(c.gpus(), 32);
  EXPECT_EQ(c.name, "mi355x_4nodes-4x8");
  ASSERT_EQ(c.levels.size(), 2U);
  EXPECT_DOUBLE_EQ(c.levels[1].bandwidth.value, 50e9);
}

TEST(PrimusCluster, Faults) {
  EXPECT_NE(faults_of(read_job(kHardware, Environment{})).find("describes a cluster, not a job"),
            std::string::npos);
  auto root = yaml("hardware_config: {node_bw: 448.0, pod_bandwidth: 50.0}\n");
  root.set_place(Location{"mi300x.yaml", 1, 1});
  const std::string text = faults_of(decode_cluster(root));
  EXPECT_NE(text.find("`hardware_config.pod_bw` is missing"), std::string::npos);
  EXPECT_NE(text.find("unknown key `hardware_config.pod_bandwidth`"), std::string::npos);
}

}  // namespace
}  // namespace eratos::reader
