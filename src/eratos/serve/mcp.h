// A server of the Model Context Protocol: tools that any client of it may list and call.
//
// One message a line in, one a line out; what is no protocol never reaches the output. Calls run
// one after the other on a thread of their own, so that a ping is answered and a call cancelled
// while another runs. A call that was cancelled is not answered.
//
// Source: modelcontextprotocol.io, specification 2025-11-25, "Lifecycle" (version negotiation: the
// client's if we know it, else our newest), "Tools" (unknown tool: -32602; arguments that do not
// fit their schema: a result with isError), "Utilities" (ping, cancellation), "Transports" (stdio).
// Batches are those of 2025-03-26 alone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "eratos/serve/json_rpc.h"
#include "eratos/text/tree.h"

namespace eratos::serve {

inline constexpr std::string_view kMcpVersions[] = {"2025-11-25", "2025-06-18", "2025-03-26",
                                                    "2024-11-05"};

// Most bytes of one line.
inline constexpr std::size_t kMostLine = 1'000'000;

struct ToolOffer {
  std::string name;
  std::string description;
  text::Node schema;
  bool reads_only = true;  // changes nothing, at this machine or another
};

struct ToolAnswer {
  std::string text;
  bool is_fault = false;
};

// Asked by long work between two pieces.
using Cancelled = std::function<bool()>;

class ToolBox {
 public:
  virtual ~ToolBox() = default;
  virtual const std::vector<ToolOffer>& offers() const = 0;
  // `name` is one of the offers. Called by one thread at a time.
  virtual ToolAnswer call(const std::string& name, const text::Node& arguments,
                          const Cancelled& cancelled) = 0;
};

struct ServerFacts {
  std::string name;
  std::string version;
  std::string instructions;  // for the client's model
};

class McpServer {
 public:
  // `send` is given a line without its end; never by two threads at once.
  McpServer(ToolBox& tools, ServerFacts facts, std::function<void(const std::string&)> send);
  // Waits for the calls that are left, or, with stop(), cancels them.
  ~McpServer();
  McpServer(const McpServer&) = delete;
  McpServer& operator=(const McpServer&) = delete;

  // One line of the input.
  void receive(std::string_view line);
  // The input has ended: calls that wait are still answered.
  void finish();
  void stop();

 private:
  struct Call {
    text::Node id;
    std::string name;
    text::Node arguments;
    std::atomic<bool> cancelled = false;
  };

  void handle(const text::Node& value);
  void handle_request(const RpcMessage& m);
  void initialize(const RpcMessage& m);
  void begin_call(const RpcMessage& m);
  void cancel(const text::Node& params);
  text::Node list_tools() const;
  void answer(const std::string& line);
  void work();
  std::string run(const Call& call);

  ToolBox& tools_;
  ServerFacts facts_;
  std::function<void(const std::string&)> send_;
  std::string version_;  // "" before initialize

  std::mutex sending_;
  std::mutex waiting_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Call>> calls_;  // the first one runs
  bool ended_ = false;
  std::thread worker_;
};

}  // namespace eratos::serve
