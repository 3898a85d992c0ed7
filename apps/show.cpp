// eratos show KIND NAME: one entry of the catalogue as its file says it, sources included.
#include <string>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/kinds.h"
#include "apps/output.h"
#include "eratos/calibration/parameters.h"
#include "eratos/reader/catalogue.h"
#include "eratos/report/json.h"
#include "eratos/schedule/registry.h"
#include "eratos/text/dump.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

Result<text::Node> schedule_called(const std::string& name) {
  std::vector<std::string> known;
  for (const schedule::Schedule* s : schedule::kSchedules) {
    if (s->name == name) {
      text::Node out = text::Node::mapping();
      out.set("name", text::Node::string(name));
      out.set("what", text::Node::string(std::string(s->what)));
      constexpr const char* kPlacements[] = {"looped", "vee", "bidirectional"};
      out.set("placement", text::Node::string(kPlacements[static_cast<std::size_t>(s->placement)]));
      out.set("least_chunks", text::Node::integer(s->chunks));
      out.set("splits_backward", text::Node::boolean(s->splits_backward));
      out.set("side_by_side", text::Node::boolean(s->side_by_side));
      out.set("cuts_output", text::Node::boolean(s->cuts_output));
      out.set("more", text::Node::string("docs/model/schedules.md"));
      return out;
    }
    known.emplace_back(s->name);
  }
  const std::string near = nearest_name(name, known);
  return fault({{},
                fmt::format("unknown schedule `{}`", name),
                near.empty() ? fmt::format("known: {}", fmt::join(known, ", "))
                             : fmt::format("did you mean `{}`?", near)});
}

Result<text::Node> parameter_called(const std::string& name) {
  const calibration::Parameter* p = calibration::find_parameter(name);
  if (p != nullptr) return parameter_node(*p);
  std::vector<std::string> known;
  for (const calibration::Parameter& each : calibration::parameters()) {
    known.emplace_back(each.path);
  }
  const std::string near = nearest_name(name, known);
  return fault({{},
                fmt::format("unknown parameter `{}`", name),
                near.empty() ? "`eratos list parameters` shows them"
                             : fmt::format("did you mean `{}`?", near)});
}

}  // namespace

int run_show(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, "text json");
  if (!format) return report_usage(format.error().front().message);
  const Result<KindWord> kind = kind_called(arguments.words[0]);
  if (!kind) return report_usage(kind.error().front().message);

  const std::string& name = arguments.words[1];
  const auto of_code = [&] {
    return kind->word == "parameters" ? parameter_called(name) : schedule_called(name);
  };
  const Result<text::Node> tree = kind->kind ? reader::load_tree(*kind->kind, name) : of_code();
  if (!tree) return report_faults(tree.error());
  if (*format == Format::text) {
    const DataFile* file = kind->kind ? reader::find_file(*kind->kind, name) : nullptr;
    // The file itself keeps the comments; an entry without a file is its tree.
    return deliver(file != nullptr ? std::string(file->text) : text::to_yaml(*tree), arguments,
                   kAnswered);
  }
  text::Node out = report::document(std::string(kVersion));
  out.set(arguments.words[0], *tree);
  return deliver(text::to_json(out) + '\n', arguments, kAnswered);
}

}  // namespace eratos::apps
