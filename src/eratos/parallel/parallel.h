// How a job is cut over ranks, and where each cut's groups lie in the machine.
//
// Letters: tp tensor, cp context, pp pipeline, vpp chunks a pipeline rank, dp data, ep expert,
// etp expert tensor, edp expert data; W = tp*cp*dp*pp ranks.
// Ranks are laid out by `order`, innermost axis first. Attention and dense layers use
// tp-cp-dp-pp, experts etp-ep-edp-pp over the same ranks ("parallel folding").
// Source: Megatron-LM core/parallel_state.py (RankGenerator, default order tp-cp-ep-dp-pp).
//
// Worked example: tp 2, cp 1, dp 8, pp 4, ep 8 on 64 ranks: the dp group has stride 2 and size 8,
// the pp group stride 16; the ep group stride 1, size 8 (etp 1), and edp size 64/4/8 = 2.
#pragma once

#include <array>
#include <cstdint>

#include "eratos/base/axis.h"

namespace eratos::parallel {

using eratos::Axis;
enum class CpKind : std::uint8_t { p2p, all_gather, a2a };
enum class Sharding : std::uint8_t { none, zero1, zero2, zero3, hsdp };

struct ParallelSpec {
  int tp = 1;
  int cp = 1;
  int pp = 1;
  int vpp = 1;
  int ep = 1;
  int etp = 1;
  int dp = 1;  // world / (tp*cp*pp)
  CpKind cp_kind = CpKind::p2p;
  bool sequence_parallel = false;
  Sharding sharding = Sharding::none;
  // hsdp: ranks that share one full copy; zero3: ranks that share a secondary copy of the parameters
  // for backward (ZeRO++), 0 for none.
  int hsdp_group = 0;
  // Innermost first. ep is placed where its letter stands among the dense axes.
  std::array<Axis, 5> order{Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp};

  int world() const { return tp * cp * dp * pp; }
  int edp() const { return world() / (pp * ep * etp); }
};

// Members of a group: `size` ranks, each `stride` ranks after the one before.
struct Group {
  int size = 1;
  int stride = 1;
};

// The group of an axis for the rank layout above. Errors: none for a legal spec.
Group group_of(const ParallelSpec& spec, Axis axis);

// How many members of `group` share one network domain of `domain` consecutive ranks: at least 1.
// Worked example: size 8, stride 2, domain 8: 4 members.
int members_in_domain(Group group, int domain);

}  // namespace eratos::parallel
