#include "eratos/reader/torchtitan.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/fields.h"
#include "eratos/reader/keys_torchtitan.h"
#include "eratos/reader/layout.h"
#include "eratos/reader/pattern_table.h"
#include "eratos/reader/translation.h"

namespace eratos::reader {

std::string_view torchtitan_model(std::string_view name, std::string_view flavor) {
  static const PatternTable table("torchtitan_flavors");
  const auto row = table.find(std::string(name) + "/" + std::string(flavor));
  return row ? table.cell(*row, "model") : std::string_view();
}

namespace {

using text::Node;

struct Degrees {
  int tp = 1;
  int pp = 1;
  int cp = 1;
};

// The architecture; its number of layers, 0 when it is not known.
int read_model(Translation& t) {
  const auto name = t.word("model.name");
  const auto flavor = t.word("model.flavor");
  if (!name || !flavor) {
    if (!t.says("model.name") || !t.says("model.flavor")) {
      t.fail("model.name", "`model.name` and `model.flavor` say which sizes to train",
             "add both, such as name = \"llama3\" and flavor = \"8B\"", "model");
    }
    return 0;
  }
  const std::string_view known = torchtitan_model(*name, *flavor);
  if (known.empty() || find_file(Kind::models, known) == nullptr) {
    t.fail("model.flavor",
           known.empty() ? "flavor `" + *flavor + "` of `" + *name + "` is not known"
                         : "flavor `" + *flavor + "` of `" + *name + "` is " + std::string(known) +
                               ", which the catalogue does not have yet",
           "data/torchtitan_flavors.csv lists the known ones", "model");
    return 0;
  }
  t.put("model", Node::string(std::string(known)), "model.flavor",
        *name + " " + *flavor + " (data/torchtitan_flavors.csv)");
  auto model = load_model(known);
  return model ? model->layers() : 0;
}

// Chunks a rank, and the layers of each, as pipeline_llm deals them.
// Source: pytorch/torchtitan torchtitan/distributed/pipeline_parallel.py,
// generate_llm_fqn_per_model_part and pipeline_llm.
void read_pipeline(Translation& t, const Degrees& d, int layers) {
  const char* kSchedule = "parallelism.pipeline_parallel_schedule";
  const std::string schedule = t.word(kSchedule).value_or("1F1B");
  const auto per_stage = t.integer("parallelism.pipeline_parallel_layers_per_stage");
  const int first_less =
      t.integer("parallelism.pipeline_parallel_first_stage_less_layers").value_or(1);
  const int last_less =
      t.integer("parallelism.pipeline_parallel_last_stage_less_layers").value_or(1);
  (void)t.node("parallelism.pipeline_parallel_schedule_csv");
  if (d.pp <= 1) return;
  for (const char* key :
       {"parallelism.module_fqns_per_model_part", "parallelism.pipeline_parallel_split_points"}) {
    const Node* parts = t.node(key);
    if (parts != nullptr && parts->size() > 0) {
      t.warn("layout", "`" + std::string(key) + "` is left out: layers are dealt evenly", key);
    }
  }
  const std::string_view ours = our_word(find_row(kTorchtitanKeys, kSchedule)->words, schedule);
  if (ours.empty()) {
    t.fail(kSchedule, "pipeline schedule `" + schedule + "` is not modelled",
           "use 1F1B, Interleaved1F1B, LoopedBFS, GPipe, ZBVZeroBubble or DualPipeV",
           "schedule.algorithm");
    return;
  }
  t.put("schedule.algorithm", Node::string(std::string(ours)), kSchedule);
  const bool one_chunk = ours == "1f1b" || ours == "gpipe";
  const int effective = layers + first_less + last_less;
  int stages = d.pp * (one_chunk ? 1 : 2);
  if (per_stage && *per_stage > 0) stages = (effective + *per_stage - 1) / *per_stage;
  const bool two_chunks = ours == "zbv" || ours == "dualpipev";
  if (stages % d.pp != 0 || (one_chunk && stages != d.pp) || (two_chunks && stages != 2 * d.pp) ||
      stages > layers || layers == 0) {
    if (layers > 0) {
      t.fail("parallelism.pipeline_parallel_layers_per_stage",
             std::to_string(stages) + " stages do not fit " + schedule + " on " +
                 std::to_string(d.pp) + " pipeline ranks",
             "choose another number of layers a stage", "parallel.vpp");
    }
    return;
  }
  t.derive("parallel.vpp", Node::integer(stages / d.pp),
           {"parallelism.pipeline_parallel_layers_per_stage", kSchedule},
           std::to_string(stages) + " stages / pp " + std::to_string(d.pp));
  std::vector<job::StageLayout> dealt;
  for (int i = 0; i < stages; ++i) {
    int here = effective / stages + (i < effective % stages ? 1 : 0);
    if (i == 0) here -= first_less;
    if (i == stages - 1) here -= last_less;
    dealt.push_back({.layers = here, .embedding = i == 0, .output = i == stages - 1});
  }
  if (std::any_of(dealt.begin(), dealt.end(), [](const auto& s) { return s.layers < 0; })) return;
  t.derive("parallel.layout", Node::string(layout_text(dealt)),
           {"parallelism.pipeline_parallel_first_stage_less_layers",
            "parallelism.pipeline_parallel_last_stage_less_layers"},
           "layers dealt evenly, the embedding and the output counted as " +
               std::to_string(first_less) + " and " + std::to_string(last_less));
}

void read_sharding(Translation& t, const Degrees& d) {
  const char* kShard = "parallelism.data_parallel_shard_degree";
  const char* kReplicate = "parallelism.data_parallel_replicate_degree";
  const char* kReshard = "parallelism.fsdp_reshard_after_forward";
  const int shard = t.integer(kShard).value_or(-1);
  const int replicas = t.integer(kReplicate).value_or(1);
  const std::string reshard = t.word(kReshard).value_or("default");
  if (shard > 0) t.follows.accelerators = replicas * shard * d.tp * d.pp * d.cp;
  // Ranks of context parallelism always share what is sharded.
  if (shard == 1 && d.cp == 1) {
    t.put("sharding.stage", Node::string("none"), kShard,
          replicas == 1 ? "one rank" : "replicated: DDP");
    return;
  }
  if (replicas > 1) {
    t.put("sharding.stage", Node::string("hsdp"), kReplicate);
    t.put("sharding.group", Node::integer(std::max(1, shard)), kShard);
    t.follows.replicas = replicas;
    return;
  }
  const bool keeps = reshard == "never" || (reshard == "default" && d.pp > 1);
  t.put("sharding.stage", Node::string(keeps ? "zero2" : "zero3"), kReshard,
        keeps ? "parameters stay gathered between forward and backward"
              : "parameters are gathered twice");
}

// torchtitan applies sequence parallelism wherever it applies tensor parallelism.
void read_tensor(Translation& t, const Degrees& d) {
  t.derive("parallel.sequence_parallel", Node::boolean(d.tp > 1),
           {"parallelism.tensor_parallel_degree"}, "with tensor parallelism, always");
  t.put("overlap.tp", Node::boolean(t.is_on("parallelism.enable_async_tensor_parallel")),
        "parallelism.enable_async_tensor_parallel");
  const char* kEtp = "parallelism.expert_tensor_parallel_degree";
  const auto ep = t.integer("parallelism.expert_parallel_degree");
  if (const auto etp = t.integer(kEtp)) {
    // Without expert parallelism the experts are cut as the rest is.
    if (ep.value_or(1) > 1) {
      t.put("parallel.etp", Node::integer(*etp), kEtp);
    } else {
      t.derive("parallel.etp", Node::integer(d.tp), {kEtp, "parallelism.tensor_parallel_degree"},
               std::string(kEtpFollowsTp));
    }
  }
  if (t.is_on("parallelism.disable_loss_parallel") && d.tp > 1) {
    t.warn("loss", "`disable_loss_parallel` is not modelled: the loss is projected as cut over tp",
           "parallelism.disable_loss_parallel");
  }
}

void read_batch(Translation& t, const Degrees& d) {
  const bool old = !t.says("training.local_batch_size") && t.says("training.batch_size");
  const char* kLocal = old ? "training.batch_size" : "training.local_batch_size";
  const char* kGlobal = "training.global_batch_size";
  const char* kMicro = "parallelism.pipeline_parallel_microbatch_size";
  const int local = t.integer(kLocal).value_or(8);
  const int micro = t.integer(kMicro).value_or(1);
  if (d.pp > 1) {
    t.put("batch.micro", Node::integer(micro), kMicro);
  } else {
    t.put("batch.micro", Node::integer(local), kLocal);
  }
  const int global = t.integer(kGlobal).value_or(-1);
  if (global > 0) {
    t.put("batch.global", Node::integer(global), kGlobal);
  } else {
    t.derive("batch.global", Node::integer(local), {kLocal}, "");
    t.follows.replica_sequences = local;
  }
  if (!t.says("training.seq_len")) {
    t.put("batch.sequence", Node::integer(2048), "training.seq_len");
  }
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<std::string> words_of(Translation& t, std::string_view key) {
  std::vector<std::string> out;
  const Node* node = t.node(key);
  if (node == nullptr) return out;
  if (node->is_scalar()) out.push_back(node->raw());
  for (const Node& each : node->items()) out.push_back(each.raw());
  return out;
}

void read_precision(Translation& t) {
  const std::string parameter = t.word("training.mixed_precision_param").value_or("bfloat16");
  const std::vector<std::string> converters = words_of(t, "model.converters");
  const bool nested = t.says("quantize.linear.float8");
  const char* kRecipe = nested ? "quantize.linear.float8.recipe_name" : "float8.recipe_name";
  const char* kGather = nested ? "quantize.linear.float8.enable_fsdp_float8_all_gather"
                               : "float8.enable_fsdp_float8_all_gather";
  const std::string recipe = t.word(kRecipe).value_or("tensorwise");
  const bool gather = t.is_on(kGather);
  (void)t.node("quantize.linear.float8.filter_fqns");
  (void)t.node("quantize.grouped_mm");
  const bool float8 =
      contains(converters, "float8") || contains(converters, "quantize.linear.float8");
  const bool mx = contains(converters, "mx") || contains(converters, "quantize.linear.mx");
  if (parameter == "float32" && !float8 && !mx) {
    t.put("precision.recipe", Node::string("fp32"), "training.mixed_precision_param");
  } else if (mx) {
    t.put("precision.recipe", Node::string("mxfp8"), "model.converters");
  } else if (float8) {
    t.put("precision.recipe", Node::string("fp8-current"), "model.converters",
          recipe + " scales of the values at hand");
    if (recipe.rfind("rowwise", 0) == 0) {
      t.warn("precision", "float8 `" + recipe + "` is projected as one scale a tensor", kRecipe);
    }
    if (gather) t.put("framework.state.gather_dtype", Node::string("fp8"), kGather);
  } else {
    t.put("precision.recipe", Node::string("bf16"), "training.mixed_precision_param");
  }
}

// Compiled blocks have a profile of their own: what is fused, how fast the host is.
void read_compile(Translation& t, const TorchtitanSource& source) {
  const bool old = t.is_on("training.compile");
  const bool enabled = t.flag("compile.enable").value_or(false) || old;
  std::vector<std::string> parts = words_of(t, "compile.components");
  if (!t.says("compile.components")) parts = {"model", "loss"};
  const bool model = enabled && (old || contains(parts, "model"));
  const bool loss = enabled && (old || contains(parts, "loss"));
  const char* key = old ? "training.compile" : "compile.enable";
  t.put("framework.profile", Node::string(model ? source.compiled : source.eager), key,
        model ? "compiled blocks" : "eager blocks");
  t.put("loss.fused", Node::boolean(loss), key, loss ? "compiled" : "eager");
}

void read_recompute(Translation& t, int layers) {
  const char* kMode = "activation_checkpoint.mode";
  const char* kOption = "activation_checkpoint.selective_ac_option";
  const std::string mode = t.word(kMode).value_or("selective");
  const std::string option = t.word(kOption).value_or("2");
  if (mode == "none") {
    t.put("recompute.granularity", Node::string("none"), kMode);
  } else if (mode == "full") {
    t.put("recompute.granularity", Node::string("full"), kMode);
  } else if (mode == "selective" && option == "op") {
    t.put("recompute.policy", Node::string("op-level"), kOption);
  } else if (mode == "selective") {
    char* end = nullptr;
    const long every = std::strtol(option.c_str(), &end, 10);
    if (every < 1 || *end != '\0') {
      t.fail(kOption, "`selective_ac_option` cannot be `" + option + "`",
             "it is `op` or a positive number of layers", "recompute.granularity");
      return;
    }
    t.put("recompute.granularity", Node::string("full"), kMode,
          "whole layers, one of every " + option);
    if (every == 1) return;
    Node ids = Node::sequence();
    for (long i = every - 1; i < layers; i += every) ids.append(Node::integer(i));
    if (ids.size() == 0) return;
    t.put("recompute.layer_ids", std::move(ids), kOption);
  } else if (mode == "memory_budget") {
    t.fail(kMode, "`memory_budget` leaves to the compiler what is recomputed: not modelled",
           "use none, selective or full", "recompute.granularity");
  } else {
    t.fail(kMode, "`activation_checkpoint.mode` cannot be `" + mode + "`",
           suggestion(mode, {"none", "selective", "full"}), "recompute.granularity");
  }
}

}  // namespace

std::string torchtitan_evidence(const Node& root) {
  for (const char* key :
       {"parallelism.tensor_parallel_degree", "parallelism.data_parallel_shard_degree",
        "parallelism.pipeline_parallel_degree", "training.local_batch_size", "model.flavor"}) {
    if (text::find_at(root, key) != nullptr) return key;
  }
  return {};
}

Result<JobRead> read_torchtitan(const Node& root, const TorchtitanSource& source) {
  Translation t(root, kTorchtitanKeys, source.format, source.preset_root);
  const int layers = read_model(t);
  const Degrees d{.tp = t.integer("parallelism.tensor_parallel_degree").value_or(1),
                  .pp = t.integer("parallelism.pipeline_parallel_degree").value_or(1),
                  .cp = t.integer("parallelism.context_parallel_degree").value_or(1)};
  t.copy_rows();
  read_batch(t, d);
  read_sharding(t, d);
  read_tensor(t, d);
  read_pipeline(t, d, layers);
  read_precision(t);
  read_compile(t, source);
  read_recompute(t, layers);
  t.assume("mtp.train", Node::boolean(false), "torchtitan has no such modules");
  if (t.is_on("training.enable_cpu_offload")) {
    t.fail("training.enable_cpu_offload", "offloading to the host is not modelled here",
           "switch it off", "optimizer");
  }
  const auto dtype = t.word("training.dtype");
  if (dtype && *dtype == "bfloat16") {
    t.put("framework.state.stores_fp32_parameters", Node::boolean(false), "training.dtype");
    t.put("framework.state.master_weights", Node::boolean(false), "training.dtype",
          "bfloat16 is all there is of a parameter");
  }
  (void)t.flag("debug.moe_force_load_balance");
  return t.finish(source.name);
}

}  // namespace eratos::reader
