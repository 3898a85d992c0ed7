#include "eratos/agent/chat.h"

#include "eratos/text/dump.h"

namespace eratos::agent {

namespace {

struct FaultWord {
  ChatFault fault;
  std::string_view word;
};

constexpr FaultWord kFaultWords[] = {
    {ChatFault::unreachable, "unreachable"},
    {ChatFault::silent, "silent"},
    {ChatFault::cut, "cut"},
    {ChatFault::malformed, "malformed"},
    {ChatFault::limited, "limited"},
    {ChatFault::server, "server"},
    {ChatFault::rejected, "rejected"},
    {ChatFault::overflow, "overflow"},
    {ChatFault::spent, "spent"},
    {ChatFault::interrupted, "interrupted"},
    {ChatFault::other_script, "other_script"},
};

}  // namespace

std::string_view word_of(ChatFault fault) {
  return kFaultWords[static_cast<std::size_t>(fault)].word;
}

std::optional<ChatFault> chat_fault_of(std::string_view word) {
  for (const FaultWord& f : kFaultWords) {
    if (f.word == word) return f.fault;
  }
  return std::nullopt;
}

std::size_t bytes_of(const ChatRequest& request) {
  std::size_t bytes = request.system.size();
  for (const Message& m : request.messages) {
    bytes += m.text.size() + m.call.size();
    for (const ToolCall& c : m.calls) bytes += c.id.size() + c.name.size() + c.arguments.size();
  }
  if (request.tools != nullptr) {
    for (const ToolFacts& t : *request.tools) {
      bytes += t.name.size() + t.description.size() + text::to_json(t.schema, 0).size();
    }
  }
  return bytes;
}

}  // namespace eratos::agent
