// A fingerprint of bytes, for keys: equal bytes have equal digests, and of a billion that differ
// two share one with a probability of 2e-21. Not for secrets.
//
// Two lanes of SplitMix64's finisher over words of 8 bytes, each lane from a start of its own.
// Source: S. Vigna, splitmix64.c (prng.di.unimi.it), for the finisher.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace eratos::store {

struct Digest {
  std::array<std::uint64_t, 2> word{};

  // As a key of a table: 16 bytes.
  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(word.data()), sizeof word};
  }
  friend bool operator==(const Digest&, const Digest&) = default;
};

Digest digest_of(std::string_view bytes);

// "3f1c90aa": its first half, for people.
std::string short_name(const Digest& digest);

}  // namespace eratos::store
