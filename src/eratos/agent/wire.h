// What one kind of model server is sent and how its answers are read: one file a kind.
//
// Answers come whole (a JSON body) or as server-sent events, whose deltas an AnswerReader puts
// together; both give the same ChatReply. Nothing of an answer is trusted to be there or to be of
// its type: what is missing makes it malformed, and no answer can do more than be read.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "eratos/agent/chat.h"
#include "eratos/agent/settings.h"
#include "eratos/agent/sse.h"
#include "eratos/agent/transport.h"

namespace eratos::agent {

// Reads the events of one streamed answer.
class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  virtual void see(const SseEvent& event) = 0;
  // The answer, once the stream has ended. `cut` when it ended too early.
  virtual tl::expected<ChatReply, ChatFailure> end() = 0;
};

class Wire {
 public:
  virtual ~Wire() = default;
  virtual std::string body(const ChatRequest& request) const = 0;
  // Address and headers; body, key and patience are the client's.
  virtual void address(Post& post) const = 0;
  virtual std::unique_ptr<AnswerReader> stream() const = 0;
  virtual tl::expected<ChatReply, ChatFailure> whole(std::string_view body) const = 0;
};

std::unique_ptr<Wire> wire_of(const ModelSettings& settings);

// What a server says of a refused request, from the body of its answer: {"error": {"message",
// "type", "code"}}, as both kinds write it, or the beginning of the body.
struct ServerWords {
  std::string message;  // one line of at most 300 bytes
  std::string code;     // "context_length_exceeded", "rate_limit_error"
};
ServerWords server_words(std::string_view body);

// Does the server say that the request is longer than its model takes? There is no one code for it.
bool is_overflow(int status, const ServerWords& words);

}  // namespace eratos::agent
