// JSON-RPC 2.0: one message from its text, and answers as text.
//
// Source: JSON-RPC 2.0 Specification, 2013-01-04; Model Context Protocol, "Base protocol":
// identifiers are strings or integers, never null.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "eratos/text/tree.h"

namespace eratos::serve {

enum RpcError : int {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kMethodNotFound = -32601,
  kInvalidParams = -32602,
  kInternalError = -32603,
};

struct RpcMessage {
  enum class Kind : std::uint8_t { request, notification, response, invalid };
  Kind kind = Kind::invalid;
  text::Node id;  // null where there is none
  std::string method;
  text::Node params;  // a mapping, or null
  std::string fault;  // of an invalid one
};

// A value that should be one message.
RpcMessage rpc_message(const text::Node& value);

std::string rpc_result(const text::Node& id, const text::Node& result);
std::string rpc_error(const text::Node& id, int code, std::string_view message);

}  // namespace eratos::serve
