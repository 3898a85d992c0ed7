#include "eratos/agent/records.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "eratos/text/dump.h"
#include "eratos/text/file.h"
#include "eratos/text/json.h"
#include "eratos/text/limits.h"

namespace eratos::agent {

namespace {

namespace fs = std::filesystem;
using text::Node;

constexpr std::string_view kFiles[] = {"run.json", "trials.jsonl", "notes.jsonl", "paid.jsonl",
                                       "prior.json"};

Diagnostic cannot(const std::string& path, const char* what) {
  return {.where = {.file = path},
          .message = std::string(what) + ": " + std::strerror(errno),
          .cure = "name another folder, or make room and --resume"};
}

Node figure_node(const Figure& f) {
  Node out = Node::sequence();
  for (const double x : {f.value, f.low, f.high}) out.append(Node::number(x));
  return out;
}

Node words_node(const std::vector<std::string>& words) {
  Node out = Node::sequence();
  for (const std::string& w : words) out.append(Node::string(w));
  return out;
}

// Reads what node_of() wrote; anything else is a damaged file.
class Reader {
 public:
  explicit Reader(const Node& root) : root_(root) {}

  double number(std::string_view key, const Node* in = nullptr) {
    const Node* at = find(key, in);
    const bool unknown = at == nullptr || at->is_null();
    const Result<double> value = unknown ? Result<double>(0.0) : at->as_double(key);
    if (!value) ok_ = false;
    return value.value_or(0);
  }
  std::string word(std::string_view key) {
    const Node* at = find(key, nullptr);
    return at == nullptr ? std::string() : at->raw();
  }
  std::vector<std::string> words(std::string_view key) {
    std::vector<std::string> out;
    const Node* at = find(key, nullptr);
    if (at == nullptr) return out;
    for (const Node& item : at->items()) out.push_back(item.raw());
    return out;
  }
  Figure figure(std::string_view key, const Node& in) {
    const Node* at = find(key, &in);
    if (at == nullptr || at->size() != 3) {
      ok_ = false;
      return {};
    }
    const auto one = [&](std::size_t i) { return at->items()[i].as_double(key).value_or(0); };
    return {one(0), one(1), one(2)};
  }
  const Node* find(std::string_view key, const Node* in) {
    const Node* at = (in == nullptr ? root_ : *in).find(key);
    if (at == nullptr) ok_ = false;
    return at;
  }
  void fail() { ok_ = false; }
  bool ok() const { return ok_; }

 private:
  const Node& root_;
  bool ok_ = true;
};

template <typename Word, std::size_t N>
bool from_word(std::string_view word, Word& out) {
  for (std::size_t i = 0; i < N; ++i) {
    if (name_of(static_cast<Word>(i)) != word) continue;
    out = static_cast<Word>(i);
    return true;
  }
  return false;
}

Diagnostic damaged(const Node& node) {
  return {.where = node.where(), .message = "this is no record of a tuning run"};
}

}  // namespace

Node node_of(const Measured& m) {
  Node out = Node::mapping();
  const auto figure = [](double x) { return x > 0 ? Node::number(x) : Node::null(); };
  out.set("out_of_memory", Node::boolean(m.out_of_memory));
  out.set("step_s", figure(m.step_s));
  out.set("tokens_per_s_per_gpu", figure(m.tokens_per_s_per_gpu));
  out.set("device_peak_bytes", figure(m.device_peak_bytes));
  out.set("cost_s", figure(m.cost_s));
  out.set("source", Node::string(m.source));
  return out;
}

Result<Measured> measured_of(const Node& node) {
  Reader in(node);
  Measured out;
  const Node* oom = in.find("out_of_memory", nullptr);
  out.out_of_memory = oom != nullptr && oom->as_bool().value_or(false);
  out.step_s = in.number("step_s");
  out.tokens_per_s_per_gpu = in.number("tokens_per_s_per_gpu");
  out.device_peak_bytes = in.number("device_peak_bytes");
  out.cost_s = in.number("cost_s");
  out.source = in.word("source");
  if (!in.ok()) return fault(damaged(node));
  return out;
}

Node node_of(const Trial& t) {
  Node out = Node::mapping();
  out.set("trial", Node::integer(t.number));
  out.set("asked", Node::string(std::string(name_of(t.asked))));
  out.set("fidelity", Node::string(std::string(name_of(t.fidelity))));
  out.set("stage", Node::string(t.stage));
  out.set("patch", words_node(t.patch));
  out.set("digest", Node::string(t.digest));
  out.set("verdict", Node::string(std::string(name_of(t.verdict))));
  out.set("why", words_node(t.why));
  Node projected = Node::mapping();
  projected.set("step_s", figure_node(t.projected.step_s));
  projected.set("tokens_per_s_per_gpu", figure_node(t.projected.tokens_per_s_per_gpu));
  projected.set("device_peak_bytes", figure_node(t.projected.device_peak_bytes));
  projected.set("mfu", Node::number(t.projected.mfu));
  Node losses = Node::mapping();
  for (const auto& [what, share] : t.projected.losses) losses.set(what, Node::number(share));
  projected.set("losses", std::move(losses));
  out.set("projected", std::move(projected));
  out.set("measured", t.measured ? node_of(*t.measured) : Node::null());
  out.set("provenance", Node::string(t.provenance));
  out.set("reason", Node::string(t.reason));
  return out;
}

Result<Trial> trial_of(const Node& node) {
  Reader in(node);
  Trial t;
  t.number = static_cast<int>(in.number("trial"));
  if (!from_word<Fidelity, kFidelities>(in.word("asked"), t.asked)) in.fail();
  if (!from_word<Fidelity, kFidelities>(in.word("fidelity"), t.fidelity)) in.fail();
  t.stage = in.word("stage");
  t.patch = in.words("patch");
  t.digest = in.word("digest");
  if (!from_word<Verdict, 5>(in.word("verdict"), t.verdict)) in.fail();
  t.why = in.words("why");
  if (const Node* p = in.find("projected", nullptr)) {
    t.projected.step_s = in.figure("step_s", *p);
    t.projected.tokens_per_s_per_gpu = in.figure("tokens_per_s_per_gpu", *p);
    t.projected.device_peak_bytes = in.figure("device_peak_bytes", *p);
    t.projected.mfu = in.number("mfu", p);
    if (const Node* losses = in.find("losses", p)) {
      for (const text::Entry& e : losses->entries()) {
        t.projected.losses.emplace_back(e.key, e.value.as_double().value_or(0));
      }
    }
  }
  if (const Node* m = in.find("measured", nullptr); m != nullptr && !m->is_null()) {
    Result<Measured> measured = measured_of(*m);
    if (!measured) return faults(measured.error());
    t.measured = *std::move(measured);
  }
  t.provenance = in.word("provenance");
  t.reason = in.word("reason");
  if (!in.ok()) return fault(damaged(node));
  return t;
}

Journal::~Journal() {
  if (file_ >= 0) ::close(file_);
}

Result<std::vector<std::string>> Journal::open(const std::string& path) {
  path_ = path;
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) return fault(cannot(path, "cannot be opened"));
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    return fault({.where = {.file = path},
                  .message = "another process writes there",
                  .cure = "wait for it, or name another folder"});
  }
  std::string all;
  char part[65536];
  for (;;) {
    const ssize_t n = ::read(file_, part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fault(cannot(path, "cannot be read"));
    if (n == 0) break;
    all.append(part, static_cast<std::size_t>(n));
  }
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = all.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(all.substr(begin, end - begin));
    ends_.push_back(end + 1);
  }
  if (const Result<void> cut = keep(lines.size()); !cut) return faults(cut.error());
  return lines;
}

Result<void> Journal::keep(std::size_t lines) {
  ends_.resize(lines);
  const std::size_t end = ends_.empty() ? 0 : ends_.back();
  if (::ftruncate(file_, static_cast<off_t>(end)) != 0)
    return fault(cannot(path_, "cannot be cut"));
  if (::lseek(file_, 0, SEEK_END) < 0) return fault(cannot(path_, "cannot be read"));
  return {};
}

Result<void> Journal::append(const std::string& line) {
  const std::string whole = line + '\n';
  std::size_t done = 0;
  while (done < whole.size()) {
    const ssize_t n = ::write(file_, whole.data() + done, whole.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fault(cannot(path_, "cannot be written"));
    done += static_cast<std::size_t>(n);
  }
  if (::fdatasync(file_) != 0) return fault(cannot(path_, "cannot be flushed"));
  ends_.push_back((ends_.empty() ? 0 : ends_.back()) + whole.size());
  return {};
}

bool holds_run(const std::string& folder) {
  std::error_code failed;
  return std::any_of(std::begin(kFiles), std::end(kFiles), [&](std::string_view name) {
    return fs::exists(fs::path(folder) / name, failed);
  });
}

Result<void> Records::open(const std::string& folder, Folder how, const Node& asked) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!fs::is_directory(folder, failed)) {
    return fault({.where = {.file = folder},
                  .message = "is no folder and cannot be made one",
                  .cure = "name a folder that can be written"});
  }
  const fs::path at(folder);
  const std::string run = (at / "run.json").string();
  bool there = holds_run(folder);
  if (there && how == Folder::fresh) {
    return fault({.where = {.file = folder},
                  .message = "holds a tuning run already",
                  .cure = "--resume goes on with it, --force replaces it, or name another folder"});
  }
  if (how == Folder::force) {
    for (const std::string_view name : kFiles) fs::remove(at / name, failed);
    there = false;
  }
  if (there && fs::exists(run, failed)) {
    const Result<Node> before = text::parse_json_file(run);
    if (!before) return faults(before.error());
    if (!(*before == asked)) {
      std::string differs;
      for (const text::Entry& e : asked.entries()) {
        const Node* old = before->find(e.key);
        if (old != nullptr && *old == e.value) continue;
        differs += (differs.empty() ? "`" : ", `") + e.key + '`';
      }
      return fault({.where = {.file = run},
                    .message = "the run there was asked something else: " + differs,
                    .cure = "ask the same, or name another folder"});
    }
  }
  const auto lines_of = [&](Journal& journal, const char* name) {
    return journal.open((at / name).string());
  };
  const auto trials = lines_of(trials_, "trials.jsonl");
  if (!trials) return faults(trials.error());
  const auto notes = lines_of(notes_, "notes.jsonl");
  if (!notes) return faults(notes.error());
  const auto payments = lines_of(payments_, "paid.jsonl");
  if (!payments) return faults(payments.error());
  for (const std::string& line : *trials) {
    const Result<Node> node = text::parse_json(line, (at / "trials.jsonl").string());
    if (!node) return faults(node.error());
    Result<Trial> trial = trial_of(*node);
    if (!trial) return faults(trial.error());
    before_.push_back(*std::move(trial));
  }
  for (const std::string& line : *payments) {
    const std::string file = (at / "paid.jsonl").string();
    const Result<Node> node = text::parse_json(line, file);
    if (!node) return faults(node.error());
    const Node* digest = node->find("digest");
    const Node* fidelity = node->find("fidelity");
    const Node* measured = node->find("measured");
    if (digest == nullptr || fidelity == nullptr || measured == nullptr) {
      return fault(damaged(*node));
    }
    Result<Measured> m = measured_of(*measured);
    const std::optional<Fidelity> f = fidelity_of(fidelity->raw());
    if (!m || !f) return fault(damaged(*node));
    paid_[{digest->raw(), *f}] = *std::move(m);
  }
  old_notes_ = notes->size();
  folder_ = folder;
  return write("run.json", text::to_json(asked) + '\n');
}

const Trial* Records::before(int number) const {
  const auto at = static_cast<std::size_t>(number - 1);
  return number >= 1 && at < before_.size() ? &before_[at] : nullptr;
}

const Measured* Records::paid(const std::string& digest, Fidelity fidelity) const {
  const auto at = paid_.find({digest, fidelity});
  return at == paid_.end() ? nullptr : &at->second;
}

void Records::remember(const std::string& digest, const Measured& measured) {
  remembered_[digest] = measured;
}

const Measured* Records::remembered(const std::string& digest) const {
  const auto at = remembered_.find(digest);
  return at == remembered_.end() ? nullptr : &at->second;
}

void Records::take(const Result<void>& written) {
  if (!written && !trouble_) trouble_ = written.error().front();
}

void Records::pay(const std::string& digest, Fidelity fidelity, const Measured& measured) {
  paid_[{digest, fidelity}] = measured;
  if (folder_.empty() || trouble_) return;
  Node line = Node::mapping();
  line.set("digest", Node::string(digest));
  line.set("fidelity", Node::string(std::string(name_of(fidelity))));
  line.set("measured", node_of(measured));
  take(payments_.append(text::to_json(line, 0)));
}

void Records::add(const Trial& trial) {
  const Trial* old = before(trial.number);
  if (old != nullptr && *old == trial) return;
  if (old != nullptr) {  // the steps differ from here on
    before_.resize(static_cast<std::size_t>(trial.number - 1));
    if (!folder_.empty() && !trouble_) take(trials_.keep(before_.size()));
  }
  if (folder_.empty() || trouble_) return;
  take(trials_.append(text::to_json(node_of(trial), 0)));
}

void Records::add_note(int number, const std::string& text) {
  if (notes_seen_++ < old_notes_ || folder_.empty() || trouble_) return;
  Node line = Node::mapping();
  line.set("after_trial", Node::integer(number));
  line.set("note", Node::string(text));
  take(notes_.append(text::to_json(line, 0)));
}

Result<void> Records::write(const std::string& name, const std::string& text) {
  if (folder_.empty()) return {};
  return text::write_file((fs::path(folder_) / name).string(), text, text::Overwrite::yes);
}

}  // namespace eratos::agent
