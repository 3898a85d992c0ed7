// How bytes reach a model's server and come back: the two things the clients of this room ask of
// the world, a post over HTTP and a clock. The command line hands in real ones, tests their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/secret.h"

namespace eratos::agent {

struct Header {
  std::string name;  // of an answer: in lower case
  std::string value;
};

struct Patience {
  double connect_s = 10;
  double first_byte_s = 120;  // of a model that thinks before it writes
  double idle_s = 60;         // between two pieces of one answer
};

struct Post {
  std::string url;
  std::vector<Header> headers;
  std::string key_header;  // "Authorization"; no key is sent without one
  std::string key_prefix;  // "Bearer "
  Secret key;
  std::string body;
  Patience patience;
  std::size_t most_bytes = 8'000'000;  // of an answer
};

enum class Ended : std::uint8_t {
  whole,         // an answer, whatever its status, came to its end
  unreachable,   // no such name, refused, no TLS
  untrusted,     // a certificate that is not trusted, which waiting does not change
  slow_connect,  // connect_s passed
  slow_first,    // first_byte_s passed
  slow_idle,     // idle_s passed
  cut,           // the connection ended within the answer
  too_large,     // more than most_bytes
  interrupted,   // Ctrl-C
  not_built_in,  // this build has no HTTP
};

struct Head {
  int status = 0;
  std::vector<Header> headers;

  // The last value of a header, "" for none. `name` in lower case.
  std::string_view value(std::string_view name) const {
    for (auto at = headers.rbegin(); at != headers.rend(); ++at) {
      if (at->name == name) return at->value;
    }
    return {};
  }
};

struct Posted {
  Ended how = Ended::whole;
  Head head;
  std::string what;  // of everything but `whole`: one line that says what happened
};

class Transport {
 public:
  virtual ~Transport() = default;
  // Gives `take` the pieces of the answer's body as they come; the head is whole by then.
  virtual Posted post(const Post& post,
                      const std::function<void(const Head&, std::string_view)>& take) = 0;
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual double seconds() = 0;             // of some origin, never going back
  virtual std::int64_t unix_seconds() = 0;  // of the calendar
  // False when Ctrl-C ended it early.
  virtual bool sleep(double seconds) = 0;
};

}  // namespace eratos::agent
