#include "eratos/lower/passes.h"

namespace eratos::lower {

namespace {

using ops::CollectiveKind;
using parallel::Axis;

ops::Op traffic(ops::Pass pass, ops::Module module, CollectiveKind kind, Axis axis, Bytes bytes,
                double overlappable) {
  ops::Op op;
  op.pass = pass;
  op.module = module;
  op.stream = ops::Stream::dp;
  op.work = ops::Collective{kind, axis, bytes, overlappable, {}};
  return op;
}

}  // namespace

void apply_sharding(ops::Program& p, const job::CheckedJob& job) {
  const parallel::Sharding sharding = job.parallel.sharding;
  if (sharding != parallel::Sharding::zero3 && sharding != parallel::Sharding::hsdp) return;
  const auto& profile = job.spec->framework;
  const double share = profile.overlap.fsdp_share;
  const double experts = ops::parameter_elements(p, true);
  const double dense = ops::parameter_elements(p) - experts;
  double trained_experts = 0;
  double trained_dense = 0;
  double narrow_experts = 0;
  double narrow_dense = 0;
  for (const ops::Parameter& q : p.parameters) {
    if (q.narrow) (q.expert ? narrow_experts : narrow_dense) += q.elements;
    if (!q.frozen) (q.expert ? trained_experts : trained_dense) += q.elements;
  }
  const DType activation = job::activation_dtype(job.spec->precision);
  const DType gradient = profile.state.gradient_reduce_fp32 && !job.spec->gradient_reduce_bf16
                             ? DType::fp32
                             : activation;
  // fp32 weights are gathered as they are: there is no 16-bit copy of them.
  const DType gathered_format =
      activation == DType::fp32 ? activation : profile.state.gather_dtype;
  const int secondary = sharding == parallel::Sharding::zero3 ? job.parallel.hsdp_group : 0;
  const Axis dense_axis = secondary > 0 ? Axis::dp_cp : Axis::hsdp_shard;
  const double each = bytes_per_element(gathered_format);
  const double narrow_each = job.spec->narrow.parameter_gather
                                 ? job::cast_rule(job.spec->precision).gathered_bytes
                                 : each;
  const struct {
    double elements;
    double narrow;
    double trained;
    Axis axis;
  } parts[] = {{dense, narrow_dense, trained_dense, dense_axis},
               {experts, narrow_experts, trained_experts, Axis::edp}};
  for (const auto& part : parts) {
    if (part.elements <= 0 || parallel::group_of(job.parallel, part.axis).size <= 1) continue;
    const Bytes gathered{(part.elements - part.narrow) * each + part.narrow * narrow_each};
    const ops::Op gather = traffic(ops::Pass::forward, ops::Module::parameter_gather,
                                   CollectiveKind::all_gather, part.axis, gathered, share);
    p.forward.insert(p.forward.begin(), gather);
    ops::Op again = gather;
    again.pass = ops::Pass::dgrad;
    if (secondary > 0 && part.axis == Axis::dp_cp) {
      // The copy that forward gathered stays cut over the nearest ranks, and backward asks those.
      // Source: arXiv 2306.10209 (ZeRO++), section 3.2, hierarchical partitioning.
      again.work = ops::Collective{CollectiveKind::all_gather, Axis::hsdp_shard, gathered, share, {}};
    }
    p.backward.insert(p.backward.begin(), again);
    if (part.trained <= 0) continue;
    p.backward.push_back(traffic(ops::Pass::wgrad, ops::Module::gradient_reduce,
                                 CollectiveKind::reduce_scatter, part.axis,
                                 bytes_of(part.trained, gradient), share));
  }
}

}  // namespace eratos::lower
