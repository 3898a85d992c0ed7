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
  op.work = ops::Collective{kind, axis, bytes, overlappable};
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
  const DType activation = job::activation_dtype(job.spec->precision);
  const DType gradient = profile.state.gradient_reduce_fp32 && !job.spec->gradient_reduce_bf16
                             ? DType::fp32
                             : activation;
  // fp32 weights are gathered as they are: there is no 16-bit copy of them.
  const DType gathered_format =
      activation == DType::fp32 ? activation : profile.state.gather_dtype;
  const struct {
    double elements;
    Axis axis;
  } parts[] = {{dense, Axis::hsdp_shard}, {experts, Axis::edp}};
  for (const auto& part : parts) {
    if (part.elements <= 0 || parallel::group_of(job.parallel, part.axis).size <= 1) continue;
    const Bytes gathered = bytes_of(part.elements, gathered_format);
    const ops::Op gather = traffic(ops::Pass::forward, ops::Module::parameter_gather,
                                   CollectiveKind::all_gather, part.axis, gathered, share);
    p.forward.insert(p.forward.begin(), gather);
    ops::Op again = gather;
    again.pass = ops::Pass::dgrad;
    p.backward.insert(p.backward.begin(), again);
    p.backward.push_back(traffic(ops::Pass::wgrad, ops::Module::gradient_reduce,
                                 CollectiveKind::reduce_scatter, part.axis,
                                 bytes_of(part.elements, gradient), share));
  }
}

}  // namespace eratos::lower
