// eratos import JOB: the normalised job, and where each of its values came from.
#include <string>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/load_job.h"
#include "apps/output.h"
#include "eratos/reader/import_report.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/report/annotated_yaml.h"
#include "eratos/report/json.h"
#include "eratos/text/dump.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

using text::Node;

std::string place(const Location& where) {
  if (where.file.empty()) return "";
  std::string out = where.file;
  if (where.line > 0) out += fmt::format(":{}", where.line);
  if (where.line > 0 && where.column > 0) out += fmt::format(":{}", where.column);
  return out;
}

// A remark at the end of a line names the file only; the JSON has the whole path.
std::string short_place(const Location& where) {
  Location shortened = where;
  const bool is_path = where.line > 0;
  if (is_path) shortened.file = where.file.substr(where.file.rfind('/') + 1);
  return place(shortened);
}

std::string remark_of(const reader::Provenance& from) {
  std::string out;
  switch (from.origin) {
    case reader::Origin::user:
    case reader::Origin::command_line:
      out = short_place(from.where);
      break;
    case reader::Origin::preset:
      out = "preset " + short_place(from.where);
      break;
    case reader::Origin::framework_default:
    case reader::Origin::derived:
    case reader::Origin::catalogue:
      out = std::string(reader::name_of(from.origin));
      break;
  }
  if (!from.rule.empty()) out += (out.empty() ? "" : ": ") + from.rule;
  return out;
}

std::string import_text(const reader::JobRead& read, const Node& tree) {
  const reader::ImportReport& report = read.report;
  std::string out = "# " + report.format + '\n';
  out += report::annotated_yaml(tree, [&](const std::string& path) {
    const auto at = report.provenance.find(path);
    return at == report.provenance.end() ? std::string() : remark_of(at->second);
  });
  if (!report.unused.empty()) out += "# keys that were not used:\n";
  constexpr std::size_t kMostShown = 200;  // of a file that is something else besides
  for (std::size_t i = 0; i < std::min(kMostShown, report.unused.size()); ++i) {
    const reader::UnusedKey& key = report.unused[i];
    out += fmt::format("#   {} ({}): {}\n", key.key, short_place(key.where), key.reason);
  }
  if (report.unused.size() > kMostShown) {
    out += fmt::format("#   and {} more: --format json has them all\n",
                       report.unused.size() - kMostShown);
  }
  for (const reader::Warning& w : report.warnings) {
    const std::string where = short_place(w.where);
    out +=
        fmt::format("# warning [{}] {}{}{}\n", w.code, where, where.empty() ? "" : ": ", w.message);
  }
  return out;
}

void set_place(Node& to, const Location& where) {
  if (!where.file.empty()) to.set("where", Node::string(place(where)));
}

std::string import_json(const reader::JobRead& read, const Node& tree) {
  const reader::ImportReport& report = read.report;
  Node origins = Node::mapping();
  for (const auto& [path, from] : report.provenance) {
    Node one = Node::mapping();
    one.set("value", Node::string(from.value));
    one.set("origin", Node::string(std::string(reader::name_of(from.origin))));
    set_place(one, from.where);
    if (!from.rule.empty()) one.set("rule", Node::string(from.rule));
    origins.set(path, std::move(one));
  }
  Node unused = Node::sequence();
  for (const reader::UnusedKey& key : report.unused) {
    Node one = Node::mapping();
    one.set("key", Node::string(key.key));
    set_place(one, key.where);
    one.set("reason", Node::string(key.reason));
    unused.append(std::move(one));
  }
  Node warnings = Node::sequence();
  for (const reader::Warning& w : report.warnings) {
    Node one = Node::mapping();
    one.set("code", Node::string(w.code));
    one.set("message", Node::string(w.message));
    set_place(one, w.where);
    warnings.append(std::move(one));
  }
  Node out = report::document(std::string(kVersion));
  out.set("format", Node::string(report.format));
  out.set("job", tree);
  out.set("origins", std::move(origins));
  out.set("unused", std::move(unused));
  out.set("warnings", std::move(warnings));
  return text::to_json(out) + '\n';
}

}  // namespace

int run_import_(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, "text json");
  if (!format) return report_usage(format.error().front().message);
  const Result<reader::JobRead> read = read_job_of(arguments);
  if (!read) return report_faults(read.error());
  const Node tree = reader::job_to_node(read->job);
  return deliver(*format == Format::json ? import_json(*read, tree) : import_text(*read, tree),
                 arguments, kAnswered);
}

}  // namespace eratos::apps
