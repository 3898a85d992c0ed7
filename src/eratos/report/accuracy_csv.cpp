#include <string_view>

#include <fmt/format.h>

#include "eratos/report/accuracy.h"
#include "eratos/text/csv.h"

namespace eratos::report {

namespace {

std::string cell(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::string positive(double value) { return value > 0 ? fmt::format("{}", value) : ""; }

}  // namespace

std::string accuracy_csv(const std::vector<AccuracyRow>& rows) {
  std::string out =
      "id,file,line,status,reason,detail,family,framework,gpu,suspect,excluded,from,"
      "measured_speed,projected_speed,throughput_error,projected_step_s,memory_kind,"
      "measured_memory_bytes,projected_memory_bytes,memory_error,device_peak_bytes,"
      "capacity_bytes,outcome,fits\n";
  for (const AccuracyRow& r : rows) {
    for (const std::string& text :
         {r.id, r.file, std::to_string(r.line), std::string(r.ok() ? "ok" : "skipped"), r.skipped,
          r.detail, r.family, r.framework, r.gpu, r.suspect, r.excluded, r.from}) {
      out += text::csv_field(text) + ',';
    }
    out += positive(r.measured_speed) + ',' + positive(r.projected_speed) + ',' +
           cell(r.throughput_error()) + ',' + positive(r.projected_step_s) + ',' + r.memory_kind +
           ',' + positive(r.measured_memory.value) + ',' + positive(r.projected_memory.value) +
           ',' + cell(r.memory_error()) + ',' + positive(r.device_peak.value) + ',' +
           positive(r.capacity.value) + ',' + r.outcome + ',' +
           (r.ok() ? (r.fits ? "true" : "false") : "") + '\n';
  }
  return out;
}

}  // namespace eratos::report
