// A talk with a model, line by line in a file: what was asked, what came back, what the tools said.
//
// Each line is a JSON object with `kind`: begin, request, reply, failure, user,
// result, end. No line
// holds a key, a time or anything else that differs from one telling to the next, so a talk that is
// told again gives the same bytes. That is how a run is resumed and replayed: the same steps are
// made once more, the answers come from the lines, and every line that is written must be the one
// that is there.
//
// Worked example: killed behind the third reply, the file ends with that line. The next run sends
// the first three requests to nobody, takes their replies from the file, and asks the model from
// the fourth on.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "eratos/agent/chat.h"
#include "eratos/base/diagnostic.h"

namespace eratos::agent {

std::string reply_line(int turn, const ChatReply& reply);
std::string failure_line(int turn, const ChatFailure& failure);

// A file of such lines, or a fault where one of them is none.
struct Script {
  struct Answer {
    std::uint32_t request = 0;  // crc32 of the request, as its line says
    tl::expected<ChatReply, ChatFailure> answer;
  };
  std::vector<std::string> lines;
  std::vector<Answer> answers;
  std::vector<std::optional<std::string>> users;  // what the user said, in order
  text::Node model;                               // of the first line
  text::Node limits;
  bool ended = false;  // the last line is of kind end
};
Result<Script> script_of(const std::vector<std::string>& lines, const std::string& file);
// Without the failures at its end and what stands behind them: a resumed run asks again.
Script without_failures(Script script);

// What identifies a request: the crc32 of all that it says.
std::uint32_t digest_of(const ChatRequest& request);

// Answers from a script as long as it lasts, then from `live`; without one, with a failure.
class ScriptedChat final : public Chat {
 public:
  // `charge` is told the usage of each answer that comes from the script.
  ScriptedChat(Script script, Chat* live, std::function<void(const Usage&)> charge = {});
  tl::expected<ChatReply, ChatFailure> ask(const ChatRequest& request) override;

 private:
  Script script_;
  Chat* live_;
  std::function<void(const Usage&)> charge_;
  std::size_t next_ = 0;
};

// Where lines go. Lines that are there already are not written again; where a line differs, what is
// left of the old ones is dropped first.
class Transcript {
 public:
  struct File {
    std::function<Result<void>(const std::string& line)> append;
    std::function<Result<void>(std::size_t lines)> keep;  // drops all lines behind so many
  };
  // Nothing is written.
  Transcript() = default;
  Transcript(File file, std::vector<std::string> before)
      : file_(std::move(file)), before_(std::move(before)) {}

  void add(const std::string& line);
  const std::vector<std::string>& lines() const { return lines_; }
  // Set once the disk has refused a line.
  const std::optional<Diagnostics>& trouble() const { return trouble_; }

 private:
  File file_;
  std::vector<std::string> before_;
  bool follows_ = true;  // every line so far was there
  std::vector<std::string> lines_;
  std::optional<Diagnostics> trouble_;
};

}  // namespace eratos::agent
