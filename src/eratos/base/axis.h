// The axes along which a job is cut over ranks: names that the IR and room `parallel` share.
#pragma once

#include <cstdint>

namespace eratos {

// tp tensor, cp context, dp data, pp pipeline, ep expert, etp expert tensor, edp expert data;
// dp_cp: all ranks that hold the same dense weights; hsdp_shard and hsdp_replica cut dp_cp in two.
enum class Axis : std::uint8_t { tp, cp, dp, pp, ep, etp, edp, tp_cp, dp_cp, hsdp_shard, hsdp_replica };

}  // namespace eratos
