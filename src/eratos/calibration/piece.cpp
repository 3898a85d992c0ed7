#include "eratos/calibration/piece.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>

namespace eratos::calibration {

namespace {

class IdWriter {
 public:
  explicit IdWriter(std::string& out) : out_(out) {}

  void number(FieldName name, double value, double usual) {
    if (value != usual) add(name.letters, number_text(value));
  }
  void flag(FieldName name, bool value, bool usual) {
    if (value != usual) add(name.letters, "");
  }
  template <class E, std::size_t N>
  void word(FieldName name, E value, const std::string_view (&names)[N]) {
    add(name.letters, names[static_cast<std::size_t>(value)]);
  }
  void text(FieldName name, const std::string& value) {
    if (!value.empty()) add(name.letters, value);
  }
  void list(FieldName name, const std::vector<double>& values) {
    if (values.empty()) return;
    std::string all;
    for (const double v : values) {
      if (!all.empty()) all += ',';
      all += number_text(v);
    }
    add(name.letters, all);
  }

 private:
  void add(std::string_view letters, std::string_view value) {
    out_ += '/';
    out_ += letters;
    out_ += value;
  }

  std::string& out_;
};

}  // namespace

std::string number_text(double value) {
  std::array<char, 40> buffer{};
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  const int n = std::snprintf(buffer.data(), buffer.size(), whole ? "%.0f" : "%.17g", value);
  return {buffer.data(), static_cast<std::size_t>(n)};
}

std::string id_of(const Piece& piece) {
  std::string out(kPieceKinds[static_cast<std::size_t>(piece.kind())]);
  IdWriter writer(out);
  each_field(piece.work, writer);
  out += '/';
  out += name_of(piece.dtype);
  return out;
}

PieceWork empty_work(PieceKind kind) {
  switch (kind) {
    case PieceKind::gemm:
      return GemmPiece{};
    case PieceKind::attention:
      return AttentionPiece{};
    case PieceKind::elementwise:
      return ElementwisePiece{};
    case PieceKind::block:
      return BlockPiece{};
    case PieceKind::collective:
      return CollectivePiece{};
    case PieceKind::memory:
      return MemoryPiece{};
  }
  return GemmPiece{};
}

}  // namespace eratos::calibration
