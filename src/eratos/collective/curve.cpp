#include <algorithm>
#include <cmath>

#include "eratos/collective/algorithms.h"

namespace eratos::collective {

double bus_factor(ops::CollectiveKind kind, double n) {
  switch (kind) {
    case ops::CollectiveKind::all_reduce:
      return 2.0 * (n - 1.0) / n;
    case ops::CollectiveKind::all_gather:
    case ops::CollectiveKind::reduce_scatter:
    case ops::CollectiveKind::all_to_all:
      return (n - 1.0) / n;
    case ops::CollectiveKind::send_recv:
      return 1.0;
  }
  return 1.0;
}

CurveRow curve_at(const CurveRows& rows, double n, double hops, double latency) {
  const CurveRow* below = nullptr;
  for (const CurveRow& row : rows) {
    if (row.gpus >= n) {
      if (below == nullptr || row.gpus == n) return row;
      const double weight =
          std::log2(n / below->gpus) / std::log2(static_cast<double>(row.gpus) / below->gpus);
      const auto mix = [weight](double a, double b) { return a + weight * (b - a); };
      return {static_cast<int>(n), mix(below->alpha, row.alpha),
              mix(below->seconds_per_byte, row.seconds_per_byte), mix(below->gamma, row.gamma)};
    }
    below = &row;
  }
  if (below == nullptr) return {};
  CurveRow beyond = *below;
  beyond.alpha += hops * (n - below->gpus) * latency;
  return beyond;
}

const CurveRows& rows_of(const CollectiveContext& context, ops::CollectiveKind kind, Algorithm a) {
  return context.curves[static_cast<std::size_t>(kind)][static_cast<std::size_t>(a)];
}

bool has_rows(const CollectiveContext& context, ops::CollectiveKind kind, Algorithm a) {
  return !rows_of(context, kind, a).empty();
}

double in_domain_time(const CurveRow& row, double factor, double bytes) {
  return row.alpha + factor * bytes * row.seconds_per_byte + row.gamma * std::sqrt(bytes);
}

namespace {

// The pieces of one curve: a range of context.pieces.
struct PieceRange {
  const CurvePiece* begin = nullptr;
  const CurvePiece* end = nullptr;
  bool empty() const { return begin == end; }
};

template <class Is>
PieceRange pieces_where(const CollectiveContext& context, const Is& is) {
  const CurvePiece* begin = std::find_if(context.pieces.begin(), context.pieces.end(), is);
  return {begin, std::find_if_not(begin, context.pieces.end(), is)};
}

// No less than each earlier piece at its end: a larger message is never faster.
double piecewise(const PieceRange& pieces, double links, double factor, double bytes) {
  double t = 0;
  for (const CurvePiece* p = pieces.begin; p != pieces.end; ++p) {
    if (p != pieces.begin && p->from > bytes) break;
    const double most = p + 1 != pieces.end ? std::min(bytes, (p + 1)->from) : bytes;
    const CurveRow row{p->gpus, p->alpha, p->seconds_per_byte / links, p->gamma};
    t = std::max(t, in_domain_time(row, factor, most));
  }
  return t;
}

}  // namespace

double fitted_time(const CollectiveContext& context, ops::CollectiveKind kind, Algorithm a,
                   double n, double links, double bytes, double hops, double latency) {
  const CurveRows& rows = rows_of(context, kind, a);
  const double factor = bus_factor(kind, n);
  const auto of_row = [&](CurveRow row) {
    row.seconds_per_byte /= links;
    return in_domain_time(row, factor, bytes);
  };
  if (context.pieces.empty()) return of_row(curve_at(rows, n, hops, latency));

  const auto at = [&](const CurveRow& row) {
    const PieceRange pieces = pieces_where(context, [&](const CurvePiece& p) {
      return p.kind == kind && p.algorithm == static_cast<std::uint8_t>(a) && p.domains == 1 &&
             p.gpus == row.gpus;
    });
    return pieces.empty() ? of_row(row) : piecewise(pieces, links, factor, bytes);
  };
  const CurveRow* below = nullptr;
  for (const CurveRow& row : rows) {
    if (row.gpus >= n) {
      if (below == nullptr || row.gpus == n) return at(row);
      const double weight =
          std::log2(n / below->gpus) / std::log2(static_cast<double>(row.gpus) / below->gpus);
      const double least = at(*below);
      return least + weight * (at(row) - least);
    }
    below = &row;
  }
  return below == nullptr ? 0 : at(*below) + hops * (n - below->gpus) * latency;
}

namespace {

PieceRange pieces_of_group(const CollectiveContext& context, ops::CollectiveKind kind,
                           const GroupPlacement& placement) {
  if (context.pieces.empty() || placement.members.empty()) return {};
  const int domains = (placement.size + placement.members[0] - 1) / placement.members[0];
  return pieces_where(context, [&](const CurvePiece& p) {
    return p.kind == kind && p.domains == domains && p.gpus == placement.size;
  });
}

}  // namespace

bool measured_as_is(const CollectiveContext& context, ops::CollectiveKind kind,
                    const GroupPlacement& placement) {
  return !pieces_of_group(context, kind, placement).empty();
}

std::optional<double> spanning_time(const CollectiveContext& context, ops::CollectiveKind kind,
                                    const GroupPlacement& placement, double bytes) {
  const PieceRange pieces = pieces_of_group(context, kind, placement);
  if (pieces.empty() || pieces.begin->domains < 2) return std::nullopt;
  return piecewise(pieces, 1, bus_factor(kind, placement.size), bytes);
}

Spread spread_of(const GroupPlacement& placement) {
  Spread spread;
  spread.size = placement.size;
  for (const int members : placement.members) {
    const double domains =
        static_cast<double>((placement.size + members - 1) / std::max(1, members));
    spread.domains.push_back(domains);
    spread.ranks.push_back(placement.size / domains);
  }
  spread.one_domain = spread.domains.empty() || spread.domains[0] <= 1;
  return spread;
}

GroupPlacement leaders_of(const GroupPlacement& placement) {
  GroupPlacement leaders;
  const int inner = std::max(1, placement.members.empty() ? 1 : placement.members[0]);
  leaders.size = (placement.size + inner - 1) / inner;
  for (const int members : placement.members) {
    leaders.members.push_back(std::clamp(members / inner, 1, leaders.size));
  }
  if (!leaders.members.empty()) leaders.members.back() = leaders.size;
  return leaders;
}

double decay_of(const CollectiveContext& context, const Spread& spread, std::size_t level) {
  if (!context.levels[level].between_nodes || context.network_decay <= 0) return 1;
  // Domains below this level, no fewer than 2 of them: a group of two nodes has no decay.
  const double nodes = std::max(2.0, spread.domains[level - 1]);
  return std::pow(nodes / 2.0, context.network_decay);
}

double spanning_seconds_per_byte(ops::CollectiveKind kind, const Spread& spread,
                                 const CollectiveContext& context) {
  double slowest = 0;
  if (spread.ranks[0] > 1) {
    const Algorithm inside = context.direct_links ? Algorithm::mesh : Algorithm::ring;
    if (has_rows(context, kind, inside)) {
      CurveRow row = curve_at(rows_of(context, kind, inside), spread.ranks[0], 0, 0);
      slowest = row.seconds_per_byte;
      if (context.direct_links) {
        slowest /= std::max(1.0, spread.ranks[0] - 1.0);
      } else if (kind == ops::CollectiveKind::all_reduce && context.levels[0].in_switch_reduction &&
                 has_rows(context, kind, Algorithm::in_switch)) {
        const CurveRows& rows = rows_of(context, kind, Algorithm::in_switch);
        if (spread.ranks[0] >= rows[0].gpus) {
          row = curve_at(rows, spread.ranks[0], 0, 0);
          slowest = std::min(slowest, row.seconds_per_byte);
        }
      }
    } else {
      slowest = context.levels[0].seconds_per_byte;
    }
  }
  for (std::size_t i = 1; i < spread.domains.size(); ++i) {
    if (spread.domains[i - 1] <= 1) break;
    const double level = context.levels[i].seconds_per_byte / std::max(1.0, spread.ranks[i - 1]) *
                         decay_of(context, spread, i);
    slowest = std::max(slowest, level);
  }
  return slowest;
}

}  // namespace eratos::collective
