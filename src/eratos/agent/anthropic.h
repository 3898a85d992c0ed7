// Anthropic's messages.
//
// Source: Anthropic API reference, "Messages" and "Streaming messages" (POST /v1/messages, header
// anthropic-version: 2023-06-01): content blocks of type text, tool_use and tool_result; events
// message_start, content_block_start, content_block_delta (text_delta, input_json_delta),
// content_block_stop, message_delta, message_stop, ping and error.
#pragma once

#include <memory>

#include "eratos/agent/wire.h"

namespace eratos::agent {

std::unique_ptr<Wire> anthropic_wire(const ModelSettings& settings);

}  // namespace eratos::agent
