#include "eratos/store/tells.h"

#include <array>
#include <bit>
#include <cstdint>

#ifdef ERATOS_SQLITE
#include <zlib.h>
#endif

#include "eratos/store/bytes.h"
#include "eratos/store/digest.h"

namespace eratos::store {

namespace {

constexpr std::size_t kCheck = sizeof(std::uint64_t);

std::string checked(const std::string& body) {
  return std::string(digest_of(body).bytes().substr(0, kCheck)) + body;
}

// What lies behind the digest; nothing where they do not belong together.
std::optional<std::string_view> body_of(std::string_view packed) {
  if (packed.size() < kCheck) return std::nullopt;
  const std::string_view body = packed.substr(kCheck);
  if (packed.substr(0, kCheck) != digest_of(body).bytes().substr(0, kCheck)) return std::nullopt;
  return body;
}

// What the model said, without what one search makes of it.
struct Kept {
  bool fits = false;
  Bytes least_peak;
  Bytes device_peak;
  double figure = 0;
  double busy = 0;
};

search::Tell tell_of(const Kept& kept) {
  search::Tell out;
  out.fits = kept.fits;
  out.least_peak = kept.least_peak;
  out.device_peak = kept.device_peak;
  out.figure = kept.figure;
  out.busy = kept.busy;
  search::make_plain(out);
  return out;
}

}  // namespace

std::string pack_one(const search::Tell& tell) {
  return checked(
      bytes_of(Kept{tell.fits, tell.least_peak, tell.device_peak, tell.figure, tell.busy}));
}

std::optional<search::Tell> unpack_one(std::string_view packed) {
  const auto body = body_of(packed);
  Kept out;
  if (!body || !from_bytes(*body, out)) return std::nullopt;
  return tell_of(out);
}

#ifdef ERATOS_SQLITE

namespace {

constexpr std::size_t kColumns = 4;
constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kEach = kColumns * kWord + 1;  // bytes an answer, and whether it fits
constexpr int kLevel = 6;                            // of zlib, 1 to 9

using Columns = std::array<std::uint64_t, kColumns>;

Columns columns_of(const search::Tell& t) {
  return {std::bit_cast<std::uint64_t>(t.least_peak.value),
          std::bit_cast<std::uint64_t>(t.device_peak.value) ^
              std::bit_cast<std::uint64_t>(t.least_peak.value),
          std::bit_cast<std::uint64_t>(t.figure), std::bit_cast<std::uint64_t>(t.busy)};
}

search::Tell tell_of(const Columns& c, bool fits) {
  return tell_of(Kept{fits, Bytes{std::bit_cast<double>(c[0])},
                      Bytes{std::bit_cast<double>(c[1] ^ c[0])}, std::bit_cast<double>(c[2]),
                      std::bit_cast<double>(c[3])});
}

}  // namespace

std::string pack(std::span<const search::Tell> tells) {
  const std::size_t n = tells.size();
  std::string plain(n * kEach, '\0');
  Columns before{};
  for (std::size_t i = 0; i < n; ++i) {
    const Columns now = columns_of(tells[i]);
    for (std::size_t c = 0; c < kColumns; ++c) {
      const std::uint64_t change = now[c] ^ before[c];
      for (std::size_t b = 0; b < kWord; ++b) {
        plain[(c * kWord + b) * n + i] = static_cast<char>(change >> (8 * b));
      }
    }
    plain[kColumns * kWord * n + i] = tells[i].fits ? '\1' : '\0';
    before = now;
  }
  uLongf size = compressBound(static_cast<uLong>(plain.size()));
  std::string out(size, '\0');
  compress2(reinterpret_cast<Bytef*>(out.data()), &size,
            reinterpret_cast<const Bytef*>(plain.data()), static_cast<uLong>(plain.size()), kLevel);
  out.resize(size);
  return checked(out);
}

std::vector<search::Tell> unpack(std::string_view packed, std::size_t count) {
  const auto body = body_of(packed);
  if (!body) return {};
  std::string plain(count * kEach, '\0');
  auto size = static_cast<uLongf>(plain.size());
  const int code =
      uncompress(reinterpret_cast<Bytef*>(plain.data()), &size,
                 reinterpret_cast<const Bytef*>(body->data()), static_cast<uLong>(body->size()));
  if (code != Z_OK || size != plain.size()) return {};
  std::vector<search::Tell> out;
  out.reserve(count);
  Columns now{};
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t c = 0; c < kColumns; ++c) {
      for (std::size_t b = 0; b < kWord; ++b) {
        const auto byte = static_cast<std::uint8_t>(plain[(c * kWord + b) * count + i]);
        now[c] ^= static_cast<std::uint64_t>(byte) << (8 * b);
      }
    }
    out.push_back(tell_of(now, plain[kColumns * kWord * count + i] != '\0'));
  }
  return out;
}

#else

std::string pack(std::span<const search::Tell> /*tells*/) { return {}; }
std::vector<search::Tell> unpack(std::string_view /*packed*/, std::size_t /*count*/) { return {}; }

#endif

}  // namespace eratos::store
