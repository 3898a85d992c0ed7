#include "eratos/report/measured_fit.h"

#include <cmath>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "eratos/report/quantity.h"

namespace eratos::report {

namespace {

using text::Node;

// Four digits that count: rounding moves a time by less than a thousandth.
Node rounded(double value) {
  return Node::number(std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr));
}

Node collective_node(const calibration::CollectiveCurve& c) {
  Node out = Node::mapping();
  out.set("kind", Node::string(c.kind));
  out.set("algorithm", Node::string(c.algorithm));
  out.set("gpus", Node::integer(c.gpus));
  if (c.domains > 1) out.set("domains", Node::integer(c.domains));
  if (c.from.value > 0) out.set("from_bytes", Node::number(c.from.value));
  out.set("alpha_us", rounded(c.alpha.value * 1e6));
  out.set("busbw_gb_per_s", rounded(c.busbw.value * 1e-9));
  out.set("gamma_ns_per_sqrt_byte", rounded(c.gamma * 1e9));
  out.set("source", Node::string(c.source));
  return out;
}

Node gemm_node(const calibration::GemmCurve& c) {
  Node out = Node::mapping();
  out.set("peak_fraction", rounded(c.peak_fraction));
  out.set("in_training", rounded(c.in_training));
  Node tile = Node::sequence();
  for (const double t : c.tile) tile.append(rounded(t));
  out.set("tile", std::move(tile));
  if (c.wide_tile) out.set("wide_tile", Node::boolean(true));
  out.set("grouped", rounded(c.grouped));
  out.set("memory", rounded(c.memory));
  out.set("tile_overhead_us", rounded(c.tile_overhead.value * 1e6));
  out.set("launch_us", rounded(c.launch.value * 1e6));
  out.set("split_launch_us", rounded(c.split_launch.value * 1e6));
  out.set("source", Node::string(c.source));
  return out;
}

}  // namespace

std::string bytes_text(double bytes) {
  constexpr std::pair<double, const char*> kUnits[] = {{kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}};
  for (const auto& [size, name] : kUnits) {
    if (bytes >= size) return fmt::format("{:.4g} {}", bytes / size, name);
  }
  return fmt::format("{:.4g} B", bytes);
}

std::string measured_fit_text(const std::vector<MeasuredFit>& fits, const Style& style) {
  Table table({{"part"},
               {"curve"},
               {"points", Align::right},
               {"pieces", Align::right},
               {"median |e|", Align::right},
               {"worst |e|", Align::right},
               {"at"},
               {"beyond 5%", Align::right}});
  for (const MeasuredFit& f : fits) {
    table.row({f.part, f.curve, thousands(f.points), std::to_string(f.pieces), percent(f.median),
               percent(f.worst), f.worst_at, std::to_string(f.beyond)});
  }
  return table.text(2, style);
}

Node measured_fit_node(const std::vector<MeasuredFit>& fits) {
  Node out = Node::sequence();
  for (const MeasuredFit& f : fits) {
    Node one = Node::mapping();
    one.set("part", Node::string(f.part));
    one.set("curve", Node::string(f.curve));
    one.set("points", Node::integer(f.points));
    one.set("pieces", Node::integer(f.pieces));
    one.set("median_abs", rounded(f.median));
    one.set("worst_abs", rounded(f.worst));
    one.set("beyond_5_percent", Node::integer(f.beyond));
    one.set("worst_at", Node::string(f.worst_at));
    one.set("source", Node::string(f.source));
    out.append(std::move(one));
  }
  return out;
}

Node overlay_node(const std::map<std::string, FittedPart>& parts,
                  const std::vector<MeasuredFit>& fits, const std::string& version) {
  Node out = Node::mapping();
  out.set("eratos", Node::string(version));
  Node all = Node::mapping();
  for (const auto& [name, fitted] : parts) {
    const calibration::PartCalibration& part = fitted.calibration;
    Node one = Node::mapping();
    if (!fitted.formats.empty()) {
      Node gemm = Node::mapping();
      for (const DType dtype : fitted.formats) {
        gemm.set(std::string(name_of(dtype)), gemm_node(part.gemm_of(dtype)));
      }
      one.set("gemm", std::move(gemm));
    }
    if (fitted.collectives) {
      Node list = Node::sequence();
      for (const auto& row : part.collectives) list.append(collective_node(row));
      one.set("collectives", std::move(list));
    }
    if (fitted.network) {
      Node network = Node::mapping();
      network.set("share", rounded(part.network.share));
      network.set("alpha_us", rounded(part.network.alpha.value * 1e6));
      network.set("gamma_ns_per_sqrt_byte", rounded(part.network.gamma * 1e9));
      network.set("source", Node::string(part.network.source));
      one.set("network", std::move(network));
    }
    all.set(name, std::move(one));
  }
  out.set("parts", std::move(all));
  Node fit = Node::mapping();
  std::int64_t rows = 0;
  for (const MeasuredFit& f : fits) rows += f.points;
  fit.set("rows", Node::integer(rows));
  fit.set("curves", measured_fit_node(fits));
  out.set("fit", std::move(fit));
  return out;
}

}  // namespace eratos::report
