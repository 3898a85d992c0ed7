// A machine room as nested network levels: the innermost joins the accelerators of a scale-up
// domain, each next one joins several domains of the level inside it, the last joins them all.
//
// Letters: N nodes, M accelerators a node. `mi355x-8x8` is N=8, M=8.
// Worked example: h100-sxm-16x8 has two levels: nvlink (8 GPUs, 450 GB/s each) and the NIC
// network (128 GPUs, 50 GB/s each). A GB200 NVL72 part keeps its 72-GPU domain whatever M is.
#pragma once

#include <string>

#include "eratos/base/inplace_vector.h"
#include "eratos/base/units.h"
#include "eratos/hardware/accelerator.h"

namespace eratos::hardware {

struct NetworkLevel {
  LinkKind kind = LinkKind::infiniband;
  int gpus = 1;              // size of one domain at this level, in accelerators
  BytesPerSecond bandwidth;  // one direction, share of one accelerator
  Seconds latency;           // one hop
  Topology topology = Topology::fabric_switch;
  bool in_switch_reduction = false;  // NVLS, SHARP
};

// More than anyone has: products of counts stay far inside 32 bits.
inline constexpr int kMostAccelerators = 10'000'000;

// What keeping it running takes, as its owner says; 0 where nothing is said.
struct RunningCost {
  double price_per_gpu_hour = 0;  // in the owner's currency
  double load_w = 0;              // one accelerator that computes; its part's board power where 0
  double idle_w = 0;              // one that waits
  double host_w = 0;              // its share of processors, memory, network cards and fans
  double pue = 1;                 // what the building takes for each watt of these
};

struct ClusterSpec {
  std::string name;
  AcceleratorSpec accelerator;
  int nodes = 1;
  int gpus_per_node = 8;
  InplaceVector<NetworkLevel, 4> levels;  // innermost first; sizes grow and divide one another
  RunningCost running;
  std::string source;

  int gpus() const { return nodes * gpus_per_node; }
};

// PART-NxM from the part alone: the scale-up level, then the NIC level when N*M exceeds it.
// A scale-up domain never exceeds the cluster; where it is larger than a node (NVL72) it spans
// nodes. The rule for users: docs/USING.md.
ClusterSpec derive_cluster(const AcceleratorSpec& part, int nodes, int gpus_per_node);

// True when the levels are those that derive_cluster() gives for its part and size.
bool follows_from_part(const ClusterSpec& cluster);

// The same room with another part in it. Levels that follow from the part follow the new one.
// Levels of their own keep their latencies and kinds and take the ratio of the parts' data sheets:
// the innermost of the scale-up links, those beyond the node of the network cards. A domain that
// grows swallows the levels inside it.
//
// Worked example: eos-4x8 (450 and 50 GB/s) with a part of twice the scale-up rate and a 16-GPU
// domain has levels of 16 GPUs at 900 GB/s and of 32 at 50 GB/s.
ClusterSpec with_part(const ClusterSpec& cluster, const AcceleratorSpec& part);

}  // namespace eratos::hardware
