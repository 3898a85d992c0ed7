#include "eratos/report/pickle.h"

#include <utility>

namespace eratos::report {

Pickle::Pickle() {
  byte(0x80);  // PROTO
  byte(2);
}

void Pickle::little_endian(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) byte(static_cast<int>((value >> (8 * i)) & 0xff));
}

void Pickle::begin_dict() { out_ += "}("; }
void Pickle::end_dict() { out_ += 'u'; }
void Pickle::begin_list() { out_ += ']'; }
void Pickle::end_item() { out_ += 'a'; }
void Pickle::boolean(bool value) { byte(value ? 0x88 : 0x89); }

void Pickle::string(std::string_view text) {
  if (const auto known = strings_.find(text); known != strings_.end()) {
    refer(known->second);
    return;
  }
  out_ += 'X';
  little_endian(text.size(), 4);
  out_ += text;
  strings_.emplace(text, remember());
}

void Pickle::integer(std::int64_t value) {
  if (value >= 0 && value < 0x100) {
    out_ += 'K';
    little_endian(static_cast<std::uint64_t>(value), 1);
  } else if (value >= 0 && value < 0x10000) {
    out_ += 'M';
    little_endian(static_cast<std::uint64_t>(value), 2);
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    out_ += 'J';
    little_endian(static_cast<std::uint64_t>(value), 4);
  } else {
    byte(0x8a);  // LONG1: a length, then two's complement
    byte(8);
    little_endian(static_cast<std::uint64_t>(value), 8);
  }
}

std::int32_t Pickle::remember() {
  const std::int32_t number = remembered_++;
  const bool small = number < 0x100;
  out_ += small ? 'q' : 'r';
  little_endian(static_cast<std::uint64_t>(number), small ? 1 : 4);
  return number;
}

void Pickle::refer(std::int32_t number) {
  const bool small = number < 0x100;
  out_ += small ? 'h' : 'j';
  little_endian(static_cast<std::uint64_t>(number), small ? 1 : 4);
}

std::string Pickle::finish() {
  out_ += '.';
  return std::move(out_);
}

}  // namespace eratos::report
