// The tools of language models: one registry for the loop that asks a model and for programs that
// speak MCP.
//
// A call is a name and JSON. Arguments are held to the schema in data/agent/tools; what they
// propose goes through axes to a patch, and from there through reader and check() like a user's
// file. A tool can do nothing but ask the session. Answers are JSON of at most kMostAnswer bytes,
// between marks that no text inside them can imitate, so that a model can tell data from what it
// was told.
//
// Adding one: a file in data/agent/tools, a function, a line in tools.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "eratos/agent/chat.h"
#include "eratos/agent/desk.h"
#include "eratos/text/tree.h"

namespace eratos::agent {

inline constexpr std::size_t kMostAnswer = 8000;
inline constexpr std::size_t kMostArguments = 20000;

// A tree, or why not, a line a fault.
using ToolResult = tl::expected<text::Node, std::vector<std::string>>;

struct Tool {
  std::string_view name;
  ToolResult (*run)(Desk& desk, const text::Node& arguments) = nullptr;
  bool of_talk = false;  // of a talk with a user alone: nothing for other programs
};
const std::vector<Tool>& all_tools();

// Names, descriptions and schemas.
std::vector<ToolFacts> tool_facts(bool of_talk);

struct ToolSaid {
  std::string json;  // one line
  bool is_fault = false;
};
// `arguments` as the model wrote them: not JSON, no object and an unknown name are faults like
// others.
ToolSaid call_tool(Desk& desk, std::string_view name, std::string_view arguments);
ToolSaid call_tool(Desk& desk, std::string_view name, const text::Node& arguments);

// <data from="name">...</data>; within it every `<` is written as \u003c.
std::string as_data(std::string_view name, const std::string& json);

}  // namespace eratos::agent
