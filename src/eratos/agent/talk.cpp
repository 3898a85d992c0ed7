#include "eratos/agent/talk.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "eratos/agent/json_parts.h"
#include "eratos/agent/texts.h"
#include "eratos/agent/tools.h"
#include "eratos/text/dump.h"

namespace eratos::agent {
namespace {

using text::Node;

constexpr std::string_view kEnds[] = {"finished", "out_of_turns", "wasted",
                                      "silent",   "failed",       "interrupted"};

// Results of tools in the newest two answers stay: they are what the model thinks about.
constexpr int kTurnsKept = 2;

class Loop {
 public:
  Loop(Chat& chat, Desk& desk, const TalkBrief& brief, const TalkLimits& limits,
       Transcript& transcript)
      : chat_(chat),
        desk_(desk),
        limits_(limits),
        transcript_(transcript),
        tools_(tool_facts(true)) {
    request_ = first_request(brief, limits, tools_);
    model_ = brief.model;
    ask_user_ = desk_.ask_user;
    // What the user says is part of the talk: told again, it comes from the transcript.
    desk_.ask_user = [this](const std::string& question) {
      const std::optional<std::string> said = ask_user_ ? ask_user_(question) : std::nullopt;
      add(object({{"kind", string_node("user")},
                  {"question", string_node(question)},
                  {"answer", said ? string_node(*said) : Node::null()}}));
      return said;
    };
  }
  ~Loop() { desk_.ask_user = ask_user_; }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Talk run() {
    begin();
    while (turn()) {
    }
    talk_.wasted = desk_.wasted;
    talk_.finish = desk_.finish;
    add(object({{"kind", string_node("end")},
                {"how", string_node(word_of(talk_.end))},
                {"why", string_node(talk_.why)},
                {"turns", Node::integer(talk_.turns)},
                {"calls", Node::integer(talk_.calls)},
                {"trial", Node::integer(talk_.finish ? talk_.finish->trial : 0)}}));
    return talk_;
  }

 private:
  void add(const Node& line) { transcript_.add(text::to_json(line, 0)); }

  void begin() {
    Node names = Node::sequence();
    for (const ToolFacts& t : tools_) names.append(string_node(t.name));
    add(object(
        {{"kind", string_node("begin")},
         {"format", Node::integer(1)},
         {"model", model_},
         {"limits", object({{"turns", Node::integer(limits_.turns)},
                            {"calls", Node::integer(limits_.calls)},
                            {"wasted", Node::integer(limits_.wasted)},
                            {"bytes", Node::integer(static_cast<std::int64_t>(limits_.bytes))}})},
         {"system", string_node(request_.system)},
         {"tools", std::move(names)}}));
  }

  bool end(TalkEnd how, std::string why) {
    talk_.end = how;
    talk_.why = std::move(why);
    return false;
  }

  bool turn() {
    if (desk_.session.workshop().interrupted()) return end(TalkEnd::interrupted, "interrupted");
    if (talk_.turns == limits_.turns) {
      return end(TalkEnd::out_of_turns, fmt::format("{} answers did not finish", limits_.turns));
    }
    ++talk_.turns;
    if (talk_.turns == limits_.turns && talk_.turns > 1) say(prompt("last"));
    if (limits_.bytes > 0 && bytes_of(request_) > limits_.bytes) fit_into(limits_.bytes);
    tl::expected<ChatReply, ChatFailure> reply = ask();
    for (int i = 0; !reply && reply.error().fault == ChatFault::overflow && i < limits_.overflows;
         ++i) {
      if (!make_room()) break;
      reply = ask();
    }
    if (!reply) {
      const ChatFailure& f = reply.error();
      talk_.fault = f.fault;
      if (f.fault == ChatFault::interrupted) return end(TalkEnd::interrupted, f.what);
      return end(TalkEnd::failed, f.what);
    }
    return answer(*std::move(reply));
  }

  tl::expected<ChatReply, ChatFailure> ask() {
    // What is new since the last request; results of tools have lines of their own.
    Node said = Node::sequence();
    for (std::size_t i = told_; i < request_.messages.size(); ++i) {
      const Message& m = request_.messages[i];
      if (m.who == Who::user) said.append(string_node(m.text));
    }
    told_ = request_.messages.size();
    add(object({{"kind", string_node("request")},
                {"turn", Node::integer(talk_.turns)},
                {"user", std::move(said)},
                {"messages", Node::integer(static_cast<int>(request_.messages.size()))},
                {"left_out", Node::integer(talk_.left_out)},
                {"bytes", Node::integer(static_cast<std::int64_t>(bytes_of(request_)))},
                {"crc32", string_node(fmt::format("{:08x}", digest_of(request_)))}}));
    tl::expected<ChatReply, ChatFailure> reply = chat_.ask(request_);
    const Usage& usage = reply ? reply->usage : reply.error().usage;
    talk_.usage = {talk_.usage.in + usage.in, talk_.usage.out + usage.out,
                   talk_.usage.stated && (usage.stated || usage.in + usage.out == 0)};
    talk_.attempts +=
        static_cast<int>(reply ? reply->attempts.size() : reply.error().attempts.size());
    transcript_.add(reply ? reply_line(talk_.turns, *reply)
                          : failure_line(talk_.turns, reply.error()));
    return reply;
  }

  bool answer(ChatReply reply) {
    name_apart(reply.calls);
    request_.messages.push_back({Who::assistant, reply.text, reply.calls});
    if (reply.stop == Stop::refused && reply.calls.empty()) {
      return end(TalkEnd::failed, "the model refused to answer");
    }
    if (reply.calls.empty()) {
      if (request_.messages.back().text.empty()) request_.messages.back().text = "(nothing)";
      if (nudged_) return end(TalkEnd::silent, "two answers in a row called no tool");
      nudged_ = true;
      say(prompt("nudge"));
      return true;
    }
    nudged_ = false;
    for (std::size_t i = 0; i < reply.calls.size(); ++i) call(reply.calls[i], i);
    if (desk_.finish) return end(TalkEnd::finished, "");
    if (desk_.wasted > limits_.wasted) {
      return end(TalkEnd::wasted, fmt::format("{} proposals were refused or repeated, {} are "
                                              "allowed",
                                              desk_.wasted, limits_.wasted));
    }
    return true;
  }

  void call(const ToolCall& c, std::size_t place) {
    ++talk_.calls;
    ToolSaid said;
    if (desk_.finish) {
      said = {R"({"refused":["the talk is over: `finish` was accepted"]})", true};
    } else if (place >= static_cast<std::size_t>(limits_.calls)) {
      said = {fmt::format(R"({{"refused":["an answer may hold {} calls"]}})", limits_.calls), true};
    } else if (desk_.wasted > limits_.wasted && c.name != "finish") {
      said = {R"({"refused":["no proposals are left: call `finish`"]})", true};
    } else {
      said = call_tool(desk_, c.name, c.arguments);
    }
    if (said.is_fault) ++talk_.refused_calls;
    const std::string text = as_data(c.name, said.json);
    request_.messages.push_back({Who::tool, text, {}, c.id, said.is_fault});
    add(object({{"kind", string_node("result")},
                {"turn", Node::integer(talk_.turns)},
                {"call", string_node(c.id)},
                {"tool", string_node(c.name)},
                {"refused", Node::boolean(said.is_fault)},
                {"text", string_node(text)}}));
  }

  // Results are told apart by the identifiers of their calls, and some servers repeat them.
  void name_apart(std::vector<ToolCall>& calls) {
    for (ToolCall& c : calls) {
      std::string id = c.id;
      for (int i = 2; id.empty() || !ids_.insert(id).second; ++i)
        id = fmt::format("{}_{}", c.id, i);
      c.id = id;
    }
  }

  void say(const std::string& text) { request_.messages.push_back({Who::user, text}); }

  // Results that may be left out, the oldest first.
  std::vector<std::size_t> old_results() const {
    int turns = 0;
    std::size_t newest = request_.messages.size();
    while (newest > 0 && turns < kTurnsKept) {
      --newest;
      if (request_.messages[newest].who == Who::assistant) ++turns;
    }
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < newest; ++i) {
      const Message& m = request_.messages[i];
      if (m.who == Who::tool && m.text.size() > instead_of(m).size()) out.push_back(i);
    }
    return out;
  }

  std::string instead_of(const Message& m) const {
    return filled(prompt("dropped"),
                  {{"tool", tool_of(m.call)}, {"bytes", std::to_string(m.text.size())}});
  }

  void leave_out(std::size_t i) {
    Message& m = request_.messages[i];
    m.text = instead_of(m);
    ++talk_.left_out;
  }

  void fit_into(std::size_t bytes) {
    for (const std::size_t i : old_results()) {
      if (bytes_of(request_) <= bytes) return;
      leave_out(i);
    }
  }

  // The older half. False where nothing is left to leave out.
  bool make_room() {
    const std::vector<std::size_t> old = old_results();
    for (std::size_t i = 0; i < (old.size() + 1) / 2; ++i) leave_out(old[i]);
    return !old.empty();
  }

  std::string tool_of(const std::string& id) const {
    for (const Message& m : request_.messages) {
      for (const ToolCall& c : m.calls) {
        if (c.id == id) return c.name;
      }
    }
    return "a tool";
  }

  Chat& chat_;
  Desk& desk_;
  TalkLimits limits_;
  Transcript& transcript_;
  Node model_;
  std::function<std::optional<std::string>(const std::string&)> ask_user_;
  std::vector<ToolFacts> tools_;
  ChatRequest request_;
  std::size_t told_ = 0;  // messages that a request line has
  std::set<std::string> ids_;
  bool nudged_ = false;
  Talk talk_;
};

}  // namespace

std::string_view word_of(TalkEnd end) { return kEnds[static_cast<std::size_t>(end)]; }

ChatRequest first_request(const TalkBrief& brief, const TalkLimits& limits,
                          const std::vector<ToolFacts>& tools) {
  ChatRequest out;
  out.system = filled(prompt("system"), {{"most_wasted", std::to_string(limits.wasted)}});
  const std::string wishes =
      brief.wishes.empty() ? "" : filled(prompt("wishes"), {{"text", brief.wishes}});
  out.messages.push_back(
      {Who::user,
       filled(prompt("task"),
              {{"facts", as_data("eratos", brief.facts)},
               {"baseline", brief.baseline > 0 ? std::to_string(brief.baseline) : "not tried yet"},
               {"seeds", brief.seeds.empty() ? "" : " " + brief.seeds},
               {"budgets", brief.budgets},
               {"turns", std::to_string(limits.turns)},
               {"wishes", wishes}})});
  out.tools = &tools;
  return out;
}

std::string prompt_text(const ChatRequest& request) {
  std::string out = "system\n------\n" + request.system;
  for (const Message& m : request.messages) out += "\nuser\n----\n" + m.text;
  out += "\ntools\n-----\n";
  for (const ToolFacts& t : *request.tools) {
    out += fmt::format("{}: {}\n  {}\n", t.name, t.description, text::to_json(t.schema, 0));
  }
  return out;
}

text::Node talk_node(const Talk& t) {
  Node out = object({{"end", string_node(word_of(t.end))},
                     {"why", string_node(t.why)},
                     {"turns", Node::integer(t.turns)},
                     {"calls", Node::integer(t.calls)},
                     {"refused_calls", Node::integer(t.refused_calls)},
                     {"wasted_proposals", Node::integer(t.wasted)},
                     {"results_left_out", Node::integer(t.left_out)},
                     {"tried_again", Node::integer(t.attempts)},
                     {"tokens_in", Node::integer(t.usage.in)},
                     {"tokens_out", Node::integer(t.usage.out)},
                     {"tokens_stated", Node::boolean(t.usage.stated)}});
  if (t.fault) out.set("fault", string_node(word_of(*t.fault)));
  if (t.finish) {
    Node cites = Node::sequence();
    for (const int n : t.finish->cites) cites.append(Node::integer(n));
    out.set("trial", Node::integer(t.finish->trial));
    out.set("rationale", string_node(t.finish->rationale));
    out.set("cites", std::move(cites));
  }
  return out;
}

Talk talk_with(Chat& chat, Desk& desk, const TalkBrief& brief, const TalkLimits& limits,
               Transcript& transcript) {
  return Loop(chat, desk, brief, limits, transcript).run();
}

}  // namespace eratos::agent
