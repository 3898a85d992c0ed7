// A string that cannot be printed: an API key.
//
// There is no stream operator, no formatter, no conversion and no comparison, so that no message,
// log or file holds one by accident; what is written by accident does not compile. The one way out
// is reveal(), which a test allows in the sources of one room alone: whoever sends it. What comes
// back from a server, which may repeat a key it was sent, goes through scrub().
//
// Worked example: Secret("sk-abcdefgh12345").scrub("bad key sk-abcdefgh12345!") is "bad key
// [key]!", and so is scrub("bad key sk-abcde...") = "bad key [key]...": 8 characters in a row are
// enough.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace eratos {

class Secret {
 public:
  // Pieces of a key this long are taken out of a text. Keys that are shorter, as local servers are
  // given ("none", "EMPTY"), protect nothing and are words of their own: they are not looked for.
  static constexpr std::size_t kPiece = 8;
  static constexpr std::string_view kHidden = "[key]";

  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}

  bool is_set() const { return !text_.empty(); }
  std::string_view reveal() const { return text_; }

  // `text` with every run of kPiece or more bytes of the key replaced by kHidden.
  std::string scrub(std::string_view text) const {
    if (text_.size() < kPiece || text.size() < kPiece) return std::string(text);
    std::vector<bool> hidden(text.size(), false);
    bool any = false;
    for (std::size_t at = 0; at + kPiece <= text.size(); ++at) {
      if (text_.find(text.substr(at, kPiece)) == std::string::npos) continue;
      for (std::size_t i = 0; i < kPiece; ++i) hidden[at + i] = true;
      any = true;
    }
    if (!any) return std::string(text);
    std::string out;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (!hidden[at]) {
        out += text[at];
      } else if (at == 0 || !hidden[at - 1]) {
        out += kHidden;
      }
    }
    return out;
  }

 private:
  std::string text_;
};

}  // namespace eratos
