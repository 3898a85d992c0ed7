// One accelerator as its maker and its driver describe it: what it could do, not what it
// sustains (that is measured, and lives in room `calibration`).
//
// Worked example: an H100 SXM has 132 units at 1.83 GHz and 2048 bf16 FMA per clock and unit:
//   132 * 2048 * 2 * 1.83e9 = 989.4e12 FLOP/s, the figure of its data sheet.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "eratos/base/dtype.h"
#include "eratos/base/units.h"

namespace eratos::hardware {

enum class Topology { fabric_switch, mesh, pcie, torus };
enum class LinkKind {
  nvlink,
  xgmi,
  pcie,
  infiniband,
  roce,
  efa,
  slingshot,
  ethernet,
  torus,
  other,  // a maker's own: HCCS, MTLink
};

// Links that join accelerators inside one scale-up domain (NVLink, xGMI, ...).
struct ScaleUp {
  BytesPerSecond bandwidth;  // one direction, all links of one accelerator together
  int domain_gpus = 1;       // how many accelerators the links join
  Topology topology = Topology::fabric_switch;
  LinkKind link = LinkKind::nvlink;
  bool in_switch_reduction = false;  // the switch adds (NVLS)
};

struct AcceleratorSpec {
  std::string name;                  // spelling of the truth CSVs, e.g. "h100-sxm"
  std::vector<std::string> aliases;  // e.g. "H100-SXM5-80GB"
  std::string vendor;                // "nvidia", "amd", ...
  std::string architecture;          // "sm90", "gfx950", ...
  std::string kind = "gpu";          // gpu | tpu | npu | cpu (one core)
  double compute_units = 0;          // SMs or CUs
  double clock_hz = 0;
  // Dense data-sheet peak by format; 0 where the part does not have the format.
  std::array<FlopsPerSecond, 10> peak{};
  Bytes memory_nominal;
  Bytes memory_visible;  // what the driver reports as total: the capacity that counts
  BytesPerSecond memory_bandwidth;
  Bytes l2_cache;
  Bytes last_level_cache;  // 0 where there is none beyond L2
  ScaleUp scale_up;
  BytesPerSecond host_link;    // PCIe or C2C, one direction
  BytesPerSecond nic_per_gpu;  // its share of the node's network cards, one direction
  LinkKind nic_link = LinkKind::infiniband;  // what its network cards speak
  // Products of 8-bit operands with one scale a tensor read them along rows or along columns, so
  // that no transposed copy is made.
  bool any_layout_fp8 = false;
  int gpus_per_node = 8;
  double board_power_w = 0;  // 0 where nobody said
  std::string confidence;             // high | medium | low
  std::vector<std::string> borrowed;  // fields taken from the nearest kin
  std::string kin;  // of a part that a user described: the catalogue's part whose figures stand in
                    // for what was not stated, and whose measurements are used; "" otherwise
  std::string source;

  FlopsPerSecond peak_of(DType t) const { return peak[static_cast<std::size_t>(t)]; }
};

}  // namespace eratos::hardware
