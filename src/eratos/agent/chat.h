// A talk with a language model that may call tools, whoever's model it is.
//
// The words are those of the two interfaces it is sent over (openai.h, anthropic.h): messages of a
// user, an assistant and tools; a call has an identifier that its result repeats. Nothing here
// knows of a network: a Chat answers a request, over HTTP (client.h), from a file (transcript.h)
// or, in tests, from a list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "eratos/text/tree.h"

namespace eratos::agent {

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON, as the model wrote it: not looked at yet, perhaps not even JSON
};

enum class Who : std::uint8_t { user, assistant, tool };

struct Message {
  Who who = Who::user;
  std::string text;
  std::vector<ToolCall> calls;  // of an assistant
  std::string call;             // of a tool: the identifier of the call that it answers
  bool is_fault = false;        // of a tool: the call was refused
};

struct ToolFacts {
  std::string name;
  std::string description;
  text::Node schema;  // of its arguments, JSON Schema (schema.h)
};

struct ChatRequest {
  std::string system;
  std::vector<Message> messages;
  const std::vector<ToolFacts>* tools = nullptr;
};

// Why the model stopped writing.
enum class Stop : std::uint8_t { ended, calls, length, refused };

// Tokens of one exchange; where the server does not say, estimated from bytes (spend.h).
struct Usage {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool stated = false;
};

enum class ChatFault : std::uint8_t {
  unreachable,   // no connection, or no name
  silent,        // connected, and then nothing for too long
  cut,           // the answer broke off
  malformed,     // an answer that is none: no JSON, no message
  limited,       // too many requests, and waiting did not help
  server,        // the server's own fault (5xx), and trying again did not help
  rejected,      // the request is wrong: key, model, address
  overflow,      // more context than the model takes
  spent,         // the budget of tokens or money is used up
  interrupted,   // Ctrl-C
  other_script,  // a transcript that is not of this talk
};
std::string_view word_of(ChatFault fault);
// Nothing for a word that is none.
std::optional<ChatFault> chat_fault_of(std::string_view word);

// A try that failed, and how long was waited before the next.
struct Attempt {
  ChatFault fault = ChatFault::server;
  std::string what;
  double wait_s = 0;
};

struct ChatReply {
  std::string text;
  std::vector<ToolCall> calls;
  Stop stop = Stop::ended;
  Usage usage;
  std::vector<Attempt> attempts;  // those before it
};

struct ChatFailure {
  ChatFault fault = ChatFault::server;
  std::string what;                    // one line, without keys
  int status = 0;                      // of HTTP; 0: none
  Usage usage = {};                    // of tries whose answer broke off
  std::vector<Attempt> attempts = {};  // those before the last
};

class Chat {
 public:
  virtual ~Chat() = default;
  virtual tl::expected<ChatReply, ChatFailure> ask(const ChatRequest& request) = 0;
};

// Bytes of all that a request says; what budgets and contexts are reckoned with.
std::size_t bytes_of(const ChatRequest& request);

}  // namespace eratos::agent
