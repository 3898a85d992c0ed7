// Which algorithm the communication library runs.
//
// NCCL and RCCL price every algorithm that a topology allows with tables of their own and run the
// cheapest. Their prices are not timings, so this file takes from them only *which* algorithms are
// allowed, and the least of our times among those.
// Assumes: the library's tuning finds the best of its algorithms. Taking its thresholds instead
// would make a larger message cheaper than a smaller one at a wrong threshold.
// Source: NVIDIA/nccl@5067397 src/graph/tuning.cc; ROCm/rccl@0cbce2a src/graph/tuning.cc.
#include <algorithm>
#include <array>

#include "eratos/collective/algorithms.h"

namespace eratos::collective {

namespace {

using ops::CollectiveKind;

struct Situation {
  CollectiveKind kind;
  const GroupPlacement& placement;
  const CollectiveContext& context;
  const ops::Fanout& fanout;
  bool one_domain;
};

bool switched_domain(const Situation& s) { return s.one_domain && !s.context.direct_links; }
bool meshed_domain(const Situation& s) { return s.one_domain && s.context.direct_links; }
bool spanning(const Situation& s) { return !s.one_domain; }
bool copy_by_copy(const Situation& s) { return !s.one_domain && !s.fanout.known(); }
bool once_a_node(const Situation& s) { return !s.one_domain && s.fanout.known(); }

// NVLS raises all-reduce only, and only in groups as wide as the smallest fitted row: on H200 it
// starts to win at 5 GPUs, on B200 at 6. Source: 8 GiB all-reduce by GPU count with NVLS on and
// off, stas00/ml-engineering@744d01e network/benchmarks.
bool nvls(const Situation& s) {
  const CurveRows& rows = rows_of(s.context, CollectiveKind::all_reduce, Algorithm::in_switch);
  return switched_domain(s) && s.context.levels[0].in_switch_reduction && !rows.empty() &&
         s.placement.size >= rows[0].gpus;
}

// CollNet with SHARP: every level that the group crosses has switches that add.
bool network_adds(const Situation& s) {
  if (s.one_domain) return false;
  for (std::size_t i = 1; i < s.placement.members.size(); ++i) {
    if (s.placement.members[i - 1] >= s.placement.size) break;
    if (!s.context.levels[i].in_switch_reduction) return false;
  }
  return true;
}

struct Rule {
  CollectiveKind kind;
  Algorithm algorithm;
  bool (*allowed)(const Situation&);
};

constexpr std::array kRules{
    Rule{CollectiveKind::all_reduce, Algorithm::ring, switched_domain},
    Rule{CollectiveKind::all_reduce, Algorithm::in_switch, nvls},
    Rule{CollectiveKind::all_reduce, Algorithm::mesh, meshed_domain},
    Rule{CollectiveKind::all_reduce, Algorithm::ring, spanning},
    Rule{CollectiveKind::all_reduce, Algorithm::tree, spanning},
    Rule{CollectiveKind::all_reduce, Algorithm::hierarchical, network_adds},
    Rule{CollectiveKind::all_gather, Algorithm::ring, switched_domain},
    Rule{CollectiveKind::all_gather, Algorithm::mesh, meshed_domain},
    Rule{CollectiveKind::all_gather, Algorithm::ring, spanning},
    Rule{CollectiveKind::reduce_scatter, Algorithm::ring, switched_domain},
    Rule{CollectiveKind::reduce_scatter, Algorithm::mesh, meshed_domain},
    Rule{CollectiveKind::reduce_scatter, Algorithm::ring, spanning},
    Rule{CollectiveKind::all_to_all, Algorithm::pairwise, switched_domain},
    Rule{CollectiveKind::all_to_all, Algorithm::pairwise, meshed_domain},
    Rule{CollectiveKind::all_to_all, Algorithm::pairwise, copy_by_copy},
    Rule{CollectiveKind::all_to_all, Algorithm::two_stage, once_a_node},
    Rule{CollectiveKind::send_recv, Algorithm::direct, switched_domain},
    Rule{CollectiveKind::send_recv, Algorithm::direct, meshed_domain},
    Rule{CollectiveKind::send_recv, Algorithm::direct, spanning},
};

double price(Algorithm algorithm, double bytes, const Situation& s) {
  switch (algorithm) {
    case Algorithm::ring:
      return ring_time(s.kind, bytes, s.placement, s.context);
    case Algorithm::tree:
      return tree_time(bytes, s.placement, s.context);
    case Algorithm::in_switch:
      return in_switch_time(bytes, s.placement, s.context);
    case Algorithm::mesh:
      return mesh_time(s.kind, bytes, s.placement, s.context);
    case Algorithm::hierarchical:
      return hierarchical_time(s.kind, bytes, s.placement, s.context);
    case Algorithm::pairwise:
      return pairwise_time(bytes, s.placement, s.context);
    case Algorithm::two_stage:
      return two_stage_time(bytes, s.fanout, s.placement, s.context);
    case Algorithm::direct:
      return send_recv_time(bytes, s.placement, s.context);
    case Algorithm::none:
    case Algorithm::count_:
      break;
  }
  return 0;
}

Choice cheapest(CollectiveKind kind, double bytes, const GroupPlacement& placement,
                const CollectiveContext& context, const ops::Fanout& fanout = {}) {
  const Situation s{kind, placement, context, fanout, spread_of(placement).one_domain};
  if (spanning(s) && !fanout.known()) {
    if (const auto measured = spanning_time(context, kind, placement, bytes)) {
      return {kind == CollectiveKind::all_to_all  ? Algorithm::pairwise
              : kind == CollectiveKind::send_recv ? Algorithm::direct
                                                  : Algorithm::ring,
              Seconds{*measured}};
    }
  }
  Choice best{Algorithm::none, Seconds{1e300}};
  for (const Rule& rule : kRules) {
    if (rule.kind != kind || !rule.allowed(s)) continue;
    const double t = price(rule.algorithm, bytes, s);
    if (t < best.time.value) best = {rule.algorithm, Seconds{t}};
  }
  return best;
}

}  // namespace

Choice choose(CollectiveKind kind, Bytes bytes, const GroupPlacement& placement,
              const CollectiveContext& context) {
  if (placement.size < 2 || bytes.value <= 0 || context.levels.empty()) return {};
  const double b = bytes.value;
  if (kind == CollectiveKind::reduce_scatter && context.composed_reduce_scatter) {
    return cheapest(CollectiveKind::all_reduce, b, placement, context);
  }
  const Choice own = cheapest(kind, b, placement, context);
  if (kind == CollectiveKind::all_to_all || kind == CollectiveKind::send_recv ||
      measured_as_is(context, kind, placement)) {
    return own;
  }

  // Fits of different collectives disagree by a few per cent; what one can do with the help of
  // another bounds them: an all-reduce is both halves in turn, and contains each of them.
  if (kind == CollectiveKind::all_reduce && context.composed_reduce_scatter) return own;
  if (kind == CollectiveKind::all_reduce) {
    const Choice scatter = cheapest(CollectiveKind::reduce_scatter, b, placement, context);
    const Choice gather = cheapest(CollectiveKind::all_gather, b, placement, context);
    const Seconds halves = scatter.time + gather.time;
    return halves < own.time ? Choice{scatter.algorithm, halves} : own;
  }
  const Choice whole = cheapest(CollectiveKind::all_reduce, b, placement, context);
  return whole.time < own.time ? whole : own;
}

Choice choose(const ops::Collective& work, const GroupPlacement& placement,
              const CollectiveContext& context) {
  if (work.kind != CollectiveKind::all_to_all || !work.fanout.known()) {
    return choose(work.kind, work.bytes, placement, context);
  }
  if (placement.size < 2 || work.bytes.value <= 0 || context.levels.empty()) return {};
  return cheapest(work.kind, work.bytes.value, placement, context, work.fanout);
}

}  // namespace eratos::collective
