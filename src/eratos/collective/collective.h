// How long a group of ranks needs to exchange a message.
//
// Read first: placement says where a group lies, the context what its links sustain, select.cpp
// which algorithm the communication library runs, and one file an algorithm what that takes.
//
// Letters: n ranks, g of them in one scale-up domain, N = n/g domains, b bytes (the larger of one
// rank's two buffers, as nccl-tests counts), f the bus factor: 2(n-1)/n all-reduce, (n-1)/n
// all-gather, reduce-scatter and all-to-all, 1 send/receive; busbw = f b / t.
// Worked example: 64 MiB all-reduced over the 8 GPUs of an H100 node:
//   15.4 us + 1.75 * 67.1 MB / 481 GB/s + 8.65 ns * sqrt(67.1e6) = 330 us, busbw 356 GB/s
// (measured 361 to 364).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "eratos/base/inplace_vector.h"
#include "eratos/base/units.h"
#include "eratos/calibration/calibration.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/ops/ops.h"
#include "eratos/parallel/parallel.h"

namespace eratos::collective {

// Where a group's ranks lie. members[i] of them share one domain of the cluster's level i,
// innermost first; the last entry is the whole group. Groups that run at the same time need no
// entry of their own: every rank brings its own share of the node's network cards and no more, so
// rank-aligned groups divide them exactly.
struct GroupPlacement {
  int size = 1;
  InplaceVector<int, 4> members;

  friend bool operator==(const GroupPlacement&, const GroupPlacement&) = default;
};

// Worked example: dp 16 with stride 8 on nodes of 8: members {1, 16}. With stride 2: {4, 16}.
// Errors: none; a group larger than the cluster counts as lying in its outermost level.
GroupPlacement place(parallel::Group group, const hardware::ClusterSpec& cluster);

enum class Algorithm : std::uint8_t {
  none,  // one rank: nothing to send
  ring,
  tree,
  in_switch,
  mesh,
  hierarchical,
  pairwise,
  two_stage,  // once to each node, then on inside it
  direct,     // send and receive
  count_,
};
std::string_view name_of(Algorithm a);

// One fitted size of one collective inside a scale-up domain.
struct CurveRow {
  int gpus = 2;
  double alpha = 0;             // s
  double seconds_per_byte = 0;  // 1 / busbw; of a mesh, of one link: (gpus - 1) / busbw
  double gamma = 0;             // s / sqrt(byte)

  friend bool operator==(const CurveRow&, const CurveRow&) = default;
};
using CurveRows = InplaceVector<CurveRow, 8>;  // by rising group size

// A curve in pieces, or one across domains: messages from `from` bytes to the next piece's.
struct CurvePiece {
  ops::CollectiveKind kind = ops::CollectiveKind::all_reduce;
  std::uint8_t algorithm = 0;
  std::uint16_t domains = 1;
  int gpus = 2;
  double from = 0;
  double alpha = 0;             // s
  double seconds_per_byte = 0;  // as CurveRow
  double gamma = 0;             // s / sqrt(byte)

  friend bool operator==(const CurvePiece&, const CurvePiece&) = default;
};
// By kind, algorithm, domains, group size and rising `from`.
using CurvePieces = InplaceVector<CurvePiece, calibration::kMostCurvePieces>;

struct LevelConstants {
  int gpus = 1;
  double latency = 0;           // one hop, s
  double seconds_per_byte = 0;  // one rank's share of the link
  bool between_nodes = false;
  bool in_switch_reduction = false;

  friend bool operator==(const LevelConstants&, const LevelConstants&) = default;
};

struct CollectiveContext {
  InplaceVector<LevelConstants, 4> levels;
  // [kind][algorithm], only the algorithms that run inside one domain have rows.
  std::array<std::array<CurveRows, static_cast<std::size_t>(Algorithm::count_)>, 5> curves{};
  // What a row of `curves` leaves out, which holds for the largest messages; empty for most parts.
  CurvePieces pieces;
  bool composed_reduce_scatter = false;  // an all-reduce of which each rank keeps its part
  bool direct_links = false;  // the domain is a mesh: a pair has 1/(domain-1) of the bandwidth
  int mesh_size = 8;
  int gpus_per_node = 8;
  double network_alpha = 0;
  double network_gamma = 0;
  double network_decay = 0;

  friend bool operator==(const CollectiveContext&, const CollectiveContext&) = default;
};

// Link rates of `cluster` times the calibration's shares times factors.collective. The fitted rows
// belong to the part's own scale-up links; where the cluster states others, they scale with them.
CollectiveContext make_context(const hardware::ClusterSpec& cluster,
                               const calibration::PartCalibration& calibration,
                               const framework::KernelFactors& factors);

struct Choice {
  Algorithm algorithm = Algorithm::none;
  Seconds time;
};

// The algorithm and its time. Never falls when bytes grow, never rises when a link gets faster;
// reduce-scatter and all-gather never cost more than the all-reduce of the same bytes, and that
// never more than both. A group of one costs nothing.
Choice choose(ops::CollectiveKind kind, Bytes bytes, const GroupPlacement& placement,
              const CollectiveContext& context);

inline Seconds time_of(ops::CollectiveKind kind, Bytes bytes, const GroupPlacement& placement,
                       const CollectiveContext& context) {
  return choose(kind, bytes, placement, context).time;
}

// As above for an op: tokens of a known fanout go once to each node.
Choice choose(const ops::Collective& work, const GroupPlacement& placement,
              const CollectiveContext& context);

inline Seconds time_of(const ops::Collective& work, const GroupPlacement& placement,
                       const CollectiveContext& context) {
  return choose(work, placement, context).time;
}

}  // namespace eratos::collective
