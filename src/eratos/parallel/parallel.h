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
#include <string_view>

#include "eratos/base/axis.h"

namespace eratos::parallel {

using eratos::Axis;
enum class CpKind : std::uint8_t { p2p, all_gather, a2a };
enum class Sharding : std::uint8_t { none, zero1, zero2, zero3, hsdp };

// Which virtual stages a pipeline rank holds: p ranks, rank r, chunk c.
enum class Placement : std::uint8_t {
  looped,  // virtual stage c p + r
  vee,     // two chunks, down and back up: virtual stages r and 2 p - 1 - r
  // Two copies of the model, two chunks a rank: chunk 0 is stage r of one, chunk 1 stage p - 1 - r of
  // the other. Each copy sees half of the micro-batches.
  bidirectional,
};

// Where the output layer and its loss run.
// Source: "Balancing Pipeline Parallelism with Vocabulary Parallelism", arXiv 2411.05288, sections
// 4 and 5; interlaced: nnScaler, "Constraint-Guided Parallelization Plan Generation", OSDI 2024.
enum class OutputLayer : std::uint8_t {
  last_stage,    // in the last virtual stage's forward and backward
  two_barriers,  // cut over all ranks: S, all ranks meet, T, all ranks meet, B of the last stage (Vocab-1)
  one_barrier,   // S makes the input gradient too: S, all ranks meet, B of the last stage; T any time (Vocab-2)
  interlaced,    // cut over all ranks, which stop for it together, as tensor parallelism does
};
inline constexpr OutputLayer kOutputLayers[] = {OutputLayer::last_stage, OutputLayer::two_barriers,
                                                OutputLayer::one_barrier, OutputLayer::interlaced};
std::string_view name_of(OutputLayer o);  // "last-stage", "two-barriers", ...

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
  // What the schedule asks for; job::check() fills them in.
  Placement placement = Placement::looped;
  OutputLayer output_layer = OutputLayer::last_stage;

  int world() const { return tp * cp * dp * pp; }
  int edp() const { return world() / (pp * ep * etp); }
};

// Chunks of the model on a pipeline rank, and the virtual stage that each is.
constexpr int chunks_of(const ParallelSpec& p) {
  return p.placement == Placement::bidirectional ? 2 : p.vpp;
}
constexpr int stage_of(Placement placement, int pp, int rank, int chunk) {
  switch (placement) {
    case Placement::looped:
      return chunk * pp + rank;
    case Placement::vee:
      return chunk == 0 ? rank : 2 * pp - 1 - rank;
    case Placement::bidirectional:
      return chunk == 0 ? rank : pp - 1 - rank;
  }
  return 0;
}
constexpr int stage_of(const ParallelSpec& p, int rank, int chunk) {
  return stage_of(p.placement, p.pp, rank, chunk);
}
constexpr int copies_of(Placement placement) { return placement == Placement::bidirectional ? 2 : 1; }

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
