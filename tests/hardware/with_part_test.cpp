#include <gtest/gtest.h>

#include "eratos/hardware/cluster.h"
#include "eratos/reader/catalogue.h"

namespace eratos::hardware {
namespace {

// cluster.h, worked example.
TEST(WithPart, LevelsOfTheirOwnTakeTheRatioOfTheDataSheets) {
  ClusterSpec eos = *reader::load_cluster("eos-4x8");
  eos.levels[1].latency = Seconds{20e-6};
  ASSERT_FALSE(follows_from_part(eos));
  AcceleratorSpec part = eos.accelerator;
  part.scale_up.bandwidth.value *= 2;
  part.scale_up.domain_gpus = 16;
  const ClusterSpec next = with_part(eos, part);
  ASSERT_EQ(next.levels.size(), 2U);
  EXPECT_EQ(next.levels[0].gpus, 16);
  EXPECT_EQ(next.levels[0].bandwidth.value, 900e9);
  EXPECT_EQ(next.levels[0].latency.value, eos.levels[0].latency.value);
  EXPECT_EQ(next.levels[1].gpus, 32);
  EXPECT_EQ(next.levels[1].bandwidth.value, 50e9);
  EXPECT_EQ(next.levels[1].latency.value, 20e-6);
}

TEST(WithPart, LevelsThatFollowFromThePartFollowTheNewOne) {
  const ClusterSpec plain = *reader::load_cluster("h100-sxm-4x8");
  ASSERT_TRUE(follows_from_part(plain));
  AcceleratorSpec part = plain.accelerator;
  part.nic_per_gpu.value *= 3;
  EXPECT_EQ(with_part(plain, part).levels[1].bandwidth.value, 150e9);
  part.scale_up.domain_gpus = 64;
  EXPECT_EQ(with_part(plain, part).levels.size(), 1U);
  EXPECT_EQ(with_part(plain, part).name, plain.name);
}

}  // namespace
}  // namespace eratos::hardware
