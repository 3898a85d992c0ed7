#include "eratos/agent/client.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/fakes.h"
#include "eratos/text/json.h"

namespace eratos::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kKey = "sk-test-0123456789abcdef";

ModelSettings settings_of(Api api) {
  ModelSettings s;
  s.api = api;
  s.url = "http://127.0.0.1:1";
  s.model = "m";
  s.key = Secret(kKey);
  return s;
}

struct World {
  ModelSettings settings;
  FakeTransport transport;
  FakeClock clock;
  std::vector<ToolFacts> tools{{"best", "the best so far", text::Node::mapping()}};
  ChatRequest request;

  explicit World(Api api = Api::openai) : settings(settings_of(api)) {
    request.system = "rules";
    request.messages = {{Who::user, "go"}};
    request.tools = &tools;
  }
  tl::expected<ChatReply, ChatFailure> ask() {
    Client client(settings, transport, clock, 1);
    return client.ask(request);
  }
};

std::string event(const std::string& data) { return "data: " + data + "\n\n"; }

// Two calls whose deltas come mixed; arguments in pieces; usage behind the last choice.
const std::string kParallel =
    event(
        R"({"choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"project","arguments":""}}]}}]})") +
    event(
        R"({"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"memory","arguments":"{\"set\":"}}]}}]})") +
    event(
        R"({"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"set\":[\"par"}}]}}]})") +
    event(
        R"({"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"[]}"}},{"index":0,"function":{"arguments":"allel.tp=4\"]}"}}]}}]})") +
    event(R"({"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]})") +
    event(
        R"({"choices":[],"usage":{"prompt_tokens":120,"completion_tokens":31,"total_tokens":151}})") +
    event("[DONE]");

TEST(OpenAi, DeltasOfParallelCallsArePutTogetherHoweverTheStreamIsCut) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{50}, kParallel.size()}) {
    World w;
    w.transport.piece = piece;
    w.transport.script = {stream_answer(kParallel)};
    const auto reply = w.ask();
    ASSERT_TRUE(reply.has_value()) << reply.error().what;
    ASSERT_EQ(reply->calls.size(), 2u);
    EXPECT_EQ(reply->calls[0].id, "a");
    EXPECT_EQ(reply->calls[0].name, "project");
    EXPECT_EQ(reply->calls[0].arguments, R"({"set":["parallel.tp=4"]})");
    EXPECT_EQ(reply->calls[1].id, "b");
    EXPECT_EQ(reply->calls[1].arguments, R"({"set":[]})");
    EXPECT_EQ(reply->stop, Stop::calls);
    EXPECT_EQ(reply->usage.in, 120);
    EXPECT_EQ(reply->usage.out, 31);
    EXPECT_TRUE(reply->usage.stated);
  }
}

TEST(OpenAi, CallsWithoutAnIndexOrAnIdentifier) {
  World w;
  w.transport.script = {stream_answer(
      event(
          R"({"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"name":"best","arguments":"{}"}}]}}]})") +
      event(
          R"({"choices":[{"delta":{"tool_calls":[{"id":"y","function":{"name":"notes","arguments":"{"}}]}}]})") +
      event(
          R"({"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"}"}}]},"finish_reason":"stop"}]})") +
      event("[DONE]"))};
  const auto reply = w.ask();
  ASSERT_TRUE(reply.has_value()) << reply.error().what;
  ASSERT_EQ(reply->calls.size(), 2u);
  EXPECT_EQ(reply->calls[1].name, "notes");
  EXPECT_EQ(reply->calls[1].arguments, "{}");
  EXPECT_EQ(reply->stop, Stop::calls);
  EXPECT_FALSE(reply->usage.stated);
}

TEST(OpenAi, AWholeAnswerSaysTheSameAsAStream) {
  World w;
  w.transport.script = {json_answer(
      R"({"choices":[{"message":{"role":"assistant","content":"thinking","tool_calls":[{"id":"a","type":"function","function":{"name":"best","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":5,"completion_tokens":6}})")};
  const auto reply = w.ask();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->text, "thinking");
  ASSERT_EQ(reply->calls.size(), 1u);
  EXPECT_EQ(reply->usage.out, 6);
}

TEST(OpenAi, TheRequestIsWhatTheInterfaceAsksFor) {
  World w;
  w.request.messages = {{Who::user, "go"},
                        {Who::assistant, "", {{"a", "best", "{\"n\":1}"}, {"b", "best", "{bad"}}},
                        {Who::tool, "result", {}, "a"},
                        {Who::tool, "no JSON", {}, "b", true}};
  w.transport.script = {
      json_answer(R"({"choices":[{"message":{"content":"done"},"finish_reason":"stop"}]})")};
  ASSERT_TRUE(w.ask().has_value());
  const Post& post = w.transport.posts.at(0);
  EXPECT_EQ(post.url, "http://127.0.0.1:1/chat/completions");
  EXPECT_EQ(post.key_header, "Authorization");
  EXPECT_EQ(
      post.body,
      R"({"model":"m","messages":[{"role":"system","content":"rules"},{"role":"user","content":"go"},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"best","arguments":"{\"n\":1}"}},)"
      R"({"id":"b","type":"function","function":{"name":"best","arguments":"{}"}}]},)"
      R"({"role":"tool","tool_call_id":"a","content":"result"},{"role":"tool","tool_call_id":"b","content":"no JSON"}],)"
      R"("tools":[{"type":"function","function":{"name":"best","description":"the best so far","parameters":{}}}],)"
      R"("max_tokens":4096,"stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_THAT(post.body, Not(HasSubstr(kKey)));
}

const std::string kAnthropicStream =
    "event: message_start\n" +
    event(
        R"({"type":"message_start","message":{"id":"msg_1","role":"assistant","content":[],"usage":{"input_tokens":25,"cache_read_input_tokens":10,"output_tokens":1}}})") +
    "event: content_block_start\n" +
    event(R"({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})") +
    event(R"({"type":"ping"})") +
    event(
        R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I look"}})") +
    event(R"({"type":"content_block_stop","index":0})") +
    event(
        R"({"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"project","input":{}}})") +
    event(
        R"({"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}})") +
    event(
        R"({"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"set\": [\"batch"}})") +
    event(
        R"({"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":".micro=2\"]}"}})") +
    event(R"({"type":"content_block_stop","index":1})") +
    event(
        R"({"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t2","name":"best","input":{}}})") +
    event(R"({"type":"content_block_stop","index":2})") +
    event(
        R"({"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":89}})") +
    event(R"({"type":"message_stop"})");

TEST(Anthropic, EventsArePutTogether) {
  World w(Api::anthropic);
  w.transport.script = {stream_answer(kAnthropicStream)};
  const auto reply = w.ask();
  ASSERT_TRUE(reply.has_value()) << reply.error().what;
  EXPECT_EQ(reply->text, "I look");
  ASSERT_EQ(reply->calls.size(), 2u);
  EXPECT_EQ(reply->calls[0].arguments, R"({"set": ["batch.micro=2"]})");
  EXPECT_EQ(reply->calls[1].arguments, "{}");
  EXPECT_EQ(reply->usage.in, 35);
  EXPECT_EQ(reply->usage.out, 89);
}

TEST(Anthropic, ResultsOfToolsAreOneTurnOfTheUser) {
  World w(Api::anthropic);
  w.request.messages = {{Who::user, "go"},
                        {Who::assistant, "hm", {{"a", "best", "{\"n\":1}"}, {"b", "best", "{bad"}}},
                        {Who::tool, "result", {}, "a"},
                        {Who::tool, "no JSON", {}, "b", true}};
  w.transport.script = {json_answer(
      R"({"content":[{"type":"text","text":"done"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}})")};
  ASSERT_TRUE(w.ask().has_value());
  const Post& post = w.transport.posts.at(0);
  EXPECT_EQ(post.url, "http://127.0.0.1:1/v1/messages");
  EXPECT_EQ(post.key_header, "x-api-key");
  EXPECT_EQ(
      post.body,
      R"({"model":"m","max_tokens":4096,"system":"rules","messages":[{"role":"user","content":[{"type":"text","text":"go"}]},)"
      R"({"role":"assistant","content":[{"type":"text","text":"hm"},{"type":"tool_use","id":"a","name":"best","input":{"n":1}},)"
      R"({"type":"tool_use","id":"b","name":"best","input":{}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"result"},)"
      R"({"type":"tool_result","tool_use_id":"b","content":"no JSON","is_error":true}]}],)"
      R"("tools":[{"name":"best","description":"the best so far","input_schema":{}}],"stream":true})");
}

const char* const kDone =
    R"({"choices":[{"message":{"content":"done"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}})";

TEST(Client, WaitsAsLongAsTheServerAsks) {
  World w;
  w.transport.script = {{429, {{"retry-after", "7"}}, R"({"error":{"message":"slow down"}})"},
                        {429, {{"retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"}}, "{}"},
                        json_answer(kDone)};
  const auto reply = w.ask();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(w.clock.slept, (std::vector<double>{7, 7}));
  ASSERT_EQ(reply->attempts.size(), 2u);
  EXPECT_EQ(reply->attempts[0].what, "HTTP 429: slow down");
}

TEST(Client, DoesNotWaitForAnHour) {
  World w;
  w.transport.script = {{429, {{"retry-after", "3600"}}, "{}"}};
  const auto reply = w.ask();
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().fault, ChatFault::limited);
  EXPECT_THAT(reply.error().what, HasSubstr("asks to wait 3600 s"));
  EXPECT_TRUE(w.clock.slept.empty());
}

TEST(Client, AServersFaultsAreTriedAgainAndThenSaid) {
  World w;
  w.settings.retry.tries = 3;
  for (int i = 0; i < 3; ++i) {
    w.transport.script.push_back(json_answer(R"({"error":{"message":"boom"}})", 500));
  }
  const auto reply = w.ask();
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().fault, ChatFault::server);
  EXPECT_EQ(reply.error().what, "HTTP 500: boom (try 3 of 3)");
  EXPECT_EQ(w.transport.posts.size(), 3u);
}

TEST(Client, WhatNoPatienceCuresIsNotTriedAgain) {
  struct Case {
    FakeAnswer answer;
    ChatFault fault;
  };
  const Case cases[] = {
      {json_answer(R"({"error":{"message":"no such model","code":"model_not_found"}})", 404),
       ChatFault::rejected},
      {json_answer(R"({"error":{"message":"no credit","code":"insufficient_quota"}})", 429),
       ChatFault::limited},
      {json_answer(
           R"({"error":{"message":"This model's maximum context length is 8192 tokens","code":"context_length_exceeded"}})",
           400),
       ChatFault::overflow},
      {json_answer(
           R"({"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}})",
           400),
       ChatFault::overflow},
      {json_answer("", 302), ChatFault::rejected},
      {failing(Ended::interrupted, "interrupted"), ChatFault::interrupted},
      {failing(Ended::not_built_in, "no HTTP"), ChatFault::unreachable},
      {failing(Ended::untrusted, "a certificate of its own"), ChatFault::unreachable},
  };
  for (const Case& c : cases) {
    World w;
    w.transport.script = {c.answer, json_answer(kDone)};
    const auto reply = w.ask();
    ASSERT_FALSE(reply.has_value()) << c.answer.body;
    EXPECT_EQ(reply.error().fault, c.fault) << c.answer.body;
    EXPECT_EQ(w.transport.posts.size(), 1u) << c.answer.body;
  }
}

TEST(Client, BrokenAnswersAreTriedAgain) {
  const FakeAnswer broken[] = {
      json_answer("<html>busy</html>"),
      json_answer("{}"),
      stream_answer(kParallel.substr(0, kParallel.size() / 2)),
      stream_answer(event("{not json")),
      stream_answer(event(R"({"error":{"message":"overloaded"}})")),
      stream_answer(""),
      failing(Ended::cut, "cut"),
      failing(Ended::slow_idle, "silent"),
      failing(Ended::unreachable, "refused"),
  };
  for (const FakeAnswer& answer : broken) {
    World w;
    w.transport.script = {answer, json_answer(kDone)};
    const auto reply = w.ask();
    ASSERT_TRUE(reply.has_value()) << answer.body << reply.error().what;
    EXPECT_EQ(reply->attempts.size(), 1u) << answer.body;
    w.settings.retry.tries = 1;
    w.transport.script = {answer};
    EXPECT_FALSE(w.ask().has_value()) << answer.body;
  }
}

// Bytes changed, dropped, repeated: an answer or a failure, and nothing else happens.
TEST(Client, MangledStreamsGiveAnAnswerOrAFailure) {
  int answers = 0;
  int failures = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Rng rng(seed);
    World w(seed % 2 == 0 ? Api::openai : Api::anthropic);
    w.settings.retry.tries = 1;
    std::string bytes = seed % 2 == 0 ? kParallel : kAnthropicStream;
    for (std::uint64_t i = 0; i <= rng.below(4); ++i) {
      const std::size_t at = rng.below(bytes.size());
      const std::size_t size = 1 + rng.below(20);
      switch (rng.below(4)) {
        case 0:
          bytes[at] = static_cast<char>(rng.below(256));
          break;
        case 1:
          bytes.erase(at, size);
          break;
        case 2:
          bytes.insert(at, bytes.substr(rng.below(bytes.size()), size));
          break;
        default:
          bytes.insert(at, "[{\"\\u0000");
      }
    }
    w.transport.piece = 1 + rng.below(64);
    w.transport.script = {seed % 3 == 0 ? json_answer(bytes) : stream_answer(bytes)};
    (w.ask() ? answers : failures)++;
  }
  EXPECT_GT(answers, 20);
  EXPECT_GT(failures, 200);
}

TEST(Client, AStreamCutBehindItsLastWordIsWhole) {
  World w;
  FakeAnswer answer = stream_answer(kParallel.substr(0, kParallel.find("[DONE]") - 6));
  answer.how = Ended::cut;
  w.transport.script = {answer};
  const auto reply = w.ask();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->calls.size(), 2u);
}

TEST(Client, AKeyThatComesBackIsTakenOut) {
  const std::string key = kKey;
  World w;
  w.settings.retry.tries = 1;
  w.transport.script = {json_answer(R"({"error":{"message":"bad key )" + key + R"("}})", 401)};
  const auto refused = w.ask();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().what, "HTTP 401: bad key [key]");
  // Escaped, and cut into two deltas.
  w.transport.script = {stream_answer(
      event(R"({"choices":[{"delta":{"content":"key: )" + key.substr(0, 6) + R"("}}]})") +
      event(
          R"({"choices":[{"delta":{"content":")" + key.substr(6) +
          R"(","tool_calls":[{"index":0,"id":"a","function":{"name":"note","arguments":"{\"text\":\"sk\u002dtest)" +
          key.substr(7) + R"(\"}"}}]},"finish_reason":"tool_calls"}]})"))};
  const auto reply = w.ask();
  ASSERT_TRUE(reply.has_value()) << reply.error().what;
  EXPECT_EQ(reply->text, "key: [key]");
  EXPECT_THAT(reply->calls.at(0).arguments, Not(HasSubstr(key.substr(8, 8))));
}

TEST(Client, KeepsItsPace) {
  World w;
  w.settings.requests_per_minute = 30;
  w.transport.script = {json_answer(kDone), json_answer(kDone), json_answer(kDone)};
  Client client(w.settings, w.transport, w.clock, 1);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(client.ask(w.request).has_value());
  EXPECT_EQ(w.clock.slept, (std::vector<double>{2, 2}));
}

TEST(Client, StopsBeforeTheBudgetIsOverrun) {
  World w;
  w.settings.reply_tokens = 100;
  w.settings.most_tokens = 620;
  w.transport.script = {
      json_answer(
          R"({"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":400,"completion_tokens":100}})"),
      json_answer(kDone)};
  Client client(w.settings, w.transport, w.clock, 1);
  ASSERT_TRUE(client.ask(w.request).has_value());
  const auto refused = client.ask(w.request);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().fault, ChatFault::spent);
  EXPECT_EQ(w.transport.posts.size(), 1u);
}

TEST(Meter, TheWorkedExamples) {
  ModelSettings s;
  s.reply_tokens = 1000;
  s.most_tokens = 10000;
  Meter meter(s);
  meter.add({6000, 0, true});
  EXPECT_EQ(meter.refusal(9000), std::nullopt);
  EXPECT_NE(meter.refusal(9003), std::nullopt);
  EXPECT_DOUBLE_EQ(*cost_of({2000, 500, true}, 3, 15), 0.0135);
  EXPECT_EQ(cost_of({2000, 500, true}, 3, std::nullopt), std::nullopt);
  s.most_tokens = 0;
  s.price_in = 3;
  s.price_out = 15;
  s.most_money = 0.02;
  Meter money(s);
  EXPECT_EQ(money.refusal(3000), std::nullopt);  // 1000 * 3 + 1000 * 15 = 0.018
  money.add({1000, 0, true});
  EXPECT_NE(money.refusal(3000), std::nullopt);
  EXPECT_EQ(usage_text({12345, 678, true}, ModelSettings()),
            "12,345 tokens in and 678 out (stated by the server); the price is unknown");
}

}  // namespace
}  // namespace eratos::agent
