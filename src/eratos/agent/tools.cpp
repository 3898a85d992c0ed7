#include "eratos/agent/tools.h"

#include <algorithm>

#include <fmt/format.h>

#include "eratos/agent/json_parts.h"
#include "eratos/agent/one_line.h"
#include "eratos/agent/schema.h"
#include "eratos/agent/texts.h"
#include "eratos/agent/tool_parts.h"
#include "eratos/text/dump.h"
#include "eratos/text/json.h"

namespace eratos::agent {
namespace {

using text::Node;

std::string faults_json(const std::vector<std::string>& faults) {
  constexpr std::size_t kMostFaults = 12;
  Node list = Node::sequence();
  for (std::size_t i = 0; i < std::min(faults.size(), kMostFaults); ++i) {
    constexpr std::size_t kMostBytes = 500;
    list.append(string_node(one_line(faults[i], kMostBytes)));
  }
  return text::to_json(object({{"refused", std::move(list)}}), 0);
}

const Tool* find_tool(std::string_view name) {
  for (const Tool& t : all_tools()) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

ToolSaid unknown_tool(std::string_view name) {
  std::vector<std::string> known;
  for (const Tool& t : all_tools()) known.emplace_back(t.name);
  const std::string near = nearest_name(name, known);
  return {faults_json({fmt::format("there is no tool `{}`{}", text::excerpt(name),
                                   near.empty() ? "" : fmt::format("; did you mean `{}`?", near))}),
          true};
}

}  // namespace

const std::vector<Tool>& all_tools() {
  static const std::vector<Tool> kTools = {
      {"describe_job", describe_job},
      {"describe_cluster", describe_cluster},
      {"list_axes", list_axes},
      {"memory", tool_memory},
      {"project", tool_project},
      {"compare", tool_compare},
      {"explain", tool_explain},
      {"sensitivity", tool_sensitivity},
      {"search", tool_search},
      {"measure", tool_measure},
      {"trials", list_trials},
      {"best", tool_best},
      {"note", tool_note},
      {"notes", list_notes},
      {"ask_user", tool_ask_user, true},
      {"finish", tool_finish, true},
  };
  return kTools;
}

std::vector<ToolFacts> tool_facts(bool of_talk) {
  std::vector<ToolFacts> out;
  for (const Tool& t : all_tools()) {
    if (t.of_talk && !of_talk) continue;
    ToolText text = tool_text(t.name);
    out.push_back({std::string(t.name), std::move(text.description), std::move(text.schema)});
  }
  return out;
}

ToolSaid call_tool(Desk& desk, std::string_view name, std::string_view arguments) {
  if (find_tool(name) == nullptr) return unknown_tool(name);
  if (arguments.find_first_not_of(" \t\r\n") == std::string_view::npos) arguments = "{}";
  text::TreeLimits limits;
  limits.bytes = kMostArguments;
  limits.depth = 20;
  const Result<Node> read = text::parse_json(arguments, "arguments", limits);
  if (!read) {
    std::vector<std::string> faults;
    for (const Diagnostic& d : read.error()) faults.push_back(to_text(d));
    return {faults_json(faults), true};
  }
  return call_tool(desk, name, *read);
}

ToolSaid call_tool(Desk& desk, std::string_view name, const Node& arguments) {
  const Tool* tool = find_tool(name);
  if (tool == nullptr) return unknown_tool(name);
  const std::vector<std::string> faults = schema_faults(tool_text(name).schema, arguments);
  if (!faults.empty()) return {faults_json(faults), true};
  const ToolResult result = tool->run(desk, arguments);
  if (!result) return {faults_json(result.error()), true};
  std::string json = text::to_json(*result, 0);
  if (json.size() <= kMostAnswer) return {std::move(json), false};
  return {text::to_json(object({{"too_long", Node::integer(static_cast<std::int64_t>(json.size()))},
                                {"beginning", string_node(json.substr(0, kMostAnswer / 2))},
                                {"cure", string_node("ask for less: one axis, one trial, fewer")}}),
                        0),
          false};
}

std::string as_data(std::string_view name, const std::string& json) {
  std::string safe;
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  // An unknown name may be anything as well.
  std::string from;
  for (const char c : name.substr(0, 40)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    from += plain ? c : '?';
  }
  return fmt::format("<data from=\"{}\">\n{}\n</data>", from, safe);
}

}  // namespace eratos::agent
