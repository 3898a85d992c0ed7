// A language model plans with tools until it finishes, fails, or has used what it was given.
//
// The loop trusts nothing that it is told: an answer is text, which is kept and read by nobody, and
// calls, which go to the tools. Whatever happens, the session keeps every trial that was made, so
// the best legal one is always there; how the talk ended is said beside it.
//
// Where a request is longer than the model takes, the oldest results of tools are replaced by a
// line that says so, the same ones each time, and the model is asked again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "eratos/agent/chat.h"
#include "eratos/agent/desk.h"
#include "eratos/agent/transcript.h"

namespace eratos::agent {

struct TalkLimits {
  int turns = 30;         // answers of the model
  int calls = 12;         // of one answer; the rest is refused
  int wasted = 12;        // proposals that were refused or repeated
  std::size_t bytes = 0;  // of a request, from `context_tokens`; 0: the server says when
  int overflows = 6;      // in a row, each answered by leaving results out
};

// What the model is told of the run.
struct TalkBrief {
  std::string facts;  // JSON of describe_job and describe_cluster, or what stands for them
  int baseline = 0;   // number of the trial of the job as it came; 0: none
  std::string seeds;  // what was done before, a sentence; "" for nothing
  std::string budgets;
  std::string wishes;  // the user's own words; ""
  text::Node model;    // what the transcript says of the model: no key
};

enum class TalkEnd : std::uint8_t {
  finished,  // by the model
  out_of_turns,
  wasted,       // too many refused or repeated proposals
  silent,       // no calls, twice in a row
  failed,       // the model or its server
  interrupted,  // Ctrl-C
};
std::string_view word_of(TalkEnd end);

struct Talk {
  TalkEnd end = TalkEnd::failed;
  std::string why;                 // one line; of `failed` what the server did
  std::optional<ChatFault> fault;  // of `failed`
  std::optional<Finish> finish;
  Usage usage{0, 0, true};
  int turns = 0;
  int calls = 0;
  int wasted = 0;
  int refused_calls = 0;  // unknown tools, malformed arguments, refusals
  int left_out = 0;       // results that made room in the context
  int attempts = 0;       // requests that were tried again
};

// The first request, as `--show-prompt` prints it.
ChatRequest first_request(const TalkBrief& brief, const TalkLimits& limits,
                          const std::vector<ToolFacts>& tools);
std::string prompt_text(const ChatRequest& request);

// What summary.json says of a talk.
text::Node talk_node(const Talk& talk);

Talk talk_with(Chat& chat, Desk& desk, const TalkBrief& brief, const TalkLimits& limits,
               Transcript& transcript);

}  // namespace eratos::agent
