// Which failures of a server pass, and how long to wait before asking again.
//
// Waits double from one try to the next, and a seeded share of each is left to chance, so that many
// clients do not come back together; what the server asks for (Retry-After) is kept to.
// Source: RFC 9110, section 10.2.3 (Retry-After: seconds or a date) and 5.6.7 (its three spellings
// of dates); "Exponential Backoff And Jitter", AWS Architecture Blog, 2015 ("equal jitter").
//
// Letters: k the number of the try that failed, from 1.
// Worked example: with first_wait 1 s the wait after try 3 is between 2 and 4 s; "Retry-After: 7"
// makes it 7 s.
#pragma once

#include <cstdint>
#include <optional>

#include "eratos/agent/transport.h"
#include "eratos/base/rng.h"

namespace eratos::agent {

struct RetryPolicy {
  int tries = 5;
  double first_wait_s = 1;
  double longest_wait_s = 60;    // of our own
  double longest_asked_s = 120;  // a server that asks for more is not waited for
};

// May the same request succeed later? 408, 409, 425, 429 and everything from 500 on.
bool passes(int status);

// Seconds that the server asks to wait, from `retry-after-ms` or `retry-after`; nothing where it
// asks for none or writes nonsense. A date that is over is 0.
std::optional<double> asked_wait(const Head& head, std::int64_t unix_now);

// Seconds since 1970 of a date as HTTP writes it; nothing if it is none.
std::optional<std::int64_t> http_date(std::string_view text);

// The wait after try k.
double wait_after(int k, std::optional<double> asked, const RetryPolicy& policy, Rng& rng);

}  // namespace eratos::agent
