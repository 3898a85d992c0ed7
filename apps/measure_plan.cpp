#include "apps/measure_plan.h"

#include <string>

#include <fmt/format.h>

#include "apps/exit_code.h"
#include "apps/load_job.h"
#include "apps/numbers.h"
#include "apps/output.h"
#include "eratos/reader/times.h"
#include "eratos/report/plan.h"
#include "eratos/version.h"

namespace eratos::apps {

Result<projection::Plan> plan_of(const Arguments& arguments) {
  projection::Devices devices;
  devices.ranks = static_cast<int>(number_of(arguments, "--ranks", 1));
  if (arguments.has("--device-memory")) {
    const std::string word = arguments.value("--device-memory");
    const auto bytes = reader::size_of(word);
    if (!bytes) {
      return fault({.message = fmt::format("`--device-memory {}` is no number of bytes", word),
                    .cure = "write a number with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB"});
    }
    devices.memory = *bytes;
  }
  const Result<std::unique_ptr<Job>> job = load_job(arguments);
  if (!job) return faults(job.error());
  return projection::plan_of((*job)->checked, (*job)->calibration, devices, *(*job)->workspace);
}

int print_plan(const Arguments& arguments) {
  const std::string format = arguments.value("--format", "text");
  if (format != "text" && format != "json" && format != "plan") {
    return report_usage(fmt::format("--format is text, json or plan, not `{}`", format));
  }
  const Result<projection::Plan> plan = plan_of(arguments);
  if (!plan) return report_faults(plan.error());
  if (format == "plan") return deliver(report::plan_lines(*plan), arguments, kAnswered);
  if (format == "json") {
    return deliver(report::plan_json(*plan, std::string(kVersion)), arguments, kAnswered);
  }
  return deliver(report::plan_text(*plan, style_of(arguments)), arguments, kAnswered);
}

}  // namespace eratos::apps
