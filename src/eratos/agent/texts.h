// What models are told: the prompt and the descriptions of tools, from data/agent.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "eratos/text/tree.h"

namespace eratos::agent {

// A text of data/agent/prompt.yaml. ERATOS_CHECK: it is there.
const std::string& prompt(std::string_view name);

// One file of data/agent/tools. ERATOS_CHECK: it is there and reads.
struct ToolText {
  std::string description;
  text::Node schema;
  bool reads_only = true;
};
ToolText tool_text(std::string_view name);

// `text` with every {{name}} replaced; a name that is not given stays.
std::string filled(const std::string& text,
                   std::initializer_list<std::pair<std::string_view, std::string>> values);

}  // namespace eratos::agent
