// One function an algorithm: the time of a collective over a group, were it run that way. All take
// a group of at least two ranks and positive bytes; select.cpp decides who is asked.
#pragma once

#include <optional>

#include "eratos/collective/collective.h"

namespace eratos::collective {

// One more peer across the network. Source: AMD-AGI/Primus@fd1eeab performance projection
// constants.
inline constexpr double kNetworkPeer = 0.45e-6;

// Bus factor f of `kind` over n ranks.
double bus_factor(ops::CollectiveKind kind, double n);

// Constants of a collective over n ranks inside one domain, from the fitted rows: interpolated in
// log2 n between rows, the nearest row's beyond them, with `hops` more link latencies for every
// rank more than the largest row.
CurveRow curve_at(const CurveRows& rows, double n, double hops, double latency);

const CurveRows& rows_of(const CollectiveContext& context, ops::CollectiveKind kind, Algorithm a);
bool has_rows(const CollectiveContext& context, ops::CollectiveKind kind, Algorithm a);

// alpha + f b / B + gamma sqrt(b).
double in_domain_time(const CurveRow& row, double factor, double bytes);

// The same of the row for n ranks, where curves in pieces have their say: by pieces for a fitted
// size, in between the times of the two sizes mixed in log2 n. `links` of a mesh share the bytes.
double fitted_time(const CollectiveContext& context, ops::CollectiveKind kind, Algorithm a,
                   double n, double links, double bytes, double hops, double latency);

// Is there a curve in pieces of this collective over just this group? It was measured where the job
// runs, so it is not tied to what other collectives take.
bool measured_as_is(const CollectiveContext& context, ops::CollectiveKind kind,
                    const GroupPlacement& placement);

// A curve fitted to just this spread beyond one domain, where there is one.
std::optional<double> spanning_time(const CollectiveContext& context, ops::CollectiveKind kind,
                                    const GroupPlacement& placement, double bytes);

// How a group lies: domains[i] is the number of level-i domains that it touches, ranks[i] the mean
// number of its ranks in one.
struct Spread {
  double size = 1;
  InplaceVector<double, 4> domains;
  InplaceVector<double, 4> ranks;
  bool one_domain = true;
};
Spread spread_of(const GroupPlacement& placement);

// The ranks that stand for their domain of level 0: one each.
GroupPlacement leaders_of(const GroupPlacement& placement);

// eta (2 / nodes)^x, on the seconds side: at least 1, 1 for links that stay inside a node.
double decay_of(const CollectiveContext& context, const Spread& spread, std::size_t level);

// Seconds per byte of bus traffic of a ring (or tree) that spans the levels: the slowest of them.
// Level i > 0 is fed by all the group's ranks of one domain of level i-1.
double spanning_seconds_per_byte(ops::CollectiveKind kind, const Spread& spread,
                                 const CollectiveContext& context);

double ring_time(ops::CollectiveKind kind, double bytes, const GroupPlacement& placement,
                 const CollectiveContext& context);
double tree_time(double bytes, const GroupPlacement& placement, const CollectiveContext& context);
double in_switch_time(double bytes, const GroupPlacement& placement,
                      const CollectiveContext& context);
double mesh_time(ops::CollectiveKind kind, double bytes, const GroupPlacement& placement,
                 const CollectiveContext& context);
double hierarchical_time(ops::CollectiveKind kind, double bytes, const GroupPlacement& placement,
                         const CollectiveContext& context);
double pairwise_time(double bytes, const GroupPlacement& placement,
                     const CollectiveContext& context);
double two_stage_time(double bytes, const ops::Fanout& fanout, const GroupPlacement& placement,
                      const CollectiveContext& context);
double send_recv_time(double bytes, const GroupPlacement& placement,
                      const CollectiveContext& context);

}  // namespace eratos::collective
