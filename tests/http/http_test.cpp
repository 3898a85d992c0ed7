// Real HTTP on the loopback, against cpp-httplib.
#include "eratos/http/http.h"

#include <chrono>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

namespace eratos::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class HttpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_built_in()) GTEST_SKIP() << "built without libcurl";
    server.Post("/echo", [](const httplib::Request& in, httplib::Response& out) {
      out.set_header("X-Seen", in.get_header_value("Authorization"));
      out.set_content(in.body, "text/plain");
    });
    server.Post("/moved", [](const httplib::Request&, httplib::Response& out) {
      out.set_redirect("/echo", 307);
    });
    server.Post("/slow", [this](const httplib::Request&, httplib::Response& out) {
      for (int i = 0; i < 40 && !leaving; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      out.set_content("late", "text/plain");
    });
    server.Post("/stops", [this](const httplib::Request&, httplib::Response& out) {
      out.set_chunked_content_provider(
          "text/event-stream", [this](std::size_t, httplib::DataSink& sink) {
            sink.write("data: 1\n\n", 9);
            for (int i = 0; i < 40 && !leaving; ++i) {
              std::this_thread::sleep_for(std::chrono::milliseconds(50));
            }
            sink.done();
            return true;
          });
    });
    server.Post("/cut", [](const httplib::Request&, httplib::Response& out) {
      out.set_chunked_content_provider("text/event-stream",
                                       [](std::size_t at, httplib::DataSink& sink) {
                                         if (at > 0) return false;
                                         return sink.write("data: 1\n\n", 9);
                                       });
    });
    port = server.bind_to_any_port("127.0.0.1");
    thread = std::thread([this] { server.listen_after_bind(); });
    while (!server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void TearDown() override {
    leaving = true;
    server.stop();
    if (thread.joinable()) thread.join();
  }

  Request request(const std::string& path) const {
    Request r;
    r.url = "http://127.0.0.1:" + std::to_string(port) + path;
    r.body = "hello";
    r.key_header = "Authorization";
    r.key_prefix = "Bearer ";
    r.key = Secret("sk-0123456789abcdef");
    return r;
  }
  Response send(const Request& r) {
    body.clear();
    return post(r, [this](const Response&, std::string_view bytes) { body += bytes; });
  }
  static std::string header(const Response& r, const std::string& name) {
    for (const Header& h : r.headers) {
      if (h.first == name) return h.second;
    }
    return "";
  }

  httplib::Server server;
  std::thread thread;
  std::atomic<bool> leaving = false;
  int port = 0;
  std::string body;
};

TEST_F(HttpTest, SendsTheBodyAndTheKeyInItsHeader) {
  const Response r = send(request("/echo"));
  EXPECT_EQ(r.end, End::whole) << r.what;
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(body, "hello");
  EXPECT_EQ(header(r, "x-seen"), "Bearer sk-0123456789abcdef");
}

TEST_F(HttpTest, NoKeyNoHeader) {
  Request r = request("/echo");
  r.key = Secret();
  EXPECT_EQ(header(send(r), "x-seen"), "");
}

TEST_F(HttpTest, FollowsNoRedirection) {
  const Response r = send(request("/moved"));
  EXPECT_EQ(r.status, 307);
  EXPECT_EQ(header(r, "x-seen"), "");
}

TEST_F(HttpTest, GivesUpOnSilence) {
  Request r = request("/slow");
  r.first_byte_s = 0.2;
  EXPECT_EQ(send(r).end, End::slow_first);
  r = request("/stops");
  r.idle_s = 0.2;
  EXPECT_EQ(send(r).end, End::slow_idle);
  EXPECT_EQ(body, "data: 1\n\n");
}

TEST_F(HttpTest, SeesThatAnAnswerWasCut) {
  const Response r = send(request("/cut"));
  EXPECT_EQ(r.end, End::cut);
  EXPECT_EQ(body, "data: 1\n\n");
}

TEST_F(HttpTest, IsStopped) {
  Request r = request("/slow");
  r.stop = [] { return true; };
  EXPECT_EQ(send(r).end, End::stopped);
}

TEST_F(HttpTest, TakesNoMoreThanItMay) {
  Request r = request("/echo");
  r.most_bytes = 4;
  EXPECT_EQ(send(r).end, End::too_large);
}

TEST_F(HttpTest, NobodyThereAndNoSuchSchemeAreSaidWithoutTheKey) {
  Request r = request("/echo");
  r.url = "http://127.0.0.1:1/";  // a port that nobody may listen on
  const Response refused = send(r);
  EXPECT_EQ(refused.end, End::unreachable);
  EXPECT_THAT(refused.what, Not(HasSubstr("0123456789")));
  r.url = "file:///etc/hostname";
  EXPECT_EQ(send(r).end, End::unreachable);
  EXPECT_EQ(body, "");
}

}  // namespace
}  // namespace eratos::http
