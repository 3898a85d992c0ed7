#include "plan.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "faults.h"

namespace eratos::device {

namespace {

struct Kind {
  const char* name;
  std::vector<const char*> numbers;  // keys that must be there, as whole numbers
  std::vector<const char*> words;
  // Of two pieces that differ in this key alone, one run measures both; "" for none.
  const char* together;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"gemm", {"m", "n", "k"}, {"pass"}, ""},
      {"attention", {"batch", "seq_q", "seq_kv", "heads", "kv_heads", "head_dim"}, {"pass"}, ""},
      {"elementwise", {"bytes"}, {"what"}, ""},
      {"block", {"tokens", "hidden"}, {"what", "pass"}, "pass"},
      {"collective", {"ranks", "bytes"}, {"what"}, ""},
      {"memory", {"layers", "tokens", "hidden"}, {"phase"}, "phase"},
  };
  return all;
}

// Keys that hold whole numbers (`rows` a list of them); what any other key says is copied into the
// file and not read here.
bool is_number(const std::string& key) {
  static const std::set<std::string> numbers = {
      "m",           "n",          "k",        "groups",  "accumulate",   "experts",
      "rows",        "batch",      "seq_q",    "seq_kv",  "heads",        "kv_heads",
      "head_dim",    "v_head_dim", "causal",   "window",  "bytes",        "width",
      "tokens",      "sequence",   "hidden",   "ffn",     "top_k",        "gated",
      "vocab",       "layers",     "ranks",    "strided", "sinks",        "all_experts",
      "expert_rows", "shared_ffn", "qkv_bias", "qk_norm", "shard_tokens", "micro_batches"};
  return numbers.count(key) != 0;
}

// Shapes come as doubles from a projection: 4096, 4096.0 and 4.096e3 are one number. strtod, as
// older compilers lack std::from_chars of a double; nobody here sets a locale.
bool whole(const std::string& text, std::int64_t& out) {
  char* at = nullptr;
  const double value = std::strtod(text.c_str(), &at);
  if (text.empty() || *at != '\0' || !(std::abs(value) < 9e15)) return false;
  out = static_cast<std::int64_t>(value);
  return static_cast<double>(out) == value;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::string part;
  std::istringstream in(text);
  while (std::getline(in, part, at)) {
    if (!part.empty()) out.push_back(part);
  }
  return out;
}

// FNV-1a, 64 bits: tells two plans apart, and guards nothing.
// Source: RFC 9923, section 5 (offset basis and prime).
std::string digest_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  std::array<char, 17> out{};
  std::snprintf(out.data(), out.size(), "%016llx", static_cast<unsigned long long>(hash));
  return out.data();
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  Plan read() {
    std::ifstream in(path_);
    if (!in) throw Fault(kEnvironment, path_ + ": cannot be read");
    std::string line;
    std::string all;
    bool first = true;
    while (std::getline(in, line)) {
      ++line_;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line.empty() || line[0] == '#') continue;
      const std::vector<std::string> words = split(line, ' ');
      if (words.empty()) continue;
      if (first) {
        first = false;
        if (words.size() != 2 || words[0] != "eratos-plan" || words[1] != "1") {
          fault("this is no plan: its first line is not `eratos-plan 1`");
          break;
        }
      } else if (words[0] == "job") {
        plan_.job = words.size() > 1 ? words[1] : "";
        plan_.job_digest = words.size() > 2 ? words[2] : "";
      } else if (words[0] == "piece") {
        piece(words);
        all += line + '\n';
      } else {
        fault("`" + words[0] + "` is neither `job` nor `piece`");
      }
    }
    if (first) fault("this is no plan: it is empty");
    if (faults_.empty() && plan_.pieces.empty()) fault("the plan has no piece");
    if (!faults_.empty()) throw Fault(kBadInput, faults_);
    plan_.digest = digest_of(all);
    group();
    return std::move(plan_);
  }

 private:
  void fault(const std::string& message) {
    if (!faults_.empty()) faults_ += '\n';
    faults_ += path_ + ':' + std::to_string(line_) + ":1: error: " + message;
  }

  void piece(const std::vector<std::string>& words) {
    Piece out;
    out.line = line_;
    out.kind = words.size() > 1 ? words[1] : "";
    const Kind* kind = nullptr;
    for (const Kind& k : kinds()) {
      if (out.kind == k.name) kind = &k;
    }
    if (kind == nullptr) return fault("unknown kind of piece `" + out.kind + "`");
    for (std::size_t i = 2; i < words.size(); ++i) {
      const std::size_t equals = words[i].find('=');
      if (equals == std::string::npos || equals == 0) {
        fault("`" + words[i] + "` is no KEY=VALUE");
        continue;
      }
      const std::string key = words[i].substr(0, equals);
      if (out.has(key)) fault("`" + key + "` is given twice");
      out.fields.emplace_back(key, words[i].substr(equals + 1));
    }
    out.id = out.text("id");
    if (out.id.empty()) fault("the piece has no `id`");
    for (const char* key : kind->numbers) {
      std::int64_t value = 0;
      if (!out.has(key)) {
        fault(out.kind + " `" + out.id + "` has no `" + key + "`");
      } else if (whole(out.text(key), value) && value < 1) {
        fault("`" + std::string(key) + "=" + out.text(key) + "` is no whole number of 1 or more");
      }
    }
    for (const char* key : kind->words) {
      if (out.text(key).empty()) fault(out.kind + " `" + out.id + "` has no `" + key + "`");
    }
    for (const auto& [key, value] : out.fields) {
      if (!is_number(key)) continue;
      std::int64_t n = 0;
      for (const std::string& part : split(value, ',')) {
        if (!whole(part, n)) fault("`" + key + "=" + value + "` is no whole number");
      }
    }
    if (!ids_.insert(out.id).second) fault("a second piece with the id `" + out.id + "`");
    plan_.pieces.push_back(std::move(out));
  }

  void group() {
    std::map<std::string, std::size_t> known;
    for (std::size_t i = 0; i < plan_.pieces.size(); ++i) {
      const Piece& piece = plan_.pieces[i];
      std::string together;
      for (const Kind& k : kinds()) {
        if (piece.kind == k.name) together = k.together;
      }
      std::string key = piece.kind;
      for (const auto& [name, value] : piece.fields) {
        if (name == "id" || name == "count" || name == together) continue;
        key += ' ' + name + '=' + value;
      }
      const auto found = together.empty() ? known.end() : known.find(key);
      if (found != known.end()) {
        plan_.groups[found->second].push_back(i);
      } else {
        known[key] = plan_.groups.size();
        plan_.groups.push_back({i});
      }
    }
  }

  std::string path_;
  Plan plan_;
  std::string faults_;
  std::set<std::string> ids_;
  int line_ = 0;
};

}  // namespace

bool Piece::has(const std::string& key) const {
  for (const auto& field : fields) {
    if (field.first == key) return true;
  }
  return false;
}

std::string Piece::text(const std::string& key) const {
  for (const auto& field : fields) {
    if (field.first == key) return field.second;
  }
  return "";
}

std::int64_t Piece::number(const std::string& key, std::int64_t otherwise) const {
  std::int64_t out = otherwise;
  return whole(text(key), out) ? out : otherwise;
}

std::vector<std::int64_t> Piece::numbers(const std::string& key) const {
  std::vector<std::int64_t> out;
  for (const std::string& part : split(text(key), ',')) {
    std::int64_t n = 0;
    if (whole(part, n)) out.push_back(n);
  }
  return out;
}

Plan read_plan(const std::string& path) { return Reader(path).read(); }

}  // namespace eratos::device
