#include "eratos/reader/truth.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <utility>

#include "eratos/base/check.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/decode.h"
#include "eratos/reader/pattern_table.h"
#include "eratos/reader/truth_layout.h"
#include "eratos/reader/truth_measured.h"
#include "eratos/reader/truth_model.h"
#include "eratos/reader/truth_row.h"
#include "eratos/reader/truth_words.h"

namespace eratos::reader {

namespace {

// Columns without which nothing can be said about a row.
constexpr std::string_view kColumns[] = {"id",      "gpu", "num_gpus", "framework", "model",
                                         "seq_len", "mbs", "gbs",      "tp",        "pp"};

Unusable unusable(const RunName& name, std::string reason, std::string detail = {}) {
  return {name, std::move(reason), std::move(detail)};
}

// Reason and detail of a fault in an architecture.
std::pair<std::string, std::string> architecture_reason(const Diagnostics& faults) {
  std::string detail;
  bool unmodelled = false;
  for (const Diagnostic& d : faults) {
    unmodelled = unmodelled || d.message.find("not modelled") != std::string::npos;
    detail += (detail.empty() ? "" : "; ") + d.message;
  }
  return {unmodelled ? "architecture not modelled" : "architecture incomplete", detail};
}

int number_in(std::string_view word) { return std::atoi(std::string(word).c_str()); }

// "16: qkv attention_out"
void set_lora(std::string_view words, job::LoraSpec& out) {
  const std::size_t colon = words.find(':');
  out.rank = number_in(words.substr(0, colon));
  for (std::size_t m = 0; m < out.targets.size(); ++m) {
    const std::string_view name = ops::name_of(static_cast<ops::Module>(m));
    const std::size_t at = words.find(name, colon);
    if (at == std::string_view::npos || words[at - 1] != ' ') continue;
    const std::size_t end = at + name.size();
    if (end == words.size() || words[end] == ' ') out.targets.set(m);
  }
  ERATOS_CHECK(out.on() && out.targets.any());  // data/run_notes.csv is part of the program
}

// Rate of 8-bit products with a scale for every row (CUTLASS) against one for the tensor (cuBLAS).
// Source: pytorch/ao torchao/float8/README.md, Llama 3 8B on 8 H100: 6,768 against 7,689 tokens/s,
// bf16 6,150.
constexpr double kRowwiseProducts = 0.7;

// What an action `set` of data/run_notes.csv does.
void apply_setting(std::string_view what, job::JobSpec& spec) {
  if (what == "layers redistributed") {
    spec.layout = redistributed(spec);
  } else if (constexpr std::string_view kOutput = "output layer ";
             what.substr(0, kOutput.size()) == kOutput) {
    for (const parallel::OutputLayer o : parallel::kOutputLayers) {
      if (parallel::name_of(o) == what.substr(kOutput.size())) spec.schedule.output_layer = o;
    }
    ERATOS_CHECK(spec.schedule.output_layer != parallel::OutputLayer::last_stage);
  } else if (what == "fp16") {
    spec.precision = job::Recipe::fp16;
    spec.optimizer.main_gradient = job::default_gradient(spec.framework, spec.precision);
  } else if (what == "full recompute") {
    spec.recompute = {};
    spec.recompute.granularity = job::Granularity::full;
  } else if (what == "unfused activation") {
    spec.framework.fusions.activation = false;
  } else if (what == "unfused attention") {
    spec.attention = layer::AttentionKernel::unfused;
  } else if (what == "dropout 0.1") {
    spec.attention_dropout = 0.1;
    spec.hidden_dropout = 0.1;
  } else if (what == "no dropout") {
    spec.attention_dropout = 0;
    spec.hidden_dropout = 0;
  } else if (what == "flash-attention 1") {
    spec.framework.attention_kernel = "flash1";
  } else if (what == "row-wise scales") {
    spec.framework.kernel.narrow_matrix *= kRowwiseProducts;
  } else if (what == "tp overlap") {
    spec.overlap.tp = true;
  } else if (what == "no dp overlap") {
    spec.overlap.grad_reduce = false;
    spec.overlap.param_gather = false;
  } else if (what == "8-bit attention") {
    spec.narrow.attention = job::is_narrow(spec.precision);
  } else if (what == "8-bit output layer") {
    spec.narrow.output_layer = job::is_narrow(spec.precision);
  } else if (what == "no recomputation") {
    spec.recompute = {};
  } else if (what == "padded routing") {
    spec.routing.row_multiple = job::row_multiple(spec.precision);
  } else if (what == "natural routing") {
    spec.routing.balance = job::Balance::skewed;
    spec.routing.skew = 0.25;
  } else if (what == "fused routing") {
    spec.framework.fusions.router = true;
  } else if (what == "expert overlap") {
    spec.overlap.moe_a2a = true;
  } else if (what == "sends block") {
    spec.overlap.p2p = false;
  } else if (what == "p2p overlap") {
    spec.overlap.p2p = true;
  } else if (what == "blocking launches") {
    // The host waits for every kernel: its time adds to the device's.
    spec.framework.host.overlap_exponent = 1;
    spec.framework.host.tp_overlap_exponent = 1;
  } else if (what == "optimizer validated afterwards") {
    spec.schedule.post_validation = spec.schedule.algorithm == "zb-auto";
  } else if (what == "optimizer synchronised") {
    spec.schedule.post_validation = false;
  } else if (what == "bf16 gradient reduction") {
    spec.gradient_reduce_bf16 = true;
  } else if (what == "context parallelism by all-to-all") {
    spec.parallel.cp_kind = parallel::CpKind::a2a;
  } else if (what == "unfused loss") {
    spec.loss_fused = false;
  } else if (what == "unfused routing and permutation") {
    spec.framework.fusions.router = false;
    spec.framework.fusions.permute = false;
  } else if (what == "unfused routing") {
    spec.framework.fusions.router = false;
  } else if (what == "stacked expert weights") {
    spec.framework.saved.stacked_expert_weights = true;
  } else if (what == "experts in one launch") {
    spec.framework.kernel.per_group = Seconds{0};
  } else if (what == "weight gradients added apart") {
    spec.framework.state.wgrad_fused_accumulation = false;
  } else if (what == "bf16 optimizer state") {
    spec.optimizer.precision_aware = true;
    spec.optimizer.main_gradient = DType::bf16;
    spec.gradient_reduce_bf16 = true;  // the buffer that holds them is what is reduced
    spec.optimizer.exp_avg = DType::bf16;
    spec.optimizer.exp_avg_sq = DType::bf16;
  } else if (constexpr std::string_view kWide = "bf16 last layers ";
             what.substr(0, kWide.size()) == kWide) {
    if (job::is_narrow(spec.precision)) {
      spec.narrow.bf16_last_layers = number_in(what.substr(kWide.size()));
    }
  } else if (what == "hybridep") {
    spec.routing.dispatcher = job::Dispatcher::hybridep;
  } else if (what == "8-bit parameters") {
    spec.narrow.parameter_gather = job::is_narrow(spec.precision);
  } else if (constexpr std::string_view kLora = "lora "; what.substr(0, kLora.size()) == kLora) {
    set_lora(what.substr(kLora.size()), spec.lora);
  } else if (constexpr std::string_view kParts = "parts of ";
             what.substr(0, kParts.size()) == kParts) {
    spec.batch.packed_length = number_in(what.substr(kParts.size()));
  } else if (what == "optimizer on the host") {
    spec.offload.optimizer = 1;
  } else if (constexpr std::string_view kLayers = "activations on the host, layers ";
             what.substr(0, kLayers.size()) == kLayers) {
    spec.offload.layers = number_in(what.substr(kLayers.size()));
  } else {
    ERATOS_CHECK(false);  // data/run_notes.csv is part of the program
  }
}

// "activation offload ratio 0.63", "... ratio alpha 0.522"; 0 where nothing is said.
double offload_ratio(std::string_view notes) {
  constexpr std::string_view kWord = "activation offload ratio ";
  const std::size_t at = notes.find(kWord);
  if (at == std::string_view::npos) return 0;
  std::string_view number = notes.substr(at + kWord.size());
  constexpr std::string_view kAlpha = "alpha ";
  if (number.substr(0, kAlpha.size()) == kAlpha) number.remove_prefix(kAlpha.size());
  return std::strtod(std::string(number.substr(0, 8)).c_str(), nullptr);
}

// "CPU-offloaded AdamW", "activation offload ratio 0.63"; not "offload off" and "ratio 0".
bool names_offload(std::string_view notes) {
  constexpr std::string_view kWord = "offload";
  for (std::size_t at = notes.find(kWord); at != std::string_view::npos;
       at = notes.find(kWord, at + 1)) {
    const std::string_view after = notes.substr(at + kWord.size());
    constexpr std::string_view kRatio = " ratio ";
    const bool zero = after.substr(0, kRatio.size()) == kRatio && offload_ratio(notes) == 0;
    if (!zero && after.substr(0, 4) != " off") return true;
  }
  return false;
}

}  // namespace

std::string_view name_of(MemoryKind kind) {
  constexpr std::string_view kNames[] = {"allocated", "reserved", "device"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name_of(SpeedFrom from) {
  constexpr std::string_view kNames[] = {"none", "tokens_per_s_per_gpu", "step_time_s", "mfu",
                                         "tflops_per_gpu"};
  return kNames[static_cast<std::size_t>(from)];
}

struct RunReader::State {
  const text::CsvTable* table;
  const std::vector<text::Node>* models;
  PatternTable frameworks{"framework_aliases"};
  PatternTable clusters{"run_clusters"};
  PatternTable families{"families"};
  PatternTable remarks{"run_notes"};
  PatternTable unsaid{"run_defaults"};
  MeasuredConventions conventions;
  std::map<std::string, Result<model::Architecture>, std::less<>> architectures;
  std::map<std::string, Result<framework::FrameworkProfile>, std::less<>> profiles;
  std::map<std::string, Result<hardware::ClusterSpec>, std::less<>> known_clusters;

  template <class T, class Load>
  const Result<T>& cached(std::map<std::string, Result<T>, std::less<>>& all,
                          const std::string& key, const Load& load) {
    const auto at = all.find(key);
    return at != all.end() ? at->second : all.emplace(key, load()).first->second;
  }

  const text::Node* model_node(const std::string& name) const {
    for (const text::Node& file : *models) {
      const text::Node* list = file.find("models");
      const text::Node* node = (list != nullptr ? *list : file).find(name);
      if (node != nullptr) return node;
    }
    return nullptr;
  }

  const Result<model::Architecture>& architecture(const std::string& name) {
    return cached(architectures, name, [&]() -> Result<model::Architecture> {
      const text::Node* node = model_node(name);
      if (node == nullptr) return load_model(name);
      Result<model::Architecture> decoded = decode_model(completed_model(*node, name));
      // What a run's source leaves out of its architecture, the catalogue may know; not so where it
      // says itself that it does not publish the sizes.
      if (!decoded && node->find("incomplete") == nullptr) {
        if (Result<model::Architecture> known = load_model(name); known) return known;
      }
      if (decoded && decoded->name.empty()) decoded->name = name;
      return decoded;
    });
  }

  const Result<hardware::ClusterSpec>& cluster(const std::string& name) {
    return cached(known_clusters, name, [&] { return load_cluster(name); });
  }

  RunName name_of_row(const TruthRow& row);
  void fill_unsaid(TruthRow& row) const;
  std::string choose_cluster(const RunName& name, int nodes, int gpus_per_node);
  std::optional<Unusable> refuse_part(const Run& run);
  std::optional<Unusable> fill_model(const TruthRow& row, Run& run);
  std::optional<std::size_t> framework_line(const TruthRow& row, const RunName& name) const;
  std::optional<Unusable> fill_framework(const TruthRow& row, Run& run);
  std::optional<Unusable> fill_cluster(const TruthRow& row, Run& run);
  std::optional<Unusable> fill_parallel(const TruthRow& row, Run& run) const;
  std::optional<Unusable> fill_shard_group(const TruthRow& row, Run& run) const;
  std::optional<Unusable> fill_words(const TruthRow& row, Run& run) const;
  std::optional<Unusable> apply_notes(const TruthRow& row, Run& run) const;
  void fill_layout(const TruthRow& row, Run& run) const;
};

RunName RunReader::State::name_of_row(const TruthRow& row) {
  RunName name;
  name.id = row.text("id");
  name.framework = row.text("framework");
  name.gpu = row.text("gpu");
  name.model = row.text("model");
  name.source = row.text("source");
  name.suspect = row.text("suspect");
  name.line = row.line();
  const text::Node* node = model_node(name.model);
  bool moe = node != nullptr && node->find("moe") != nullptr;
  if (node == nullptr) {
    const Result<model::Architecture>& known = architecture(name.model);
    moe = known && model::is_moe(*known);
  }
  const auto line = families.find(name.id, [&](std::size_t at) {
    const std::string_view when = families.cell(at, "when");
    return when.empty() || when == (moe ? "moe" : "dense");
  });
  name.family = line ? std::string(families.cell(*line, "family")) : "other";
  return name;
}

// Every line of data/run_defaults.csv that meets the row and whose field the row leaves empty.
void RunReader::State::fill_unsaid(TruthRow& row) const {
  const std::string framework = row.text("framework");
  const std::string notes = row.text("notes");
  unsaid.find(row.text("id"), [&](std::size_t line) {
    if (!matches(unsaid.cell(line, "framework"), framework)) return false;
    if (notes.find(unsaid.cell(line, "note")) == std::string::npos) return false;
    const std::string_view field = unsaid.cell(line, "field");
    const std::string value(unsaid.cell(line, "value"));
    // A batch is told by the micro-batches of a rank, where these and not the sum are known.
    if (field != "micro_batches") {
      row.fill(field, value);
    } else if (const std::optional<int> ranks = row.whole("dp"), micro = row.whole("mbs");
               ranks && micro) {
      row.fill("gbs", std::to_string(*ranks * *micro * number_in(value)));
    }
    return false;  // further lines may say more
  });
}

// Parts that are no GPU are counted apart, whatever else their rows lack.
std::optional<Unusable> RunReader::State::refuse_part(const Run& run) {
  const Result<hardware::ClusterSpec>& one = cluster(run.name.gpu + "-1x1");
  if (!one || one->accelerator.kind == "gpu") return std::nullopt;
  return unusable(run.name, "out of scope: " + one->accelerator.kind, run.name.gpu);
}

std::optional<Unusable> RunReader::State::fill_model(const TruthRow& row, Run& run) {
  const Result<model::Architecture>& known = architecture(run.name.model);
  if (!known) {
    auto [reason, detail] = architecture_reason(known.error());
    return unusable(run.name, std::move(reason), std::move(detail));
  }
  run.spec.name = row.text("id");
  run.spec.model = *known;
  return std::nullopt;
}

// The first line of data/framework_aliases.csv that meets the row's framework, id and notes.
std::optional<std::size_t> RunReader::State::framework_line(const TruthRow& row,
                                                            const RunName& name) const {
  const std::string notes = row.text("notes");
  return frameworks.find(name.framework, [&](std::size_t line) {
    return matches(frameworks.cell(line, "id"), name.id) &&
           notes.find(frameworks.cell(line, "note")) != std::string::npos;
  });
}

std::optional<Unusable> RunReader::State::fill_framework(const TruthRow& row, Run& run) {
  const std::optional<std::size_t> line = framework_line(row, run.name);
  // A profile's own name, as users write it: megatron@2026.06, or megatron for the newest.
  const std::string& own = run.name.framework;
  const bool generation = own.find('@') != std::string::npos &&
                          find_file(Kind::frameworks, own) != nullptr;
  const std::string alias = line && !generation ? std::string(frameworks.cell(*line, "profile")) : "";
  const std::string profile = alias.empty() ? own : alias;
  if (profile.empty()) return unusable(run.name, "framework without a profile", "none named");
  const Result<framework::FrameworkProfile>& known =
      cached(profiles, profile, [&] { return load_framework(profile); });
  if (!known) {
    const Diagnostic& why = known.error()[0];
    return unusable(run.name, "framework without a profile", why.message + "; " + why.cure);
  }
  run.spec.framework = *known;
  run.spec.loss_fused = known->loss.fused_by_default;
  run.spec.optimizer.main_gradient = known->state.gradient;
  run.spec.optimizer.exp_avg = known->state.moments;
  run.spec.optimizer.exp_avg_sq = known->state.moments;
  run.spec.parallel.hsdp_group = line && frameworks.cell(*line, "hsdp_group") == "node" ? -1 : 0;
  return std::nullopt;
}

// The named network of the row's source where its parts are the row's, else what the part implies.
std::string RunReader::State::choose_cluster(const RunName& name, int nodes, int gpus_per_node) {
  const std::string size = '-' + std::to_string(nodes) + 'x' + std::to_string(gpus_per_node);
  std::string chosen = name.gpu + size;
  clusters.find(name.id, [&](std::size_t line) {
    const std::string candidate = std::string(clusters.cell(line, "cluster")) + size;
    const Result<hardware::ClusterSpec>& known = cluster(candidate);
    const bool same = known && known->accelerator.name == name.gpu;
    if (same) chosen = candidate;
    return same;
  });
  return chosen;
}

std::optional<Unusable> RunReader::State::fill_cluster(const TruthRow& row, Run& run) {
  const std::optional<int> gpus = row.whole("num_gpus");
  if (!gpus || *gpus < 1) return unusable(run.name, "num_gpus not stated");
  int a_node = row.whole("gpus_per_node").value_or(0);
  if (a_node < 1) {
    const Result<hardware::ClusterSpec>& one = cluster(run.name.gpu + "-1x1");
    a_node = one ? one->accelerator.gpus_per_node : 8;
  }
  a_node = std::min(a_node, *gpus);
  if (*gpus % a_node != 0) {
    return unusable(run.name, "degrees contradict", "GPUs do not fill whole nodes");
  }
  const Result<hardware::ClusterSpec>& known =
      cluster(choose_cluster(run.name, *gpus / a_node, a_node));
  if (!known) return unusable(run.name, "accelerator not modelled", known.error()[0].message);
  run.spec.cluster = *known;
  return std::nullopt;
}

std::optional<Unusable> RunReader::State::fill_parallel(const TruthRow& row, Run& run) const {
  for (const std::string_view field : {"seq_len", "mbs", "gbs", "tp", "pp"}) {
    if (!row.whole(field)) return unusable(run.name, std::string(field) + " not stated");
  }
  job::BatchSpec& batch = run.spec.batch;
  batch.micro = *row.whole("mbs");
  batch.global = *row.whole("gbs");
  batch.sequence = *row.whole("seq_len");

  parallel::ParallelSpec& p = run.spec.parallel;
  p.tp = *row.whole("tp");
  p.pp = *row.whole("pp");
  p.cp = row.whole("cp").value_or(1);
  p.vpp = row.whole("vpp").value_or(1);
  p.ep = row.whole("ep").value_or(1);
  const int world = run.spec.cluster.gpus();
  // Megatron-LM: without a value of its own, experts are cut as the rest is; where that cannot be,
  // the recipe said 1. Source: Megatron-LM arguments.py, --expert-tensor-parallel-size.
  const int experts_like_rest = model::is_moe(run.spec.model) ? p.tp : 1;
  const bool divides = p.ep > 0 && p.pp > 0 && world % (p.ep * p.pp * experts_like_rest) == 0;
  p.etp = row.whole("etp").value_or(divides ? experts_like_rest : 1);
  const int model_ranks = p.tp * p.pp * p.cp;
  if (model_ranks < 1 || world % model_ranks != 0) {
    return unusable(run.name, "degrees contradict",
                    std::to_string(world) + " GPUs do not divide by tp x pp x cp");
  }
  p.dp = world / model_ranks;
  if (const std::optional<int> stated = row.whole("dp"); stated && *stated != p.dp) {
    return unusable(run.name, "degrees contradict",
                    "dp is stated as " + std::to_string(*stated) + ", the others leave " +
                        std::to_string(p.dp));
  }
  p.sequence_parallel = p.tp > 1 && row.says_yes("sequence_parallel");

  const std::string& sharding = row.text("sharding");
  for (const auto s : {parallel::Sharding::none, parallel::Sharding::zero1,
                       parallel::Sharding::zero2, parallel::Sharding::zero3}) {
    if (job::name_of(s) == sharding) p.sharding = s;
  }
  return fill_shard_group(row, run);
}

// The ranks that share one copy under hsdp: as the notes say, else one node where that is the
// framework's default.
std::optional<Unusable> RunReader::State::fill_shard_group(const TruthRow& row, Run& run) const {
  parallel::ParallelSpec& p = run.spec.parallel;
  const bool by_node = p.hsdp_group < 0;
  p.hsdp_group = 0;
  if (row.text("sharding") != "hsdp") return std::nullopt;
  p.sharding = parallel::Sharding::hsdp;
  p.hsdp_group = shard_group_in(row.text("notes"));
  if (p.hsdp_group < 1) p.hsdp_group = row.whole("shard_group").value_or(0);
  const int ranks = p.dp * p.cp;
  if (p.hsdp_group < 1 && by_node) p.hsdp_group = std::min(ranks, run.spec.cluster.gpus_per_node);
  if (p.hsdp_group < 1) return unusable(run.name, "shard group not stated");
  return std::nullopt;
}

std::optional<Unusable> RunReader::State::fill_words(const TruthRow& row, Run& run) const {
  job::JobSpec& spec = run.spec;
  const std::string& notes = row.text("notes");
  for (const auto& [reason, what] : std::initializer_list<std::pair<const char*, std::string>>{
           {"precision not modelled", read_precision(row.text("precision"), notes, spec.precision)},
           {"recompute policy not modelled",
            read_recompute(row.text("recompute"), spec.model.layers(), spec.recompute)},
           {"schedule not modelled", read_schedule(row.text("schedule"), spec)},
           {"dispatch not modelled", read_dispatch(row.text("moe_comm"), spec.routing)}}) {
    if (!what.empty()) return unusable(run.name, reason, what);
  }
  spec.optimizer.main_gradient = job::default_gradient(spec.framework, spec.precision);
  if (spec.parallel.vpp == 1 && spec.schedule.algorithm == "interleaved-1f1b") {
    spec.schedule.algorithm = "auto";
  }
  read_overlap(row.text("overlap"), spec.overlap);
  spec.attention = read_attention(row.text("attention"));
  if (row.text("attention").starts_with("flash-attn-1")) spec.framework.attention_kernel = "flash1";
  read_graphs(row.text("cuda_graphs"), notes, spec);
  return std::nullopt;
}

// Every line of data/run_notes.csv that meets the row.
std::optional<Unusable> RunReader::State::apply_notes(const TruthRow& row, Run& run) const {
  const std::string notes = row.text("notes");
  const bool moe = model::is_moe(run.spec.model);
  std::optional<Unusable> refused;
  remarks.find(run.name.id, [&](std::size_t line) {
    const std::string_view when = remarks.cell(line, "when");
    if (notes.find(remarks.cell(line, "note")) == std::string::npos) return false;
    if (!when.empty() && when != (moe ? "moe" : "dense") && when != row.text("precision") &&
        !(when == "full graphs" &&
          row.text("cuda_graphs").find("full_iteration") != std::string::npos) &&
        !(when == "overlap unsaid" && row.text("overlap").empty()) &&
        !(when == "dispatcher unsaid" && moe && row.text("moe_comm").empty())) {
      return false;
    }
    const std::string what(remarks.cell(line, "what"));
    if (remarks.cell(line, "action") == "skip") {
      refused = unusable(run.name, what, std::string(remarks.cell(line, "why")));
      return true;
    }
    apply_setting(what, run.spec);
    return false;  // further lines may say more
  });
  job::OffloadSpec& offload = run.spec.offload;
  if (const double ratio = offload_ratio(notes); ratio > 0) {
    // Assumes: a ratio of the activations is that many of a rank's layers, whole.
    const double layers = static_cast<double>(run.spec.model.layers()) / run.spec.parallel.pp;
    offload.layers = std::max(1, static_cast<int>(std::lround(ratio * layers)));
  }
  if (!refused && names_offload(notes) && offload.optimizer <= 0 && !offload.any_activations()) {
    refused = unusable(run.name, "offload not modelled", "the notes name an offload");
  }
  return refused;
}

void RunReader::State::fill_layout(const TruthRow& row, Run& run) const {
  parallel::ParallelSpec& p = run.spec.parallel;
  if (std::optional<job::LayoutSpec> stated = layout_in(row.text("notes"))) {
    const int stages = static_cast<int>(stated->stages.size());
    if (stages % p.pp == 0 && row.text("vpp").empty()) p.vpp = stages / p.pp;
    if (stages == p.pp * p.vpp) {
      run.spec.layout = *std::move(stated);
      // Megatron refuses a layout whose prediction layers are not those that it trains.
      const auto predicts = [](const job::StageLayout& stage) { return stage.mtp > 0; };
      run.spec.mtp =
          std::any_of(run.spec.layout.stages.begin(), run.spec.layout.stages.end(), predicts);
      return;
    }
  }
  if (run.spec.framework.pipeline_split != framework::PipelineSplit::even) return;
  const int stages = p.pp * p.vpp;
  const int layers = run.spec.model.layers();
  if (layers % stages == 0) return;
  // Layers that divide only with embedding and output counted as layers were dealt so: Megatron-LM
  // refuses the job otherwise (account_for_embedding_in_pipeline_split).
  // Assumes: where they do not divide and the row tells no layout, the last stage of a model with experts
  // took what the others left, as published layouts of such models do, and else stages differed by one
  // layer.
  if ((layers + 2) % stages == 0) {
    run.spec.layout.embedding_counts = true;
    run.spec.layout.output_counts = true;
  } else {
    const bool moe = model::is_moe(run.spec.model);
    std::optional<job::LayoutSpec> rest = moe ? rest_last(run.spec) : std::nullopt;
    run.spec.layout = rest ? *std::move(rest) : balanced(run.spec);
  }
}

Result<RunReader> RunReader::make(const text::CsvTable& table,
                                  const std::vector<text::Node>& models) {
  Diagnostics faults;
  for (const std::string_view column : kColumns) {
    const Result<std::size_t> at = table.require_column(column);
    if (!at) faults.insert(faults.end(), at.error().begin(), at.error().end());
  }
  if (!faults.empty()) return eratos::faults(std::move(faults));
  auto state = std::make_unique<State>();
  state->table = &table;
  state->models = &models;
  return RunReader(std::move(state));
}

tl::expected<Run, Unusable> RunReader::read(std::size_t at) {
  TruthRow row(*state_->table, at);
  state_->fill_unsaid(row);
  Run run;
  run.name = state_->name_of_row(row);
  if (const std::string& bad = row.unreadable(); !bad.empty()) {
    return tl::unexpected(unusable(run.name, "unreadable number", bad));
  }
  std::optional<Unusable> refused = state_->refuse_part(run);
  if (!refused) refused = state_->fill_model(row, run);
  if (!refused) refused = state_->fill_framework(row, run);
  if (!refused) refused = state_->fill_cluster(row, run);
  if (!refused) refused = state_->fill_parallel(row, run);
  if (!refused) refused = state_->fill_words(row, run);
  if (!refused) state_->fill_layout(row, run);
  if (!refused) refused = state_->apply_notes(row, run);
  if (refused) return tl::unexpected(*std::move(refused));
  run.measured = state_->conventions.read(row, run.spec);
  const Measured& m = run.measured;
  if (m.from == SpeedFrom::none && m.memory.value <= 0 && m.outcome.empty()) {
    return tl::unexpected(unusable(run.name, "nothing measured that can be compared"));
  }
  return run;
}

RunReader::RunReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
RunReader::RunReader(RunReader&&) noexcept = default;
RunReader& RunReader::operator=(RunReader&&) noexcept = default;
RunReader::~RunReader() = default;

}  // namespace eratos::reader
