// What a talk has cost so far, and whether one more request may be made.
//
// A request is refused before it is sent when it could take the talk beyond its limit: what was
// used, what the request holds and the longest answer it allows.
//
// Letters: B bytes of a request, r the most tokens of an answer.
// Worked example: with a limit of 10,000 tokens, 6,000 used and r = 1,000, a request of 9,000 bytes
// is reckoned at 3,000 tokens and sent; one of 9,003 bytes is refused. At 3 and 15 USD a million,
// 2,000 tokens in and 500 out cost 0.0135 USD.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "eratos/agent/chat.h"
#include "eratos/agent/settings.h"

namespace eratos::agent {

// Assumes: a token of English and JSON is 3 bytes or more on average, where a server does not say
inline constexpr std::size_t kBytesPerToken = 3;

inline std::int64_t tokens_of_bytes(std::size_t bytes) {
  return static_cast<std::int64_t>((bytes + kBytesPerToken - 1) / kBytesPerToken);
}

class Meter {
 public:
  explicit Meter(const ModelSettings& settings) : settings_(settings) {}

  // Why a request of so many bytes may not be sent, or nothing.
  std::optional<std::string> refusal(std::size_t bytes) const;
  void add(const Usage& usage);
  const Usage& used() const { return used_; }

 private:
  ModelSettings settings_;
  Usage used_{0, 0, true};
};

// Money for tokens; nothing where a price is unknown.
std::optional<double> cost_of(const Usage& usage, std::optional<double> price_in,
                              std::optional<double> price_out);

// "12,345 tokens in and 678 out (stated by the server); the price is unknown", or with 0.0472 USD.
std::string usage_text(const Usage& usage, const ModelSettings& settings);

}  // namespace eratos::agent
