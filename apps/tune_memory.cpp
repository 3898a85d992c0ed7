#include "apps/tune_memory.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "apps/exit_code.h"
#include "apps/output.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/store/model.h"
#include "eratos/text/dump.h"
#include "eratos/text/file.h"
#include "eratos/text/json.h"

namespace eratos::apps {

namespace {

using text::Node;

// A machine may have changed since: what is remembered is believed a little less.
constexpr double kForgotten = 0.3;  // of a knob's own deviation, added in squares

int code_of(const store::Trouble& t) {
  report_faults({t.what});
  switch (t.kind) {
    case store::Trouble::Kind::usage:
      return kUsage;
    case store::Trouble::Kind::bad_file:
      return kBadInput;
    case store::Trouble::Kind::environment:
      break;
  }
  return kEnvironment;
}

Node learned_node(const agent::Learned& l) {
  Node out = Node::mapping();
  Node knobs = Node::mapping();
  for (std::size_t k = 0; k < search::kKnobCount; ++k) {
    Node one = Node::sequence();
    one.append(Node::number(l.mean[k]));
    one.append(Node::number(l.sd[k]));
    knobs.set(search::kKnobs[k].name, std::move(one));
  }
  out.set("knobs", std::move(knobs));
  out.set("buffer_mean", Node::number(l.buffer_mean));
  out.set("buffer_sd", Node::number(l.buffer_sd));
  out.set("measurements", Node::integer(l.measurements));
  return out;
}

// A knob that this version does not have is left out, one that is new keeps its default.
agent::Learned learned_of(const Node& node) {
  agent::Learned out;
  const Node* knobs = node.find("knobs");
  const auto number = [](const Node* at) {
    return at == nullptr ? 0.0 : at->as_double().value_or(0);
  };
  for (std::size_t k = 0; k < search::kKnobCount && knobs != nullptr; ++k) {
    const Node* one = knobs->find(search::kKnobs[k].name);
    if (one == nullptr || one->size() != 2) continue;
    out.mean[k] = number(&one->items()[0]);
    const double forgotten = kForgotten * search::kKnobs[k].sd;
    out.sd[k] = std::sqrt(std::pow(number(&one->items()[1]), 2) + forgotten * forgotten);
  }
  out.buffer_mean = number(node.find("buffer_mean"));
  out.buffer_sd = number(node.find("buffer_sd"));
  out.measurements = static_cast<int>(number(node.find("measurements")));
  return out;
}

Result<Remembered> remembered_of(const std::string& text, const std::string& where) {
  Remembered out;
  if (text.empty()) return out;
  const Result<Node> node = text::parse_json(text, where);
  if (!node) return faults(node.error());
  if (const Node* learned = node->find("learned"); learned != nullptr && !learned->is_null()) {
    out.learned = learned_of(*learned);
  }
  if (const Node* list = node->find("measured")) {
    for (const Node& item : list->items()) {
      const Node* digest = item.find("digest");
      const Node* measured = item.find("measured");
      if (digest == nullptr || measured == nullptr) continue;
      Result<agent::Measured> m = agent::measured_of(*measured);
      if (!m) return faults(m.error());
      out.measured.push_back({digest->raw(), *std::move(m)});
    }
  }
  out.said = fmt::format("{} measurements{}", out.measured.size(),
                         out.learned.measurements > 0 ? ", and what they taught this version" : "");
  return out;
}

}  // namespace

int TuneMemory::open(const std::string& file, const Job& job) {
  if (file.empty()) return kAnswered;
  auto opened = store::MachineMemory::open(file);
  if (!opened) return code_of(opened.error());
  file_ = *std::move(opened);
  const Node tree =
      reader::job_to_node(job.read.job, {.model = true, .framework = true, .cluster = true});
  const auto digest = [&](std::initializer_list<const char*> keys) {
    std::string text;
    for (const char* key : keys) text += text::to_json(*tree.find(key), 0) + '\n';
    return store::digest_of(text);
  };
  key_ = {digest({"model"}), digest({"cluster", "framework"})};
  return kAnswered;
}

Result<Remembered> TuneMemory::offer(agent::Records& records) {
  const std::string prior = (std::filesystem::path(records.folder()) / "prior.json").string();
  std::error_code none;
  if (std::filesystem::exists(prior, none)) {
    const Result<std::string> text = text::read_file(prior);
    if (!text) return faults(text.error());
    return remembered_of(*text == "null\n" ? "" : *text, prior);
  }
  std::string text;
  if (file_ != nullptr) {
    auto last = file_->last(key_);
    if (!last) return fault(last.error().what);
    if (last->has_value()) {
      Result<Node> node = text::parse_json((*last)->text, "--memory");
      if (!node) return faults(node.error());
      if ((*last)->fingerprint != store::model_fingerprint()) node->set("learned", Node::null());
      text = text::to_json(*node, 0);
    }
  }
  if (const Result<void> w = records.write("prior.json", (text.empty() ? "null" : text) + "\n");
      !w) {
    return faults(w.error());
  }
  return remembered_of(text, "--memory");
}

int TuneMemory::keep(const agent::Session& session, const agent::Learned& learned,
                     const Remembered& before) {
  if (file_ == nullptr) return kAnswered;
  std::map<std::string, agent::Measured> all;
  for (const Remembered::One& one : before.measured) all[one.digest] = one.measured;
  for (const auto& t : session.trials()) {
    if (t->measured) all[t->digest] = *t->measured;
  }
  if (all.empty()) return kAnswered;
  Node out = Node::mapping();
  out.set("learned", learned_node(learned));
  Node list = Node::sequence();
  for (const auto& [digest, measured] : all) {
    Node one = Node::mapping();
    one.set("digest", Node::string(digest));
    one.set("measured", agent::node_of(measured));
    list.append(std::move(one));
  }
  out.set("measured", std::move(list));
  const auto kept =
      file_->keep(key_, {text::to_json(out, 0), std::string(store::model_fingerprint())});
  return kept ? kAnswered : code_of(kept.error());
}

}  // namespace eratos::apps
