#include "eratos/reader/truth_measured.h"

#include <cstdlib>
#include <string>
#include <string_view>

namespace eratos::reader {

namespace {

// "349.2 GFLOP": what a source counts for a token, whatever the shapes ask for; 0 where the cell
// names a way of counting instead.
double flops_of_a_token(std::string_view count) {
  constexpr std::string_view kUnit = " GFLOP";
  if (count.size() <= kUnit.size() || count.substr(count.size() - kUnit.size()) != kUnit) return 0;
  return 1e9 * std::strtod(std::string(count).c_str(), nullptr);
}

}  // namespace

Measured MeasuredConventions::read(const TruthRow& row, const job::JobSpec& spec) const {
  Measured out;
  out.outcome = row.text("outcome");
  // A row that ran out of memory has no speed, and the memory it reached is no peak.
  if (out.outcome == "oom") return out;
  read_speed(row, spec, out);
  read_memory(row, out);
  return out;
}

void MeasuredConventions::read_speed(const TruthRow& row, const job::JobSpec& spec,
                                     Measured& out) const {
  const auto line = flops_.find(row.text("id"));
  out.mfu = row.number("mfu").value_or(0);
  out.tflops_per_gpu = row.number("tflops_per_gpu").value_or(0);
  const std::string_view count = line ? flops_.cell(*line, "count") : std::string_view();
  const double step = row.number("step_time_s").value_or(0);
  if (const auto tokens = row.number("tokens_per_s_per_gpu"); tokens && *tokens > 0) {
    out.from = SpeedFrom::tokens_per_s_per_gpu;
    out.tokens_per_s_per_gpu = *tokens;
  } else if (step > 0) {
    out.from = SpeedFrom::step_time_s;
    out.tokens_per_s_per_gpu =
        static_cast<double>(spec.batch.global) * spec.batch.sequence / (step * spec.cluster.gpus());
  } else if (const double own = flops_of_a_token(count); own > 0 && out.tflops_per_gpu > 0) {
    out.from = SpeedFrom::tokens_per_s_per_gpu;
    out.tokens_per_s_per_gpu = 1e12 * out.tflops_per_gpu / own;
  } else if (out.mfu > 0) {
    out.from = SpeedFrom::mfu;
  } else if (out.tflops_per_gpu > 0 && row.text("flops_convention") != "unknown") {
    out.from = SpeedFrom::tflops_per_gpu;
  }
  if (line) {
    out.flops.attention = flops_.cell(*line, "attention") == "full"
                              ? projection::FlopConvention::full_attention
                              : projection::FlopConvention::causal;
    out.flops.embeddings = count == "embeddings";
  }
  out.flops.recompute = row.text("flops_convention") == "hardware";
}

void MeasuredConventions::read_memory(const TruthRow& row, Measured& out) const {
  const std::string notes = row.text("notes");
  const auto line = memory_.find(row.text("id"), [&](std::size_t at) {
    return notes.find(memory_.cell(at, "note")) != std::string::npos;
  });
  if (!line) return;
  out.first_stage = memory_.cell(*line, "stage") == "first";

  // Feasibility files name the kind by the column.
  if (const auto allocated = row.number("allocated_gib"); allocated && *allocated > 0) {
    out.memory = gib(*allocated);
    out.memory_kind = MemoryKind::allocated;
    return;
  }
  if (const auto reserved = row.number("reserved_gib"); reserved && *reserved > 0) {
    out.memory = gib(*reserved);
    out.memory_kind = MemoryKind::reserved;
    return;
  }
  const double stated = row.number("peak_memory_gb").value_or(0);
  if (stated <= 0) return;
  out.memory = memory_.cell(*line, "unit") == "GiB" ? gib(stated) : Bytes{stated * 1e9};
  const std::string_view kind = memory_.cell(*line, "kind");
  out.memory_kind = kind == "device"     ? MemoryKind::device
                    : kind == "reserved" ? MemoryKind::reserved
                                         : MemoryKind::allocated;
}

}  // namespace eratos::reader
