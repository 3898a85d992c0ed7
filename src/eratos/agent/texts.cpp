#include "eratos/agent/texts.h"

#include <map>

#include "eratos/base/check.h"
#include "eratos/catalogue_data.h"
#include "eratos/text/yaml.h"

namespace eratos::agent {
namespace {

text::Node read(std::string_view folder, std::string_view name) {
  for (const DataFile& file : data_files()) {
    if (file.folder != folder || file.name != name) continue;
    Result<text::Node> tree =
        text::parse_yaml(file.text, std::string(folder) + "/" + std::string(name));
    ERATOS_CHECK(tree.has_value());
    return *std::move(tree);
  }
  ERATOS_CHECK(false && "no such file in data/agent");
  return {};
}

}  // namespace

const std::string& prompt(std::string_view name) {
  static const text::Node kTexts = read("agent", "prompt");
  const text::Node* at = kTexts.find(name);
  ERATOS_CHECK(at != nullptr);
  return at->raw();
}

ToolText tool_text(std::string_view name) {
  const text::Node tree = read("agent/tools", name);
  const text::Node* description = tree.find("description");
  const text::Node* schema = tree.find("schema");
  ERATOS_CHECK(description != nullptr && schema != nullptr);
  ToolText out{description->raw(), *schema};
  if (const text::Node* reads = tree.find("reads_only")) out.reads_only = *reads->as_bool();
  return out;
}

std::string filled(const std::string& text,
                   std::initializer_list<std::pair<std::string_view, std::string>> values) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t open = text.find("{{", at);
    const std::size_t close = open == std::string::npos ? open : text.find("}}", open);
    if (close == std::string::npos) break;
    const std::string_view name = std::string_view(text).substr(open + 2, close - open - 2);
    out += text.substr(at, open - at);
    const std::string* value = nullptr;
    for (const auto& [known, with] : values) {
      if (known == name) value = &with;
    }
    out += value != nullptr ? *value : text.substr(open, close + 2 - open);
    at = close + 2;
  }
  return out + text.substr(at);
}

}  // namespace eratos::agent
