#include "eratos/serve/mcp.h"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "eratos/base/rng.h"
#include "eratos/text/dump.h"

namespace eratos::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Toys final : public ToolBox {
 public:
  std::vector<ToolOffer> all{{"echo", "says it again", text::Node::mapping(), true},
                             {"wait", "until it is cancelled", text::Node::mapping(), true},
                             {"fail", "throws", text::Node::mapping(), true}};
  std::atomic<bool> waiting = false;

  const std::vector<ToolOffer>& offers() const override { return all; }
  ToolAnswer call(const std::string& name, const text::Node& arguments,
                  const Cancelled& cancelled) override {
    if (name == "fail") throw std::runtime_error("broken");
    if (name == "echo") return {text::to_json(arguments, 0), arguments.size() == 0};
    waiting = true;
    for (int i = 0; i < 2000 && !cancelled(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {cancelled() ? "cancelled" : "nobody came", false};
  }
};

class McpTest : public ::testing::Test {
 protected:
  Toys toys;
  std::vector<std::string> said;
  std::unique_ptr<McpServer> server =
      std::make_unique<McpServer>(toys, ServerFacts{"eratos", "1.0", "plan with it"},
                                  [this](const std::string& line) { said.push_back(line); });

  void begin(const std::string& version = "2025-11-25") {
    server->receive(
        R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":")" + version +
        R"(","capabilities":{},"clientInfo":{"name":"t","version":"1"}}})");
    server->receive(R"({"jsonrpc":"2.0","method":"notifications/initialized"})");
  }
  // All that was said once every call is answered.
  std::vector<std::string> end() {
    server.reset();
    return said;
  }
};

TEST_F(McpTest, AgreesOnAVersion) {
  begin("2025-06-18");
  begin("1999-01-01");
  EXPECT_THAT(said.at(0), HasSubstr(R"("id":0,"result":{"protocolVersion":"2025-06-18")"));
  EXPECT_THAT(said.at(0), HasSubstr(R"("serverInfo":{"name":"eratos","version":"1.0"})"));
  EXPECT_THAT(said.at(1), HasSubstr(R"("protocolVersion":"2025-11-25")"));
}

TEST_F(McpTest, BeforeInitializeOnlyPingsAreAnswered) {
  server->receive(R"({"jsonrpc":"2.0","id":"p","method":"ping"})");
  server->receive(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})");
  EXPECT_THAT(said, ElementsAre(R"({"jsonrpc":"2.0","id":"p","result":{}})",
                                HasSubstr(R"("id":1,"error":{"code":-32600)")));
}

TEST_F(McpTest, ListsAndCalls) {
  begin();
  server->receive(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})");
  server->receive(
      R"({"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"a":[1,"x"]}}})");
  server->receive(R"({"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo"}})");
  const std::vector<std::string> all = end();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_THAT(all[1],
              HasSubstr(R"({"name":"echo","description":"says it again","inputSchema":{})"));
  EXPECT_EQ(
      all[2],
      R"({"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"{\"a\":[1,\"x\"]}"}],"isError":false}})");
  EXPECT_THAT(all[3], HasSubstr(R"("isError":true)"));
}

TEST_F(McpTest, FaultsOfTheProtocol) {
  begin();
  said.clear();
  server->receive("{not json");
  server->receive(R"([{"jsonrpc":"2.0","id":1,"method":"ping"}])");
  server->receive(R"({"id":2,"method":"ping"})");
  server->receive(R"({"jsonrpc":"2.0","id":null,"method":"ping"})");
  server->receive(R"({"jsonrpc":"2.0","id":3,"method":"resources/list"})");
  server->receive(R"({"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"shell"}})");
  server->receive(
      R"({"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":[]}})");
  server->receive(R"({"jsonrpc":"2.0","id":6,"result":{}})");
  server->receive(R"({"jsonrpc":"2.0","method":"notifications/unknown"})");
  server->receive(R"({"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"fail"}})");
  server->receive(std::string(kMostLine + 1, ' ') + "x");
  const std::vector<std::string> all = end();
  ASSERT_EQ(all.size(), 9u);
  EXPECT_THAT(all[0], HasSubstr(R"("id":null,"error":{"code":-32700)"));
  EXPECT_THAT(all[1], HasSubstr(R"("id":null,"error":{"code":-32600)"));
  EXPECT_THAT(all[2], HasSubstr(R"("id":2,"error":{"code":-32600)"));
  EXPECT_THAT(all[3], HasSubstr(R"("id":null,"error":{"code":-32600)"));
  EXPECT_THAT(all[4], HasSubstr(R"("id":3,"error":{"code":-32601)"));
  EXPECT_THAT(all[5],
              HasSubstr(R"("id":4,"error":{"code":-32602,"message":"unknown tool `shell`")"));
  EXPECT_THAT(all[6], HasSubstr(R"("id":5,"error":{"code":-32602)"));
  EXPECT_THAT(all[7] + all[8], HasSubstr(R"("id":7,"error":{"code":-32603,"message":"broken")"));
  EXPECT_THAT(all[7] + all[8], HasSubstr(R"("code":-32700)"));
}

TEST_F(McpTest, ACallIsCancelledWhileAnotherWaits) {
  begin();
  said.clear();
  server->receive(R"({"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"name":"wait"}})");
  server->receive(
      R"({"jsonrpc":"2.0","id":"e","method":"tools/call","params":{"name":"echo","arguments":{"a":1}}})");
  while (!toys.waiting) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server->receive(R"({"jsonrpc":"2.0","id":"p","method":"ping"})");
  EXPECT_THAT(said, ElementsAre(HasSubstr(R"("id":"p")")));  // answered while one runs
  server->receive(
      R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w"}})");
  EXPECT_THAT(end(), ElementsAre(HasSubstr(R"("id":"p")"), HasSubstr(R"("id":"e")")));
}

TEST_F(McpTest, BatchesAreOfOneVersion) {
  begin("2025-03-26");
  said.clear();
  server->receive(
      R"([{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":2,"method":"ping"}])");
  EXPECT_EQ(said.size(), 2u);
}

TEST_F(McpTest, MangledLinesGetAnErrorOrNothing) {
  begin();
  const std::string good =
      R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1}}})";
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Rng rng(seed);
    std::string line = good;
    for (std::uint64_t i = 0; i <= rng.below(3); ++i) {
      const std::size_t at = rng.below(line.size());
      if (rng.below(2) == 0) {
        line[at] = static_cast<char>(32 + rng.below(95));
      } else {
        line.erase(at, 1 + rng.below(8));
      }
    }
    server->receive(line);
  }
  for (const std::string& line : end()) {
    EXPECT_THAT(line, ::testing::StartsWith(R"({"jsonrpc":"2.0","id":)"));
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
}

TEST_F(McpTest, StoppingCancelsWhatRuns) {
  begin();
  said.clear();
  server->receive(R"({"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"name":"wait"}})");
  while (!toys.waiting) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server->stop();
  EXPECT_THAT(end(), IsEmpty());
}

}  // namespace
}  // namespace eratos::serve
