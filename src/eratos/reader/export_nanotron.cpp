#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "eratos/reader/export_rows.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/reader/keys_nanotron.h"

namespace eratos::reader {

namespace {

using text::Node;

std::int64_t count_at(const Node& tree, const std::string& path) {
  const Node* node = text::find_at(tree, path);
  return node == nullptr || !node->is_scalar() ? 0 : node->as_int64().value_or(0);
}

void put(Node& to, const std::string& path, Node value) {
  (void)text::set_at(to, path, std::move(value));
}

void write_experts(const Node& written, Node& out) {
  const Node* moe = text::find_at(written, "model.moe");
  if (moe == nullptr) return;
  const std::string at = "model.model_config.moe_config.";
  const auto copy = [&](const char* key, const char* field) {
    if (const Node* value = moe->find(field); value != nullptr) put(out, at + key, *value);
  };
  copy("num_experts", "experts");
  copy("top_k", "top_k");
  copy("moe_intermediate_size", "ffn");
  const std::int64_t shared = count_at(written, "model.moe.shared_ffn");
  put(out, at + "enable_shared_expert", Node::boolean(shared > 0));
  if (shared > 0) copy("shared_expert_intermediate_size", "shared_ffn");
  Node chosen = Node::sequence();
  const Node* pattern = moe->find("pattern");
  const std::int64_t dense = count_at(written, "model.moe.dense_layers_first");
  for (std::int64_t i = 0; i < count_at(written, "model.layers"); ++i) {
    const bool experts =
        pattern == nullptr
            ? i >= dense
            : pattern->items()[static_cast<std::size_t>(i)].as_int64().value_or(0) == 1;
    if (experts) chosen.append(Node::integer(i));
  }
  const bool all = static_cast<std::int64_t>(chosen.size()) == count_at(written, "model.layers");
  if (!all) put(out, at + "layers", std::move(chosen));
}

}  // namespace

Node tree_from_rows(KeyRows rows, const Node& written) {
  Node out = Node::mapping();
  for (const KeyRow& row : rows) {
    if (row.say != Say::copy || row.field.empty() || row.key.ends_with('*')) continue;
    const Node* value = text::find_at(written, row.field);
    if (value == nullptr || value->is_null()) continue;
    if (row.words.empty()) {
      put(out, std::string(row.key), *value);
      continue;
    }
    std::string word(their_word(row.words, value->raw()));
    word.erase(std::remove(word.begin(), word.end(), '*'), word.end());
    if (!word.empty()) put(out, std::string(row.key), Node::plain(word));
  }
  return out;
}

Node nanotron_tree_of(const job::JobSpec& job) {
  const Node written = job_to_node(job, {.model = true, .framework = true});
  Node out = Node::mapping();
  put(out, "general.run", Node::string(job.name));
  const Node rows = tree_from_rows(kNanotronKeys, written);
  for (const text::Entry& entry : rows.entries()) out.set(entry.key, entry.value);
  // What stands below experts belongs to a model that has them.
  Node* config = text::find_at(out, "model.model_config") == nullptr
                     ? nullptr
                     : out.find("model")->find("model_config");
  if (config != nullptr && text::find_at(written, "model.moe") == nullptr) {
    config->erase("moe_config");
  }
  write_experts(written, out);
  if (count_at(written, "model.sliding_window") > 0) {
    put(out, "model.model_config.sliding_window_size",
        Node::integer(count_at(written, "model.sliding_window")));
  }
  const int replica = job.parallel.tp * job.parallel.pp * job.parallel.cp;
  const int gpus = job.cluster.accelerator.name.empty() ? 0 : job.cluster.gpus();
  const int sequences = std::max(1, job.batch.global / std::max(1, job.batch.micro));
  int dp = gpus > 0 && gpus % replica == 0 ? gpus / replica : 1;
  if (sequences % dp != 0) dp = 1;
  put(out, "parallelism.dp", Node::integer(dp));
  put(out, "tokens.batch_accumulation_per_replica", Node::integer(sequences / dp));
  return out;
}

}  // namespace eratos::reader
