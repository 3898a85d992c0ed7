#include "eratos/serve/json_rpc.h"

#include <utility>

#include "eratos/text/dump.h"

namespace eratos::serve {
namespace {

using text::Node;

bool is_id(const Node& n) {
  return n.is_scalar() && (n.scalar_kind() == text::ScalarKind::string ||
                           n.scalar_kind() == text::ScalarKind::integer);
}

Node envelope(const Node& id) {
  Node out = Node::mapping();
  out.set("jsonrpc", Node::string("2.0"));
  out.set("id", id);
  return out;
}

}  // namespace

RpcMessage rpc_message(const Node& value) {
  RpcMessage out;
  if (!value.is_mapping()) {
    out.fault = "a message is an object";
    return out;
  }
  const Node* id = value.find("id");
  if (id != nullptr && is_id(*id)) out.id = *id;
  const Node* version = value.find("jsonrpc");
  if (version == nullptr || !version->is_scalar() || version->raw() != "2.0") {
    out.fault = "`jsonrpc` must be \"2.0\"";
    return out;
  }
  if (id != nullptr && !is_id(*id)) {
    out.fault = "`id` must be a string or an integer";
    return out;
  }
  const Node* method = value.find("method");
  if (method == nullptr) {
    const bool is_answer = value.find("result") != nullptr || value.find("error") != nullptr;
    if (is_answer) out.kind = RpcMessage::Kind::response;
    if (!is_answer) out.fault = "`method` is missing";
    return out;
  }
  if (!method->is_scalar() || method->scalar_kind() != text::ScalarKind::string) {
    out.fault = "`method` must be a string";
    return out;
  }
  out.method = method->raw();
  if (const Node* params = value.find("params"); params != nullptr && !params->is_null()) {
    if (!params->is_mapping()) {
      out.fault = "`params` must be an object";
      return out;
    }
    out.params = *params;
  }
  out.kind = id == nullptr ? RpcMessage::Kind::notification : RpcMessage::Kind::request;
  return out;
}

std::string rpc_result(const Node& id, const Node& result) {
  Node out = envelope(id);
  out.set("result", result);
  return text::to_json(out, 0);
}

std::string rpc_error(const Node& id, int code, std::string_view message) {
  Node error = Node::mapping();
  error.set("code", Node::integer(code));
  error.set("message", Node::string(std::string(message)));
  Node out = envelope(id);
  out.set("error", std::move(error));
  return text::to_json(out, 0);
}

}  // namespace eratos::serve
