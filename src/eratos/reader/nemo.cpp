#include "eratos/reader/nemo.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/decode.h"
#include "eratos/reader/keys_megatron.h"
#include "eratos/reader/keys_nemo.h"

namespace eratos::reader {

namespace {

using text::Node;

bool is_group(std::string_view key) {
  return std::find(std::begin(kNemoGroups), std::end(kNemoGroups), key) != std::end(kNemoGroups);
}

// Keys of what sits below a group and is no argument (`model.optim`, `train.manual_gc`).
void flatten(const Node& group, const std::string& path, Node& flat) {
  for (const text::Entry& entry : group.entries()) {
    const std::string here = path + "." + entry.key;
    const KeyRow* row = find_row(kNemoKeys, here);
    if (row != nullptr && row->say == Say::nothing) continue;
    if (row == nullptr && entry.value.is_mapping()) {
      if (entry.key == "optim") flatten(entry.value, here, flat);
      continue;
    }
    Node value = entry.value;
    const bool translated = row != nullptr && !row->words.empty() && value.is_scalar();
    if (translated) {
      const std::string_view word = our_word(row->words, value.raw());
      if (!word.empty()) value = Node::plain(std::string(word), value.place());
    }
    const std::string key = row != nullptr ? std::string(row->field) : entry.key;
    if (value.is_null() && flat.find(key) != nullptr) continue;
    flat.set(key, std::move(value), entry.key_place);
  }
}

// The sizes of a model that is only named, as Megatron's keys, where the file gives none.
Result<void> add_model(const Node& named, Node& flat) {
  const std::string known = model_called(named.raw());
  if (known.empty()) {
    return fault({.where = named.where(),
                  .message = "`" + named.raw() + "` is no model of the catalogue",
                  .cure = "give its sizes in `model` (num_layers, hidden_size, ...)",
                  .field = "model"});
  }
  auto model = load_model(known);
  if (!model) return faults(model.error());
  const Node sizes = model_to_node(*model);
  // A copy: `named` may stand in `flat`, whose entries move when it grows.
  const text::Place place = named.place();
  const auto put = [&](const char* key, Node value) {
    if (flat.find(key) != nullptr) return;
    value.set_place(place);
    flat.set(key, std::move(value), place);
  };
  for (const KeyRow& row : kMegatronKeys) {
    if (row.say != Say::copy || row.field.rfind("model.", 0) != 0) continue;
    const Node* value = text::find_at(sizes, row.field.substr(6));
    if (value == nullptr || value->is_null()) continue;
    const std::string_view word =
        row.words.empty() ? std::string_view() : their_word(row.words, value->raw());
    put(std::string(row.key).c_str(), word.empty() ? *value : Node::plain(std::string(word)));
  }
  const auto is_true = [&](const char* path) {
    const Node* value = text::find_at(sizes, path);
    return value != nullptr && value->raw() == "true";
  };
  const Node* activation = sizes.find("activation");
  put("swiglu",
      Node::boolean(is_true("gated_mlp") && activation != nullptr && activation->raw() == "silu"));
  put("group_query_attention", Node::boolean(sizes.find("kv_heads") != nullptr));
  put("multi_latent_attention", Node::boolean(sizes.find("mla") != nullptr));
  const Node* experts = sizes.find("moe");
  if (experts == nullptr) return {};
  Node pattern = Node::sequence();
  const Node* given = experts->find("pattern");
  const Node* first = experts->find("dense_layers_first");
  for (int i = 0; i < model->layers(); ++i) {
    const bool expert = given != nullptr
                            ? given->items()[static_cast<std::size_t>(i)].raw() == "1"
                            : i >= (first == nullptr ? 0 : first->as_int64().value_or(0));
    pattern.append(Node::integer(expert ? 1 : 0));
  }
  put("moe_layer_freq", std::move(pattern));
  return {};
}

}  // namespace

std::string nemo_evidence(const Node& root) {
  for (const char* key : {"model.tensor_model_parallel_size", "model.pipeline_model_parallel_size",
                          "model.context_parallel_size", "model.encoder_seq_length",
                          "train.global_batch_size", "train.micro_batch_size"}) {
    if (text::find_at(root, key) != nullptr) return key;
  }
  return root.find("recipe") != nullptr && root.find("flavor") != nullptr ? "recipe"
                                                                          : std::string();
}

Result<JobRead> job_from_nemo(const Node& keys, const MegatronSource& source) {
  Node flat = Node::mapping(keys.place());
  // Later groups win nothing: a key stands in one group.
  for (const text::Entry& entry : keys.entries()) {
    if (is_group(entry.key) && entry.value.is_mapping()) {
      flatten(entry.value, entry.key, flat);
    } else if (entry.key == "mixed_precision") {
      const bool narrow = entry.value.raw().rfind("bf16", 0) == 0;
      flat.set(narrow ? "bf16" : "fp16", Node::boolean(true, entry.value.place()), entry.key_place);
      if (entry.value.raw().find("fp8") != std::string::npos) {
        flat.set("fp8", Node::string("hybrid", entry.value.place()), entry.key_place);
        const bool mx = entry.value.raw().find("mxfp8") != std::string::npos;
        const bool current = entry.value.raw().find("current_scaling") != std::string::npos;
        flat.set("fp8_recipe",
                 Node::string(mx        ? "mxfp8"
                              : current ? "tensorwise"
                                        : "delayed",
                              entry.value.place()),
                 entry.key_place);
      }
    } else if (!entry.value.is_mapping()) {
      flat.set(entry.key, entry.value, entry.key_place);
    }
  }
  double accelerators = 0;
  if (const Node* trainer = keys.find("trainer"); trainer != nullptr) {
    const Node* devices = trainer->find("devices");
    const Node* nodes = trainer->find("num_nodes");
    if (devices != nullptr) {
      accelerators = devices->as_double().value_or(0) *
                     (nodes == nullptr ? 1 : nodes->as_double().value_or(1));
    }
    if (const Node* precision = trainer->find("precision");
        precision != nullptr && flat.find("bf16") == nullptr) {
      flat.set("bf16", Node::boolean(precision->raw().rfind("bf16", 0) == 0, precision->place()),
               precision->place());
    }
  }
  // Megatron-Bridge trains in bf16 unless told otherwise (bf16_mixed).
  if (flat.find("bf16") == nullptr && flat.find("fp16") == nullptr) {
    flat.set("bf16", Node::boolean(true, keys.place()), keys.place());
  }
  if (flat.find("num_layers") == nullptr) {
    const Node* named = nullptr;
    for (const char* key : {"hf_path", "hf_model_id", "pretrained_model_name_or_path"}) {
      if (named == nullptr) named = flat.find(key);
    }
    if (named != nullptr && named->is_scalar()) {
      if (auto done = add_model(*named, flat); !done) return faults(done.error());
    }
  }
  for (const char* key : {"hf_path", "hf_model_id", "recipe", "flavor"}) flat.erase(key);
  auto out = job_from_megatron(flat, source);
  if (out && accelerators >= 1 && accelerators < 1e7) {
    out->follows.accelerators = static_cast<int>(accelerators);
    if (auto done = follow_cluster(*out, {}); !done) return faults(done.error());
  }
  return out;
}

Result<JobRead> read_nemo(const Node& root, const std::string& path,
                          const Environment& environment) {
  Node keys = root;
  substitute(keys, environment);
  return job_from_nemo(keys, {.format = "NeMo or Megatron-Bridge (YAML)",
                              .framework = "megatron-bridge",
                              .name = std::filesystem::path(path).stem().string()});
}

}  // namespace eratos::reader
