#include "apps/winner.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "apps/exit_code.h"
#include "apps/output.h"
#include "eratos/base/diagnostic.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/text/dump.h"

namespace eratos::apps {

void tell_unsaid(const reader::Exported& exported) {
  for (const reader::Unsaid& u : exported.unsaid) {
    const std::string read_as = u.read.empty() ? "" : fmt::format("; it is read as {}", u.read);
    std::fprintf(
        stderr, "%s",
        fmt::format("note: `{}: {}` cannot be said there{}\n", u.path, u.value, read_as).c_str());
  }
}

std::string winner_fault(const Arguments& arguments) {
  if (arguments.has("--to")) {
    if (!arguments.has("--best")) return "`--to` says what --best is written as: name the file";
    std::vector<std::string> known;
    for (const reader::ExportTarget& t : reader::export_targets()) known.emplace_back(t.name);
    const std::string target = arguments.value("--to");
    if (std::find(known.begin(), known.end(), target) == known.end()) {
      return fmt::format("unknown target `{}`; known: {}", target, fmt::join(known, ", "));
    }
  }
  std::error_code ignored;
  const std::string path = arguments.value("--best");
  if (!path.empty() && !arguments.has("--force") && std::filesystem::exists(path, ignored)) {
    return fmt::format("`{}` is there already; --force replaces it", path);
  }
  return "";
}

int write_winner(const job::JobSpec& winner, const Arguments& arguments, int code) {
  if (!arguments.has("--best")) return code;
  std::string text;
  if (arguments.has("--to")) {
    const Result<reader::Exported> exported = reader::export_job(winner, arguments.value("--to"));
    if (!exported) return report_faults(exported.error());
    tell_unsaid(*exported);
    text = exported->text;
  } else {
    text = text::to_yaml(reader::job_to_node(winner));
  }
  const int written = write_named(arguments.value("--best"), text, arguments);
  return written == kAnswered ? code : written;
}

}  // namespace eratos::apps
