// A transport and a clock that follow a script.
#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "eratos/agent/transport.h"

namespace eratos::agent {

struct FakeAnswer {
  int status = 200;
  std::vector<Header> headers;
  std::string body;
  Ended how = Ended::whole;
  std::string what = {};
};

inline FakeAnswer json_answer(std::string body, int status = 200) {
  return {status, {{"content-type", "application/json"}}, std::move(body)};
}
inline FakeAnswer stream_answer(std::string body) {
  return {200, {{"content-type", "text/event-stream; charset=utf-8"}}, std::move(body)};
}
inline FakeAnswer failing(Ended how, std::string what) { return {0, {}, "", how, std::move(what)}; }

class FakeTransport final : public Transport {
 public:
  std::deque<FakeAnswer> script;
  std::vector<Post> posts;
  std::size_t piece = 7;  // bytes handed over at once

  Posted post(const Post& post,
              const std::function<void(const Head&, std::string_view)>& take) override {
    posts.push_back(post);
    if (script.empty()) return {Ended::unreachable, {}, "the script is over"};
    const FakeAnswer answer = script.front();
    script.pop_front();
    const Head head{answer.status, answer.headers};
    for (std::size_t at = 0; at < answer.body.size(); at += piece) {
      take(head, std::string_view(answer.body).substr(at, piece));
    }
    return {answer.how, head, answer.what};
  }
};

class FakeClock final : public Clock {
 public:
  double now = 0;
  std::int64_t date = 784111770;
  std::vector<double> slept;
  bool interrupted = false;

  double seconds() override { return now; }
  std::int64_t unix_seconds() override { return date; }
  bool sleep(double seconds) override {
    slept.push_back(seconds);
    now += seconds;
    return !interrupted;
  }
};

}  // namespace eratos::agent
