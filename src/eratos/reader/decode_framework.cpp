#include <deque>
#include <type_traits>

#include "eratos/parallel/schedules.h"
#include "eratos/reader/decode.h"
#include "eratos/reader/fields.h"

namespace eratos::reader {

namespace {

using framework::FrameworkProfile;
using framework::PipelineSplit;
using text::Node;

constexpr Name<PipelineSplit> kSplits[] = {{"even", PipelineSplit::even},
                                           {"cost", PipelineSplit::cost},
                                           {"modules", PipelineSplit::modules}};

// Every field once, for reading and writing alike: section, key (a unit is its last word), value.
template <class Profile, class See>
void for_each_field(Profile& p, See&& see) {
  see("fusions", "norm", p.fusions.norm);
  see("fusions", "norm_cast", p.fusions.norm_cast);
  see("fusions", "unweighted_norm", p.fusions.unweighted_norm);
  see("fusions", "activation", p.fusions.activation);
  see("fusions", "rotary", p.fusions.rotary);
  see("fusions", "softmax", p.fusions.softmax);
  see("fusions", "residual", p.fusions.residual);
  see("fusions", "qkv", p.fusions.qkv);
  see("fusions", "gate_up", p.fusions.gate_up);
  see("fusions", "router", p.fusions.router);
  see("fusions", "permute", p.fusions.permute);
  see("fusions", "grouped_gemm", p.fusions.grouped_gemm);
  see("fusions", "grouped_cast", p.fusions.grouped_cast);
  see("fusions", "expert_epilogue", p.fusions.expert_epilogue);

  see("saved", "eager_norm_square", p.saved.eager_norm_square);
  see("saved", "stacked_expert_weights", p.saved.stacked_expert_weights);
  see("saved", "worst_case_rows", p.saved.worst_case_rows);
  see("saved", "recompute_stops_early", p.saved.recompute_stops_early);
  see("saved", "moe_probs_in_activation", p.saved.moe_probs_in_activation);
  see("saved", "gathered_input", p.saved.gathered_input);
  see("saved", "value_in_joined_qkv", p.saved.value_in_joined_qkv);
  see("saved", "stage_outputs", p.saved.stage_outputs);

  see("loss", "fused_by_default", p.loss.fused_by_default);
  see("loss", "keeps_logits", p.loss.keeps_logits);
  see("loss", "gradient_in_place", p.loss.gradient_in_place);
  see("loss", "gathers_logits", p.loss.gathers_logits);
  see("loss", "fused_in_pieces", p.loss.fused_in_pieces);
  see("loss", "unfused_bytes_per_logit", p.loss.unfused_bytes_per_logit);
  see("loss", "fused_bytes_per_logit", p.loss.fused_bytes_per_logit);
  see("loss", "unfused_traffic_bytes_per_logit", p.loss.unfused_traffic_per_logit);
  see("loss", "fused_traffic_bytes_per_logit", p.loss.fused_traffic_per_logit);

  see("state", "gradient", p.state.gradient);
  see("state", "narrow_fp16_gradient", p.state.narrow_fp16_gradient);
  see("state", "moments", p.state.moments);
  see("state", "wgrad_fused_accumulation", p.state.wgrad_fused_accumulation);
  see("state", "gradient_placeholders", p.state.gradient_placeholders);
  see("state", "keeps_narrow_gradient", p.state.keeps_narrow_gradient);
  see("state", "narrow_gradient_in_pipeline", p.state.narrow_gradient_in_pipeline);
  see("state", "contiguous_gradient_buffer", p.state.contiguous_gradient_buffer);
  see("state", "zero1_all_reduce", p.state.zero1_all_reduce);
  see("state", "zero1_overlaps", p.state.zero1_overlaps);
  see("state", "reduce_bucket_bytes", p.state.reduce_bucket_bytes);
  see("state", "stores_fp32_parameters", p.state.stores_fp32_parameters);
  see("state", "master_weights", p.state.master_weights);
  see("state", "gradient_reduce_fp32", p.state.gradient_reduce_fp32);
  see("state", "step_bytes_per_parameter", p.state.step_bytes_per_parameter);
  see("state", "step_flat_bytes_per_parameter", p.state.step_flat_bytes_per_parameter);
  see("state", "gathered_units", p.state.gathered_units);
  see("state", "gathered_in_pipeline", p.state.gathered_in_pipeline);
  see("state", "gathered_with_experts", p.state.gathered_with_experts);
  see("state", "deferred_gradient_bytes", p.state.deferred_gradient_bytes);
  see("state", "gather_dtype", p.state.gather_dtype);

  see("memory", "context_bytes", p.memory.context);
  see("memory", "communicator_bytes", p.memory.communicator);
  see("memory", "all_to_all_peer_bytes", p.memory.all_to_all_peer);
  see("memory", "allocator_rounding_bytes", p.memory.allocator_rounding);
  see("memory", "reserve_fraction", p.memory.reserve_fraction);
  see("memory", "expandable_fraction", p.memory.expandable_fraction);
  see("memory", "pressed_fraction", p.memory.pressed_fraction);
  see("memory", "expandable_segments", p.memory.expandable_segments);
  see("memory", "bucket_bytes", p.memory.buckets);
  see("memory", "workspace_bytes", p.memory.workspace);
  see("memory", "hidden_buffers", p.memory.hidden_buffers);
  see("memory", "lagging_layers", p.memory.lagging_layers);
  see("memory", "lagging_nodes", p.memory.lagging_nodes);
  see("memory", "lagging_group_nodes", p.memory.lagging_group_nodes);

  see("host", "per_kernel_s", p.host.per_kernel);
  see("host", "per_layer_s", p.host.per_layer);
  see("host", "per_layer_tp_across_nodes_s", p.host.per_layer_tp_across_nodes);
  see("host", "per_layer_tp_each_node_s", p.host.per_layer_tp_each_node);
  see("host", "per_micro_batch_s", p.host.per_micro_batch);
  see("host", "per_blocking_send_s", p.host.per_blocking_send);
  see("host", "per_step_s", p.host.per_step);
  see("host", "per_gathered_piece_s", p.host.per_gathered_piece);
  see("host", "per_moe_layer_s", p.host.per_moe_layer);
  see("host", "per_moe_router_s", p.host.per_moe_router);
  see("host", "per_moe_wait_s", p.host.per_moe_wait);
  see("host", "per_moe_overlap_s", p.host.per_moe_overlap);
  see("host", "per_local_expert_s", p.host.per_local_expert);
  see("host", "per_recompute_s", p.host.per_recompute);
  see("host", "overlap_exponent", p.host.overlap_exponent);
  see("host", "tp_overlap_exponent", p.host.tp_overlap_exponent);

  see("overlap", "tp_share", p.overlap.tp_share);
  see("overlap", "tp_backward_share", p.overlap.tp_backward_share);
  see("overlap", "dp_share", p.overlap.dp_share);
  see("overlap", "fsdp_share", p.overlap.fsdp_share);
  see("overlap", "ep_share", p.overlap.ep_share);
  see("overlap", "pp_exposed", p.overlap.pp_exposed);
  see("overlap", "pp_interleaved_only", p.overlap.pp_interleaved_only);
  see("overlap", "pp_scattered", p.overlap.pp_scattered);
  see("overlap", "contention", p.overlap.contention);

  see("kernel", "matrix", p.kernel.matrix);
  see("kernel", "narrow_matrix", p.kernel.narrow_matrix);
  see("kernel", "attention", p.kernel.attention);
  see("kernel", "memory_bound", p.kernel.memory_bound);
  see("kernel", "collective", p.kernel.collective);
  see("kernel", "network_decay", p.kernel.network_decay);
  see("kernel", "scatter_add", p.kernel.scatter_add);
  see("kernel", "attention_sinks", p.kernel.attention_sinks);
  see("kernel", "reduce_scatter_by_all_reduce", p.kernel.reduce_scatter_by_all_reduce);
  see("kernel", "per_group_s", p.kernel.per_group);

  see("schedules", "offered", p.schedules.offered);
  see("schedules", "split_recompute", p.schedules.split_recompute);
  see("schedules", "split_dp_overlap", p.schedules.split_dp_overlap);

  see("", "vocab_divisible_by", p.vocab_divisible_by);
  see("", "attention_kernel", p.attention_kernel);
}

Node to_node(bool value) { return Node::boolean(value); }
Node to_node(int value) { return Node::integer(value); }
Node to_node(double value) { return Node::number(value); }
Node to_node(DType value) { return Node::string(std::string(name_of(value))); }
Node to_node(const std::string& value) { return Node::string(value); }
template <class Tag>
Node to_node(Quantity<Tag> value) {
  return Node::number(value.value);
}
Node to_node(const std::vector<std::string>& value) {
  Node list = Node::sequence();
  for (const std::string& name : value) list.append(Node::string(name));
  return list;
}

void check_schedules(const std::vector<std::string>& offered, Fields& fields) {
  std::vector<std::string> known;
  for (const parallel::ScheduleFacts& f : parallel::kScheduleFacts) known.emplace_back(f.name);
  for (const std::string& name : offered) {
    if (parallel::find_schedule_facts(name) != nullptr) continue;
    const std::string near = nearest_name(name, known);
    fields.fail(
        "offered", "unknown schedule `" + name + "`",
        near.empty() ? "`eratos list schedules` shows them" : "did you mean `" + near + "`?");
  }
}

}  // namespace

Result<FrameworkProfile> decode_framework(const Node& root, std::string_view path) {
  Diagnostics bad;
  FrameworkProfile profile;
  Fields top(&root, std::string(path), bad);
  top.require("name", profile.name);
  top.require("generation", profile.generation);
  top.read("aliases", profile.aliases);
  top.require("source", profile.source);
  top.skip("notes");
  top.read_name("pipeline_split", profile.pipeline_split, kSplits);

  std::deque<std::pair<std::string, Fields>> sections;
  for_each_field(profile, [&](std::string_view section, const char* key, auto& value) {
    if (section.empty()) {
      top.read(key, value);
      return;
    }
    if (sections.empty() || sections.back().first != section) {
      sections.emplace_back(std::string(section), top.child(section));
      // Where the section's numbers come from; said in the file, not carried along.
      sections.back().second.skip("source");
    }
    sections.back().second.read(key, value);
  });
  for (auto& [name, fields] : sections) {
    if (name == "schedules") check_schedules(profile.schedules.offered, fields);
    fields.finish();
  }
  top.finish();
  if (!bad.empty()) return faults(std::move(bad));
  return profile;
}

Node framework_to_node(const FrameworkProfile& profile) {
  Node out = Node::mapping();
  out.set("name", Node::string(profile.name));
  out.set("generation", Node::string(profile.generation));
  out.set("aliases", to_node(profile.aliases));
  for (const auto& [name, value] : kSplits) {
    if (value == profile.pipeline_split) {
      out.set("pipeline_split", Node::string(std::string(name)));
    }
  }
  for_each_field(profile, [&](std::string_view section, const char* key, const auto& value) {
    if (section.empty()) {
      out.set(key, to_node(value));
      return;
    }
    Node* group = out.find(section);
    if (group == nullptr) {
      out.set(section, Node::mapping());
      group = out.find(section);
    }
    group->set(key, to_node(value));
  });
  out.set("source", Node::string(profile.source));
  return out;
}

}  // namespace eratos::reader
