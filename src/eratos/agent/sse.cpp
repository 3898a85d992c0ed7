#include "eratos/agent/sse.h"

namespace eratos::agent {

void SseReader::feed(std::string_view bytes) {
  for (const char c : bytes) {
    if (c == '\n' && after_cr_) {
      after_cr_ = false;
      continue;
    }
    after_cr_ = c == '\r';
    if (c == '\n' || c == '\r') {
      end_line();
    } else {
      line_ += c;
    }
  }
}

void SseReader::end_line() {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string_view line = line_;
  if (at_start_ && line.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    line.remove_prefix(kByteOrderMark.size());
  }
  at_start_ = false;
  if (line.empty()) {
    if (has_data_) see_(event_);
    event_ = {};
    has_data_ = false;
  } else if (line.front() != ':') {
    const std::size_t colon = line.find(':');
    const std::string_view field = line.substr(0, colon);
    std::string_view value =
        colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
    if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    if (field == "data") {
      if (has_data_) event_.data += '\n';
      event_.data += value;
      has_data_ = true;
    } else if (field == "event") {
      event_.name = value;
    }
  }
  line_.clear();
}

}  // namespace eratos::agent
