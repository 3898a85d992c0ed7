#include "eratos/http/http.h"

#ifdef ERATOS_CURL

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>

#include <curl/curl.h>
#include <fmt/format.h>

namespace eratos::http {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

// What the callbacks of one transfer share.
struct Transfer {
  const Request& request;
  const std::function<void(const Response&, std::string_view)>& take;
  Response response;
  CURL* curl = nullptr;
  std::size_t bytes = 0;
  bool any = false;  // of the answer
  Clock::time_point last = Clock::now();
  End ended_by_us = End::whole;
};

std::string lower(std::string_view s) {
  std::string out(s);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return out;
}

std::string_view trimmed(std::string_view s) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

constexpr std::size_t kMostHeaders = 200;

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) {
  Transfer& t = *static_cast<Transfer*>(user);
  const std::string_view line(data, size * count);
  t.any = true;
  t.last = Clock::now();
  if (line.substr(0, 5) == "HTTP/") {  // of a 100 before the answer, or of the answer
    t.response.headers.clear();
  } else if (const std::size_t colon = line.find(':');
             colon != std::string_view::npos && t.response.headers.size() < kMostHeaders) {
    t.response.headers.emplace_back(lower(trimmed(line.substr(0, colon))),
                                    std::string(trimmed(line.substr(colon + 1))));
  }
  return size * count;
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user) {
  Transfer& t = *static_cast<Transfer*>(user);
  const std::size_t bytes = size * count;
  t.any = true;
  t.last = Clock::now();
  t.bytes += bytes;
  if (t.bytes > t.request.most_bytes) {
    t.ended_by_us = End::too_large;
    return 0;
  }
  long status = 0;
  curl_easy_getinfo(t.curl, CURLINFO_RESPONSE_CODE, &status);
  t.response.status = static_cast<int>(status);
  t.take(t.response, std::string_view(data, bytes));
  return bytes;
}

// Is it time to give up?
bool is_over(Transfer& t) {
  if (t.request.stop && t.request.stop()) {
    t.ended_by_us = End::stopped;
  } else if (t.any && seconds_since(t.last) > t.request.idle_s) {
    t.ended_by_us = End::slow_idle;
  } else if (!t.any && seconds_since(t.last) > t.request.first_byte_s) {
    t.ended_by_us = End::slow_first;
  }
  return t.ended_by_us != End::whole;
}

bool is_this_machine(const std::string& url) {
  const std::size_t begin = url.find("//");
  if (begin == std::string::npos) return false;
  const std::string host = url.substr(begin + 2, url.find_first_of("/?", begin + 2) - begin - 2);
  const std::string name = host.substr(0, host[0] == '[' ? host.find(']') : host.find(':'));
  return name == "localhost" || name == "[::1" || name.rfind("127.", 0) == 0;
}

struct Lists {
  curl_slist* headers = nullptr;
  ~Lists() { curl_slist_free_all(headers); }
  void add(const std::string& line) { headers = curl_slist_append(headers, line.c_str()); }
};

std::string what_of(End end, const Request& r) {
  switch (end) {
    case End::slow_connect:
      return fmt::format("no connection within {:g} s", r.connect_s);
    case End::slow_first:
      return fmt::format("connected, and no answer within {:g} s", r.first_byte_s);
    case End::slow_idle:
      return fmt::format("the answer stopped for more than {:g} s", r.idle_s);
    case End::too_large:
      return fmt::format("the answer is longer than {} bytes", r.most_bytes);
    case End::stopped:
      return "interrupted";
    case End::whole:
    case End::unreachable:
    case End::untrusted:
    case End::cut:
    case End::not_built_in:
      break;
  }
  return "";
}

End end_of(CURLcode code, const Transfer& t) {
  if (t.ended_by_us != End::whole) return t.ended_by_us;
  switch (code) {
    case CURLE_OK:
      return End::whole;
    case CURLE_OPERATION_TIMEDOUT:  // the only one that libcurl keeps for us
      return End::slow_connect;
    case CURLE_PEER_FAILED_VERIFICATION:
      return End::untrusted;
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2_STREAM:
    case CURLE_HTTP2:
      return End::cut;
    default:
      return t.any ? End::cut : End::unreachable;
  }
}

// Steps through the transfer by hand, so that it can be stopped at any time.
CURLcode run(Transfer& t) {
  CURLM* multi = curl_multi_init();
  if (multi == nullptr) return CURLE_OUT_OF_MEMORY;
  curl_multi_add_handle(multi, t.curl);
  CURLcode code = CURLE_OK;
  int running = 1;
  while (running > 0) {
    if (curl_multi_perform(multi, &running) != CURLM_OK) {
      code = CURLE_RECV_ERROR;
      break;
    }
    if (running > 0) {
      constexpr int kWaitMs = 100;
      curl_multi_poll(multi, nullptr, 0, kWaitMs, nullptr);
      if (is_over(t)) {
        code = CURLE_ABORTED_BY_CALLBACK;
        break;
      }
    }
  }
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
    if (message->msg == CURLMSG_DONE && code == CURLE_OK) code = message->data.result;
  }
  curl_multi_remove_handle(multi, t.curl);
  curl_multi_cleanup(multi);
  return code;
}

}  // namespace

bool is_built_in() { return true; }

Response post(const Request& request,
              const std::function<void(const Response&, std::string_view)>& take) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  if (curl == nullptr) return {End::unreachable, 0, {}, "libcurl cannot begin"};
  Transfer t{request, take, {}, curl.get()};
  Lists lists;
  for (const auto& [name, value] : request.headers) lists.add(name + ": " + value);
  lists.add("Expect:");  // no 100-continue: servers of one process wait for it
  if (request.key.is_set() && !request.key_header.empty()) {
    lists.add(request.key_header + ": " + request.key_prefix + std::string(request.key.reveal()));
  }
  const auto ms = [](double s) { return static_cast<long>(std::clamp(s * 1000, 1.0, 1e9)); };
  CURL* c = curl.get();
  curl_easy_setopt(c, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
  if (is_this_machine(request.url)) curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(c, CURLOPT_POST, 1L);
  curl_easy_setopt(c, CURLOPT_POSTFIELDS, request.body.data());
  curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, lists.headers);
  curl_easy_setopt(c, CURLOPT_ACCEPT_ENCODING, "");
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, ms(request.connect_s));
  curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(c, CURLOPT_HEADERDATA, &t);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, &t);
  curl_easy_setopt(c, CURLOPT_FORBID_REUSE, 1L);
  const CURLcode code = run(t);
  long status = 0;
  curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
  t.response.status = static_cast<int>(status);
  t.response.end = end_of(code, t);
  t.response.what = what_of(t.response.end, request);
  if (t.response.end != End::whole && t.response.what.empty()) {
    t.response.what = request.key.scrub(curl_easy_strerror(code));
  }
  return t.response;
}

}  // namespace eratos::http

#else

namespace eratos::http {

bool is_built_in() { return false; }

Response post(const Request& /*request*/,
              const std::function<void(const Response&, std::string_view)>& /*take*/) {
  return {End::not_built_in, 0, {}, "this eratos was built without libcurl and reaches no server"};
}

}  // namespace eratos::http

#endif
