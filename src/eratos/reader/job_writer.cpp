#include <string>
#include <string_view>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/decode.h"
#include "eratos/reader/job_names.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/reader/layout.h"

namespace eratos::reader {

namespace {

using job::JobSpec;
using text::Node;

Node dtype(DType t) { return Node::string(std::string(name_of(t))); }
Node count_or_null(int n) { return n == 0 ? Node::null() : Node::integer(n); }

Node model_node(const JobSpec& job, bool expand) {
  Node tree = model_to_node(job.model);
  if (!expand && find_file(Kind::models, job.model.name) != nullptr) {
    if (auto known = load_model(job.model.name); known && model_to_node(*known) == tree) {
      return Node::string(job.model.name);
    }
  }
  return tree;
}

Node framework_node(const JobSpec& job, bool expand) {
  const std::string name = job.framework.name + "@" + job.framework.generation;
  Node all = framework_to_node(job.framework);
  for (const char* fixed : {"name", "generation", "aliases", "source"}) all.erase(fixed);
  Node out = Node::mapping();
  out.set("profile", Node::string(name));
  Node base = Node::mapping();
  if (!expand) {
    if (auto known = load_framework(name)) base = framework_to_node(*known);
  }
  for (const text::Entry& entry : all.entries()) {
    const Node* old = base.find(entry.key);
    if (old != nullptr && *old == entry.value) continue;
    if (!entry.value.is_mapping() || old == nullptr) {
      out.set(entry.key, entry.value);
      continue;
    }
    Node changed = Node::mapping();
    for (const text::Entry& field : entry.value.entries()) {
      const Node* before = old->find(field.key);
      if (before == nullptr || !(*before == field.value)) changed.set(field.key, field.value);
    }
    out.set(entry.key, std::move(changed));
  }
  if (!expand && out.size() == 1) return Node::string(name);
  return out;
}

Node cluster_node(const JobSpec& job, bool expand) {
  if (job.cluster.accelerator.name.empty()) return Node::null();
  Node tree = cluster_to_node(job.cluster);
  if (!expand) {
    if (auto known = load_cluster(job.cluster.name); known && cluster_to_node(*known) == tree) {
      return Node::string(job.cluster.name);
    }
  }
  return tree;
}

Node parallel_node(const JobSpec& job) {
  const parallel::ParallelSpec& p = job.parallel;
  Node out = Node::mapping();
  out.set("tp", Node::integer(p.tp));
  out.set("pp", Node::integer(p.pp));
  out.set("vpp", Node::integer(p.vpp));
  out.set("cp", Node::integer(p.cp));
  out.set("cp_kind", spelled(p.cp_kind, kCpKinds));
  out.set("ep", Node::integer(p.ep));
  out.set("etp", Node::integer(p.etp));
  out.set("sequence_parallel", Node::boolean(p.sequence_parallel));
  std::string order;
  for (const parallel::Axis axis : p.order) {
    if (!order.empty()) order += '-';
    order += spelled(axis, kOrderAxes).raw();
  }
  out.set("order", Node::string(order));
  if (job.layout.stages.empty()) {
    out.set("layout", Node::null());
  } else {
    out.set("layout", Node::string(job.layout.text.empty() ? layout_text(job.layout.stages)
                                                           : job.layout.text));
  }
  out.set("first_stage_layers", count_or_null(job.layout.first_stage_layers));
  out.set("last_stage_layers", count_or_null(job.layout.last_stage_layers));
  out.set("embedding_counts", Node::boolean(job.layout.embedding_counts));
  out.set("output_counts", Node::boolean(job.layout.output_counts));
  return out;
}

Node module_list(const job::ModuleSet& modules) {
  Node out = Node::sequence();
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (modules.test(i)) {
      out.append(Node::string(std::string(ops::name_of(static_cast<ops::Module>(i)))));
    }
  }
  return out;
}

Node lora_node(const job::LoraSpec& spec) {
  if (!spec.on()) return Node::null();
  Node out = Node::mapping();
  out.set("rank", Node::integer(spec.rank));
  out.set("alpha", Node::number(spec.alpha));
  out.set("dropout", Node::number(spec.dropout));
  out.set("modules", module_list(spec.targets));
  return out;
}

Node recompute_node(const job::RecomputeSpec& spec) {
  Node out = Node::mapping();
  out.set("granularity", spelled(spec.granularity, kGranularities));
  out.set("method", spelled(spec.method, kMethods));
  out.set("layers", Node::integer(spec.layers));
  out.set("modules", module_list(spec.modules));
  Node ids = Node::sequence();
  for (const int id : spec.layer_ids) ids.append(Node::integer(id));
  out.set("layer_ids", std::move(ids));
  out.set("policy", spec.policy.empty() ? Node::null() : Node::string(spec.policy));
  return out;
}

// Appends one group of scalars.
struct Group {
  Node node = Node::mapping();
  Group& with(std::string_view key, Node value) {
    node.set(key, std::move(value));
    return *this;
  }
};

}  // namespace

Node job_to_node(const JobSpec& job, Expand expand) {
  Node out = Node::mapping();
  out.set("name", Node::string(job.name));
  out.set("model", model_node(job, expand.model));
  out.set("parallel", parallel_node(job));
  out.set("batch", Group()
                       .with("micro", Node::integer(job.batch.micro))
                       .with("global", Node::integer(job.batch.global))
                       .with("sequence", Node::integer(job.batch.sequence))
                       .with("packed_length", count_or_null(job.batch.packed_length))
                       .node);
  out.set("precision",
          Group()
              .with("recipe", spelled(job.precision, kRecipes))
              .with("gradient_reduce", spelled(job.gradient_reduce_bf16, kReduceFormats))
              .with("bf16_first_layers", Node::integer(job.narrow.bf16_first_layers))
              .with("bf16_last_layers", Node::integer(job.narrow.bf16_last_layers))
              .with("parameter_gather", Node::boolean(job.narrow.parameter_gather))
              .with("narrow_attention", Node::boolean(job.narrow.attention))
              .with("narrow_output_layer", Node::boolean(job.narrow.output_layer))
              .node);
  out.set("sharding", Group()
                          .with("stage", spelled(job.parallel.sharding, kShardings))
                          .with("group", count_or_null(job.parallel.hsdp_group))
                          .node);
  out.set("recompute", recompute_node(job.recompute));
  out.set("optimizer", Group()
                           .with("kind", Node::string(job.optimizer.kind))
                           .with("main_parameter", dtype(job.optimizer.main_parameter))
                           .with("main_gradient", dtype(job.optimizer.main_gradient))
                           .with("exp_avg", dtype(job.optimizer.exp_avg))
                           .with("exp_avg_sq", dtype(job.optimizer.exp_avg_sq))
                           .with("precision_aware", Node::boolean(job.optimizer.precision_aware))
                           .node);
  out.set("overlap", Group()
                         .with("grad_reduce", Node::boolean(job.overlap.grad_reduce))
                         .with("param_gather", Node::boolean(job.overlap.param_gather))
                         .with("tp", Node::boolean(job.overlap.tp))
                         .with("moe_a2a", Node::boolean(job.overlap.moe_a2a))
                         .with("p2p", Node::boolean(job.overlap.p2p))
                         .node);
  out.set("schedule",
          Group()
              .with("algorithm", Node::string(job.schedule.algorithm))
              .with("group_size", count_or_null(job.schedule.group_size))
              .with("output_layer", spelled(job.schedule.output_layer, kOutputLayerNames))
              .with("activation_limit", count_or_null(job.schedule.activation_limit))
              .with("post_validation", Node::boolean(job.schedule.post_validation))
              .node);
  out.set("moe", Group()
                     .with("dispatcher", spelled(job.routing.dispatcher, kDispatchers))
                     .with("capacity_factor", job.routing.capacity_factor == 0
                                                  ? Node::null()
                                                  : Node::number(job.routing.capacity_factor))
                     .with("pad_to_capacity", Node::boolean(job.routing.pad_to_capacity))
                     .with("row_multiple", count_or_null(job.routing.row_multiple))
                     .with("routing", spelled(job.routing.balance, kBalances))
                     .with("skew", job.routing.skew == 0 ? Node::null()
                                                         : Node::number(job.routing.skew))
                     .node);
  out.set("attention",
          Group().with("implementation", spelled(job.attention, kAttentionKernels)).node);
  out.set("loss", Group().with("fused", Node::boolean(job.loss_fused)).node);
  out.set("dropout", Group()
                         .with("hidden", Node::number(job.hidden_dropout))
                         .with("attention", Node::number(job.attention_dropout))
                         .node);
  out.set("mtp", Group().with("train", Node::boolean(job.mtp)).node);
  out.set("graphs", Group()
                        .with("share", Node::number(job.graph_share))
                        .with("modules", module_list(job.graph_modules))
                        .node);
  out.set("offload", Group()
                         .with("optimizer", Node::number(job.offload.optimizer))
                         .with("activations", module_list(job.offload.activations))
                         .with("layers", Node::integer(job.offload.layers))
                         .node);
  out.set("lora", lora_node(job.lora));
  out.set("framework", framework_node(job, expand.framework));
  out.set("cluster", cluster_node(job, expand.cluster));
  return out;
}

void restore_places(Node& tree, const ImportReport& report) {
  std::vector<std::pair<std::string, Location>> places;
  text::for_each_leaf(tree, [&](const std::string& path, const Node&) {
    const auto from = report.provenance.find(path);
    if (from != report.provenance.end() && !from->second.where.file.empty()) {
      places.emplace_back(path, from->second.where);
    }
  });
  for (const auto& [path, where] : places) {
    Node* at = const_cast<Node*>(text::find_at(tree, path));
    if (at != nullptr) at->set_place(where);
  }
}

}  // namespace eratos::reader
