#include "eratos/agent/openai.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "eratos/agent/json_parts.h"
#include "eratos/text/dump.h"
#include "eratos/text/json.h"

namespace eratos::agent {
namespace {

using text::Node;

Node call_node(const ToolCall& call) {
  // A server that reads its own words again may refuse what is not JSON.
  const bool is_object = [&] {
    const Result<Node> read = text::parse_json(call.arguments, "arguments");
    return read && read->is_mapping();
  }();
  return object(
      {{"id", string_node(call.id)},
       {"type", string_node("function")},
       {"function", object({{"name", string_node(call.name)},
                            {"arguments", string_node(is_object ? call.arguments : "{}")}})}});
}

Node message_node(const Message& m) {
  if (m.who == Who::tool) {
    return object({{"role", string_node("tool")},
                   {"tool_call_id", string_node(m.call)},
                   {"content", string_node(m.text)}});
  }
  if (m.who == Who::user) {
    return object({{"role", string_node("user")}, {"content", string_node(m.text)}});
  }
  Node out = object(
      {{"role", string_node("assistant")},
       {"content", m.text.empty() && !m.calls.empty() ? Node::null() : string_node(m.text)}});
  if (!m.calls.empty()) {
    Node calls = Node::sequence();
    for (const ToolCall& c : m.calls) calls.append(call_node(c));
    out.set("tool_calls", std::move(calls));
  }
  return out;
}

Stop stop_of(const std::string& word, bool has_calls) {
  if (word == "length") return Stop::length;
  if (word == "content_filter") return Stop::refused;
  return has_calls ? Stop::calls : Stop::ended;
}

void read_usage(const Node& root, Usage& usage) {
  const Node* at = root.find("usage");
  if (at == nullptr || !at->is_mapping()) return;
  const std::int64_t in = integer_at(*at, "prompt_tokens", -1);
  const std::int64_t out = integer_at(*at, "completion_tokens", -1);
  if (in >= 0 && out >= 0) usage = {in, out, true};
}

tl::unexpected<ChatFailure> malformed(std::string what) {
  return tl::unexpected<ChatFailure>({ChatFault::malformed, std::move(what)});
}

// Servers that forget the identifier of a call still need one for its result.
void name_calls(std::vector<ToolCall>& calls) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].id.empty()) calls[i].id = fmt::format("call_{}", i + 1);
  }
}

class OpenAiReader final : public AnswerReader {
 public:
  void see(const SseEvent& event) override {
    if (failure_ || done_) return;
    if (event.data == "[DONE]") {
      done_ = true;
      return;
    }
    const Result<Node> read = text::parse_json(event.data, "event");
    if (!read || !read->is_mapping()) {
      failure_ = ChatFailure{ChatFault::malformed, "an event of the stream is no JSON object"};
      return;
    }
    if (const Node* error = read->find("error"); error != nullptr && !error->is_null()) {
      failure_ = ChatFailure{ChatFault::server, server_words(event.data).message};
      return;
    }
    read_usage(*read, reply_.usage);
    const Node* choices = read->find("choices");
    if (choices == nullptr || choices->items().empty()) return;
    const Node& choice = choices->items().front();
    if (const Node* delta = choice.find("delta")) see_delta(*delta);
    const std::string finish = string_at(choice, "finish_reason");
    if (!finish.empty()) finish_ = finish;
  }

  tl::expected<ChatReply, ChatFailure> end() override {
    if (failure_) return tl::unexpected<ChatFailure>(*failure_);
    if (finish_.empty()) {
      return tl::unexpected<ChatFailure>(
          {ChatFault::cut, "the stream ended before the answer did"});
    }
    for (const ToolCall& c : reply_.calls) {
      if (c.name.empty()) return malformed("a call of the stream names no tool");
    }
    name_calls(reply_.calls);
    reply_.stop = stop_of(finish_, !reply_.calls.empty());
    return reply_;
  }

 private:
  void see_delta(const Node& delta) {
    reply_.text += string_at(delta, "content");
    reply_.text += string_at(delta, "refusal");
    const Node* calls = delta.find("tool_calls");
    if (calls == nullptr) return;
    for (const Node& piece : calls->items()) {
      const std::size_t at = place_of(piece);
      if (failure_) return;
      ToolCall& call = reply_.calls[at];
      if (call.id.empty()) call.id = string_at(piece, "id");
      if (const Node* function = piece.find("function")) {
        if (call.name.empty()) call.name = string_at(*function, "name");
        call.arguments += string_at(*function, "arguments");
      }
    }
  }

  // By `index`; a server that leaves it out begins a call with its identifier.
  std::size_t place_of(const Node& piece) {
    const std::string id = string_at(piece, "id");
    std::int64_t index = integer_at(piece, "index", -1);
    if (index < 0) {
      const bool begins = !id.empty() && (reply_.calls.empty() || reply_.calls.back().id != id);
      if (begins || reply_.calls.empty()) {
        reply_.calls.push_back({});
        indices_.push_back(-1);
      }
      return reply_.calls.size() - 1;
    }
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      if (indices_[i] == index) return i;
    }
    constexpr std::size_t kMostCalls = 128;
    if (indices_.size() == kMostCalls) {
      failure_ = ChatFailure{ChatFault::malformed, "more than 128 calls in one answer"};
      return 0;
    }
    indices_.push_back(index);
    reply_.calls.push_back({});
    return reply_.calls.size() - 1;
  }

  ChatReply reply_;
  std::vector<std::int64_t> indices_;
  std::string finish_;
  bool done_ = false;
  std::optional<ChatFailure> failure_;
};

class OpenAi final : public Wire {
 public:
  explicit OpenAi(const ModelSettings& settings) : settings_(settings) {}

  std::string body(const ChatRequest& request) const override {
    Node messages = Node::sequence();
    messages.append(
        object({{"role", string_node("system")}, {"content", string_node(request.system)}}));
    for (const Message& m : request.messages) messages.append(message_node(m));
    Node out = object({{"model", string_node(settings_.model)}, {"messages", std::move(messages)}});
    if (request.tools != nullptr && !request.tools->empty()) {
      Node tools = Node::sequence();
      for (const ToolFacts& t : *request.tools) {
        tools.append(object({{"type", string_node("function")},
                             {"function", object({{"name", string_node(t.name)},
                                                  {"description", string_node(t.description)},
                                                  {"parameters", t.schema}})}}));
      }
      out.set("tools", std::move(tools));
    }
    out.set(settings_.reply_tokens_field, Node::integer(settings_.reply_tokens));
    if (settings_.temperature) out.set("temperature", Node::number(*settings_.temperature));
    if (settings_.stream) {
      out.set("stream", Node::boolean(true));
      out.set("stream_options", object({{"include_usage", Node::boolean(true)}}));
    }
    return text::to_json(out, 0);
  }

  void address(Post& post) const override {
    post.url = settings_.url + "/chat/completions";
    post.headers.push_back({"Content-Type", "application/json"});
    post.headers.push_back(
        {"Accept", settings_.stream ? "text/event-stream, application/json" : "application/json"});
    post.key_header = "Authorization";
    post.key_prefix = "Bearer ";
  }

  std::unique_ptr<AnswerReader> stream() const override { return std::make_unique<OpenAiReader>(); }

  tl::expected<ChatReply, ChatFailure> whole(std::string_view body) const override {
    const Result<Node> read = text::parse_json(body, "answer");
    if (!read || !read->is_mapping()) return malformed("the answer is no JSON object");
    const Node* choices = read->find("choices");
    if (choices == nullptr || choices->items().empty()) {
      return malformed("the answer has no `choices`");
    }
    const Node& choice = choices->items().front();
    const Node* message = choice.find("message");
    if (message == nullptr || !message->is_mapping()) {
      return malformed("the answer has no `message`");
    }
    ChatReply reply;
    reply.text = string_at(*message, "content") + string_at(*message, "refusal");
    if (const Node* calls = message->find("tool_calls")) {
      for (const Node& c : calls->items()) {
        const Node* function = c.find("function");
        if (function == nullptr || string_at(*function, "name").empty()) {
          return malformed("a call of the answer names no tool");
        }
        reply.calls.push_back(
            {string_at(c, "id"), string_at(*function, "name"), string_at(*function, "arguments")});
      }
    }
    name_calls(reply.calls);
    reply.stop = stop_of(string_at(choice, "finish_reason"), !reply.calls.empty());
    read_usage(*read, reply.usage);
    return reply;
  }

 private:
  ModelSettings settings_;
};

}  // namespace

std::unique_ptr<Wire> openai_wire(const ModelSettings& settings) {
  return std::make_unique<OpenAi>(settings);
}

}  // namespace eratos::agent
