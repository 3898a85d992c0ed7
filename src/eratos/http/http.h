// One post over HTTP, by libcurl: how the bytes travel, not what they say.
//
// The connection verifies certificates, follows no redirection (a key would go elsewhere with it),
// and does not outlive the call. The key stands in a header of its own and nowhere else: not in the
// address, not in an error.
// Proxies are the environment's (https_proxy, no_proxy), never for this machine itself.
//
// Built without libcurl, every post ends as `not_built_in`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eratos/base/secret.h"

namespace eratos::http {

using Header = std::pair<std::string, std::string>;

struct Request {
  std::string url;
  std::vector<Header> headers;
  std::string key_header;  // "" sends no key
  std::string key_prefix;
  Secret key;
  std::string body;
  double connect_s = 10;
  double first_byte_s = 120;  // from the start of the request
  double idle_s = 60;
  std::size_t most_bytes = 8'000'000;
  std::function<bool()> stop;  // asked about twice a second; true ends it
};

enum class End : std::uint8_t {
  whole,
  unreachable,
  untrusted,  // its certificate is not one that this machine trusts
  slow_connect,
  slow_first,
  slow_idle,
  cut,
  too_large,
  stopped,
  not_built_in,
};

struct Response {
  End end = End::whole;
  int status = 0;
  std::vector<Header> headers;  // names in lower case
  std::string what;             // of everything but `whole`
};

bool is_built_in();

// `take` gets the body's pieces, with status and headers known.
Response post(const Request& request,
              const std::function<void(const Response&, std::string_view)>& take);

}  // namespace eratos::http
