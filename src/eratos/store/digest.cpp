#include "eratos/store/digest.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

namespace eratos::store {

namespace {

constexpr std::uint64_t finish(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

Digest digest_of(std::string_view bytes) {
  // Odd constants apart from each other; the length keeps trailing zeros apart.
  std::uint64_t a = 0x9e3779b97f4a7c15ULL ^ bytes.size();
  std::uint64_t b = 0xc2b2ae3d27d4eb4fULL;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    a = finish(a + word + 0x9e3779b97f4a7c15ULL);
    b = finish((b ^ word) + 0xd6e8feb86659fd93ULL);
  }
  return {{finish(a ^ (b >> 32)), finish(b + a)}};
}

std::string short_name(const Digest& digest) { return fmt::format("{:08x}", digest.word[0] >> 32); }

}  // namespace eratos::store
