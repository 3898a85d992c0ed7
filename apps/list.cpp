// eratos list KIND: what the catalogue knows, a line each.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/kinds.h"
#include "apps/output.h"
#include "eratos/calibration/parameters.h"
#include "eratos/reader/catalogue.h"
#include "eratos/report/json.h"
#include "eratos/report/quantity.h"
#include "eratos/report/table.h"
#include "eratos/schedule/registry.h"
#include "eratos/text/dump.h"
#include "eratos/text/tree.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

using report::Align;
using text::Node;

double number_at(const Node& tree, const char* path) {
  const Node* at = text::find_at(tree, path);
  if (at == nullptr || at->is_null()) return 0;
  return at->as_double().value_or(0);
}

std::string text_at(const Node& tree, const char* path) {
  const Node* at = text::find_at(tree, path);
  return at != nullptr && at->is_scalar() ? at->raw() : "";
}

std::string quantity(const Node& tree, const char* path, double unit) {
  const double value = number_at(tree, path);
  return value > 0 ? fmt::format("{:.4g}", value / unit) : "-";
}

// The columns of one kind and how a file fills them.
struct Listing {
  std::vector<report::Column> columns;
  std::function<std::vector<std::string>(const Node&)> cells;
};

Listing listing_of(reader::Kind kind) {
  switch (kind) {
    case reader::Kind::models:
      return {{{"model"},
               {"parameters", Align::right},
               {"active", Align::right},
               {"layers", Align::right},
               {"hidden", Align::right},
               {"vocab", Align::right}},
              [](const Node& t) -> std::vector<std::string> {
                const double active = number_at(t, "active_parameters");
                return {text_at(t, "name"),
                        report::count(number_at(t, "parameters")),
                        active > 0 ? report::count(active) : "",
                        text_at(t, "layers"),
                        text_at(t, "hidden"),
                        text_at(t, "vocab")};
              }};
    case reader::Kind::accelerators:
      return {{{"accelerator"},
               {"kind"},
               {"memory GiB", Align::right},
               {"HBM TB/s", Align::right},
               {"bf16 TFLOPS", Align::right},
               {"fp8 TFLOPS", Align::right},
               {"scale-up GB/s", Align::right},
               {"domain", Align::right},
               {"confidence"}},
              [](const Node& t) -> std::vector<std::string> {
                return {text_at(t, "name"),
                        text_at(t, "kind"),
                        quantity(t, "memory.visible_bytes", kGiB),
                        quantity(t, "memory.bandwidth_bytes_per_s", 1e12),
                        quantity(t, "peak_flops_per_s.bf16", 1e12),
                        quantity(t, "peak_flops_per_s.fp8", 1e12),
                        quantity(t, "scale_up.bandwidth_bytes_per_s", 1e9),
                        text_at(t, "scale_up.domain_gpus"),
                        text_at(t, "confidence")};
              }};
    case reader::Kind::clusters:
      return {{{"cluster"}, {"accelerator"}, {"a node", Align::right}, {"levels"}},
              [](const Node& t) -> std::vector<std::string> {
                std::string levels;
                if (const Node* list = t.find("levels"); list != nullptr) {
                  for (const Node& level : list->items()) {
                    levels += fmt::format("{}{} {} GB/s", levels.empty() ? "" : ", ",
                                          text_at(level, "kind"),
                                          quantity(level, "bandwidth_bytes_per_s", 1e9));
                  }
                }
                return {text_at(t, "name"), text_at(t, "accelerator"), text_at(t, "gpus_per_node"),
                        levels};
              }};
    case reader::Kind::frameworks:
      return {{{"framework"}, {"generation"}}, [](const Node& t) -> std::vector<std::string> {
                return {text_at(t, "name"), text_at(t, "generation")};
              }};
    case reader::Kind::calibrations:
      return {{{"part"}, {"takes the rest from"}}, [](const Node& t) -> std::vector<std::string> {
                return {text_at(t, "part"), text_at(t, "borrowed")};
              }};
  }
  return {};
}

Result<std::string> list_files(const KindWord& kind, Format format, const report::Style& style) {
  Diagnostics faults;
  const Listing listing = listing_of(*kind.kind);
  report::Table table(listing.columns);
  Node names = Node::sequence();
  for (const std::string& name : reader::names_of(*kind.kind)) {
    const Result<Node> tree = reader::load_tree(*kind.kind, name);
    if (!tree) {
      faults.insert(faults.end(), tree.error().begin(), tree.error().end());
      continue;
    }
    table.row(listing.cells(*tree));
    names.append(Node::string(name));
  }
  if (!faults.empty()) return eratos::faults(std::move(faults));
  if (format == Format::text) return table.text(0, style);
  Node out = report::document(std::string(kVersion));
  out.set(kind.word, std::move(names));
  return text::to_json(out) + '\n';
}

std::string list_schedules(Format format, const report::Style& style) {
  report::Table table({{"schedule"}, {""}});
  Node names = Node::sequence();
  for (const schedule::Schedule* s : schedule::kSchedules) {
    table.row({std::string(s->name), std::string(s->what)});
    names.append(Node::string(std::string(s->name)));
  }
  if (format == Format::text) return table.text(0, style);
  Node out = report::document(std::string(kVersion));
  out.set("schedules", std::move(names));
  return text::to_json(out) + '\n';
}

std::string list_parameters(Format format, const report::Style& style) {
  report::Table table({{"parameter"},
                       {"of a"},
                       {"least", Align::right},
                       {"most", Align::right},
                       {"spread", Align::right},
                       {"why"}});
  Node list = Node::sequence();
  for (const calibration::Parameter& p : calibration::parameters()) {
    table.row({std::string(p.path),
               p.owner == calibration::Owner::part ? "part" : "framework",
               fmt::format("{:g}", p.least), fmt::format("{:g}", p.most),
               report::percent(p.spread), std::string(p.why)});
    list.append(parameter_node(p));
  }
  if (format == Format::text) return table.text(0, style);
  Node out = report::document(std::string(kVersion));
  out.set("parameters", std::move(list));
  return text::to_json(out) + '\n';
}

}  // namespace

int run_list(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, "text json");
  if (!format) return report_usage(format.error().front().message);
  const Result<KindWord> kind = kind_called(arguments.words[0]);
  if (!kind) return report_usage(kind.error().front().message);
  if (!kind->kind) {
    const report::Style style = style_of(arguments);
    return deliver(kind->word == "parameters" ? list_parameters(*format, style)
                                              : list_schedules(*format, style),
                   arguments, kAnswered);
  }
  const Result<std::string> listed = list_files(*kind, *format, style_of(arguments));
  if (!listed) return report_faults(listed.error());
  return deliver(*listed, arguments, kAnswered);
}

}  // namespace eratos::apps
