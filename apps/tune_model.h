// The investigation of `eratos tune` by a language model: which one, from where, and the talk.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "apps/arguments.h"
#include "eratos/agent/desk.h"
#include "eratos/agent/refinement.h"
#include "eratos/agent/settings.h"
#include "eratos/agent/talk.h"
#include "eratos/agent/transcript.h"
#include "eratos/base/diagnostic.h"
#include "eratos/report/page.h"

namespace eratos::apps {

// The model that --model-config, --model, --model-url, --model-api and the environment name
// together; flags win over the file, the file over the environment. Nothing where none does. There
// is no flag for a key: what a process is called with can be read by others.
Result<std::optional<agent::ModelSettings>> model_of(const Arguments& arguments);

// The model as run.json, transcripts and summaries name it: without its key.
text::Node model_node(const agent::ModelSettings& settings);

// "" when the flags of a model agree with one another.
std::string model_flags_fault(const Arguments& arguments);

struct ModelStage {
  agent::Talk talk;
  agent::ModelSettings settings;  // of a replay: what the transcript says of them
  std::string said;               // one line: how it went, what it cost
};

// The transcript of --replay. Errors: it cannot be read, or is none.
Result<agent::Script> replayed_script(const std::string& path);

// Talks until the model is done. With --replay the answers come from that file, of a resumed run
// from the folder's transcript.jsonl first. `folder`: "" writes nothing. `model` may be nothing
// with --replay alone.
// Errors: a transcript that is none or cannot be written.
Result<ModelStage> ask_model(const Arguments& arguments,
                             const std::optional<agent::ModelSettings>& model, agent::Desk& desk,
                             agent::TalkBrief brief, const std::string& folder);

// The first request, as it would be sent.
std::string shown_prompt(const Arguments& arguments,
                         const std::optional<agent::ModelSettings>& model,
                         const agent::TalkBrief& brief);

agent::Desk model_desk(agent::Session& session);

// What a model is told of the run so far.
agent::TalkBrief model_brief(agent::Desk& desk, const std::string& wishes);

// The fastest that a model has tried: refinement may measure them like what others found.
void add_tried(agent::Desk& desk, agent::Refinement& refinement);

// Of the report.
report::Section model_section(const ModelStage& model);

}  // namespace eratos::apps
