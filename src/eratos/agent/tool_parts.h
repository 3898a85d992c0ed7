// What the tools share: a proposal from axes and values, trials as a model reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "eratos/agent/desk.h"
#include "eratos/agent/tools.h"
#include "eratos/job/job.h"
#include "eratos/text/tree.h"

namespace eratos::agent {

tl::unexpected<std::vector<std::string>> refuse(std::string fault);

// What a model says in its own words, for people to read: one line (one_line.h).
std::string words_at(const text::Node& arguments, std::string_view key);

// Five significant digits: what a model can use.
text::Node number_node(double value);
text::Node gib_node(double bytes);

// The spec that `from` (an argument of the tools) means.
tl::expected<job::JobSpec, std::vector<std::string>> spec_of(Desk& desk, const text::Node* from);

// Axis by its name or alias; the fault names the nearest.
tl::expected<search::AxisId, std::vector<std::string>> axis_of(const std::string& name);
// The place of a value in the session's list of an axis; the fault lists what there is.
tl::expected<std::size_t, std::vector<std::string>> place_of(const search::Space& space,
                                                             search::AxisId axis,
                                                             const text::Node& value);

// `from` with `change` put into it, as a patch of the base job. Every fault at once.
tl::expected<Patch, std::vector<std::string>> proposal_of(Desk& desk, const text::Node& arguments);

// The space with one job in it: axes of the session, the job's own value among each.
struct Pinned {
  search::Space space;
  search::Candidate at;
};
Pinned pinned_at(Desk& desk, const job::JobSpec& spec);

text::Node trial_node(const Session& session, const Trial& trial);

// One function a tool (tools_*.cpp).
ToolResult describe_job(Desk& desk, const text::Node& arguments);
ToolResult describe_cluster(Desk& desk, const text::Node& arguments);
ToolResult list_axes(Desk& desk, const text::Node& arguments);
ToolResult tool_memory(Desk& desk, const text::Node& arguments);
ToolResult tool_project(Desk& desk, const text::Node& arguments);
ToolResult tool_measure(Desk& desk, const text::Node& arguments);
ToolResult tool_compare(Desk& desk, const text::Node& arguments);
ToolResult tool_explain(Desk& desk, const text::Node& arguments);
ToolResult tool_sensitivity(Desk& desk, const text::Node& arguments);
ToolResult tool_search(Desk& desk, const text::Node& arguments);
ToolResult list_trials(Desk& desk, const text::Node& arguments);
ToolResult tool_best(Desk& desk, const text::Node& arguments);
ToolResult tool_note(Desk& desk, const text::Node& arguments);
ToolResult list_notes(Desk& desk, const text::Node& arguments);
ToolResult tool_ask_user(Desk& desk, const text::Node& arguments);
ToolResult tool_finish(Desk& desk, const text::Node& arguments);

}  // namespace eratos::agent
