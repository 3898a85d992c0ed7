#include "apps/model_transport.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "apps/interrupt.h"
#include "eratos/http/http.h"

namespace eratos::apps {

namespace {

agent::Ended ended_of(http::End end) {
  switch (end) {
    case http::End::whole:
      return agent::Ended::whole;
    case http::End::unreachable:
      return agent::Ended::unreachable;
    case http::End::untrusted:
      return agent::Ended::untrusted;
    case http::End::slow_connect:
      return agent::Ended::slow_connect;
    case http::End::slow_first:
      return agent::Ended::slow_first;
    case http::End::slow_idle:
      return agent::Ended::slow_idle;
    case http::End::cut:
      return agent::Ended::cut;
    case http::End::too_large:
      return agent::Ended::too_large;
    case http::End::stopped:
      return agent::Ended::interrupted;
    case http::End::not_built_in:
      return agent::Ended::not_built_in;
  }
  return agent::Ended::unreachable;
}

agent::Head head_of(const http::Response& r) {
  agent::Head head;
  head.status = r.status;
  for (const auto& [name, value] : r.headers) head.headers.push_back({name, value});
  return head;
}

}  // namespace

agent::Posted ModelTransport::post(
    const agent::Post& post,
    const std::function<void(const agent::Head&, std::string_view)>& take) {
  http::Request request;
  request.url = post.url;
  for (const agent::Header& h : post.headers) request.headers.emplace_back(h.name, h.value);
  request.key_header = post.key_header;
  request.key_prefix = post.key_prefix;
  request.key = post.key;
  request.body = post.body;
  request.connect_s = post.patience.connect_s;
  request.first_byte_s = post.patience.first_byte_s;
  request.idle_s = post.patience.idle_s;
  request.most_bytes = post.most_bytes;
  request.stop = [] { return interrupted(); };
  const http::Response end = http::post(
      request, [&](const http::Response& r, std::string_view bytes) { take(head_of(r), bytes); });
  return {ended_of(end.end), head_of(end), end.what};
}

double WallClock::seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::int64_t WallClock::unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool WallClock::sleep(double seconds) {
  const double end = this->seconds() + seconds;
  while (!interrupted()) {
    const double left = end - this->seconds();
    if (left <= 0) return true;
    constexpr double kPiece = 0.1;  // how long Ctrl-C may wait
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, kPiece)));
  }
  return false;
}

}  // namespace eratos::apps
