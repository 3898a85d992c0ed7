// OpenAI's chat completions, which most local servers speak as well.
//
// Source: OpenAI API reference, "Create chat completion" and "Streaming" (POST /chat/completions):
// tools of type `function`, arguments as a string of JSON, deltas of parallel calls told apart by
// `index`, a last chunk with `usage` where stream_options.include_usage is set, `data: [DONE]`.
#pragma once

#include <memory>

#include "eratos/agent/wire.h"

namespace eratos::agent {

std::unique_ptr<Wire> openai_wire(const ModelSettings& settings);

}  // namespace eratos::agent
