#include "eratos/reader/times.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "eratos/reader/fields.h"
#include "eratos/text/csv.h"
#include "eratos/text/file.h"
#include "eratos/text/json.h"

namespace eratos::reader {

namespace {

using text::Node;

struct Unit {
  std::string_view word;    // at a value
  std::string_view suffix;  // at a key
  double scale = 1;         // to seconds or bytes
};

constexpr Unit kTimeUnits[] = {
    {"s", "s", 1}, {"ms", "ms", 1e-3}, {"us", "us", 1e-6}, {"ns", "ns", 1e-9}, {"ps", "ps", 1e-12}};
constexpr Unit kSizeUnits[] = {
    {"B", "bytes", 1},    {"kB", "kb", 1e3},    {"MB", "mb", 1e6},
    {"GB", "gb", 1e9},    {"TB", "tb", 1e12},   {"KiB", "kib", kKiB},
    {"MiB", "mib", kMiB}, {"GiB", "gib", kGiB}, {"TiB", "tib", kGiB* kKiB}};

// The most one stage may hold. The sum over ranks and micro-batches has to stay in 64 bits too,
// which whoever multiplies checks.
constexpr double kMostBytes = 9e15;

enum class Quantity { time, size };

std::span<const Unit> units_of(Quantity q) {
  return q == Quantity::time ? std::span<const Unit>(kTimeUnits)
                             : std::span<const Unit>(kSizeUnits);
}

std::string words_of(Quantity q) {
  std::vector<std::string> out;
  for (const Unit& u : units_of(q)) out.emplace_back(u.word);
  return list_of(out);
}

const Unit* unit_called(Quantity q, std::string_view word) {
  for (const Unit& u : units_of(q)) {
    if (u.word == word) return &u;
  }
  return nullptr;
}

// A number and what follows it.
struct Worded {
  double number = 0;
  std::string_view rest;
};

std::optional<Worded> worded(std::string_view word) {
  Worded out;
  const char* end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, out.number);
  if (error == std::errc::result_out_of_range) out.number = HUGE_VAL;
  if (error != std::errc() && error != std::errc::result_out_of_range) return std::nullopt;
  out.rest = {at, static_cast<std::size_t>(end - at)};
  while (!out.rest.empty() && out.rest.front() == ' ') out.rest.remove_prefix(1);
  return out;
}

std::optional<double> quantity_of(Quantity q, std::string_view word) {
  const std::optional<Worded> w = worded(word);
  if (!w) return std::nullopt;
  const Unit* unit = unit_called(q, w->rest);
  if (unit == nullptr || !std::isfinite(w->number) || w->number < 0) return std::nullopt;
  return w->number * unit->scale;
}

enum Key : std::size_t {
  kForward,
  kBackward,
  kInputGradient,
  kWeightGradient,
  kSend,
  kSendForward,
  kSendBackward,
  kHeld,
  kKept,
  kKeys
};

struct KeyName {
  std::string_view word;
  Quantity quantity = Quantity::time;
};
constexpr std::array<KeyName, kKeys> kNames{{{"forward"},
                                             {"backward"},
                                             {"input_gradient"},
                                             {"weight_gradient"},
                                             {"send"},
                                             {"send_forward"},
                                             {"send_backward"},
                                             {"held", Quantity::size},
                                             {"kept", Quantity::size}}};

// What "forward_ms" says: the key and the unit in it, if there is one.
struct Said {
  Key key = kKeys;
  const Unit* unit = nullptr;
};

Said said_by(std::string_view word) {
  for (std::size_t k = 0; k < kKeys; ++k) {
    const KeyName& name = kNames[k];
    if (word.substr(0, name.word.size()) != name.word) continue;
    const std::string_view rest = word.substr(name.word.size());
    if (rest.empty()) return {static_cast<Key>(k), nullptr};
    for (const Unit& u : units_of(name.quantity)) {
      if (rest.size() > 1 && rest[0] == '_' && rest.substr(1) == u.suffix) {
        return {static_cast<Key>(k), &u};
      }
    }
  }
  return {};
}

struct Units {
  const Unit* time = nullptr;
  const Unit* size = nullptr;
};

class Decoder {
 public:
  explicit Decoder(Diagnostics& faults) : faults_(faults) {}

  // An unknown column of a CSV is one fault, not one a row.
  bool is_new_place(const Location& where) {
    return places_.insert({where.line, where.column}).second;
  }

  void fail(const Location& where, const std::string& path, std::string message, std::string cure) {
    faults_.push_back({where, std::move(message), std::move(cure), path});
  }

  // The value of one key in seconds or bytes, or nothing after a fault.
  std::optional<double> value_of(const Node& node, const std::string& path, Quantity q,
                                 const Unit* in_key, const Units& declared) {
    const char* what = q == Quantity::time ? "a duration" : "a number of bytes";
    const std::string example = q == Quantity::time ? "12.1ms" : "1.5GiB";
    if (!node.is_scalar()) {
      Diagnostic d = node.mismatch(path, std::string(what) + " such as " + example);
      d.field = path;
      faults_.push_back(std::move(d));
      return std::nullopt;
    }
    const std::string& word = node.raw();
    std::optional<Worded> w = worded(word);
    if (const auto lenient = text::double_of(word); !node.is_quoted() && lenient) {
      w = Worded{*lenient, {}};  // 1_000 and +0.5 as YAML has them
    }
    if (word == ".nan" || word == ".NaN" || word == ".NAN") w = Worded{NAN, {}};
    if (word == ".inf" || word == ".Inf" || word == ".INF" || word == "+.inf") {
      w = Worded{HUGE_VAL, {}};
    }
    if (word == "-.inf" || word == "-.Inf") w = Worded{-HUGE_VAL, {}};
    if (!w) {
      fail(node.where(), path,
           "`" + path + "` is " + node.describe() + ", which is no " + (what + 2),
           "write a number and a unit, such as " + example);
      return std::nullopt;
    }
    const Unit* unit = in_key;
    if (!w->rest.empty()) {
      const Unit* at_value = unit_called(q, w->rest);
      if (at_value == nullptr) {
        fail(node.where(), path, "`" + path + "` has the unit `" + std::string(w->rest) + "`",
             "known: " + words_of(q));
        return std::nullopt;
      }
      if (unit != nullptr && unit != at_value) {
        fail(node.where(), path,
             "`" + path + "` is in " + std::string(unit->word) + ", but its value says " +
                 std::string(at_value->word),
             "leave one of the two out");
        return std::nullopt;
      }
      unit = at_value;
    }
    if (unit == nullptr) unit = q == Quantity::time ? declared.time : declared.size;
    if (unit == nullptr) {
      fail(node.where(), path, "`" + path + "` is `" + word + "`, without a unit",
           "write it, such as `" + example + "`, or put it into the key, such as `" +
               (q == Quantity::time ? "forward_ms" : "held_gib") + "`");
      return std::nullopt;
    }
    const double value = w->number * unit->scale;
    const double most = q == Quantity::time ? kLongestSeconds : kMostBytes;
    if (!std::isfinite(w->number) || value < 0) {
      fail(node.where(), path, "`" + path + "` is `" + word + "`",
           "it must be a finite number, 0 or more");
      return std::nullopt;
    }
    if (value > most) {
      fail(node.where(), path, "`" + path + "` is `" + word + "`, beyond what can be counted",
           q == Quantity::time ? "a stage may take 1e6 s at most"
                               : "a stage may hold 9e15 B at most");
      return std::nullopt;
    }
    return value;
  }

  const Unit* declared(const Node& root, const char* key, Quantity q) {
    const Node* node = root.find(key);
    if (node == nullptr || node->is_null()) return nullptr;
    const Unit* unit = node->is_scalar() ? unit_called(q, node->raw()) : nullptr;
    if (unit == nullptr) {
      fail(node->where(), key, "`" + std::string(key) + "` is " + node->describe(),
           "it is one of " + words_of(q));
    }
    return unit;
  }

  // A whole number of 0 or more: `rank`, `chunk`, `stage`.
  int index_of(const Node& node, const std::string& path) {
    const auto value =
        node.is_scalar() ? node.as_int64(path) : fault(node.mismatch(path, "a whole number"));
    if (!value) {
      for (Diagnostic d : value.error()) {
        d.field = path;
        faults_.push_back(std::move(d));
      }
      return -1;
    }
    if (*value < 0 || *value >= kMostStages) {
      fail(node.where(), path, "`" + path + "` is " + node.raw(),
           "it counts from 0 and is below " + std::to_string(kMostStages));
      return -1;
    }
    return static_cast<int>(*value);
  }

  static constexpr std::int64_t kMostStages = 65536;

 private:
  Diagnostics& faults_;
  std::set<std::pair<int, int>> places_;
};

struct Entry {
  StageTimes times;
  std::array<bool, kKeys> has{};
  Location where;
  std::string path;
  int rank = -1;
  int chunk = -1;
  int stage = -1;
  bool placed = true;  // rank, chunk and stage are numbers
};

std::vector<std::string> known_keys() {
  std::vector<std::string> out;
  for (const KeyName& n : kNames) out.emplace_back(n.word);
  for (const char* word : {"stage", "rank", "chunk"}) out.emplace_back(word);
  return out;
}

void unknown_key(Decoder& decoder, const text::Entry& entry, const std::string& path) {
  if (!decoder.is_new_place(entry.key_location())) return;
  std::vector<std::string> known = known_keys();
  const std::size_t plain = known.size();
  for (std::size_t k = 0; k < kKeys; ++k) {
    for (const Unit& u : units_of(kNames[k].quantity)) {
      known.push_back(std::string(kNames[k].word) + "_" + std::string(u.suffix));
    }
  }
  const std::string near = nearest_name(entry.key, known);
  known.resize(plain);
  decoder.fail(entry.key_location(), path, "unknown key `" + path + "`",
               near.empty() ? "known here: " + list_of(known) + ", each with a unit"
                            : "did you mean `" + near + "`?");
}

Entry decode_entry(Decoder& decoder, const Node& node, const std::string& path,
                   const Units& declared) {
  Entry out;
  out.where = node.where();
  out.path = path;
  if (!node.is_mapping()) {
    decoder.fail(node.where(), path, "`" + path + "` is " + node.describe(),
                 "a stage is a mapping such as {forward: 10ms, backward: 20ms}");
    out.placed = false;
    return out;
  }
  std::array<double, kKeys> values{};
  for (const text::Entry& entry : node.entries()) {
    const std::string key_path = text::join_path(path, entry.key);
    if (entry.key == "rank" || entry.key == "chunk" || entry.key == "stage") {
      int& to = entry.key == "rank" ? out.rank : entry.key == "chunk" ? out.chunk : out.stage;
      to = decoder.index_of(entry.value, key_path);
      out.placed = out.placed && to >= 0;
      continue;
    }
    const Said said = said_by(entry.key);
    if (said.key == kKeys) {
      unknown_key(decoder, entry, key_path);
      continue;
    }
    if (entry.value.is_null()) continue;
    if (out.has[said.key]) {
      decoder.fail(entry.key_location(), key_path,
                   "`" + std::string(kNames[said.key].word) + "` is given twice",
                   "leave one of the two out");
      continue;
    }
    out.has[said.key] = true;
    const auto value =
        decoder.value_of(entry.value, key_path, kNames[said.key].quantity, said.unit, declared);
    values[said.key] = value.value_or(0);
  }
  const auto need = [&](Key key, const char* cure) {
    decoder.fail(node.where(), path,
                 "`" + path + "` has no `" + std::string(kNames[key].word) + "`", cure);
  };
  if (!out.has[kForward]) need(kForward, "add it");
  if (out.has[kInputGradient] != out.has[kWeightGradient]) {
    need(out.has[kInputGradient] ? kWeightGradient : kInputGradient,
         "a split backward has both halves");
  } else if (!out.has[kBackward] && !out.has[kInputGradient]) {
    need(kBackward, "add it, or input_gradient and weight_gradient");
  }
  if (out.has[kSend] && (out.has[kSendForward] || out.has[kSendBackward])) {
    decoder.fail(node.where(), path, "`" + path + "` has `send` and one direction of it as well",
                 "say send, or send_forward and send_backward");
  }
  const auto time = [&](Key key) { return to_picoseconds(Seconds{values[key]}); };
  const auto size = [&](Key key) { return static_cast<std::int64_t>(std::llround(values[key])); };
  StageTimes& t = out.times;
  t.forward = time(kForward);
  t.input_gradient = time(kInputGradient);
  t.weight_gradient = time(kWeightGradient);
  t.backward = out.has[kBackward] ? time(kBackward) : t.input_gradient + t.weight_gradient;
  t.send_forward = time(out.has[kSend] ? kSend : kSendForward);
  t.send_backward = time(out.has[kSend] ? kSend : kSendBackward);
  t.held = size(kHeld);
  t.kept = out.has[kKept] ? size(kKept) : t.held;
  return out;
}

// Where each entry stands in the model; false after a fault: two stand in one place, a place is
// empty, or `placement` (the file's, or null) is of ranks and there are none.
bool place_entries(Decoder& decoder, std::vector<Entry>& entries, const Node* placement,
                   Times& out) {
  const bool vee = placement != nullptr && placement->is_scalar() && placement->raw() == "vee";
  const bool ranked = entries[0].rank >= 0 || entries[0].chunk >= 0;
  const bool staged = entries[0].stage >= 0;
  int ranks = 0;
  int chunks = 0;
  bool good = true;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Entry& e = entries[i];
    if (!e.placed) return false;
    if (ranked && e.rank < 0 && e.chunk >= 0) {
      decoder.fail(e.where, e.path, "`" + e.path + "` has a chunk and no rank", "add `rank`");
      good = false;
      continue;
    }
    if ((e.rank >= 0 || e.chunk >= 0) != ranked || (ranked && e.stage >= 0)) {
      decoder.fail(e.where, e.path, "some entries are told by rank and chunk, others are not",
                   "give rank and chunk to all of them, or to none");
      good = false;
      continue;
    }
    ranks = std::max(ranks, e.rank + 1);
    chunks = std::max(chunks, std::max(e.chunk, 0) + 1);
    if (!ranked && (e.stage >= 0) != staged) {
      decoder.fail(e.where, e.path, "some entries have a `stage`, others have none",
                   "give it to all of them, or to none");
      good = false;
      continue;
    }
    if (!ranked && e.stage < 0) e.stage = static_cast<int>(i);
  }
  if (!ranked && placement != nullptr) {
    decoder.fail(placement->where(), "placement",
                 "`placement` says nothing here: no entry has a rank",
                 "give `rank` and `chunk` to all entries, or leave it out");
    good = false;
  }
  if (!good) return false;
  if (ranked) {
    out.ranks = ranks;
    if (vee && chunks > 2) {
      decoder.fail(entries[0].where, "placement",
                   "a vee has two chunks a rank, the file has " + std::to_string(chunks),
                   "leave `placement` out");
      return false;
    }
    for (Entry& e : entries) {
      const int chunk = std::max(e.chunk, 0);
      e.stage = vee && chunk == 1 ? 2 * ranks - 1 - e.rank : chunk * ranks + e.rank;
    }
  }
  const std::size_t places =
      ranked ? static_cast<std::size_t>(ranks) * static_cast<std::size_t>(chunks) : entries.size();
  std::set<int> seen;
  for (const Entry& e : entries) {
    if (!seen.insert(e.stage).second) {
      decoder.fail(e.where, e.path,
                   ranked ? "rank " + std::to_string(e.rank) + ", chunk " +
                                std::to_string(std::max(e.chunk, 0)) + " is given twice"
                          : "stage " + std::to_string(e.stage) + " is given twice",
                   "leave one of the two out");
      good = false;
    } else if (static_cast<std::size_t>(e.stage) >= places) {
      decoder.fail(e.where, e.path,
                   "stage " + std::to_string(e.stage) + " of " + std::to_string(places) + " stages",
                   "stages count from 0 without gaps");
      good = false;
    }
  }
  if (good && entries.size() < places) {
    std::string missing;
    std::size_t named = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int rank = 0; rank < ranks; ++rank) {
        const int stage = vee && chunk == 1 ? 2 * ranks - 1 - rank : chunk * ranks + rank;
        if (seen.count(stage) > 0 || ++named > 8) continue;
        missing += (missing.empty() ? "" : ", ") + std::string("rank ") + std::to_string(rank) +
                   " chunk " + std::to_string(chunk);
      }
    }
    if (named > 8) missing += " and " + std::to_string(named - 8) + " more";
    decoder.fail(entries[0].where, "stages",
                 std::to_string(places - entries.size()) + " of " + std::to_string(places) +
                     " entries are missing: " + missing,
                 "every rank has as many chunks as every other");
    good = false;
  }
  if (!good) return false;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.stage < b.stage; });
  return true;
}

// Where any stage states a transfer, each states both of its own: the last in the model has none to
// the one after it, the first none to the one before.
void check_sends(Decoder& decoder, const std::vector<Entry>& entries) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& e = entries[i];
    const auto need = [&](Key key, const char* whither) {
      if (e.has[kSend] || e.has[key]) return;
      decoder.fail(e.where, e.path,
                   "`" + e.path + "` has no `" + std::string(kNames[key].word) +
                       "`, other transfers are stated",
                   std::string("say `send`, or what goes to the stage ") + whither +
                       " it; 0s where it takes no time");
    };
    if (i + 1 < entries.size()) need(kSendForward, "after");
    if (i > 0) need(kSendBackward, "before");
  }
}

// True when all have `key`; a fault at each that lacks what others have.
bool all_have(Decoder& decoder, const std::vector<Entry>& entries, Key key) {
  const auto has = [&](const Entry& e) { return e.has[key]; };
  if (std::none_of(entries.begin(), entries.end(), has)) return false;
  for (const Entry& e : entries) {
    if (has(e)) continue;
    decoder.fail(e.where, e.path,
                 "`" + e.path + "` has no `" + std::string(kNames[key].word) + "`, others have",
                 "give it to all of them, or to none");
  }
  return true;
}

}  // namespace

std::optional<Seconds> duration_of(std::string_view word) {
  const auto value = quantity_of(Quantity::time, word);
  if (!value || *value > kLongestSeconds) return std::nullopt;
  return Seconds{*value};
}

std::optional<Bytes> size_of(std::string_view word) {
  const auto value = quantity_of(Quantity::size, word);
  if (!value || *value > kMostBytes) return std::nullopt;
  return Bytes{*value};
}

Result<Times> decode_times(const Node& root) {
  Diagnostics faults;
  Decoder decoder(faults);
  Units declared;
  const Node* placement = nullptr;
  const Node* list = &root;
  if (root.is_mapping()) {
    for (const text::Entry& entry : root.entries()) {
      const std::vector<std::string> known{"time_unit", "memory_unit", "placement", "stages"};
      if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
      decoder.fail(entry.key_location(), entry.key, "unknown key `" + entry.key + "`",
                   suggestion(entry.key, known));
    }
    declared.time = decoder.declared(root, "time_unit", Quantity::time);
    declared.size = decoder.declared(root, "memory_unit", Quantity::size);
    placement = root.find("placement");
    if (placement != nullptr) {
      const std::string_view word =
          placement->is_scalar() ? std::string_view(placement->raw()) : "";
      if (word != "vee" && word != "looped") {
        decoder.fail(placement->where(), "placement", "`placement` is " + placement->describe(),
                     "it is looped or vee");
      }
    }
    list = root.find("stages");
  }
  if (list == nullptr || !list->is_sequence() || list->items().empty()) {
    decoder.fail(list == nullptr ? root.where() : list->where(), "stages",
                 list == nullptr       ? "`stages` is missing"
                 : list->is_sequence() ? "there are no stages"
                                       : "`stages` is " + list->describe(),
                 "list one entry for each stage, such as {forward: 10ms, backward: 20ms}");
    return eratos::faults(std::move(faults));
  }
  if (list->items().size() > static_cast<std::size_t>(Decoder::kMostStages)) {
    decoder.fail(list->where(), "stages",
                 std::to_string(list->items().size()) + " stages are more than can be read",
                 "at most " + std::to_string(Decoder::kMostStages));
    return eratos::faults(std::move(faults));
  }
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < list->items().size(); ++i) {
    entries.push_back(
        decode_entry(decoder, list->items()[i], text::join_path("stages", i), declared));
  }
  Times out;
  out.split = all_have(decoder, entries, kInputGradient);
  out.bytes = all_have(decoder, entries, kHeld);
  out.kept = all_have(decoder, entries, kKept);
  if (out.kept && !out.bytes) {
    decoder.fail(entries[0].where, "stages", "stages have `kept` and no `held`",
                 "say both, or neither");
  }
  out.sends = std::any_of(entries.begin(), entries.end(), [](const Entry& e) {
    return e.has[kSend] || e.has[kSendForward] || e.has[kSendBackward];
  });
  const bool placed = place_entries(decoder, entries, placement, out);
  if (out.sends && placed) check_sends(decoder, entries);
  if (!faults.empty()) return eratos::faults(std::move(faults));
  for (const Entry& e : entries) out.stages.push_back(e.times);
  return out;
}

namespace {

// Byte column, from 1, of field `wanted` of the line that begins at `at`.
int csv_column(std::string_view content, std::size_t at, std::size_t wanted) {
  const std::size_t begin = at;
  bool quoted = false;
  for (std::size_t field = 0; field < wanted && at < content.size(); ++at) {
    if (content[at] == '"') quoted = !quoted;
    if (content[at] == ',' && !quoted) ++field;
  }
  return static_cast<int>(at - begin) + 1;
}

// Rows as the list of mappings that YAML would give.
Result<Node> csv_tree(std::string_view content, const std::string& path) {
  Result<text::CsvTable> table = text::parse_csv(content, path);
  if (!table) return faults(std::move(table.error()));
  std::vector<std::size_t> starts{0};  // of each line
  for (std::size_t i = 0; i < content.size(); ++i) {
    if (content[i] == '\n') starts.push_back(i + 1);
  }
  const auto file = std::make_shared<const std::string>(path);
  const auto place = [&](int line, std::size_t column) {
    const std::size_t start = starts[static_cast<std::size_t>(line) - 1];
    return text::Place{file, line, csv_column(content, start, column)};
  };
  Node rows = Node::sequence({}, text::Place{file, 1, 1});
  for (std::size_t r = 0; r < table->rows(); ++r) {
    const int line = table->line(r);
    Node row = Node::mapping(text::Place{file, line, 1});
    for (std::size_t c = 0; c < table->columns(); ++c) {
      std::string_view cell = table->cell(r, c);
      while (!cell.empty() && cell.front() == ' ') cell.remove_prefix(1);
      while (!cell.empty() && cell.back() == ' ') cell.remove_suffix(1);
      Node value = cell.empty() ? Node::null(place(line, c))
                                : Node::plain(std::string(cell), place(line, c));
      row.set(table->header()[c], std::move(value), place(1, c));
    }
    rows.append(std::move(row));
  }
  return rows;
}

bool ends_in(std::string_view path, std::string_view end) {
  return path.size() >= end.size() && path.substr(path.size() - end.size()) == end;
}

}  // namespace

Result<Times> read_times(const std::string& path) {
  if (ends_in(path, ".csv")) {
    const Result<std::string> content = text::read_file(path);
    if (!content) return faults(content.error());
    const Result<Node> rows = csv_tree(*content, path);
    if (!rows) return faults(rows.error());
    return decode_times(*rows);
  }
  const Result<Node> root = text::parse_config_file(path);
  if (!root) return faults(root.error());
  return decode_times(*root);
}

}  // namespace eratos::reader
