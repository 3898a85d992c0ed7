#include "eratos/agent/anthropic.h"

#include <map>
#include <utility>

#include "eratos/agent/json_parts.h"
#include "eratos/text/dump.h"
#include "eratos/text/json.h"

namespace eratos::agent {
namespace {

using text::Node;

Node text_block(const std::string& text) {
  return object({{"type", string_node("text")}, {"text", string_node(text)}});
}

Node call_block(const ToolCall& call) {
  // The interface wants an object; what the model wrote instead is told by the result of the call.
  Result<Node> input = text::parse_json(call.arguments, "arguments");
  return object({{"type", string_node("tool_use")},
                 {"id", string_node(call.id)},
                 {"name", string_node(call.name)},
                 {"input", input && input->is_mapping() ? *std::move(input) : Node::mapping()}});
}

Node result_block(const Message& m) {
  Node out = object({{"type", string_node("tool_result")},
                     {"tool_use_id", string_node(m.call)},
                     {"content", string_node(m.text)}});
  if (m.is_fault) out.set("is_error", Node::boolean(true));
  return out;
}

// Users and assistants take turns: results of tools and what follows them are one message.
Node messages_node(const std::vector<Message>& messages) {
  Node out = Node::sequence();
  Node content = Node::sequence();
  bool is_assistant = false;
  const auto end_turn = [&] {
    if (content.items().empty()) return;
    out.append(object({{"role", string_node(is_assistant ? "assistant" : "user")},
                       {"content", std::move(content)}}));
    content = Node::sequence();
  };
  for (const Message& m : messages) {
    if ((m.who == Who::assistant) != is_assistant) end_turn();
    is_assistant = m.who == Who::assistant;
    if (m.who == Who::tool) {
      content.append(result_block(m));
      continue;
    }
    if (!m.text.empty()) content.append(text_block(m.text));
    for (const ToolCall& c : m.calls) content.append(call_block(c));
  }
  end_turn();
  return out;
}

Stop stop_of(const std::string& word) {
  if (word == "tool_use") return Stop::calls;
  if (word == "max_tokens") return Stop::length;
  if (word == "refusal") return Stop::refused;
  return Stop::ended;
}

// Tokens that a cache has served count as well.
std::int64_t input_tokens(const Node& usage) {
  return integer_at(usage, "input_tokens", 0) +
         integer_at(usage, "cache_creation_input_tokens", 0) +
         integer_at(usage, "cache_read_input_tokens", 0);
}

tl::unexpected<ChatFailure> malformed(std::string what) {
  return tl::unexpected<ChatFailure>({ChatFault::malformed, std::move(what)});
}

class AnthropicReader final : public AnswerReader {
 public:
  void see(const SseEvent& event) override {
    if (failure_ || ended_) return;
    const Result<Node> read = text::parse_json(event.data, "event");
    if (!read || !read->is_mapping()) {
      failure_ = ChatFailure{ChatFault::malformed, "an event of the stream is no JSON object"};
      return;
    }
    const std::string type = string_at(*read, "type");
    if (type == "error") {
      failure_ = ChatFailure{ChatFault::server, server_words(event.data).message};
    } else if (type == "message_start") {
      if (const Node* message = read->find("message")) see_usage(*message);
    } else if (type == "content_block_start") {
      see_start(*read);
    } else if (type == "content_block_delta") {
      see_delta(*read);
    } else if (type == "message_delta") {
      see_usage(*read);
      if (const Node* delta = read->find("delta")) {
        const std::string word = string_at(*delta, "stop_reason");
        if (!word.empty()) stop_ = word;
      }
    } else if (type == "message_stop") {
      ended_ = true;
    }  // ping, content_block_stop, and events of later versions
  }

  tl::expected<ChatReply, ChatFailure> end() override {
    if (failure_) return tl::unexpected<ChatFailure>(*failure_);
    if (stop_.empty()) {
      return tl::unexpected<ChatFailure>(
          {ChatFault::cut, "the stream ended before the answer did"});
    }
    for (auto& [index, call] : calls_) {
      if (call.name.empty()) return malformed("a call of the stream names no tool");
      if (call.arguments.empty()) call.arguments = "{}";
      reply_.calls.push_back(std::move(call));
    }
    reply_.stop = stop_of(stop_);
    return reply_;
  }

 private:
  void see_start(const Node& event) {
    const Node* block = event.find("content_block");
    if (block == nullptr) return;
    if (string_at(*block, "type") == "tool_use") {
      ToolCall& call = calls_[integer_at(event, "index", 0)];
      call.id = string_at(*block, "id");
      call.name = string_at(*block, "name");
      if (const Node* input = block->find("input"); input != nullptr && input->size() > 0) {
        call.arguments = text::to_json(*input, 0);
      }
    } else {
      reply_.text += string_at(*block, "text");
    }
  }

  void see_delta(const Node& event) {
    const Node* delta = event.find("delta");
    if (delta == nullptr) return;
    const std::string type = string_at(*delta, "type");
    if (type == "text_delta") reply_.text += string_at(*delta, "text");
    if (type != "input_json_delta") return;
    const auto at = calls_.find(integer_at(event, "index", 0));
    if (at == calls_.end()) {
      failure_ = ChatFailure{ChatFault::malformed, "arguments of a call that has not begun"};
      return;
    }
    at->second.arguments += string_at(*delta, "partial_json");
  }

  void see_usage(const Node& at) {
    const Node* usage = at.find("usage");
    if (usage == nullptr || !usage->is_mapping()) return;
    if (usage->find("input_tokens") != nullptr) reply_.usage.in = input_tokens(*usage);
    reply_.usage.out = integer_at(*usage, "output_tokens", reply_.usage.out);
    reply_.usage.stated = true;
  }

  ChatReply reply_;
  std::map<std::int64_t, ToolCall> calls_;  // by the index of their block
  std::string stop_;
  bool ended_ = false;
  std::optional<ChatFailure> failure_;
};

class Anthropic final : public Wire {
 public:
  explicit Anthropic(const ModelSettings& settings) : settings_(settings) {}

  std::string body(const ChatRequest& request) const override {
    Node out = object({{"model", string_node(settings_.model)},
                       {"max_tokens", Node::integer(settings_.reply_tokens)},
                       {"system", string_node(request.system)},
                       {"messages", messages_node(request.messages)}});
    if (request.tools != nullptr && !request.tools->empty()) {
      Node tools = Node::sequence();
      for (const ToolFacts& t : *request.tools) {
        tools.append(object({{"name", string_node(t.name)},
                             {"description", string_node(t.description)},
                             {"input_schema", t.schema}}));
      }
      out.set("tools", std::move(tools));
    }
    if (settings_.temperature) out.set("temperature", Node::number(*settings_.temperature));
    if (settings_.stream) out.set("stream", Node::boolean(true));
    return text::to_json(out, 0);
  }

  void address(Post& post) const override {
    post.url = settings_.url + "/v1/messages";
    post.headers.push_back({"Content-Type", "application/json"});
    post.headers.push_back({"anthropic-version", "2023-06-01"});
    post.key_header = "x-api-key";
  }

  std::unique_ptr<AnswerReader> stream() const override {
    return std::make_unique<AnthropicReader>();
  }

  tl::expected<ChatReply, ChatFailure> whole(std::string_view body) const override {
    const Result<Node> read = text::parse_json(body, "answer");
    if (!read || !read->is_mapping()) return malformed("the answer is no JSON object");
    const Node* content = read->find("content");
    if (content == nullptr || !content->is_sequence()) {
      return malformed("the answer has no `content`");
    }
    ChatReply reply;
    for (const Node& block : content->items()) {
      const std::string type = string_at(block, "type");
      if (type == "text") reply.text += string_at(block, "text");
      if (type != "tool_use") continue;
      if (string_at(block, "name").empty()) return malformed("a call of the answer names no tool");
      const Node* input = block.find("input");
      reply.calls.push_back({string_at(block, "id"), string_at(block, "name"),
                             input == nullptr ? "{}" : text::to_json(*input, 0)});
    }
    reply.stop = stop_of(string_at(*read, "stop_reason"));
    if (const Node* usage = read->find("usage"); usage != nullptr && usage->is_mapping()) {
      reply.usage = {input_tokens(*usage), integer_at(*usage, "output_tokens", 0), true};
    }
    return reply;
  }

 private:
  ModelSettings settings_;
};

}  // namespace

std::unique_ptr<Wire> anthropic_wire(const ModelSettings& settings) {
  return std::make_unique<Anthropic>(settings);
}

}  // namespace eratos::agent
