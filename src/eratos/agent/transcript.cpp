#include "eratos/agent/transcript.h"

#include <utility>

#include <fmt/format.h>

#include "eratos/agent/json_parts.h"
#include "eratos/base/crc32.h"
#include "eratos/text/dump.h"
#include "eratos/text/json.h"

namespace eratos::agent {
namespace {

using text::Node;

constexpr std::pair<Stop, std::string_view> kStops[] = {{Stop::ended, "ended"},
                                                        {Stop::calls, "calls"},
                                                        {Stop::length, "length"},
                                                        {Stop::refused, "refused"}};

std::string_view word_of(Stop stop) {
  for (const auto& [value, word] : kStops) {
    if (value == stop) return word;
  }
  return "ended";
}

Node usage_node(const Usage& u) {
  return object({{"in", Node::integer(u.in)},
                 {"out", Node::integer(u.out)},
                 {"stated", Node::boolean(u.stated)}});
}

Node attempts_node(const std::vector<Attempt>& attempts) {
  Node out = Node::sequence();
  for (const Attempt& a : attempts) {
    out.append(object({{"fault", string_node(word_of(a.fault))},
                       {"what", string_node(a.what)},
                       {"wait_s", Node::number(a.wait_s)}}));
  }
  return out;
}

Usage usage_of(const Node& line) {
  const Node* at = line.find("usage");
  if (at == nullptr) return {};
  const Node* stated = at->find("stated");
  return {integer_at(*at, "in", 0), integer_at(*at, "out", 0),
          stated != nullptr && stated->as_bool().value_or(false)};
}

std::optional<std::vector<Attempt>> attempts_of(const Node& line) {
  std::vector<Attempt> out;
  const Node* at = line.find("attempts");
  if (at == nullptr) return out;
  for (const Node& item : at->items()) {
    const auto fault = chat_fault_of(string_at(item, "fault"));
    const Node* wait = item.find("wait_s");
    const Result<double> seconds = wait == nullptr ? Result<double>(0.0) : wait->as_double();
    if (!fault || !seconds) return std::nullopt;
    out.push_back({*fault, string_at(item, "what"), *seconds});
  }
  return out;
}

std::optional<ChatReply> reply_of(const Node& line) {
  ChatReply out;
  out.text = string_at(line, "text");
  if (const Node* calls = line.find("calls")) {
    for (const Node& c : calls->items()) {
      out.calls.push_back({string_at(c, "id"), string_at(c, "name"), string_at(c, "arguments")});
    }
  }
  const std::string stop = string_at(line, "stop");
  bool known = false;
  for (const auto& [value, word] : kStops) {
    if (word != stop) continue;
    out.stop = value;
    known = true;
  }
  auto attempts = attempts_of(line);
  if (!known || !attempts) return std::nullopt;
  out.attempts = *std::move(attempts);
  out.usage = usage_of(line);
  return out;
}

std::optional<ChatFailure> failure_of(const Node& line) {
  const auto fault = chat_fault_of(string_at(line, "fault"));
  auto attempts = attempts_of(line);
  if (!fault || !attempts) return std::nullopt;
  return ChatFailure{*fault, string_at(line, "what"),
                     static_cast<int>(integer_at(line, "status", 0)), usage_of(line),
                     *std::move(attempts)};
}

std::uint32_t hex_at(const Node& line, std::string_view key) {
  std::uint32_t value = 0;
  for (const char c : string_at(line, key)) {
    const auto digit = static_cast<std::uint32_t>(c >= 'a' ? c - 'a' + 10 : c - '0');
    value = value * 16 + digit % 16;
  }
  return value;
}

}  // namespace

std::string reply_line(int turn, const ChatReply& reply) {
  Node calls = Node::sequence();
  for (const ToolCall& c : reply.calls) {
    calls.append(object({{"id", string_node(c.id)},
                         {"name", string_node(c.name)},
                         {"arguments", string_node(c.arguments)}}));
  }
  return text::to_json(object({{"kind", string_node("reply")},
                               {"turn", Node::integer(turn)},
                               {"text", string_node(reply.text)},
                               {"calls", std::move(calls)},
                               {"stop", string_node(word_of(reply.stop))},
                               {"usage", usage_node(reply.usage)},
                               {"attempts", attempts_node(reply.attempts)}}),
                       0);
}

std::string failure_line(int turn, const ChatFailure& failure) {
  return text::to_json(object({{"kind", string_node("failure")},
                               {"turn", Node::integer(turn)},
                               {"fault", string_node(word_of(failure.fault))},
                               {"what", string_node(failure.what)},
                               {"status", Node::integer(failure.status)},
                               {"usage", usage_node(failure.usage)},
                               {"attempts", attempts_node(failure.attempts)}}),
                       0);
}

Result<Script> script_of(const std::vector<std::string>& lines, const std::string& file) {
  Script out;
  out.lines = lines;
  std::uint32_t request = 0;
  int number = 0;
  const auto refuse = [&](const std::string& message) {
    return fault({{file, number, 1}, message, "give the transcript.jsonl of a tuning run"});
  };
  for (const std::string& line : lines) {
    ++number;
    text::TreeLimits limits;
    limits.bytes = 16'000'000;
    const Result<Node> read = text::parse_json(line, file, limits);
    if (!read || !read->is_mapping()) return refuse("the line is no JSON object");
    const std::string kind = string_at(*read, "kind");
    out.ended = kind == "end";
    if (number == 1 && kind != "begin") return refuse("the file does not begin as a transcript");
    if (kind == "begin") {
      if (const Node* model = read->find("model")) out.model = *model;
      if (const Node* limits_said = read->find("limits")) out.limits = *limits_said;
    }
    if (kind == "user") {
      const Node* said = read->find("answer");
      const bool any = said != nullptr && said->is_scalar();
      out.users.push_back(any ? std::optional<std::string>(said->raw()) : std::nullopt);
    }
    if (kind == "request") request = hex_at(*read, "crc32");
    if (kind == "reply") {
      auto reply = reply_of(*read);
      if (!reply) return refuse("the reply cannot be read");
      out.answers.push_back({request, *std::move(reply)});
    } else if (kind == "failure") {
      auto failure = failure_of(*read);
      if (!failure) return refuse("the failure cannot be read");
      out.answers.push_back({request, tl::unexpected<ChatFailure>(*std::move(failure))});
    }
  }
  if (lines.empty()) return refuse("the transcript is empty");
  return out;
}

Script without_failures(Script script) {
  // An overflow is answered by leaving results out, not by ending: it stays.
  while (!script.answers.empty() && !script.answers.back().answer &&
         script.answers.back().answer.error().fault != ChatFault::overflow) {
    script.answers.pop_back();
  }
  return script;
}

std::uint32_t digest_of(const ChatRequest& request) {
  Node messages = Node::sequence();
  for (const Message& m : request.messages) {
    Node calls = Node::sequence();
    for (const ToolCall& c : m.calls) {
      calls.append(
          Node::sequence({string_node(c.id), string_node(c.name), string_node(c.arguments)}));
    }
    messages.append(
        Node::sequence({Node::integer(static_cast<int>(m.who)), string_node(m.text),
                        std::move(calls), string_node(m.call), Node::boolean(m.is_fault)}));
  }
  Node tools = Node::sequence();
  if (request.tools != nullptr) {
    for (const ToolFacts& t : *request.tools) {
      tools.append(Node::sequence({string_node(t.name), string_node(t.description), t.schema}));
    }
  }
  return crc32(text::to_json(
      Node::sequence({string_node(request.system), std::move(messages), std::move(tools)}), 0));
}

ScriptedChat::ScriptedChat(Script script, Chat* live, std::function<void(const Usage&)> charge)
    : script_(std::move(script)), live_(live), charge_(std::move(charge)) {}

tl::expected<ChatReply, ChatFailure> ScriptedChat::ask(const ChatRequest& request) {
  if (next_ == script_.answers.size()) {
    if (live_ != nullptr) return live_->ask(request);
    return tl::unexpected<ChatFailure>(
        {ChatFault::other_script, "the transcript ends before the talk does"});
  }
  const Script::Answer& answer = script_.answers[next_++];
  if (answer.request != digest_of(request)) {
    return tl::unexpected<ChatFailure>(
        {ChatFault::other_script,
         fmt::format("request {} is not the one of the transcript: another job, cluster, budget or "
                     "eratos",
                     next_)});
  }
  if (charge_) charge_(answer.answer ? answer.answer->usage : answer.answer.error().usage);
  return answer.answer;
}

void Transcript::add(const std::string& line) {
  const std::size_t at = lines_.size();
  lines_.push_back(line);
  if (!file_.append || trouble_) return;
  if (follows_ && at < before_.size()) {
    if (before_[at] == line) return;
    follows_ = false;
    if (const Result<void> kept = file_.keep(at); !kept) trouble_ = kept.error();
    if (trouble_) return;
  }
  if (const Result<void> written = file_.append(line); !written) trouble_ = written.error();
}

}  // namespace eratos::agent
