#include "eratos/report/fitted_points.h"

#include <fmt/format.h>

#include "eratos/report/quantity.h"

namespace eratos::report {

namespace {

using Kind = FittedCurve::Kind;

// Three digits that count: what a fit can tell.
std::string digits(double value) { return fmt::format("{:.3g}", value); }
// The same without an exponent.
std::string whole(double value) { return fmt::format("{:.0f}", value); }

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string gemm_keys(const calibration::GemmCurve& c, const std::string& indent) {
  std::string out;
  const auto line = [&](const char* key, const std::string& value) {
    out += fmt::format("{}{}: {}\n", indent, key, value);
  };
  line("peak_fraction", digits(c.peak_fraction));
  line("in_training", digits(c.in_training));
  line("tile", fmt::format("[{}, {}, {}, {}]", digits(c.tile[0]), digits(c.tile[1]),
                           digits(c.tile[2]), digits(c.tile[3])));
  if (c.wide_tile) line("wide_tile", "true");
  line("grouped", digits(c.grouped));
  line("memory", digits(c.memory));
  line("tile_overhead_us", digits(c.tile_overhead.value * 1e6));
  line("launch_us", digits(c.launch.value * 1e6));
  line("split_launch_us", digits(c.split_launch.value * 1e6));
  return out;
}

std::string section(const std::vector<FittedCurve>& curves, Kind kind, bool library,
                    const std::string& head) {
  std::string out;
  for (const FittedCurve& f : curves) {
    if (f.kind != kind || (kind == Kind::gemm && f.gemm.library.empty() == library)) continue;
    const std::string source = quoted(provenance(f));
    if (kind == Kind::gemm && !library) {
      out += fmt::format("    {}:\n{}      source: {}\n", name_of(f.gemm.dtype),
                         gemm_keys(f.gemm.curve, "      "), source);
    } else if (kind == Kind::gemm) {
      out += fmt::format("    - library: {}\n      dtype: {}\n{}      source: {}\n", f.gemm.library,
                         name_of(f.gemm.dtype), gemm_keys(f.gemm.curve, "      "), source);
    } else if (kind == Kind::cast) {
      out += fmt::format("    - {{kernel: {}, share: {}, launch_us: {},\n       source: {}}}\n",
                         f.cast.kernel, digits(f.cast.share), digits(f.cast.launch.value * 1e6),
                         source);
    } else if (kind == Kind::attention) {
      const calibration::AttentionCurve& c = f.attention;
      out += fmt::format(
          "    - {{kernel: {}, pass: {}, causal: {}, head_dim: {},{} rate_tflops: {}, s0_tokens: "
          "{}, fill: {},\n       source: {}}}\n",
          c.kernel, c.backward ? "backward" : "forward", c.causal, c.head_dim,
          c.dtype == DType::bf16 ? "" : fmt::format(" dtype: {},", name_of(c.dtype)),
          whole(c.rate.value * 1e-12), whole(c.s0), digits(c.fill), source);
    } else {
      const calibration::CollectiveCurve& c = f.collective;
      out += fmt::format(
          "    - {{kind: {}, algorithm: {}, gpus: {}, alpha_us: {:.1f}, busbw_gb_per_s: {:.1f}, "
          "gamma_ns_per_sqrt_byte: {:.2f},\n       source: {}}}\n",
          c.kind, c.algorithm, c.gpus, c.alpha.value * 1e6, c.busbw.value * 1e-9, c.gamma * 1e9,
          source);
    }
  }
  return out.empty() ? out : "  " + head + ":\n" + out;
}

std::string name_of_curve(const FittedCurve& f) {
  switch (f.kind) {
    case Kind::gemm:
      return fmt::format("product {}{}{}", name_of(f.gemm.dtype), f.gemm.library.empty() ? "" : " ",
                         f.gemm.library);
    case Kind::cast:
      return "cast " + f.cast.kernel;
    case Kind::attention:
      return fmt::format("{} {} {} {}{}", f.attention.kernel,
                         f.attention.backward ? "backward" : "forward",
                         f.attention.causal ? "causal" : "full", f.attention.head_dim,
                         f.attention.dtype == DType::fp8 ? " fp8" : "");
    case Kind::collective:
      return fmt::format("{} {} {}", f.collective.kind, f.collective.algorithm, f.collective.gpus);
  }
  return "?";
}

}  // namespace

std::string provenance(const FittedCurve& f) {
  std::string out =
      fmt::format("{}; fit of {} points by eratos calibrate, mean absolute error {:.1f} %",
                  f.sources, f.errors.seen, 100 * f.errors.seen_error);
  if (f.errors.held_out > 0) {
    out +=
        fmt::format(", {:.1f} % on {} held out", 100 * f.errors.held_out_error, f.errors.held_out);
  }
  return out;
}

std::string fitted_yaml(const FittedParts& parts) {
  std::string out =
      "# Fitted by `eratos calibrate` to measured points; lines whose CRC-32 modulo 5 is 0 were "
      "not seen.\n";
  for (const auto& [part, curves] : parts) {
    out += part + ":\n";
    out += section(curves, Kind::gemm, false, "gemm");
    out += section(curves, Kind::gemm, true, "gemm_libraries");
    out += section(curves, Kind::cast, false, "casts");
    out += section(curves, Kind::attention, false, "attention_curves");
    out += section(curves, Kind::collective, false, "collectives");
  }
  return out;
}

std::string fitted_text(const FittedParts& parts, const Style& style) {
  Table table({{"part"},
               {"curve"},
               {"seen", Align::right},
               {"mean |e|", Align::right},
               {"held out", Align::right},
               {"mean |e|", Align::right}});
  for (const auto& [part, curves] : parts) {
    for (const FittedCurve& f : curves) {
      if (f.kind == Kind::cast) continue;
      table.row({part, name_of_curve(f), thousands(f.errors.seen), percent(f.errors.seen_error),
                 thousands(f.errors.held_out),
                 f.errors.held_out > 0 ? percent(f.errors.held_out_error) : "-"});
    }
  }
  return table.text(2, style);
}

}  // namespace eratos::report
