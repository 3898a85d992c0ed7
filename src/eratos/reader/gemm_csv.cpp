#include "eratos/reader/gemm_csv.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "eratos/reader/device_name.h"
#include "eratos/text/csv.h"

namespace eratos::reader {

namespace {

using calibration::PiecePass;

// A column's name in lower case, what is no letter or digit as `_`: "Time (us)" is "time_us".
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) != 0) {
      out += static_cast<char>(std::tolower(u));
    } else if (!out.empty() && out.back() != '_') {
      out += '_';
    }
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  return out;
}

struct Unit {
  std::string_view name;
  double seconds;
};
constexpr Unit kUnits[] = {{"us", 1e-6}, {"usec", 1e-6}, {"ms", 1e-3},
                           {"ns", 1e-9}, {"s", 1},       {"sec", 1}};
constexpr std::string_view kTimes[] = {"time",    "latency",  "duration",   "elapsed",
                                       "runtime", "mean",     "median",     "avg",
                                       "average", "avg_time", "kernel_time"};

std::optional<double> unit_called(std::string_view name) {
  for (const Unit& u : kUnits) {
    if (u.name == name) return u.seconds;
  }
  return std::nullopt;
}

// What a column of figures holds: a time, or a rate.
struct Figure {
  std::size_t column = 0;
  double seconds = 0;      // of one; 0: the unit is not said
  double flops_per_s = 0;  // of one; > 0 where it is a rate
};

std::optional<Figure> figure_of(const std::string& name) {
  if (name == "tflops" || name == "tflop_s" || name == "tflops_s") return Figure{0, 0, 1e12};
  if (name == "gflops" || name == "gflop_s" || name == "gflops_s" || name == "rocblas_gflops" ||
      name == "hipblaslt_gflops") {
    return Figure{0, 0, 1e9};
  }
  if (const auto unit = unit_called(name); unit && name != "s") return Figure{0, *unit, 0};
  for (const std::string_view time : kTimes) {
    if (name == time) return Figure{};
    if (name.size() > time.size() + 1 && name.substr(0, time.size()) == time &&
        name[time.size()] == '_') {
      if (const auto unit = unit_called(name.substr(time.size() + 1))) return Figure{0, *unit, 0};
    }
  }
  return std::nullopt;
}

std::optional<DType> dtype_called(std::string_view word) {
  std::string name = plain(word);
  if (name.substr(0, 6) == "torch_") name = name.substr(6);
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"bf16", DType::bf16},    {"bfloat16", DType::bf16}, {"bf16_r", DType::bf16},
      {"fp16", DType::fp16},    {"float16", DType::fp16},  {"half", DType::fp16},
      {"f16_r", DType::fp16},   {"f16", DType::fp16},      {"fp32", DType::fp32},
      {"float32", DType::fp32}, {"float", DType::fp32},    {"f32_r", DType::fp32},
      {"f32", DType::fp32},     {"tf32", DType::tf32},     {"xf32_r", DType::tf32},
      {"fp4", DType::fp4},      {"nvfp4", DType::fp4},     {"mxfp4", DType::fp4},
      {"fp8", DType::fp8},      {"f8_r", DType::fp8},      {"bf8_r", DType::fp8},
      {"mxfp8", DType::fp8}};
  for (const auto& [known, dtype] : kNames) {
    if (name == known) return dtype;
  }
  if (name.substr(0, 6) == "float8" || name.substr(0, 4) == "fp8_" ||
      name.substr(0, 5) == "f8e4m" || name.substr(0, 5) == "f8e5m") {
    return DType::fp8;
  }
  return std::nullopt;
}

std::optional<bool> transposed(std::string_view word) {
  const std::string name = plain(word);
  if (name == "t" || name == "1" || name == "true" || name == "c") return true;
  if (name == "n" || name == "0" || name == "false") return false;
  return std::nullopt;
}

std::optional<PiecePass> pass_of(bool a, bool b) {
  if (!a && b) return PiecePass::forward;
  if (!a && !b) return PiecePass::dgrad;
  if (a && !b) return PiecePass::wgrad;
  return std::nullopt;
}

// Which column says what.
struct Columns {
  std::optional<std::size_t> m, n, k, dtype, batch, trans_a, trans_b, layout, pass, gpu;
  std::optional<Figure> figure;
};

Columns columns_of(const std::vector<std::string>& header) {
  Columns out;
  for (std::size_t i = 0; i < header.size(); ++i) {
    const std::string name = plain(header[i]);
    const auto is = [&](std::initializer_list<std::string_view> names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (is({"m"})) out.m = i;
    if (is({"n"})) out.n = i;
    if (is({"k"})) out.k = i;
    if (is({"dtype", "type", "datatype", "data_type", "precision", "a_type"}) && !out.dtype) {
      out.dtype = i;
    }
    if (is({"batch", "b", "batch_count", "batch_size", "groups"})) out.batch = i;
    if (is({"transa", "trans_a", "transposea", "transpose_a"})) out.trans_a = i;
    if (is({"transb", "trans_b", "transposeb", "transpose_b"})) out.trans_b = i;
    if (is({"layout"})) out.layout = i;
    if (is({"pass"})) out.pass = i;
    if (is({"gpu", "device", "accelerator"})) out.gpu = i;
    if (auto figure = figure_of(name)) {
      figure->column = i;
      // A time is what was measured, a rate what somebody worked out of it.
      const bool better = !out.figure || (out.figure->flops_per_s > 0 && figure->flops_per_s == 0);
      if (better) out.figure = figure;
    }
  }
  return out;
}

class Table {
 public:
  Table(const text::CsvTable& table, const GemmCsvOptions& options)
      : table_(table), options_(options), columns_(columns_of(table.header())) {}

  Result<GemmCsv> read() {
    if (!columns_.figure || !columns_.m || !columns_.n || !columns_.k) {
      return fault({{table_.file(), 1, 0},
                    "the header names no m, n, k and time of a product",
                    "columns are listed in docs/USING.md, calibrate",
                    {}});
    }
    Figure& figure = *columns_.figure;
    if (figure.flops_per_s == 0 && figure.seconds == 0) {
      const auto unit = unit_called(options_.time_unit);
      if (!unit) {
        fail(0, fmt::format("the unit of `{}` is not said", table_.header()[figure.column]),
             "name it in the column, time_us, or with --time-unit us");
      }
      figure.seconds = unit.value_or(1);
    }
    if (!columns_.dtype) {
      fail(0, "no column says the number format", "add a column `dtype`: bf16, fp16, fp8, ...");
    }
    if (!columns_.gpu && options_.part.empty()) {
      fail(0, "no column says the accelerator", "add a column `gpu`, or say --cluster PART-NxM");
    }
    if (!bad_.empty()) return faults(std::move(bad_));
    for (std::size_t row = 0; row < table_.rows(); ++row) read_row(row);
    if (table_.rows() == 0) fail(0, "no product in it", "a row a product");
    if (!bad_.empty()) return faults(std::move(bad_));
    for (const std::string& id : order_) {
      calibration::MeasuredPiece& piece = gathered_.at(id);
      calibration::summarise(piece.samples, piece);
      out_.pieces.push_back(std::move(piece));
    }
    return std::move(out_);
  }

 private:
  void fail(std::size_t row, std::string message, std::string cure) {
    const int line = row < table_.rows() && row_set_ ? table_.line(row) : 1;
    if (bad_.size() < 20) {
      bad_.push_back({{table_.file(), line, 0}, std::move(message), std::move(cure), {}});
    }
  }

  std::string_view cell(std::size_t row, std::optional<std::size_t> column) const {
    return column ? table_.cell(row, *column) : std::string_view();
  }

  double positive(std::size_t row, std::optional<std::size_t> column, bool whole) {
    const std::string_view text = cell(row, column);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool number = error == std::errc() && end == text.data() + text.size();
    if (number && std::isfinite(value) && value > 0 && (!whole || value == std::floor(value))) {
      return value;
    }
    fail(row,
         fmt::format("`{}` must be a positive {}number, found `{}`", table_.header()[*column],
                     whole ? "whole " : "", text),
         "state it as in the other rows");
    return 1;
  }

  PiecePass pass(std::size_t row) {
    if (const std::string_view said = cell(row, columns_.pass); !said.empty()) {
      const std::string name = plain(said);
      for (const PiecePass p : {PiecePass::forward, PiecePass::dgrad, PiecePass::wgrad}) {
        if (name == calibration::kPiecePasses[static_cast<std::size_t>(p)]) return p;
      }
      if (name == "fwd" || name == "fprop") return PiecePass::forward;
      fail(row, fmt::format("unknown pass `{}`", said), "forward, dgrad or wgrad");
      return PiecePass::forward;
    }
    std::string_view a = cell(row, columns_.trans_a);
    std::string_view b = cell(row, columns_.trans_b);
    if (const std::string_view layout = cell(row, columns_.layout); layout.size() >= 2) {
      a = layout.substr(0, 1);
      b = layout.substr(1, 1);
    }
    if (a.empty() && b.empty()) return PiecePass::forward;
    const auto ta = transposed(a);
    const auto tb = transposed(b);
    if (!ta || !tb) {
      fail(row, fmt::format("`{}` and `{}` are no transposes", a, b), "N or T each");
      return PiecePass::forward;
    }
    // Both transposed: no pass of a linear layer; its shape is priced as any other.
    return pass_of(*ta, *tb).value_or(PiecePass::forward);
  }

  std::string part(std::size_t row) {
    const std::string_view said = cell(row, columns_.gpu);
    if (said.empty()) return options_.part;
    const std::string part = part_of_device(said);
    if (!part.empty()) return part;
    if (!options_.part.empty()) return options_.part;
    fail(row, fmt::format("`{}` is no accelerator of the catalogue", said),
         "`eratos list accelerators` shows the known ones; or say --cluster PART-NxM");
    return "";
  }

  void read_row(std::size_t row) {
    row_set_ = true;
    ops::Gemm g;
    g.m = positive(row, columns_.m, true);
    g.n = positive(row, columns_.n, true);
    g.k = positive(row, columns_.k, true);
    if (!cell(row, columns_.batch).empty()) g.groups = positive(row, columns_.batch, true);
    g.m *= g.groups;
    g.strided = g.groups > 1;
    const std::string_view format = cell(row, columns_.dtype);
    if (const auto dtype = dtype_called(format)) {
      g.dtype = *dtype;
    } else {
      fail(row, fmt::format("unknown number format `{}`", format),
           "bf16, fp16, fp8, fp4, tf32 or fp32");
    }
    const double figure = positive(row, columns_.figure->column, false);
    const double seconds = columns_.figure->flops_per_s > 0
                               ? g.flops().value / (figure * columns_.figure->flops_per_s)
                               : figure * columns_.figure->seconds;
    Point& point = out_.points.emplace_back();
    point.table = PointTable::gemm;
    point.file = table_.file();
    point.line = table_.line(row);
    point.source = table_.file().substr(table_.file().rfind('/') + 1);
    point.part = part(row);
    point.group = std::string(name_of(g.dtype)) + (g.groups > 1 ? " batched" : "");
    projection::GemmPoint work;
    work.product = g;
    point.work = work;
    point.measured = Seconds{seconds};

    calibration::MeasuredPiece piece;
    calibration::GemmPiece product;
    product.pass = pass(row);
    product.m = g.m;
    product.n = g.n;
    product.k = g.k;
    product.groups = g.groups;
    product.strided = g.strided;
    piece.piece = {product, g.dtype};
    const std::string id = calibration::id_of(piece.piece);
    const auto [at, fresh] = gathered_.try_emplace(id, std::move(piece));
    if (fresh) order_.push_back(id);
    at->second.samples.push_back(seconds);
  }

  const text::CsvTable& table_;
  const GemmCsvOptions& options_;
  Columns columns_;
  bool row_set_ = false;
  GemmCsv out_;
  std::map<std::string, calibration::MeasuredPiece> gathered_;
  std::vector<std::string> order_;
  Diagnostics bad_;
};

}  // namespace

bool is_gemm_csv(const std::vector<std::string>& header) {
  if (point_table_of(header) != PointTable::none) return false;
  const Columns columns = columns_of(header);
  return columns.m && columns.n && columns.k && columns.figure;
}

Result<GemmCsv> parse_gemm_csv(std::string_view text, const std::string& file,
                               const GemmCsvOptions& options) {
  const Result<text::CsvTable> table = text::parse_csv(text, file);
  if (!table) return faults(table.error());
  return Table(*table, options).read();
}

}  // namespace eratos::reader
