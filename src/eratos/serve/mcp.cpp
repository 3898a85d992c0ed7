#include "eratos/serve/mcp.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "eratos/text/json.h"

namespace eratos::serve {
namespace {

using text::Node;

Node string_node(std::string_view s) { return Node::string(std::string(s)); }

bool is_known(std::string_view version) {
  return std::find(std::begin(kMcpVersions), std::end(kMcpVersions), version) !=
         std::end(kMcpVersions);
}

std::string one_fault(const Diagnostics& faults) {
  return faults.empty() ? std::string("not JSON") : faults.front().message;
}

}  // namespace

McpServer::McpServer(ToolBox& tools, ServerFacts facts,
                     std::function<void(const std::string&)> send)
    : tools_(tools), facts_(std::move(facts)), send_(std::move(send)) {
  worker_ = std::thread([this] { work(); });
}

McpServer::~McpServer() {
  finish();
  worker_.join();
}

void McpServer::finish() {
  const std::lock_guard<std::mutex> lock(waiting_);
  ended_ = true;
  changed_.notify_all();
}

void McpServer::stop() {
  const std::lock_guard<std::mutex> lock(waiting_);
  for (const std::shared_ptr<Call>& call : calls_) call->cancelled = true;
  ended_ = true;
  changed_.notify_all();
}

void McpServer::answer(const std::string& line) {
  const std::lock_guard<std::mutex> lock(sending_);
  send_(line);
}

void McpServer::receive(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  if (line.empty()) return;
  if (line.size() > kMostLine) {
    answer(rpc_error(Node::null(), kParseError,
                     fmt::format("a message may have {} bytes", kMostLine)));
    return;
  }
  const Result<Node> value = text::parse_json(line, "message");
  if (!value) {
    answer(rpc_error(Node::null(), kParseError, one_fault(value.error())));
    return;
  }
  if (value->is_sequence() && version_ == "2025-03-26") {
    if (value->items().empty()) {
      answer(rpc_error(Node::null(), kInvalidRequest, "an empty batch"));
    }
    for (const Node& item : value->items()) handle(item);
    return;
  }
  handle(*value);
}

void McpServer::handle(const Node& value) {
  const RpcMessage m = rpc_message(value);
  switch (m.kind) {
    case RpcMessage::Kind::invalid:
      answer(rpc_error(m.id, kInvalidRequest, m.fault));
      break;
    case RpcMessage::Kind::request:
      handle_request(m);
      break;
    case RpcMessage::Kind::notification:
      if (m.method == "notifications/cancelled") cancel(m.params);
      break;
    case RpcMessage::Kind::response:  // we ask nothing
      break;
  }
}

void McpServer::handle_request(const RpcMessage& m) {
  if (m.method == "ping") {
    answer(rpc_result(m.id, Node::mapping()));
  } else if (m.method == "initialize") {
    initialize(m);
  } else if (version_.empty()) {
    answer(rpc_error(m.id, kInvalidRequest, "`initialize` comes first"));
  } else if (m.method == "tools/list") {
    answer(rpc_result(m.id, list_tools()));
  } else if (m.method == "tools/call") {
    begin_call(m);
  } else {
    answer(rpc_error(m.id, kMethodNotFound, fmt::format("unknown method `{}`", m.method)));
  }
}

void McpServer::initialize(const RpcMessage& m) {
  const Node* asked = m.params.find("protocolVersion");
  if (asked == nullptr || !asked->is_scalar()) {
    answer(rpc_error(m.id, kInvalidParams, "`protocolVersion` is missing"));
    return;
  }
  version_ = is_known(asked->raw()) ? asked->raw() : std::string(kMcpVersions[0]);
  Node tools = Node::mapping();
  tools.set("listChanged", Node::boolean(false));
  Node capabilities = Node::mapping();
  capabilities.set("tools", std::move(tools));
  Node info = Node::mapping();
  info.set("name", string_node(facts_.name));
  info.set("version", string_node(facts_.version));
  Node out = Node::mapping();
  out.set("protocolVersion", string_node(version_));
  out.set("capabilities", std::move(capabilities));
  out.set("serverInfo", std::move(info));
  if (!facts_.instructions.empty()) out.set("instructions", string_node(facts_.instructions));
  answer(rpc_result(m.id, out));
}

Node McpServer::list_tools() const {
  Node tools = Node::sequence();
  for (const ToolOffer& offer : tools_.offers()) {
    Node tool = Node::mapping();
    tool.set("name", string_node(offer.name));
    tool.set("description", string_node(offer.description));
    tool.set("inputSchema", offer.schema);
    if (version_ != "2024-11-05") {
      Node hints = Node::mapping();
      hints.set("readOnlyHint", Node::boolean(offer.reads_only));
      hints.set("openWorldHint", Node::boolean(false));
      tool.set("annotations", std::move(hints));
    }
    tools.append(std::move(tool));
  }
  Node out = Node::mapping();
  out.set("tools", std::move(tools));
  return out;
}

void McpServer::begin_call(const RpcMessage& m) {
  const Node* name = m.params.find("name");
  const Node* arguments = m.params.find("arguments");
  if (name == nullptr || !name->is_scalar()) {
    answer(rpc_error(m.id, kInvalidParams, "`name` is missing"));
    return;
  }
  const std::vector<ToolOffer>& offers = tools_.offers();
  const bool known = std::any_of(offers.begin(), offers.end(),
                                 [&](const ToolOffer& t) { return t.name == name->raw(); });
  if (!known) {
    answer(rpc_error(m.id, kInvalidParams, fmt::format("unknown tool `{}`", name->raw())));
    return;
  }
  if (arguments != nullptr && !arguments->is_null() && !arguments->is_mapping()) {
    answer(rpc_error(m.id, kInvalidParams, "`arguments` must be an object"));
    return;
  }
  const bool has_any = arguments != nullptr && !arguments->is_null();
  const std::lock_guard<std::mutex> lock(waiting_);
  calls_.push_back(std::make_shared<Call>());
  calls_.back()->id = m.id;
  calls_.back()->name = name->raw();
  calls_.back()->arguments = has_any ? *arguments : Node::mapping();
  changed_.notify_all();
}

void McpServer::cancel(const Node& params) {
  const Node* id = params.find("requestId");
  if (id == nullptr) return;
  const std::lock_guard<std::mutex> lock(waiting_);
  for (const std::shared_ptr<Call>& call : calls_) {
    if (call->id == *id) call->cancelled = true;
  }
}

void McpServer::work() {
  for (;;) {
    std::shared_ptr<Call> call;
    {
      std::unique_lock<std::mutex> lock(waiting_);
      changed_.wait(lock, [&] { return ended_ || !calls_.empty(); });
      if (calls_.empty()) return;
      call = calls_.front();  // stays there, so that it can be cancelled
    }
    std::string line;
    if (!call->cancelled) line = run(*call);
    {
      const std::lock_guard<std::mutex> lock(waiting_);
      calls_.pop_front();
    }
    if (!call->cancelled && !line.empty()) answer(line);
  }
}

std::string McpServer::run(const Call& call) {
  try {
    const ToolAnswer said =
        tools_.call(call.name, call.arguments, [&call] { return call.cancelled.load(); });
    Node block = Node::mapping();
    block.set("type", string_node("text"));
    block.set("text", string_node(said.text));
    Node result = Node::mapping();
    result.set("content", Node::sequence({std::move(block)}));
    result.set("isError", Node::boolean(said.is_fault));
    return rpc_result(call.id, result);
  } catch (const std::exception& e) {
    return rpc_error(call.id, kInternalError, e.what());
  }
}

}  // namespace eratos::serve
