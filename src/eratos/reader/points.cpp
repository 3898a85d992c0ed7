#include "eratos/reader/points.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "eratos/base/crc32.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/fields.h"
#include "eratos/reader/pattern_table.h"
#include "eratos/text/file.h"

namespace eratos::reader {

namespace {

using projection::AttentionPoint;
using projection::CollectivePoint;
using projection::GemmPoint;

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr double kMicro = 1e-6;

// Heads or sequences that a table leaves out.
// Assumes: an attention benchmark that does not state its batch or heads has enough to fill the
// part.
constexpr double kMany = 128;

constexpr Name<DType> kFormats[] = {{"bf16", DType::bf16}, {"fp16", DType::fp16},
                                    {"fp8", DType::fp8},   {"fp4", DType::fp4},
                                    {"tf32", DType::tf32}, {"fp32", DType::fp32}};
constexpr Name<ops::CollectiveKind> kKinds[] = {
    {"all_reduce", ops::CollectiveKind::all_reduce},
    {"all_gather", ops::CollectiveKind::all_gather},
    {"reduce_scatter", ops::CollectiveKind::reduce_scatter},
    {"alltoall", ops::CollectiveKind::all_to_all},
    {"sendrecv", ops::CollectiveKind::send_recv}};

template <class E, std::size_t N>
std::optional<E> value_of(const Name<E> (&names)[N], std::string_view word) {
  for (const auto& [name, value] : names) {
    if (name == word) return value;
  }
  return std::nullopt;
}

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || last != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

// What a table of data/ says of one line: for each column the first row that matches and says
// something.
class Meaning {
 public:
  Meaning(const PatternTable& table, std::string words) : table_(table), words_(std::move(words)) {}

  std::string_view say(std::string_view column) const {
    const auto row =
        table_.find(words_, [&](std::size_t i) { return !table_.cell(i, column).empty(); });
    return row ? table_.cell(*row, column) : std::string_view();
  }
  double number(std::string_view column, double otherwise = 0) const {
    return number_in(say(column)).value_or(otherwise);
  }

 private:
  const PatternTable& table_;
  std::string words_;
};

// One row of the file, with faults that name its line.
class Row {
 public:
  Row(const text::CsvTable& table, std::size_t row, Diagnostics& bad)
      : table_(table), row_(row), bad_(bad) {}

  std::string_view word(std::string_view column) const {
    const std::optional<std::size_t> at = table_.column(column);
    return at ? table_.cell(row_, *at) : std::string_view();
  }
  // A positive number.
  double need(std::string_view column) {
    const std::optional<double> value = number_in(word(column));
    if (value && *value > 0) return *value;
    bad_.push_back({table_.where(row_),
                    fmt::format("`{}` must be a positive number, found `{}`", column, word(column)),
                    "state it as in the other rows",
                    {}});
    return 1;
  }
  // The same, or `otherwise` where the cell is empty.
  double read(std::string_view column, double otherwise) {
    return word(column).empty() ? otherwise : need(column);
  }

 private:
  const text::CsvTable& table_;
  std::size_t row_;
  Diagnostics& bad_;
};

// The catalogue's spellings of the tables' words.
class Names {
 public:
  const PatternTable parts{"points_parts"};
  const PatternTable gemm{"points_gemm"};
  const PatternTable attention{"points_attention"};
  const PatternTable collective{"points_collective"};

  std::string part_of(std::string_view gpu) const {
    const auto row = parts.find(gpu);
    return std::string(row ? parts.cell(*row, "part") : gpu);
  }
  bool knows_part(std::string_view gpu) const { return parts.find(gpu).has_value(); }

  // A cluster is decoded once for all rows that name it.
  const Result<hardware::ClusterSpec>& cluster(const std::string& name) {
    const auto known = clusters_.find(name);
    if (known != clusters_.end()) return known->second;
    return clusters_.emplace(name, load_cluster(name)).first->second;
  }

 private:
  std::map<std::string, Result<hardware::ClusterSpec>> clusters_;
};

// "bf16_grouped_G16" is bf16 and 16.
std::pair<std::string_view, double> format_and_groups(std::string_view dtype) {
  constexpr std::string_view kGrouped = "_grouped_G";
  const std::size_t at = dtype.find(kGrouped);
  if (at == std::string_view::npos) return {dtype, 1};
  return {dtype.substr(0, at), number_in(dtype.substr(at + kGrouped.size())).value_or(1)};
}

// Rows are those of one group; dgrad and wgrad of a grouped product are written as its forward:
// dX = dY W^T sums over n, dW = X^T dY over the group's rows.
ops::Gemm product_of(double rows, double n, double k, double groups, std::string_view pass) {
  ops::Gemm g;
  g.groups = groups;
  g.experts = true;
  g.m = rows * groups;
  g.n = n;
  g.k = k;
  if (pass == "dgrad") std::swap(g.n, g.k);
  if (pass == "wgrad") {
    g.m = n * groups;
    g.n = k;
    g.k = rows;
  }
  return g;
}

void read_gemm(Row& row, const Names& names, Point& point) {
  const auto [format, groups] = format_and_groups(row.word("dtype"));
  point.part = names.part_of(row.word("gpu"));
  point.group = std::string(format) + (groups > 1 ? " grouped" : "");
  const double tera = row.need("tflops");
  const Meaning says(
      names.gemm, fmt::format("{} {} {}", row.word("gpu"), row.word("dtype"), row.word("source")));
  point.skipped = std::string(says.say("skip"));
  const std::string_view stated = says.say("format").empty() ? format : says.say("format");
  const std::optional<DType> dtype = value_of(kFormats, stated);
  if (!dtype && point.skipped.empty()) point.skipped = "a format that is not modelled";
  GemmPoint work;
  work.product = product_of(row.need("m"), row.need("n"), row.need("k"), groups, says.say("pass"));
  work.product.dtype = dtype.value_or(DType::bf16);
  work.product.accumulate_fp32 = says.say("accumulate") == "yes";
  if (says.say("setting") == "in_training") {
    work.setting = kernel::Setting::in_training;
    point.group += ", at its power limit";
  }
  work.library = std::string(says.say("library"));
  if (!work.library.empty()) point.group += ", " + work.library;
  work.cast = std::string(says.say("cast"));
  work.cast_traffic = Bytes{work.product.m * work.product.k * says.number("cast_bytes")};
  work.per_group = Seconds{says.number("per_group_us") * kMicro};
  work.fixed = Seconds{says.number("fixed_us") * kMicro};
  point.measured = Seconds{work.product.flops().value / (tera * kTera)};
  point.work = work;
}

// "192/128" are the head dims of Q and K, and of V.
std::pair<double, double> head_dims(std::string_view cell) {
  const std::size_t slash = cell.find('/');
  const double first = number_in(cell.substr(0, slash)).value_or(0);
  if (slash == std::string_view::npos) return {first, first};
  return {first, number_in(cell.substr(slash + 1)).value_or(0)};
}

// Grouped-query heads stand in the source's words: "kv_heads=8".
double kv_heads(std::string_view source, double heads) {
  constexpr std::string_view kKey = "kv_heads=";
  const std::size_t at = source.find(kKey);
  if (at == std::string_view::npos) return heads;
  std::string_view digits = source.substr(at + kKey.size());
  digits = digits.substr(0, digits.find_first_not_of("0123456789"));
  return number_in(digits).value_or(heads);
}

void read_attention(Row& row, const Names& names, Point& point) {
  const Meaning says(names.attention, fmt::format("{} {} {} {}", row.word("gpu"), row.word("impl"),
                                                  row.word("pass"), row.word("source")));
  const std::string_view pass = row.word("pass");
  point.part = names.part_of(row.word("gpu"));
  point.skipped = std::string(says.say("skip"));
  const double tera = row.need("tflops");
  AttentionPoint work;
  work.kernel = std::string(says.say("kernel"));
  if (work.kernel.empty() && point.skipped.empty()) point.skipped = "an unknown kernel";
  work.both_passes = pass == "fwd+bwd";
  ops::Attention& a = work.work;
  std::tie(a.head_dim, a.v_head_dim) = head_dims(row.word("hdim"));
  a.seq_q = row.need("seqlen");
  a.seq_kv = a.seq_q;
  a.batch = row.read("batch", kMany);
  a.heads = row.read("heads", kMany);
  a.kv_heads = kv_heads(row.word("source"), a.heads);
  a.causal = row.word("causal") == "1";
  a.backward = pass == "bwd";
  a.dtype = value_of(kFormats, says.say("format")).value_or(DType::bf16);
  work.beside = Bytes{says.number("beside_bytes") * a.batch * a.seq_q * (a.heads + 2 * a.kv_heads) *
                      a.head_dim};
  point.group = fmt::format("{}{} {}", work.kernel.empty() ? row.word("impl") : work.kernel,
                            a.dtype == DType::fp8 ? " fp8" : "", pass);
  const double flops = a.flops().value * (work.both_passes ? 3.5 : 1.0);
  point.measured = Seconds{flops / (tera * kTera)};
  point.work = work;
}

double bus_factor(ops::CollectiveKind kind, double n) {
  if (kind == ops::CollectiveKind::send_recv) return 1;
  return (kind == ops::CollectiveKind::all_reduce ? 2 : 1) * (n - 1) / n;
}

void read_collective(Row& row, Names& names, Point& point) {
  const std::string_view system = row.word("system");
  const double gpus = row.need("gpus");
  const double nodes = row.need("nodes");
  const Meaning says(names.collective,
                     fmt::format("{} {} {} {} {}", system, row.word("gpus"), row.word("nodes"),
                                 row.word("collective"), row.word("source")));
  point.group = fmt::format("{}: {}", system, row.word("collective"));
  point.part = std::string(system);
  point.skipped = std::string(says.say("skip"));
  const std::string cluster(says.say("cluster"));
  const std::optional<ops::CollectiveKind> kind = value_of(kKinds, row.word("collective"));
  if (!kind && point.skipped.empty()) point.skipped = "a collective that is not modelled";
  if (cluster.empty() && point.skipped.empty()) point.skipped = "a system that is not described";
  if (!point.skipped.empty()) return;

  const int per_node = static_cast<int>(says.number("per_node", 8));
  const auto& room =
      names.cluster(fmt::format("{}-{}x{}", cluster, static_cast<int>(nodes), per_node));
  if (!room) {
    point.skipped = "a system that is not described";
    return;
  }
  CollectivePoint work;
  work.kind = *kind;
  work.bytes = Bytes{row.need("bytes")};
  work.cluster = *room;
  if (says.say("in_switch") == "no") {
    for (hardware::NetworkLevel& level : work.cluster.levels) level.in_switch_reduction = false;
  }
  const int here = std::max(1, static_cast<int>(gpus / nodes));
  work.group = {static_cast<int>(gpus), nodes > 1 ? std::max(1, per_node / here) : 1};
  work.fixed = Seconds{says.number("fixed_us") * kMicro};
  work.floor = Seconds{says.number("floor_us") * kMicro};
  point.part = work.cluster.accelerator.name;
  const std::optional<double> rate = number_in(row.word("algbw"));
  point.measured = rate && *rate > 0 ? Seconds{work.bytes.value / (*rate * kGiga)}
                                     : Seconds{work.bytes.value * bus_factor(*kind, gpus) /
                                               (row.need("busbw_gbps_unit_GBps") * kGiga)};
  point.work = work;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    lines.push_back(line);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return lines;
}

}  // namespace

std::string_view name_of(PointTable table) {
  switch (table) {
    case PointTable::gemm:
      return "gemm";
    case PointTable::attention:
      return "attention";
    case PointTable::collective:
      return "collective";
    case PointTable::none:
      break;
  }
  return "none";
}

PointTable point_table_of(const std::vector<std::string>& header) {
  const auto has = [&](std::initializer_list<std::string_view> columns) {
    return std::all_of(columns.begin(), columns.end(), [&](std::string_view column) {
      return std::find(header.begin(), header.end(), column) != header.end();
    });
  };
  if (has({"gpu", "dtype", "m", "n", "k", "tflops", "source"})) return PointTable::gemm;
  if (has({"gpu", "impl", "pass", "causal", "hdim", "seqlen", "tflops", "source"})) {
    return PointTable::attention;
  }
  if (has({"system", "gpus", "nodes", "collective", "bytes", "source"})) {
    return PointTable::collective;
  }
  return PointTable::none;
}

bool held_out(std::string_view line) { return crc32(line) % 5 == 0; }

Result<std::vector<Point>> parse_points(std::string_view text, const std::string& file) {
  const Result<text::CsvTable> table = text::parse_csv(text, file);
  if (!table) return faults(table.error());
  const PointTable kind = point_table_of(table->header());
  if (kind == PointTable::none) {
    return fault({{file, 1, 0},
                  "the header is none of a table of measured kernels or collectives",
                  "columns are listed in docs/USING.md, validate",
                  {}});
  }
  const std::vector<std::string_view> lines = lines_of(text);
  Names names;
  Diagnostics bad;
  std::vector<Point> points;
  for (std::size_t i = 0; i < table->rows(); ++i) {
    Point& point = points.emplace_back();
    Row row(*table, i, bad);
    point.table = kind;
    point.file = file;
    point.line = table->line(i);
    point.text = std::string(lines[static_cast<std::size_t>(point.line) - 1]);
    point.source = std::string(row.word("source"));
    point.held_out = held_out(point.text);
    if (kind == PointTable::gemm) read_gemm(row, names, point);
    if (kind == PointTable::attention) read_attention(row, names, point);
    if (kind == PointTable::collective) read_collective(row, names, point);
    if (kind != PointTable::collective && point.skipped.empty() &&
        !names.knows_part(row.word("gpu"))) {
      point.skipped = "a part that the catalogue lacks";
    }
  }
  if (!bad.empty()) return faults(std::move(bad));
  return points;
}

Result<std::vector<Point>> read_points(const std::string& path) {
  const Result<std::string> text = text::read_file(path, text::kMaxTableBytes);
  if (!text) return faults(text.error());
  return parse_points(*text, path);
}

}  // namespace eratos::reader
