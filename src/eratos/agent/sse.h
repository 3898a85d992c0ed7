// Server-sent events: a stream of bytes as events, however it is cut into pieces.
//
// An event is lines up to an empty one; `data:` lines are joined by line feeds; a line that begins
// with a colon is a comment (servers keep a connection alive with them). Lines end in LF, CR or
// both. An event that no empty line has ended is none: the stream was cut. Source: WHATWG HTML
// Living Standard, section 9.2.6 "Interpreting an event stream".
//
// Worked example: "data: a\ndata: b\n\n: alive\n\nevent: done\ndata: c\n\n" is the events
// {"", "a\nb"} and {"done", "c"}, in one piece or byte by byte.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace eratos::agent {

struct SseEvent {
  std::string name;  // "" where the stream gives none
  std::string data;
};

class SseReader {
 public:
  explicit SseReader(std::function<void(const SseEvent&)> see) : see_(std::move(see)) {}

  void feed(std::string_view bytes);
  // Bytes of an event that has not ended.
  bool is_inside() const { return has_data_ || !line_.empty(); }

 private:
  void end_line();

  std::function<void(const SseEvent&)> see_;
  std::string line_;
  SseEvent event_;
  bool has_data_ = false;
  bool after_cr_ = false;
  bool at_start_ = true;
};

}  // namespace eratos::agent
