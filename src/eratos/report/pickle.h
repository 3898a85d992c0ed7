// Values as Python's pickle, protocol 2: what json.loads could hold, and no more. No classes, so
// that loading runs no code.
//
// Strings are written once and referred to afterwards; so is whatever `remember` was called after.
// Only opcodes that PyTorch's memory viewer reads (torch/utils/viz/MemoryViz.js, unpickle).
//
// Worked example: {"a": [1]} is
//   80 02 | 7d | 28 | 58 01000000 'a' 71 00 | 5d | 4b 01 61 | 75 | 2e
//   PROTO 2 EMPTY_DICT MARK BINUNICODE BINPUT EMPTY_LIST BININT1 APPEND SETITEMS STOP
//
// Source: Python, Lib/pickletools.py, which defines every opcode.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace eratos::report {

class Pickle {
 public:
  Pickle();

  void begin_dict();  // then key, value, key, value, ...
  void end_dict();
  void begin_list();  // then a value and end_item(), as often as there are items
  void end_item();

  void string(std::string_view text);  // UTF-8
  void integer(std::int64_t value);
  void boolean(bool value);

  // Puts the value just written into the memo. Returns its number, which `refer` writes again.
  std::int32_t remember();
  void refer(std::int32_t number);

  // The whole, ended. Not to be used after it.
  std::string finish();

 private:
  void byte(int value) { out_ += static_cast<char>(value); }
  void little_endian(std::uint64_t value, int bytes);

  std::string out_;
  std::int32_t remembered_ = 0;
  std::map<std::string, std::int32_t, std::less<>> strings_;
};

}  // namespace eratos::report
