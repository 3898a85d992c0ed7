#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/export_rows.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/reader/keys_torchtitan.h"
#include "eratos/reader/pattern_table.h"
#include "eratos/text/dump.h"

namespace eratos::reader {

namespace {

using job::JobSpec;
using text::Node;

// What is compared of two architectures: everything but what they are called.
Node sizes_of(const JobSpec& job) {
  const Node written = job_to_node(job, {.model = true});
  Node out = *written.find("model");
  for (const char* label : {"name", "source", "parameters"}) out.erase(label);
  return out;
}

struct Flavor {
  std::string name;
  std::string flavor;
  int layers = 0;
  Node sizes;
};

const std::vector<Flavor>& flavors() {
  static const std::vector<Flavor> kFlavors = [] {
    std::vector<Flavor> out;
    const PatternTable table("torchtitan_flavors");
    for (std::size_t row = 0; row < table.rows(); ++row) {
      const std::string both(table.cell(row, "flavor"));
      const std::size_t slash = both.find('/');
      auto model = load_model(table.cell(row, "model"));
      if (!model || slash == std::string::npos) continue;
      JobSpec holder;
      holder.model = std::move(*model);
      out.push_back({.name = both.substr(0, slash),
                     .flavor = both.substr(slash + 1),
                     .layers = holder.model.layers(),
                     .sizes = sizes_of(holder)});
    }
    return out;
  }();
  return kFlavors;
}

class TorchtitanWriter {
 public:
  explicit TorchtitanWriter(const JobSpec& job)
      : job_(job), p_(job.parallel), rows_(tree_from_rows(kTorchtitanKeys, job_to_node(job))) {
    // Sections stand in torchtitan's own order.
    for (const char* section : {"job", "model", "optimizer", "training", "parallelism",
                                "activation_checkpoint", "compile"}) {
      out_.set(section, Node::mapping());
    }
    for (const text::Entry& section : rows_.entries()) {
      for (const text::Entry& entry : section.value.entries()) {
        put(section.key + "." + entry.key, entry.value);
      }
    }
  }

  Node write() {
    word("job.description", job_.name);
    write_precision();
    write_batch();
    write_sharding();
    write_tensor();
    if (p_.pp > 1) write_pipeline();
    write_recompute();
    write_compile();
    return std::move(out_);
  }

 private:
  void put(const std::string& path, Node value) {
    (void)text::set_at(out_, path, std::move(value));
  }
  void word(const std::string& path, std::string_view value) {
    put(path, Node::string(std::string(value)));
  }
  void count(const std::string& path, int value) { put(path, Node::integer(value)); }

  int dp() const {
    const int replica = p_.tp * p_.pp * p_.cp;
    const int gpus = job_.cluster.accelerator.name.empty() ? 0 : job_.cluster.gpus();
    return gpus > 0 && replica > 0 && gpus % replica == 0 ? gpus / replica : 1;
  }

  void write_batch() {
    const bool piped = p_.pp > 1;
    if (piped) count("parallelism.pipeline_parallel_microbatch_size", job_.batch.micro);
    // All micro-batches of a step go through a pipeline in one run.
    const int rank = job_.batch.global % dp() == 0 ? job_.batch.global / dp() : job_.batch.global;
    count("training.local_batch_size", piped ? rank : job_.batch.micro);
    count("training.global_batch_size", job_.batch.global);
  }

  void write_sharding() {
    int shard = -1;
    int replicas = 1;
    const int all = dp() * std::max(1, p_.cp);
    if (p_.sharding == parallel::Sharding::none) {
      shard = 1;
      replicas = dp();
    } else if (p_.sharding == parallel::Sharding::hsdp && p_.hsdp_group > 0 &&
               all % p_.hsdp_group == 0 && p_.hsdp_group % std::max(1, p_.cp) == 0) {
      replicas = all / p_.hsdp_group;
      shard = p_.hsdp_group / std::max(1, p_.cp);
    }
    count("parallelism.data_parallel_replicate_degree", replicas);
    count("parallelism.data_parallel_shard_degree", shard);
    const bool keeps = p_.sharding == parallel::Sharding::zero1 ||
                       p_.sharding == parallel::Sharding::zero2;
    word("parallelism.fsdp_reshard_after_forward",
         keeps ? "never" : p_.pp > 1 ? "always" : "default");
  }

  void write_tensor() {
    put("parallelism.enable_async_tensor_parallel", Node::boolean(job_.overlap.tp));
    // Without expert parallelism its reader cuts experts over tp as soon as the key is there.
    if (p_.ep > 1 || p_.etp > 1) count("parallelism.expert_tensor_parallel_degree", p_.etp);
    if (!model::is_moe(job_.model)) {
      out_.find("parallelism")->erase("expert_parallel_comm_backend");
    }
  }

  // How many layers the embedding and the output count as, so that dealing evenly gives the job's
  // layout; {0, 0} where none does.
  std::array<int, 2> less_layers(int stages) const {
    const std::vector<job::StageLayout>& wanted = job_.layout.stages;
    const int layers = job_.model.layers();
    const int most = std::min(layers, 128);
    if (static_cast<int>(wanted.size()) != stages) return {0, 0};
    for (int first = 0; first <= most; ++first) {
      for (int last = 0; last <= most; ++last) {
        const int effective = layers + first + last;
        bool same = true;
        for (int i = 0; same && i < stages; ++i) {
          const int here = effective / stages + (i < effective % stages ? 1 : 0) -
                           (i == 0 ? first : 0) - (i == stages - 1 ? last : 0);
          same = here == wanted[static_cast<std::size_t>(i)].layers;
        }
        if (same) return {first, last};
      }
    }
    return {0, 0};
  }

  void write_pipeline() {
    const std::string key = "parallelism.pipeline_parallel_schedule";
    std::string_view schedule =
        their_word(find_row(kTorchtitanKeys, key)->words, job_.schedule.algorithm);
    if (schedule.empty()) schedule = p_.vpp > 1 ? "Interleaved1F1B" : "1F1B";
    word(key, schedule);
    const int stages = p_.pp * std::max(1, p_.vpp);
    const auto [first, last] = less_layers(stages);
    count("parallelism.pipeline_parallel_first_stage_less_layers", first);
    count("parallelism.pipeline_parallel_last_stage_less_layers", last);
    const int effective = job_.model.layers() + first + last;
    const int each = (effective + stages - 1) / stages;
    const bool fits = each > 0 && (effective + each - 1) / each == stages;
    const bool one_chunk = schedule == "1F1B" || schedule == "GPipe";
    if (fits && !one_chunk) count("parallelism.pipeline_parallel_layers_per_stage", each);
  }

  void write_precision() {
    const auto is = [&](auto... recipe) { return ((job_.precision == recipe) || ...); };
    using job::Recipe;
    word("training.mixed_precision_param", is(Recipe::fp32) ? "float32" : "bfloat16");
    if (!job_.framework.state.stores_fp32_parameters && !job_.framework.state.master_weights) {
      word("training.dtype", "bfloat16");
    }
    if (is(Recipe::fp8_current, Recipe::fp8_delayed, Recipe::fp8_blockwise)) {
      put("model.converters", Node::sequence({Node::string("quantize.linear.float8")}));
      word("quantize.linear.float8.recipe_name", "tensorwise");
      put("quantize.linear.float8.enable_fsdp_float8_all_gather",
          Node::boolean(job_.framework.state.gather_dtype == DType::fp8));
    } else if (is(Recipe::mxfp8, Recipe::mxfp4, Recipe::nvfp4)) {
      put("model.converters", Node::sequence({Node::string("quantize.linear.mx")}));
    }
  }

  // n where recomputed layers are n-1, 2n-1, ... of the model; 0 where they are others.
  int every() const {
    const std::vector<int>& ids = job_.recompute.layer_ids;
    if (ids.empty()) return 0;
    const int n = ids.front() + 1;
    if (n < 1) return 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] != n * (static_cast<int>(i) + 1) - 1) return 0;
    }
    return static_cast<int>(ids.size()) == job_.model.layers() / n ? n : 0;
  }

  void write_recompute() {
    const std::string mode = "activation_checkpoint.mode";
    const std::string option = "activation_checkpoint.selective_ac_option";
    const job::RecomputeSpec& spec = job_.recompute;
    if (spec.granularity == job::Granularity::none) {
      word(mode, "none");
    } else if (spec.granularity == job::Granularity::selective || !spec.policy.empty()) {
      word(mode, "selective");
      word(option, "op");
    } else if (every() > 1) {
      word(mode, "selective");
      word(option, std::to_string(every()));
    } else {
      word(mode, "full");
    }
  }

  void write_compile() {
    const std::string& profile = job_.framework.name;
    const bool model = profile == "torchtitan" || (profile != "torchtitan-eager" &&
                                                   job_.framework.fusions.activation);
    put("compile.enable", Node::boolean(model || job_.loss_fused));
    Node parts = Node::sequence();
    if (model) parts.append(Node::string("model"));
    if (job_.loss_fused) parts.append(Node::string("loss"));
    if (parts.size() > 0) put("compile.components", std::move(parts));
  }

  const JobSpec& job_;
  const parallel::ParallelSpec& p_;
  Node rows_;
  Node out_ = Node::mapping();
};

std::string toml_value(const Node& value) {
  if (value.is_sequence()) {
    std::string out = "[";
    for (const Node& each : value.items()) {
      out += (out.size() > 1 ? ", " : "") + toml_value(each);
    }
    return out + "]";
  }
  using text::ScalarKind;
  const ScalarKind kind = value.scalar_kind();
  const bool bare = kind == ScalarKind::integer || kind == ScalarKind::boolean;
  return bare ? text::to_json(value, 0) : text::json_quoted(value.raw());
}

void add_section(const Node& section, const std::string& path, std::string& out) {
  std::string lines;
  for (const text::Entry& entry : section.entries()) {
    if (!entry.value.is_mapping()) lines += entry.key + " = " + toml_value(entry.value) + "\n";
  }
  if (!lines.empty()) out += (out.empty() ? "[" : "\n[") + path + "]\n" + lines;
  for (const text::Entry& entry : section.entries()) {
    if (!entry.value.is_mapping()) continue;
    add_section(entry.value, text::join_path(path, entry.key), out);
  }
}

}  // namespace

Node torchtitan_tree_of(const JobSpec& job) { return TorchtitanWriter(job).write(); }

TorchtitanFlavor torchtitan_flavor_of(const JobSpec& job) {
  const Node sizes = sizes_of(job);
  for (const Flavor& each : flavors()) {
    if (each.sizes == sizes) return {.name = each.name, .flavor = each.flavor, .exact = true};
  }
  for (const Flavor& each : flavors()) {
    if (each.layers == job.model.layers()) return {.name = each.name, .flavor = each.flavor};
  }
  return {.name = flavors().front().name, .flavor = flavors().front().flavor};
}

std::string toml_sections(const Node& root) {
  std::string out;
  for (const text::Entry& section : root.entries()) add_section(section.value, section.key, out);
  return out;
}

}  // namespace eratos::reader
