#include "eratos/reader/measured.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "eratos/hardware/cluster.h"
#include "eratos/reader/fields.h"
#include "eratos/text/dump.h"
#include "eratos/text/file.h"
#include "eratos/text/json.h"

namespace eratos::reader {

namespace {

using calibration::FieldName;
using calibration::Measured;
using calibration::MeasuredPiece;
using calibration::Piece;
using calibration::PieceKind;
using text::Node;

// A thousand pieces with a thousand samples each.
constexpr std::size_t kMostBytes = 64'000'000;
constexpr std::size_t kMostNodes = 4'000'000;
// Whole numbers below are exact, and no size of a job comes near.
constexpr double kMostOfAnything = 9e15;

// Asks for the fields of a piece by name.
class FieldReader {
 public:
  explicit FieldReader(Fields& fields) : fields_(fields) {}

  void number(FieldName name, double& value, double usual) {
    value = usual;
    fields_.read(name.key, value);
    if (!(value >= 0 && value <= kMostOfAnything)) {
      fields_.fail(name.key, said(name, calibration::number_text(value)),
                   "it must be a number from 0 to 9e15");
    } else if (usual >= 1 && value < 1) {  // degrees and counts of parts, of which one is the least
      fields_.fail(name.key, said(name, calibration::number_text(value)), "it must be 1 or more");
    }
  }
  void flag(FieldName name, bool& value, bool usual) {
    value = usual;
    const Node* node = fields_.get(name.key);
    if (node == nullptr) return;
    const bool known = node->is_scalar() && !node->is_quoted();
    const std::string word = known ? node->raw() : "";
    if (word == "1" || word == "true") {
      value = true;
    } else if (word == "0" || word == "false") {
      value = false;
    } else {
      fields_.fail(name.key, said(name, node->describe()), "it must be 0 or 1");
    }
  }
  template <class E, std::size_t N>
  void word(FieldName name, E& value, const std::string_view (&names)[N]) {
    const Node* node = fields_.need(name.key);
    if (node == nullptr) return;
    for (std::size_t i = 0; i < N; ++i) {
      if (node->is_scalar() && node->raw() == names[i]) {
        value = static_cast<E>(i);
        return;
      }
    }
    std::vector<std::string> known(names, names + N);
    fields_.fail(name.key, said(name, node->describe()),
                 suggestion(node->is_scalar() ? node->raw() : "", known));
  }
  void text(FieldName name, std::string& value) {
    value.clear();
    fields_.read(name.key, value);
    if (value.find_first_of(" \t\n/=") != std::string::npos) {
      fields_.fail(name.key, said(name, "`" + value + "`"), "it is one word");
    }
  }
  void list(FieldName name, std::vector<double>& values) {
    values.clear();
    const Node* node = fields_.get(name.key);
    if (node == nullptr) return;
    for (const Node& item : node->items()) {
      const Result<double> value = item.as_double(fields_.path_of(name.key));
      if (value && std::isfinite(*value) && *value >= 0) {
        values.push_back(*value);
      } else {
        fields_.fail(name.key, said(name, item.describe()), "it is a list of numbers, 0 or more");
      }
    }
    if (!node->is_sequence()) {
      fields_.fail(name.key, said(name, node->describe()), "it is a list of numbers");
    }
  }

 private:
  std::string said(FieldName name, const std::string& what) const {
    return "`" + fields_.path_of(name.key) + "` is " + what;
  }

  Fields& fields_;
};

// What a piece cannot do without, beyond words.
class NeededFields {
 public:
  explicit NeededFields(Fields& fields) : fields_(fields) {}

  void work(const calibration::GemmPiece& p) { positive({{"m", p.m}, {"n", p.n}, {"k", p.k}}); }
  void work(const calibration::AttentionPiece& p) {
    positive({{"batch", p.batch},
              {"seq_q", p.seq_q},
              {"seq_kv", p.seq_kv},
              {"heads", p.heads},
              {"kv_heads", p.kv_heads},
              {"head_dim", p.head_dim},
              {"v_head_dim", p.v_head_dim}});
  }
  void work(const calibration::ElementwisePiece& p) { positive({{"bytes", p.bytes}}); }
  void work(const calibration::BlockPiece& p) {
    positive({{"tokens", p.tokens}, {"sequence", p.sequence}, {"hidden", p.hidden}});
  }
  void work(const calibration::CollectivePiece& p) {
    positive({{"bytes", p.bytes}});
    if (p.ranks >= 2 && p.ranks <= hardware::kMostAccelerators && p.ranks == std::floor(p.ranks)) {
      return;
    }
    fields_.fail("ranks",
                 "`" + fields_.path_of("ranks") + "` is " + calibration::number_text(p.ranks),
                 "it is a whole number of 2 or more");
  }
  void work(const calibration::MemoryPiece& p) {
    work(p.layer);
    positive({{"layers", p.layers}});
  }

 private:
  void positive(std::initializer_list<std::pair<std::string_view, double>> fields) {
    for (const auto& [key, value] : fields) {
      if (value > 0) continue;
      fields_.fail(key, "`" + fields_.path_of(key) + "` is " + calibration::number_text(value),
                   "a piece needs it, above 0");
    }
  }

  Fields& fields_;
};

class Decoder {
 public:
  explicit Decoder(Diagnostics& faults) : faults_(faults) {}

  void provenance(Fields fields, calibration::MeasuredProvenance& out) {
    fields.read("device", out.device);
    fields.read("device_kind", out.device_kind);
    for (const auto& [key, to] :
         {std::pair{"driver", &out.driver}, std::pair{"libtorch", &out.libtorch},
          std::pair{"compiler", &out.compiler}, std::pair{"commit", &out.commit},
          std::pair{"host", &out.host}, std::pair{"date_utc", &out.date_utc},
          std::pair{"backend", &out.backend}, std::pair{"source", &out.source}}) {
      fields.read(key, *to);
    }
    fields.read("threads", out.threads);
    fields.read("ranks", out.ranks);
    fields.read("load_1min", out.load_1min);
    fields.read("noisy", out.noisy);
    fields.read("notes", out.notes);
    Fields clock = fields.child("clock");
    clock.read("first_mhz", out.clock.first_mhz);
    clock.read("last_mhz", out.clock.last_mhz);
    clock.read("most_celsius", out.clock.most_celsius);
    clock.read("most_watts", out.clock.most_watts);
  }

  // Indices are copied and permuted as well, in formats that no job can ask for.
  static void dtype(Fields& fields, DType& to) {
    std::string word;
    for (const DType index : {DType::int64, DType::int32, DType::bool8}) {
      if (fields.read("dtype", word) && word == name_of(index)) {
        to = index;
        return;
      }
    }
    fields.require("dtype", to);
  }

  void piece(const Node& node, const std::string& path, Measured& out) {
    Fields fields(&node, path, faults_);
    if (!fields.exists()) return;
    const std::size_t before = faults_.size();
    MeasuredPiece m;
    m.line = node.where().line;
    std::string id;
    fields.require("id", id);
    if (!take_kind(fields, m.piece)) return;
    dtype(fields, m.piece.dtype);
    FieldReader reader(fields);
    calibration::each_field(m.piece.work, reader);
    if (faults_.size() > before) return;
    NeededFields needed(fields);
    std::visit([&](const auto& work) { needed.work(work); }, m.piece.work);
    if (const std::string own = calibration::id_of(m.piece); own != id) {
      fields.fail("id",
                  "`" + fields.path_of("id") + "` is `" + id + "`, its fields say `" + own + "`",
                  "an id is made of the fields of its piece: measure it again");
    }
    if (const auto [at, fresh] = seen_.try_emplace(id, m.line); !fresh) {
      fields.fail("id",
                  "`" + id + "` is measured twice, first on line " + std::to_string(at->second),
                  "leave one of the two out");
    }
    std::string why;
    if (fields.read("skipped", why)) {
      out.unmeasured.push_back({id, why});
      return;
    }
    times(fields, m);
    fields.read("bytes_peak", m.peak);
    fields.read("bytes_reserved", m.reserved);
    fields.read("bytes_context", m.context);
    bytes(fields, m);
    fields.read("warmup", m.warmup);
    fields.read("checked", m.checked);
    out.pieces.push_back(std::move(m));
  }

 private:
  bool take_kind(Fields& fields, Piece& out) {
    std::string kind;
    if (!fields.require("kind", kind)) return false;
    const auto* at =
        std::find(std::begin(calibration::kPieceKinds), std::end(calibration::kPieceKinds), kind);
    if (at == std::end(calibration::kPieceKinds)) {
      const std::vector<std::string> known(std::begin(calibration::kPieceKinds),
                                           std::end(calibration::kPieceKinds));
      fields.fail("kind", "`" + fields.path_of("kind") + "` is `" + kind + "`",
                  suggestion(kind, known));
      return false;
    }
    out.work =
        calibration::empty_work(static_cast<PieceKind>(at - std::begin(calibration::kPieceKinds)));
    return true;
  }

  // A memory phase has no time; everything else has one.
  void times(Fields& fields, MeasuredPiece& m) {
    if (const Node* node = fields.get("samples_s"); node != nullptr) {
      if (!node->is_sequence()) {
        faults_.push_back(node->mismatch(fields.path_of("samples_s"), "a list"));
        return;
      }
      for (const Node& item : node->items()) sample(fields, item, m.samples);
    }
    if (!m.samples.empty()) {
      const std::vector<double> samples = m.samples;
      calibration::summarise(samples, m);
    }
    const auto [least, most] = std::minmax_element(m.samples.begin(), m.samples.end());
    double median = 0;
    if (fields.read("median_s", median) && positive(fields, "median_s", median)) {
      if (!m.samples.empty() && (median < *least || median > *most)) {
        fields.fail("median_s",
                    "`" + fields.path_of("median_s") + "` is " + calibration::number_text(median) +
                        ", which lies outside its samples",
                    "the file was changed: measure it again");
      }
      m.median = Seconds{median};
      if (m.samples.empty()) m.minimum = m.median;
    } else if (m.samples.empty() && m.piece.kind() != PieceKind::memory &&
               fields.get("median_s") == nullptr) {
      fields.fail("median_s", "`" + fields.path_of("median_s") + "` is missing", "add it");
    }
    double minimum = 0;
    if (fields.read("minimum_s", minimum) && positive(fields, "minimum_s", minimum)) {
      if (minimum > m.median.value && m.median.value > 0) {
        fields.fail("minimum_s",
                    "`" + fields.path_of("minimum_s") + "` is " +
                        calibration::number_text(minimum) + ", above the median",
                    "the file was changed: measure it again");
      }
      m.minimum = Seconds{minimum};
    }
    fields.read("spread", m.spread);
    if (!std::isfinite(m.spread) || m.spread < 0) {
      fields.fail("spread",
                  "`" + fields.path_of("spread") + "` is " + calibration::number_text(m.spread),
                  "it must be 0 or more");
    }
  }

  void sample(Fields& fields, const Node& item, std::vector<double>& out) {
    const Result<double> value = item.as_double(fields.path_of("samples_s"));
    if (!value) {
      faults_.push_back(value.error().front());
    } else if (!(*value > 0) || !std::isfinite(*value)) {
      faults_.push_back(
          {.where = item.where(),
           .message = "a sample of `" + fields.path_of("samples_s") + "` is " + item.raw(),
           .cure = "a duration is above 0",
           .field = fields.path_of("samples_s")});
    } else {
      out.push_back(*value);
    }
  }

  static bool positive(Fields& fields, std::string_view key, double value) {
    if (value > 0 && std::isfinite(value)) return true;
    fields.fail(key, "`" + fields.path_of(key) + "` is " + calibration::number_text(value),
                "a duration is above 0");
    return false;
  }

  static void bytes(Fields& fields, const MeasuredPiece& m) {
    for (const auto& [key, value] :
         {std::pair{"bytes_peak", m.peak}, std::pair{"bytes_reserved", m.reserved},
          std::pair{"bytes_context", m.context}}) {
      if (value.value >= 0 && value.value <= kMostOfAnything) continue;
      fields.fail(key, "`" + fields.path_of(key) + "` is " + calibration::number_text(value.value),
                  "it must be a number from 0 to 9e15");
    }
    if (m.reserved.value > 0 && m.reserved < m.peak) {
      fields.fail("bytes_reserved",
                  "`" + fields.path_of("bytes_reserved") + "` is " +
                      calibration::number_text(m.reserved.value) + ", less than what was allocated",
                  "an allocator holds all that it hands out: measure it again");
    }
  }

  Diagnostics& faults_;
  std::map<std::string, int> seen_;  // id: its line
};

void unmeasured_rows(const Node* list, Diagnostics& faults, Measured& out) {
  if (list == nullptr) return;
  for (std::size_t i = 0; i < list->items().size(); ++i) {
    Fields fields(&list->items()[i], text::join_path("unmeasured", i), faults);
    calibration::Unmeasurable u;
    fields.require("id", u.id);
    fields.require("why", u.why);
    out.unmeasured.push_back(std::move(u));
  }
}

Result<Measured> decode(const Node& root) {
  Diagnostics all;
  const Node* version = root.find("eratos_measured");
  if (version == nullptr) {
    return fault({.where = root.where(),
                  .message = "this is no file of measurements: it has no `eratos_measured`",
                  .cure = "`eratos measure JOB -o FILE` writes one"});
  }
  const Result<std::int64_t> number = version->as_int64("eratos_measured");
  if (!number) return faults(number.error());
  if (*number != kMeasuredVersion) {
    return fault(
        {.where = version->where(),
         .message = "`eratos_measured` is " + std::to_string(*number),
         .cure = "this program reads version " + std::to_string(kMeasuredVersion) +
                 (*number > kMeasuredVersion ? ": use the eratos that wrote the file" : ""),
         .field = "eratos_measured"});
  }
  Measured out;
  Decoder decoder(all);
  Fields top(&root, "", all);
  decoder.provenance(top.child("provenance"), out.provenance);
  Fields job = top.child("job");
  job.read("name", out.job);
  job.read("digest", out.digest);
  const Node* pieces = top.need("pieces");
  if (pieces != nullptr && !pieces->is_sequence()) {
    all.push_back(pieces->mismatch("pieces", "a list"));
    pieces = nullptr;
  }
  if (pieces != nullptr) {
    for (std::size_t i = 0; i < pieces->items().size(); ++i) {
      decoder.piece(pieces->items()[i], text::join_path("pieces", i), out);
    }
  }
  unmeasured_rows(top.get("unmeasured"), all, out);
  if (!all.empty()) return faults(std::move(all));
  return out;
}

// Puts the fields of a piece, those that are as usual left out.
class FieldWriter {
 public:
  explicit FieldWriter(Node& out) : out_(out) {}

  void number(FieldName name, double value, double usual) {
    if (value != usual) out_.set(name.key, number_node(value));
  }
  void flag(FieldName name, bool value, bool usual) {
    if (value != usual) out_.set(name.key, Node::integer(value ? 1 : 0));
  }
  template <class E, std::size_t N>
  void word(FieldName name, E value, const std::string_view (&names)[N]) {
    out_.set(name.key, Node::string(std::string(names[static_cast<std::size_t>(value)])));
  }
  void text(FieldName name, const std::string& value) {
    if (!value.empty()) out_.set(name.key, Node::string(value));
  }
  void list(FieldName name, const std::vector<double>& values) {
    if (values.empty()) return;
    Node list = Node::sequence();
    for (const double v : values) list.append(number_node(v));
    out_.set(name.key, std::move(list));
  }

  static Node number_node(double value) {
    if (value == std::floor(value) && std::abs(value) < 1e15) {
      return Node::integer(static_cast<std::int64_t>(value));
    }
    return Node::number(value);
  }

 private:
  Node& out_;
};

void put_text(Node& out, const char* key, const std::string& value) {
  if (!value.empty()) out.set(key, Node::string(value));
}

void put_number(Node& out, const char* key, double value) {
  if (value != 0) out.set(key, FieldWriter::number_node(value));
}

Node provenance_node(const calibration::MeasuredProvenance& p) {
  Node out = Node::mapping();
  put_text(out, "source", p.source);
  put_text(out, "device", p.device);
  put_text(out, "device_kind", p.device_kind);
  put_text(out, "driver", p.driver);
  put_text(out, "libtorch", p.libtorch);
  put_text(out, "compiler", p.compiler);
  put_text(out, "commit", p.commit);
  put_text(out, "host", p.host);
  put_text(out, "date_utc", p.date_utc);
  put_number(out, "threads", p.threads);
  out.set("ranks", Node::integer(p.ranks));
  put_text(out, "backend", p.backend);
  if (!(p.clock == calibration::ClockState{})) {
    Node clock = Node::mapping();
    put_number(clock, "first_mhz", p.clock.first_mhz);
    put_number(clock, "last_mhz", p.clock.last_mhz);
    put_number(clock, "most_celsius", p.clock.most_celsius);
    put_number(clock, "most_watts", p.clock.most_watts);
    out.set("clock", std::move(clock));
  }
  put_number(out, "load_1min", p.load_1min);
  out.set("noisy", Node::boolean(p.noisy));
  if (!p.notes.empty()) {
    Node notes = Node::sequence();
    for (const std::string& note : p.notes) notes.append(Node::string(note));
    out.set("notes", std::move(notes));
  }
  return out;
}

}  // namespace

Node piece_node(const MeasuredPiece& m) {
  Node out = Node::mapping();
  out.set("id", Node::string(calibration::id_of(m.piece)));
  out.set("kind", Node::string(std::string(
                      calibration::kPieceKinds[static_cast<std::size_t>(m.piece.kind())])));
  out.set("dtype", Node::string(std::string(name_of(m.piece.dtype))));
  FieldWriter writer(out);
  calibration::each_field(m.piece.work, writer);
  put_number(out, "median_s", m.median.value);
  put_number(out, "minimum_s", m.minimum.value);
  if (m.median.value > 0) out.set("spread", FieldWriter::number_node(m.spread));
  if (!m.samples.empty()) {
    Node samples = Node::sequence();
    for (const double s : m.samples) samples.append(FieldWriter::number_node(s));
    out.set("samples_s", std::move(samples));
  }
  put_number(out, "warmup", m.warmup);
  if (m.checked >= 0) out.set("checked", FieldWriter::number_node(m.checked));
  put_number(out, "bytes_peak", m.peak.value);
  put_number(out, "bytes_reserved", m.reserved.value);
  put_number(out, "bytes_context", m.context.value);
  return out;
}

std::string measured_json(const Measured& m) {
  Node out = Node::mapping();
  out.set("eratos_measured", Node::integer(kMeasuredVersion));
  out.set("provenance", provenance_node(m.provenance));
  Node job = Node::mapping();
  put_text(job, "name", m.job);
  put_text(job, "digest", m.digest);
  out.set("job", std::move(job));
  Node pieces = Node::sequence();
  for (const MeasuredPiece& p : m.pieces) pieces.append(piece_node(p));
  out.set("pieces", std::move(pieces));
  Node unmeasured = Node::sequence();
  for (const calibration::Unmeasurable& u : m.unmeasured) {
    Node row = Node::mapping();
    row.set("id", Node::string(u.id));
    row.set("why", Node::string(u.why));
    unmeasured.append(std::move(row));
  }
  out.set("unmeasured", std::move(unmeasured));
  return text::to_json(out) + '\n';
}

Result<Measured> parse_measured(std::string_view content, const std::string& file) {
  const Result<Node> root =
      text::parse_json(content, file, {.bytes = kMostBytes, .nodes = kMostNodes});
  if (!root) return faults(root.error());
  return decode(*root);
}

Result<Measured> read_measured(const std::string& path) {
  const Result<std::string> content = text::read_file(path, kMostBytes);
  if (!content) return faults(content.error());
  return parse_measured(*content, path);
}

}  // namespace eratos::reader
