#include "eratos/reader/nccl_log.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/device_name.h"

namespace eratos::reader {

namespace {

constexpr double kMicro = 1e-6;
constexpr std::size_t kMostRanks = 65536;

struct Program {
  std::string_view name;  // before _perf
  std::optional<ops::CollectiveKind> kind;
};
// Source: NVIDIA/nccl-tests src/*.cu, one program a file.
constexpr Program kPrograms[] = {
    {"all_reduce", ops::CollectiveKind::all_reduce},
    {"all_gather", ops::CollectiveKind::all_gather},
    {"reduce_scatter", ops::CollectiveKind::reduce_scatter},
    {"alltoall", ops::CollectiveKind::all_to_all},
    {"alltoallv", std::nullopt},
    {"sendrecv", ops::CollectiveKind::send_recv},
    {"broadcast", std::nullopt},
    {"reduce", std::nullopt},
    {"gather", std::nullopt},
    {"scatter", std::nullopt},
    {"hypercube", std::nullopt},
};

const Program* program_called(std::string_view name) {
  for (const Program& p : kPrograms) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

bool is_name_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The program that a line names: NAME_perf as a word (a path before it, a suffix such as .log
// after).
const Program* program_in(std::string_view line) {
  constexpr std::string_view kSuffix = "_perf";
  for (std::size_t at = line.find(kSuffix); at != std::string_view::npos;
       at = line.find(kSuffix, at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && is_name_letter(line[begin - 1])) --begin;
    if (const Program* p = program_called(line.substr(begin, at - begin))) return p;
  }
  return nullptr;
}

// The longest program name that a file's name holds: all_gather-2x8.log.
const Program* program_of_file(std::string_view file) {
  const std::string_view name = file.substr(file.rfind('/') + 1);
  const Program* best = nullptr;
  for (const Program& p : kPrograms) {
    const std::size_t at = name.find(p.name);
    if (at == std::string_view::npos) continue;
    if (at > 0 && is_name_letter(name[at - 1]) && name[at - 1] != '_') continue;
    if (best == nullptr || p.name.size() > best->name.size()) best = &p;
  }
  return best;
}

// What launchers put in front of each line: "3: " of srun -l, "[1,3]<stdout>:" of mpirun.
std::string_view without_launcher(std::string_view line) {
  std::size_t at = 0;
  while (at < line.size() && line[at] == ' ') ++at;
  if (at < line.size() && line[at] == '[') {
    const std::size_t end = line.find("<std", at);
    const std::size_t colon = end == std::string_view::npos ? end : line.find(':', end);
    if (colon != std::string_view::npos && colon - at < 48) return line.substr(colon + 1);
    return line;
  }
  std::size_t digits = at;
  while (digits < line.size() && std::isdigit(static_cast<unsigned char>(line[digits])) != 0) {
    ++digits;
  }
  if (digits > at && digits + 1 < line.size() && line[digits] == ':' && line[digits + 1] == ' ') {
    return line.substr(digits + 2);
  }
  return line;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> out;
  std::size_t at = 0;
  while (at < line.size()) {
    while (at < line.size() && std::isspace(static_cast<unsigned char>(line[at])) != 0) ++at;
    const std::size_t begin = at;
    while (at < line.size() && std::isspace(static_cast<unsigned char>(line[at])) == 0) ++at;
    if (at > begin) out.push_back(line.substr(begin, at - begin));
  }
  return out;
}

std::optional<double> number_in(std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

bool is_whole(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

bool contains(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

// Number after `key` in a header line: "iters: 20".
std::optional<double> after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  const auto words = words_of(line.substr(at + key.size()));
  return words.empty() ? std::nullopt : number_in(words[0]);
}

// "#  Rank  0 Group  0 Pid 9211 on node001 device  0 [0x1b] NVIDIA H100 80GB HBM3"
struct RankLine {
  double rank = -1;
  std::string host;
  std::string device;
};
std::optional<RankLine> rank_line(std::string_view line) {
  const auto words = words_of(line);
  if (words.size() < 4 || words[0] != "#" || words[1] != "Rank") return std::nullopt;
  RankLine out;
  out.rank = number_in(words[2]).value_or(-1);
  for (std::size_t i = 3; i + 1 < words.size(); ++i) {
    if (words[i] == "on") out.host = words[i + 1];
  }
  const std::size_t bus = line.find('[');
  const std::size_t end = bus == std::string_view::npos ? bus : line.find(']', bus);
  if (end != std::string_view::npos) {
    std::string_view rest = line.substr(end + 1);
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.back())) != 0) {
      rest.remove_suffix(1);
    }
    out.device = std::string(rest);
  }
  if (out.rank < 0 || out.host.empty()) return std::nullopt;
  return out;
}

bool is_column_head(std::string_view line) {
  return contains(line, "algbw") && contains(line, "busbw");
}

// Reads a log from its first line to its last.
class Log {
 public:
  Log(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Result<std::vector<NcclTable>> read() {
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', at), text_.size());
      std::string_view line = text_.substr(at, end - at);
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      ++line_;
      read_line(without_launcher(line), end == text_.size());
      at = end + 1;
    }
    close();
    if (!bad_.empty()) return faults(std::move(bad_));
    if (tables_.empty()) {
      return fault({{file_, 0, 0},
                    "no table of nccl-tests or rccl-tests with a row in it",
                    "hand in what all_reduce_perf and its kin print, whole",
                    {}});
    }
    return std::move(tables_);
  }

 private:
  void fail(std::string message, std::string cure) {
    if (bad_.size() < 20)
      bad_.push_back({{file_, line_, 1}, std::move(message), std::move(cure), {}});
  }

  void read_line(std::string_view line, bool last) {
    if (const Program* p = program_in(line); p != nullptr && !contains(line, "concluded")) {
      named_ = p;
    }
    const std::size_t starting = line.find("Collective test starting:");
    if (starting != std::string_view::npos && named_ == nullptr) {
      const auto words = words_of(line.substr(starting + 25));
      if (!words.empty()) named_ = program_called(words[0]);
    }
    const auto words = words_of(line);
    if (words.empty()) return;
    if (words[0][0] == '#') return header(line);
    if (in_table_ && is_whole(words[0])) row(words, last);
  }

  void header(std::string_view line) {
    if (contains(line, "nThread") || contains(line, "minBytes")) {
      close();
      ranks_.clear();
      hosts_.clear();
      devices_.clear();
      iterations_ = static_cast<int>(after(line, " iters:").value_or(0));
      if (contains(line, "warmup iters:")) {
        // "warmup iters: 5 iters: 20": the second is the one that is timed.
        iterations_ = static_cast<int>(
            after(line.substr(line.find("warmup iters:") + 13), "iters:").value_or(0));
      }
      return;
    }
    if (const auto rank = rank_line(line)) {
      if (in_table_) close();
      if (ranks_.size() < kMostRanks) ranks_.insert(static_cast<int>(rank->rank));
      hosts_.insert(rank->host);
      if (!rank->device.empty()) devices_.insert(rank->device);
      return;
    }
    if (is_column_head(line)) {
      close();
      in_table_ = true;
      return;
    }
    const std::size_t bounds = line.find("Out of bounds values");
    if (bounds != std::string_view::npos && contains(line, "FAILED")) failed_ = true;
    if (bounds != std::string_view::npos || contains(line, "Avg bus bandwidth")) close();
  }

  // size count type [redop [root]] then four columns, once or twice.
  void row(const std::vector<std::string_view>& words, bool last) {
    std::size_t values = 3;
    if (words.size() > values && !number_in(words[values]) && words[values] != "N/A") ++values;
    std::size_t left = words.size() > values ? words.size() - values : 0;
    if (left == 5 || left == 9) {  // the root
      ++values;
      --left;
    }
    // All rows of a table are alike: a shorter one is where the log was cut off.
    if (table_.rows.empty()) columns_ = words.size();
    if (words.size() < 4 || !is_whole(words[1]) || (left != 4 && left != 8) ||
        words.size() != columns_) {
      fail(table_.rows.empty()
               ? fmt::format("a row of {} columns; 7, 8, 9, 11, 12 and 13 are known", words.size())
               : fmt::format("a row of {} columns in a table of {}", words.size(), columns_),
           last ? "the log ends in the middle of a line: remove that line or run it again"
                : "hand in the table as it was printed");
      return;
    }
    NcclRow out;
    out.line = line_;
    out.bytes = number_in(words[0]).value_or(0);
    out.type = std::string(words[2]);
    double* times[] = {&out.out_of_place_us, &out.in_place_us};
    for (std::size_t i = 0; i * 4 < left; ++i) {
      const std::string_view time = words[values + 4 * i];
      const std::string_view wrong = words[values + 4 * i + 3];
      if (time == "N/A") continue;
      const std::optional<double> us = number_in(time);
      if (!us || *us < 0) {
        fail(fmt::format("`{}` is no time in microseconds", time), "hand in the table as printed");
        return;
      }
      if (!wrong.empty() && is_whole(wrong) && wrong != "0") {
        table_.notes.push_back(fmt::format("line {}: {} wrong values, not used", line_, wrong));
        continue;
      }
      *times[i] = *us;
    }
    if (table_.rows.empty()) table_.line = line_;
    if (out.bytes > 0 && out.mean_us() > 0) table_.rows.push_back(std::move(out));
  }

  // The table ends: which collective, over whom?
  void close() {
    if (!in_table_) return;
    in_table_ = false;
    NcclTable done = std::move(table_);
    table_ = {};
    const bool failed = std::exchange(failed_, false);
    const Program* program = std::exchange(named_, nullptr);
    if (done.rows.empty()) return;
    if (program == nullptr) program = program_of_file(file_);
    if (program == nullptr) {
      bad_.push_back({{file_, done.line, 1},
                      "the log does not say which collective this is",
                      "name the file after its program: all_gather_perf.log",
                      {}});
      return;
    }
    done.program = std::string(program->name) + "_perf";
    if (program->kind) {
      done.kind = *program->kind;
    } else {
      done.skipped = done.program + ": a collective that is not modelled";
    }
    if (failed) done.skipped = done.program + ": its results were out of bounds";
    done.ranks = static_cast<int>(ranks_.size());
    done.hosts = static_cast<int>(hosts_.size());
    done.iterations = iterations_;
    if (done.ranks < 2) {
      bad_.push_back({{file_, done.line, 1},
                      done.ranks == 0 ? "the log does not say which ranks took part"
                                      : "one rank alone exchanges nothing",
                      done.ranks == 0 ? "keep its lines `#  Rank  0 ... on HOST device 0 ...`"
                                      : "run it on at least two accelerators",
                      {}});
      return;
    }
    if (done.ranks % done.hosts != 0) {
      bad_.push_back(
          {{file_, done.line, 1},
           fmt::format("{} ranks on {} hosts: not as many on each", done.ranks, done.hosts),
           "run it with as many ranks on every host",
           {}});
      return;
    }
    if (devices_.size() > 1) {
      bad_.push_back({{file_, done.line, 1},
                      fmt::format("ranks on different devices: {}", fmt::join(devices_, "; ")),
                      "run it on accelerators of one kind",
                      {}});
      return;
    }
    if (!devices_.empty()) done.device = *devices_.begin();
    tables_.push_back(std::move(done));
  }

  std::string_view text_;
  const std::string& file_;
  int line_ = 0;
  const Program* named_ = nullptr;
  bool in_table_ = false;
  std::size_t columns_ = 0;
  bool failed_ = false;
  int iterations_ = 0;
  std::set<int> ranks_;
  std::set<std::string> hosts_;
  std::set<std::string> devices_;
  NcclTable table_;
  std::vector<NcclTable> tables_;
  Diagnostics bad_;
};

}  // namespace

double NcclRow::mean_us() const {
  if (out_of_place_us > 0 && in_place_us > 0) return (out_of_place_us + in_place_us) / 2;
  return std::max(out_of_place_us, in_place_us);
}

bool is_nccl_log(std::string_view text) {
  // A log that was cut off before its table is one too.
  if (contains(text, "# nThread") && contains(text, "nGpus")) return true;
  const std::size_t at = text.find("algbw");
  if (at == std::string_view::npos) return false;
  const std::size_t begin = text.rfind('\n', at) + 1;
  const std::string_view line = without_launcher(text.substr(begin, text.find('\n', at) - begin));
  return is_column_head(line) && contains(line, "#");
}

Result<std::vector<NcclTable>> parse_nccl_log(std::string_view text, const std::string& file) {
  return Log(text, file).read();
}

Result<std::vector<Point>> points_of(const NcclTable& table, const std::string& file,
                                     const std::string& cluster) {
  const int per_host = table.ranks / table.hosts;
  hardware::ClusterSpec room;
  if (!cluster.empty()) {
    auto said = load_cluster(cluster);
    if (!said) return faults(said.error());
    room = *std::move(said);
    if (room.gpus() < table.ranks) {
      return fault(
          {{file, table.line, 1},
           fmt::format("{} ranks, but {} has {} accelerators", table.ranks, room.name, room.gpus()),
           "name the cluster that it ran on",
           {}});
    }
  } else {
    const std::string part = part_of_device(table.device);
    if (part.empty()) {
      return fault({{file, table.line, 1},
                    table.device.empty()
                        ? std::string("the log names no device")
                        : fmt::format("`{}` is no accelerator of the catalogue", table.device),
                    "say where it ran: --cluster PART-NxM",
                    {}});
    }
    auto derived = load_cluster(fmt::format("{}-{}x{}", part, table.hosts, per_host));
    if (!derived) return faults(derived.error());
    room = *std::move(derived);
  }
  std::vector<Point> out;
  for (const NcclRow& row : table.rows) {
    Point& point = out.emplace_back();
    point.table = PointTable::collective;
    point.file = file;
    point.line = row.line;
    point.source = file.substr(file.rfind('/') + 1) + " (" + table.program + ")";
    point.part = room.accelerator.name;
    point.group = fmt::format("{}: {}", room.name, ops::name_of(table.kind));
    point.skipped = table.skipped;
    projection::CollectivePoint work;
    work.kind = table.kind;
    work.bytes = Bytes{row.bytes};
    work.cluster = room;
    // Ranks of a host are neighbours; hosts lie a node apart.
    const int stride = table.hosts > 1 ? std::max(1, room.gpus_per_node / per_host) : 1;
    work.group = {table.ranks, stride};
    point.work = work;
    point.measured = Seconds{row.mean_us() * kMicro};
  }
  return out;
}

std::vector<calibration::MeasuredPiece> pieces_of(const NcclTable& table) {
  std::vector<calibration::MeasuredPiece> out;
  if (!table.skipped.empty()) return out;
  for (const NcclRow& row : table.rows) {
    calibration::MeasuredPiece& piece = out.emplace_back();
    piece.piece.dtype = DType::fp32;  // as a plan asks: bytes are bytes
    piece.piece.work =
        calibration::CollectivePiece{table.kind, static_cast<double>(table.ranks), row.bytes};
    for (const double us : {row.out_of_place_us, row.in_place_us}) {
      if (us > 0) piece.samples.push_back(us * kMicro);
    }
    calibration::summarise(piece.samples, piece);
  }
  return out;
}

}  // namespace eratos::reader
