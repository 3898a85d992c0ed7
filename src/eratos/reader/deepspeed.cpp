#include "eratos/reader/deepspeed.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/decode.h"
#include "eratos/reader/default_job.h"
#include "eratos/reader/huggingface.h"
#include "eratos/reader/keys_deepspeed.h"
#include "eratos/reader/translation.h"
#include "eratos/text/file.h"
#include "eratos/text/json.h"

namespace eratos::reader {

namespace {

namespace fs = std::filesystem;
using text::Node;

constexpr const char* kAuto = "auto";

// A folder's config.json as an architecture; nothing where there is none.
std::optional<Result<model::Architecture>> config_in(const fs::path& folder) {
  const fs::path file = (folder / "config.json").lexically_normal();
  std::error_code failed;
  if (!fs::is_regular_file(file, failed)) return std::nullopt;
  auto root = text::parse_json_file(file.string());
  if (!root) return faults(root.error());
  if (!is_huggingface(*root)) return std::nullopt;
  auto read = read_huggingface(*root, file.string());
  if (!read) return faults(read.error());
  return std::move(read->job.model);
}

void put_model(Translation& t, const std::string& path, std::string_view key,
               const std::string& named) {
  const fs::path folder = fs::path(path).parent_path();
  auto found = config_in(named.empty() ? folder : folder / named);
  if (!found && !named.empty()) {
    if (const std::string known = model_called(named); !known.empty()) {
      t.put("model", Node::string(known), key, "the catalogue's");
      return;
    }
    found = config_in(folder);
  }
  if (!found) {
    t.fail(key,
           named.empty() ? "the file says nothing of the model, and no config.json of a model "
                           "lies beside it"
                         : "`" + named +
                               "` is neither a folder with a config.json nor a "
                               "model of the catalogue",
           "put the model's config.json beside this file", "model");
    return;
  }
  if (!*found) {
    t.take(found->error());
    return;
  }
  t.put("model", model_to_node(**found), key, "config.json of the model");
}

// "auto" is the Trainer's to fill.
std::optional<int> number_or_auto(Translation& t, std::string_view key, bool& is_auto) {
  const Node* value = t.node(key);
  if (value != nullptr && value->is_scalar() && value->raw() == kAuto) {
    is_auto = true;
    return std::nullopt;
  }
  return value == nullptr ? std::nullopt : t.integer(key);
}

std::string key_in(const std::string& prefix, const char* key) { return prefix + key; }

void read_sharding(Translation& t, const std::string& prefix) {
  const std::string stage = key_in(prefix, "zero_optimization.stage");
  const int n = t.integer(stage).value_or(0);
  static constexpr const char* kStages[] = {"none", "zero1", "zero2", "zero3"};
  if (n < 0 || n > 3) {
    t.fail(stage, "ZeRO has no stage " + std::to_string(n), "it is 0, 1, 2 or 3", "sharding.stage");
    return;
  }
  t.put("sharding.stage", Node::string(kStages[n]), stage);
  if (const auto overlap = t.flag(key_in(prefix, "zero_optimization.overlap_comm"))) {
    t.put("overlap.grad_reduce", Node::boolean(*overlap),
          key_in(prefix, "zero_optimization.overlap_comm"));
  }
  const auto device = [&](const char* what) {
    const std::string key = key_in(prefix, what);
    const auto word = t.word(key);
    return word && *word != "none" ? *word : std::string();
  };
  std::string optimizer = device("zero_optimization.offload_optimizer.device");
  if (t.is_on(key_in(prefix, "zero_optimization.cpu_offload"))) optimizer = "cpu";
  const std::string parameters = device("zero_optimization.offload_param.device");
  const char* held = "zero_optimization.offload_optimizer.device";
  if (!parameters.empty()) {
    t.fail(key_in(prefix, "zero_optimization.offload_param.device"),
           "offloading parameters to " + parameters + " is not modelled", "set the device to none",
           "offload");
  } else if (!optimizer.empty() && optimizer != "cpu") {
    t.fail(key_in(prefix, held), "offloading the optimizer to " + optimizer + " is not modelled",
           "set the device to cpu or none", "offload.optimizer");
  } else if (!optimizer.empty()) {
    t.put("offload.optimizer", Node::number(1), key_in(prefix, held),
          "updated by the host's processors");
  }
  for (const char* key :
       {"zero_optimization.zero_hpz_partition_size", "zero_optimization.zero_quantized_weights",
        "zero_optimization.zero_quantized_gradients"}) {
    const Node* value = t.node(key_in(prefix, key));
    if (value != nullptr && value->raw() != "false" && value->raw() != "1") {
      t.warn("sharding", "`" + std::string(key) + "` is not modelled: projected as plain ZeRO",
             key_in(prefix, key));
    }
  }
}

void read_numbers(Translation& t, const std::string& prefix, bool trainer_bf16, bool trainer_fp16) {
  const auto enabled = [&](const char* key, bool otherwise) {
    const std::string path = key_in(prefix, key);
    const Node* value = t.node(path);
    if (value == nullptr) return false;
    if (value->is_scalar() && value->raw() == kAuto) return otherwise;
    return t.is_on(path);
  };
  const bool fp16 = enabled("fp16.enabled", trainer_fp16);
  const bool bf16 = enabled("bf16.enabled", trainer_bf16);
  const std::string key = key_in(prefix, fp16 ? "fp16.enabled" : "bf16.enabled");
  const char* recipe = fp16                              ? "fp16"
                       : bf16 || trainer_bf16            ? "bf16"
                       : !t.says(key) && !prefix.empty() ? "bf16"
                                                         : "fp32";
  if (fp16 && bf16) {
    t.fail(key, "`fp16` and `bf16` are both on", "switch one of them off", "precision.recipe");
  }
  t.put("precision.recipe", Node::string(trainer_fp16 && !bf16 ? "fp16" : recipe), key);
  static constexpr std::string_view kFormats = "fp32=fp32,bf16=bf16,fp16=fp16,bfp16=bf16";
  for (const auto& [name, field] :
       {std::pair{"data_types.grad_accum_dtype", "optimizer.main_gradient"},
        std::pair{"communication_data_type", "precision.gradient_reduce"}}) {
    const auto word = t.word(key_in(prefix, name));
    if (!word || word->empty() || *word == "null") continue;
    const std::string_view ours = our_word(kFormats, *word);
    if (!ours.empty()) t.put(field, Node::string(std::string(ours)), key_in(prefix, name));
  }
  if (const auto type = t.word(key_in(prefix, "optimizer.type"))) {
    std::string lower = *type;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const bool adam = lower.find("adam") != std::string::npos;
    t.put("optimizer.kind", Node::string(adam ? "adam" : lower), key_in(prefix, "optimizer.type"));
  }
}

struct Batch {
  int micro = 1;
  int accumulate = 1;
};

// train_batch_size = micro x accumulation x dp, whatever two of the three are given.
void read_batch(Translation& t, const std::string& prefix, std::optional<Batch> trainer) {
  bool is_auto = false;
  const std::string micro_key = key_in(prefix, "train_micro_batch_size_per_gpu");
  const std::string total_key = key_in(prefix, "train_batch_size");
  const std::string steps_key = key_in(prefix, "gradient_accumulation_steps");
  auto micro = number_or_auto(t, micro_key, is_auto);
  auto total = number_or_auto(t, total_key, is_auto);
  auto steps = prefix.empty() || t.says(steps_key) ? number_or_auto(t, steps_key, is_auto)
                                                   : std::optional<int>();
  if (trainer) {
    if (micro && *micro != trainer->micro) {
      t.fail(micro_key,
             "`train_micro_batch_size_per_gpu` is " + std::to_string(*micro) +
                 ", per_device_train_batch_size " + std::to_string(trainer->micro),
             "write \"auto\" in the DeepSpeed part", "batch.micro");
    }
    micro = trainer->micro;
    steps = trainer->accumulate;
  } else if (is_auto) {
    t.warn(
        "auto",
        "\"auto\" is filled from the Trainer's arguments, which are not here: a micro-batch of 1 "
        "and no accumulation where nothing else is given; change them with --set",
        micro_key);
  }
  for (const auto& [value, key] :
       {std::pair{micro, micro_key}, std::pair{total, total_key}, std::pair{steps, steps_key}}) {
    if (value && (*value < 1 || *value > 100'000'000)) {
      t.fail(key, "`" + key + "` is " + std::to_string(*value), "it is a positive number", "batch");
      return;
    }
  }
  const double slice = static_cast<double>(micro.value_or(1)) * steps.value_or(1);
  if (total) {
    const bool whole =
        *total >= slice && static_cast<long long>(*total) % static_cast<long long>(slice) == 0;
    if (micro && !whole) {
      t.fail(total_key,
             "train_batch_size " + std::to_string(*total) + " is no multiple of micro-batch " +
                 std::to_string(*micro) + " x accumulation " + std::to_string(steps.value_or(1)),
             "DeepSpeed wants train_batch_size = micro-batch x accumulation x data-parallel ranks",
             "batch.global");
      return;
    }
    t.put("batch.global", Node::integer(*total), total_key);
    if (micro && steps && whole) t.follows.accelerators = static_cast<int>(*total / slice);
  } else {
    t.derive("batch.global", Node::integer(1), {micro_key, steps_key}, "");
    t.follows.replica_sequences = slice;
  }
  if (trainer) {
    t.put("batch.micro", Node::integer(trainer->micro), "per_device_train_batch_size");
  } else {
    t.put("batch.micro", Node::integer(micro.value_or(1)), micro_key);
  }
}

void read_deepspeed_part(Translation& t, const std::string& prefix, std::optional<Batch> trainer,
                         bool bf16, bool fp16) {
  read_sharding(t, prefix);
  read_numbers(t, prefix, bf16, fp16);
  read_batch(t, prefix, trainer);
}

std::string name_of_path(const std::string& path) { return fs::path(path).stem().string(); }

void put_sequence(Translation& t, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const auto length = t.integer(key)) {
      t.put("batch.sequence", Node::integer(*length), key);
      return;
    }
  }
  t.assume("batch.sequence", Node::integer(kDefaultSequence),
           "no file says how long sequences are");
  t.warn("defaults",
         "nothing says how long sequences are: " + std::to_string(kDefaultSequence) +
             " tokens; change it with --set batch.sequence=N",
         "");
}

void read_fsdp(Translation& t) {
  std::string words;
  if (const Node* node = t.node("fsdp"); node != nullptr) {
    words = node->raw();
    for (const Node& each : node->items()) words += " " + each.raw();
  }
  if (words.empty() || words == "false") return;
  const char* stage = words.find("hybrid_shard") != std::string::npos    ? "hsdp"
                      : words.find("shard_grad_op") != std::string::npos ? "zero2"
                      : words.find("full_shard") != std::string::npos    ? "zero3"
                                                                         : "none";
  if (words.find("offload") != std::string::npos) {
    t.fail("fsdp", "offloading to the host is not modelled here", "remove `offload`", "optimizer");
  }
  t.put("sharding.stage", Node::string(stage), "fsdp");
  if (std::string_view(stage) == "hsdp") {
    t.put("sharding.group", Node::integer(8), "fsdp", "copies in every node of eight");
  }
  t.put("framework.profile", Node::string("pytorch-fsdp"), "fsdp");
}

}  // namespace

std::string deepspeed_evidence(const Node& root) {
  for (const char* key : {"zero_optimization", "train_micro_batch_size_per_gpu"}) {
    if (root.find(key) != nullptr) return key;
  }
  const bool formats = root.find("bf16") != nullptr || root.find("fp16") != nullptr;
  return formats && root.find("train_batch_size") != nullptr ? "train_batch_size" : std::string();
}

std::string trainer_evidence(const Node& root) {
  return root.find("per_device_train_batch_size") != nullptr ? "per_device_train_batch_size"
                                                             : std::string();
}

Result<JobRead> read_deepspeed(const Node& root, const std::string& path) {
  Translation t(root, kDeepspeedKeys, "DeepSpeed (JSON) beside a Hugging Face config.json");
  t.assume("framework.profile", Node::string("huggingface"), "the profile of DeepSpeed's ZeRO");
  put_model(t, path, "", "");
  read_deepspeed_part(t, "", std::nullopt, false, false);
  put_sequence(t, {});
  return t.finish(name_of_path(path));
}

Result<JobRead> read_trainer(const Node& root, const std::string& path,
                             const Environment& environment) {
  Node all = root;
  substitute(all, environment);
  // The DeepSpeed part may be a file beside this one.
  Diagnostics unread;
  if (const Node* part = all.find("deepspeed"); part != nullptr && part->is_scalar()) {
    const fs::path file = (fs::path(path).parent_path() / part->raw()).lexically_normal();
    if (auto read = text::parse_json_file(file.string())) {
      all.set("deepspeed", std::move(*read));
    } else {
      unread = read.error();
      for (Diagnostic& d : unread) {
        if (d.where.line == 0) d.where = part->where();
      }
    }
  }
  Translation t(all, kTrainerKeys, "Hugging Face Trainer arguments");
  t.take(unread);
  t.assume("framework.profile", Node::string("huggingface"), "the profile of the Trainer");
  const auto named = t.word("model_name_or_path");
  put_model(t, path, "model_name_or_path", named.value_or(""));
  t.copy_rows();
  // Defaults: training_args.py.
  const Batch batch{.micro = t.integer("per_device_train_batch_size").value_or(8),
                    .accumulate = t.integer("gradient_accumulation_steps").value_or(1)};
  const bool bf16 = t.is_on("bf16");
  const bool fp16 = t.is_on("fp16");
  const Node* part = t.node("deepspeed");
  if (part != nullptr && part->is_mapping()) {
    read_deepspeed_part(t, "deepspeed.", batch, bf16, fp16);
  } else {
    t.put("batch.micro", Node::integer(batch.micro), "per_device_train_batch_size");
    t.derive("batch.global", Node::integer(1),
             {"gradient_accumulation_steps", "per_device_train_batch_size"}, "");
    t.follows.replica_sequences = static_cast<double>(batch.micro) * batch.accumulate;
    t.put("precision.recipe",
          Node::string(fp16   ? "fp16"
                       : bf16 ? "bf16"
                              : "fp32"),
          fp16 ? "fp16" : "bf16");
    t.put("sharding.stage", Node::string("none"), "fsdp");
    read_fsdp(t);
  }
  (void)t.word("torch_dtype");
  if (const auto optim = t.word("optim")) {
    const bool adam = optim->find("adam") != std::string::npos;
    const bool narrow = optim->find("8bit") != std::string::npos;
    t.put("optimizer.kind", Node::string(!adam ? *optim : narrow ? "adam8bit" : "adam"), "optim");
  }
  put_sequence(t, {"max_seq_length", "max_length", "cutoff_len", "model_max_length", "block_size"});
  const bool lora = t.word("finetuning_type").value_or("full") == "lora" || t.is_on("use_peft");
  if (lora) {
    t.put("lora.rank",
          Node::integer(t.integer("lora_rank").value_or(t.integer("lora_r").value_or(8))),
          t.says("lora_r") ? "lora_r" : "lora_rank");
  }
  for (const char* key : {"lora_alpha", "lora_dropout", "lora_target", "lora_target_modules"}) {
    (void)t.node(key);
  }
  return t.finish(name_of_path(path));
}

}  // namespace eratos::reader
