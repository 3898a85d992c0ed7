#include "eratos/reader/hardware_file.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/decode.h"
#include "expect.h"

namespace eratos::reader {
namespace {

bool borrows(const hardware::AcceleratorSpec& part, const std::string& field) {
  return std::find(part.borrowed.begin(), part.borrowed.end(), field) != part.borrowed.end();
}

TEST(HardwareFile, WhatIsNotStatedIsTheKins) {
  const auto part =
      good(complete_accelerator(yaml("kin: h100-sxm\nmemory: {bandwidth_bytes_per_s: 6.7e12}\n")));
  const auto kin = good(load_accelerator("h100-sxm"));
  EXPECT_EQ(part.name, "job");  // its file's name
  EXPECT_EQ(part.kin, "h100-sxm");
  EXPECT_EQ(part.memory_bandwidth.value, 6.7e12);
  EXPECT_EQ(part.memory_visible.value, kin.memory_visible.value);
  EXPECT_EQ(part.architecture, "sm90");
  EXPECT_FALSE(borrows(part, "memory.bandwidth_bytes_per_s"));
  EXPECT_TRUE(borrows(part, "memory.visible_bytes"));
  EXPECT_TRUE(borrows(part, "peak_flops_per_s.bf16"));
  EXPECT_FALSE(borrows(part, "name"));
  EXPECT_FALSE(borrows(part, "power_w"));
}

TEST(HardwareFile, APartInsideAClusterWithoutANameIsLikeItsKin) {
  const auto cluster =
      good(decode_cluster(yaml("accelerator:\n  kin: h100-sxm\n  clock_hz: 2.0e9\n")));
  EXPECT_EQ(cluster.accelerator.name, "like-h100-sxm");
  EXPECT_EQ(cluster.name, "job-1x8");
  EXPECT_EQ(good(decode_cluster(yaml("kin: h100-sxm\n"), 2)).name, "job-2x8");
}

TEST(HardwareFile, AnAliasOfTheKinIsThePart) {
  EXPECT_EQ(good(complete_accelerator(yaml("kin: h100\nclock_hz: 2.0e9\n"))).kin, "h100-sxm");
}

TEST(HardwareFile, WithoutAKinTheNearestPart) {
  const auto amd = good(complete_accelerator(
      yaml("name: next\nvendor: amd\narchitecture: gfx950\npeak_flops_per_s: {bf16: 3.0e15}\n")));
  EXPECT_EQ(amd.kin, "mi355x");
  const auto nvidia = good(complete_accelerator(
      yaml("name: next\nvendor: nvidia\npeak_flops_per_s: {bf16: 1.0e15}\n"
           "memory: {bandwidth_bytes_per_s: 4.8e12, visible_bytes: 150000000000}\n")));
  EXPECT_EQ(nvidia.kin, "h200-sxm");
}

TEST(HardwareFile, WhatRunningAClusterTakesIsKeptAndWrittenAgain) {
  const char* said =
      "accelerator: h100-sxm\nnodes: 4\nprice_per_gpu_hour: 2.1\n"
      "power: {load_w: 600, idle_w: 90, host_w: 250, pue: 1.2}\n";
  for (const auto& cluster :
       {good(decode_cluster(yaml(said))),
        good(decode_cluster(cluster_to_node(good(decode_cluster(yaml(said))))))}) {
    EXPECT_EQ(cluster.running.price_per_gpu_hour, 2.1);
    EXPECT_EQ(cluster.running.load_w, 600);
    EXPECT_EQ(cluster.running.idle_w, 90);
    EXPECT_EQ(cluster.running.host_w, 250);
    EXPECT_EQ(cluster.running.pue, 1.2);
    EXPECT_EQ(cluster.accelerator.board_power_w, 700);
  }
  const text::Node silent = cluster_to_node(good(load_cluster("h100-sxm-4x8")));
  EXPECT_EQ(silent.find("power"), nullptr);
  EXPECT_EQ(silent.find("price_per_gpu_hour"), nullptr);
  EXPECT_NE(faults_of(decode_cluster(yaml("accelerator: h100-sxm\npower: {pue: 0.9}\n")))
                .find("power.pue"),
            std::string::npos);
  EXPECT_NE(faults_of(decode_cluster(yaml("accelerator: h100-sxm\npower: {load: 700}\n")))
                .find("known here: load_w"),
            std::string::npos);
}

TEST(HardwareFile, Faults) {
  EXPECT_NE(faults_of(complete_accelerator(yaml("kin: h101-sxm\n"))).find("did you mean"),
            std::string::npos);
  EXPECT_NE(faults_of(complete_accelerator(yaml("kin: h100-sxm\nmemori: {}\n")))
                .find("unknown key `memori`"),
            std::string::npos);
  EXPECT_NE(faults_of(complete_accelerator(yaml("[]\n"))).find("a name or a mapping"),
            std::string::npos);
  EXPECT_NE(faults_of(decode_cluster(yaml("name: x\naccelerator: h101-sxm\n"))).find("h101-sxm"),
            std::string::npos);
  EXPECT_NE(faults_of(decode_cluster(yaml("name: x\naccelerator: none.yaml\n"))).find("none.yaml"),
            std::string::npos);
}

// Each number a part or a room states is one that such a thing can have, and the fault has a place.
TEST(HardwareFile, NumbersOutOfRangeAreFaults) {
  const std::string part = "kin: h100-sxm\n";
  for (const char* field :
       {"compute_units", "clock_hz", "power_w", "gpus_per_node", "nic_bytes_per_s",
        "host_link_bytes_per_s", "shared_memory_per_unit_bytes", "memory.nominal_bytes",
        "memory.visible_bytes", "memory.bandwidth_bytes_per_s", "cache.l2_bytes",
        "cache.last_level_bytes", "scale_up.bandwidth_bytes_per_s", "scale_up.domain_gpus",
        "peak_flops_per_s.bf16", "peak_flops_per_s.fp8"}) {
    const std::string path = field;
    const std::size_t dot = path.find('.');
    const bool whole = path == "gpus_per_node" || path == "scale_up.domain_gpus";
    for (const char* value : {"-1", "1.0e+300", ".inf", "-.inf", ".nan"}) {
      if (whole && std::string(value) != "-1") continue;
      const std::string file =
          dot == std::string::npos
              ? part + path + ": " + value + "\n"
              : part + path.substr(0, dot) + ": {" + path.substr(dot + 1) + ": " + value + "}\n";
      const std::string bad = faults_of(complete_accelerator(yaml(file)));
      EXPECT_NE(bad.find("job.yaml:2:"), std::string::npos) << file << bad;
      EXPECT_NE(bad.find("`" + path + "` is "), std::string::npos) << file << bad;
      EXPECT_NE(bad.find(", no number from "), std::string::npos) << file << bad;
    }
  }
  // What 0 means, it may mean: no such format, no network known.
  EXPECT_EQ(good(complete_accelerator(yaml(part + "peak_flops_per_s: {fp8: 0}\n")))
                .peak_of(DType::fp8)
                .value,
            0);
  EXPECT_EQ(good(complete_accelerator(yaml(part + "nic_bytes_per_s: 0\n"))).nic_per_gpu.value, 0);
  EXPECT_NE(faults_of(complete_accelerator(yaml(part + "clock_hz: 0\n"))).find("no number"),
            std::string::npos);

  const auto room = [](const std::string& gpus, const std::string& rate, const std::string& hop) {
    return faults_of(decode_cluster(
        yaml("accelerator: h100-sxm\nnodes: 2\nlevels:\n  - {kind: nvlink, gpus: " + gpus +
             ", bandwidth_bytes_per_s: " + rate + ", latency_s: " + hop + "}\n")));
  };
  for (const char* hop : {"-1", "1.5", ".inf", ".nan"}) {
    EXPECT_NE(room("16", "4.5e11", hop).find("job.yaml:4:"), std::string::npos) << hop;
    EXPECT_NE(room("16", "4.5e11", hop).find("`cluster.levels.0.latency_s` is "), std::string::npos)
        << room("16", "4.5e11", hop);
  }
  for (const char* rate : {"0", "-1", ".inf", ".nan", "450"}) {  // 450: GB/s, not bytes
    EXPECT_NE(room("16", rate, "0").find("`cluster.levels.0.bandwidth_bytes_per_s` is "),
              std::string::npos)
        << rate;
  }
  for (const char* gpus : {"0", "-8", "20000000"}) {
    EXPECT_NE(room(gpus, "4.5e11", "0").find("`cluster.levels.0.gpus` is "), std::string::npos)
        << gpus;
  }
  for (const char* size : {"nodes: 0", "nodes: -1", "gpus_per_node: 0", "nodes: 20000000"}) {
    EXPECT_NE(faults_of(decode_cluster(yaml(std::string("accelerator: h100-sxm\n") + size + "\n")))
                  .find("job.yaml:2:"),
              std::string::npos)
        << size;
  }
  EXPECT_NE(
      faults_of(decode_cluster(yaml("accelerator: h100-sxm\nnodes: 10000000\ngpus_per_node: 8\n")))
          .find("80000000 accelerators"),
      std::string::npos);
}

// The link of a part is data of its file, not of its maker's name.
TEST(HardwareFile, LinksAreSaid) {
  const auto cluster = good(decode_cluster(
      yaml("kin: h100-sxm\nvendor: amd\nnic_link: efa\nscale_up: {in_switch_reduction: false}\n"),
      2));
  EXPECT_EQ(cluster.levels[0].kind, hardware::LinkKind::nvlink);
  EXPECT_FALSE(cluster.levels[0].in_switch_reduction);
  EXPECT_EQ(cluster.levels[1].kind, hardware::LinkKind::efa);
  EXPECT_TRUE(good(load_cluster("h100-sxm-2x8")).levels[0].in_switch_reduction);
  EXPECT_FALSE(good(load_cluster("a100-80g-2x8")).levels[0].in_switch_reduction);
  EXPECT_TRUE(good(load_cluster("gb200-2x4")).levels[0].in_switch_reduction);
  EXPECT_EQ(good(load_cluster("mi300x-2x8")).levels[0].kind, hardware::LinkKind::xgmi);
  EXPECT_EQ(good(load_cluster("mi300x-2x8")).levels[1].kind, hardware::LinkKind::roce);
  EXPECT_EQ(good(load_cluster("l40s-2x8")).levels[0].kind, hardware::LinkKind::pcie);
}

TEST(HardwareFile, EveryPartOfTheCatalogueIsWrittenAndReadBack) {
  for (const std::string& name : names_of(Kind::accelerators)) {
    const auto part = good(load_accelerator(name), name);
    text::Node tree = accelerator_to_node(part);
    tree.set("kin", text::Node::string(name));
    const auto again = good(complete_accelerator(tree), name);
    text::Node written = accelerator_to_node(again);
    written.erase("borrowed");
    tree.erase("borrowed");
    EXPECT_EQ(written, tree) << name;
    EXPECT_TRUE(again.borrowed == part.borrowed) << name;
  }
}

TEST(HardwareFile, AClusterFollowsItsPartUnlessItSaysOtherwise) {
  const auto derived = good(decode_cluster(
      yaml("name: lab\nnodes: 2\naccelerator: {kin: h100-sxm, scale_up: {domain_gpus: 16}}\n")));
  ASSERT_EQ(derived.levels.size(), 1U);
  EXPECT_EQ(derived.levels[0].gpus, 16);
  EXPECT_EQ(derived.name, "lab-2x8");
  EXPECT_EQ(good(with_nodes(derived, 4)).levels[0].gpus, 16);
  EXPECT_EQ(good(with_nodes(derived, 4)).levels[1].gpus, 32);
  const auto again = good(decode_cluster(cluster_to_node(derived)));
  EXPECT_EQ(cluster_to_node(again), cluster_to_node(derived));
}

TEST(HardwareFile, OneFigureChanged) {
  const auto base = good(load_cluster("h100-sxm-2x8"));
  const auto twice = good(with_hardware(base, "bandwidth", "x2"));
  EXPECT_EQ(twice.accelerator.memory_bandwidth.value, 6.7e12);
  EXPECT_EQ(twice.accelerator.kin, "h100-sxm");
  EXPECT_TRUE(twice.accelerator.borrowed.empty());
  EXPECT_EQ(twice.name, "h100-sxm(bandwidth=x2)-2x8");
  const auto also = good(with_hardware(twice, "nic_bytes_per_s", "1e11"));
  EXPECT_EQ(also.name, "h100-sxm(bandwidth=x2, nic_bytes_per_s=1e11)-2x8");
  EXPECT_EQ(also.levels[1].bandwidth.value, 1e11);
  const auto compute = good(with_hardware(base, "compute", "x2"));
  EXPECT_EQ(compute.accelerator.peak_of(DType::bf16).value, 2 * 9.894e14);
  EXPECT_EQ(compute.accelerator.peak_of(DType::fp8).value, 2 * 1.9789e15);
  EXPECT_EQ(good(with_hardware(base, "bandwidth", "x1")).name, base.name);
  EXPECT_EQ(good(with_hardware(base, "domain", "8")).accelerator.kin, "");
  const auto level = good(with_hardware(base, "levels.1.latency_s", "x0.5"));
  EXPECT_DOUBLE_EQ(level.levels[1].latency.value, base.levels[1].latency.value / 2);
  for (const char* value : {"x0", "-1", "x", "", "fast", "1e999", "2x"}) {
    EXPECT_NE(faults_of(with_hardware(base, "bandwidth", value)).find("no positive number"),
              std::string::npos)
        << value;
  }
  EXPECT_NE(faults_of(with_hardware(base, "bandwith", "x2")).find("did you mean `bandwidth`"),
            std::string::npos);
  EXPECT_NE(faults_of(with_hardware(base, "levels.7.gpus", "x2")).find("levels 0 to 1"),
            std::string::npos);
}

// calibration/borrow.h, worked example.
TEST(HardwareFile, TheBandWidensByTheStatedRule) {
  const auto part = good(complete_accelerator(
      yaml("name: next\nkin: h100-sxm\nmemory: {bandwidth_bytes_per_s: 6.7e12}\n"
           "peak_flops_per_s: {bf16: 1.18728e15}\n"
           "scale_up: {domain_gpus: 16, bandwidth_bytes_per_s: 4.5e11}\n")));
  const auto kin = good(load_calibration("h100-sxm"));
  const auto calibration = good(load_calibration(part));
  const double w = 0.06931 + 0.01823 + 0.06931 + 0.02;
  EXPECT_NEAR(calibration.unmeasured.widening, w, 1e-4);
  EXPECT_EQ(kin.unmeasured.widening, 0);
  EXPECT_NE(calibration.unmeasured.basis.find("17.7%"), std::string::npos)
      << calibration.unmeasured.basis;
  EXPECT_EQ(calibration.part.gemm_of(DType::bf16).peak_fraction,
            kin.part.gemm_of(DType::bf16).peak_fraction);
  EXPECT_FALSE(calibration.part.statements.empty());
}

}  // namespace
}  // namespace eratos::reader
