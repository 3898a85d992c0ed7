#include "eratos/lower/step.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "eratos/job/optimizer.h"
#include "eratos/lower/lower.h"

namespace eratos::lower {

namespace {

// Source: arXiv 2502.16982, equation 2: five rounds of X <- aX + (bA + cA^2) X with A = X X^T, on
// 16-bit matrices; KellerJordan/Muon.
constexpr int kNewtonSchulzRounds = 5;

using ops::CollectiveKind;
using ops::Module;
using parallel::Axis;
using parallel::Sharding;

void collective(std::vector<ops::Op>& out, Module module, CollectiveKind kind, Axis axis,
                ops::Stream stream, Bytes bytes, double overlappable) {
  ops::Op op;
  op.pass = ops::Pass::step;
  op.module = module;
  op.stream = stream;
  op.work = ops::Collective{kind, axis, bytes, overlappable, {}};
  out.push_back(op);
}

void elementwise(std::vector<ops::Op>& out, Module module, double bytes, int kernels) {
  ops::Op op;
  op.pass = ops::Pass::step;
  op.module = module;
  op.kernels = static_cast<std::uint16_t>(kernels);
  op.work = ops::Elementwise{Bytes{bytes}, ops::ElementwiseClass::optimizer};
  out.push_back(op);
}

// Gradients go to the host and parameters come back; its processors update one after the other.
void update_on_host(const job::CheckedJob& job, double parameters, std::vector<ops::Op>& out) {
  const job::JobSpec& spec = *job.spec;
  const double each = bytes_per_element(spec.optimizer.main_gradient) +
                      bytes_per_element(job::activation_dtype(spec.precision));
  ops::Op op;
  op.pass = ops::Pass::step;
  op.module = Module::optimizer;
  op.stream = ops::Stream::host;
  op.work = ops::HostCopy{Bytes{parameters * each}, 0, parameters};
  out.push_back(op);
}

bool is_sharded_step(Sharding s) { return s == Sharding::zero1 || s == Sharding::zero2; }

// Gradients in buckets of a fixed size, each reduced as soon as backward has filled it. The table of the
// input embedding is the last to have its gradient, and by then nothing is left to hide it.
// Source: PyTorch torch/nn/parallel/distributed.py (bucket_cap_mb), reducer.cpp.
void reduce_in_buckets(double bucket, double bytes, double last, Axis axis, double hidden,
                       std::vector<ops::Op>& out) {
  const struct {
    double bytes;
    double hidden;
  } parts[] = {{bytes - last, hidden}, {last, 0.0}};
  for (const auto& part : parts) {
    if (part.bytes <= 0) continue;
    const double each = std::min(bucket, part.bytes);
    collective(out, Module::gradient_reduce, CollectiveKind::all_reduce, axis, ops::Stream::dp,
               Bytes{each}, part.hidden);
    std::get<ops::Collective>(out.back().work).repeats = part.bytes / each;
  }
}

// `narrow`: those of the elements whose products run in 8 or 4 bits. `last`: those of the input embedding.
void reduce_gradients(const job::CheckedJob& job, double elements, double narrow, double last, Axis axis,
                      std::vector<ops::Op>& out) {
  if (elements <= 0 || parallel::group_of(job.parallel, axis).size <= 1) return;
  const job::JobSpec& spec = *job.spec;
  const auto& profile = spec.framework;
  // Gradients held narrower than the wire's format go over it as they are.
  const bool wide = profile.state.gradient_reduce_fp32 && !spec.gradient_reduce_bf16 &&
                    spec.optimizer.main_gradient != DType::fp16;
  const DType gradient = wide ? DType::fp32 : job::activation_dtype(spec.precision);
  const Bytes bytes = bytes_of(elements, gradient);
  const Sharding sharding = job.parallel.sharding;
  const bool beside = sharding != Sharding::zero1 || profile.state.zero1_overlaps;
  const double hidden = spec.overlap.grad_reduce && beside ? profile.overlap.dp_share : 0.0;
  if (is_sharded_step(sharding)) {
    const CollectiveKind kind = profile.state.zero1_all_reduce && sharding == Sharding::zero1
                                    ? CollectiveKind::all_reduce
                                    : CollectiveKind::reduce_scatter;
    collective(out, Module::gradient_reduce, kind, axis, ops::Stream::dp, bytes, hidden);
    const double gather = spec.overlap.param_gather && beside ? profile.overlap.dp_share : 0.0;
    const double each = bytes_per_element(job::activation_dtype(spec.precision));
    const double narrow_bytes =
        spec.narrow.parameter_gather ? job::cast_rule(spec.precision).gathered_bytes : each;
    collective(out, Module::parameter_gather, CollectiveKind::all_gather, axis, ops::Stream::dp,
               Bytes{(elements - narrow) * each + narrow * narrow_bytes}, gather);
  } else if (sharding == Sharding::none && profile.state.reduce_bucket_bytes > 0) {
    reduce_in_buckets(profile.state.reduce_bucket_bytes, bytes.value,
                      bytes_of(last, gradient).value, axis, hidden, out);
  } else if (sharding == Sharding::none) {
    collective(out, Module::gradient_reduce, CollectiveKind::all_reduce, axis, ops::Stream::dp, bytes,
               hidden);
  }
}

// Ranks of one pipeline that hold the same stage.
// Assumes: sharded state is cut over both copies of a bidirectional pipeline too.
int copies(const job::CheckedJob& job) { return parallel::copies_of(job.parallel.placement); }

// A stage of a bidirectional pipeline lies on two ranks, so its gradients are summed over 2 d ranks
// instead of d, and its parameters gathered from as many. A ring over n ranks moves (n - 1) / n of the
// bytes each way: the second rank adds 1 / (2 d) of the gradients and as much of the parameters, over the
// link between the two.
void mirror_gradients(const job::CheckedJob& job, const RankParameters& n, std::vector<ops::Op>& out) {
  const job::JobSpec& spec = *job.spec;
  const double gradient = bytes_per_element(job::held_gradient(spec));
  const double gathered = is_sharded_step(job.parallel.sharding)
                              ? bytes_per_element(job::activation_dtype(spec.precision))
                              : gradient;  // an all-reduce: the sums come back
  const double dense = n.dense / (static_cast<double>(job.parallel.dp) * job.parallel.cp);
  const double expert = n.expert > 0 ? n.expert / job.parallel.edp() : 0.0;
  collective(out, Module::gradient_reduce, CollectiveKind::send_recv, Axis::pp, ops::Stream::dp,
             Bytes{(dense + expert) * (gradient + gathered) / 2},
             spec.overlap.grad_reduce ? spec.framework.overlap.dp_share : 0.0);
}

}  // namespace

double dense_shards(const job::CheckedJob& job) {
  switch (job.parallel.sharding) {
    case Sharding::none:
      return 1;
    case Sharding::hsdp:
      return parallel::group_of(job.parallel, Axis::hsdp_shard).size;
    default:
      return static_cast<double>(job.parallel.dp) * job.parallel.cp * copies(job);
  }
}

double expert_shards(const job::CheckedJob& job) {
  return job.parallel.sharding == Sharding::none ? 1 : job.parallel.edp() * copies(job);
}

RankParameters rank_parameters(const job::CheckedJob& job, const ops::LoweredJob& lowered, int rank) {
  RankParameters n;
  const int pp = job.parallel.pp;
  const bool cut = job.parallel.output_layer != parallel::OutputLayer::last_stage;
  // A tied table is held twice where its two ends are on different ranks; cut over all, once.
  const bool twice = job.spec->model.tie_embeddings && pp > 1 && !cut &&
                     job.parallel.placement == parallel::Placement::looped;
  for (int part = 0; part < parts_of(job); ++part) {
    const ops::StageProgram& stage = part_of(job, lowered, rank, part);
    for (const ops::StageItem& item : stage.items) {
      const ops::Program& p = lowered.programs[item.program];
      for (const ops::Parameter& q : p.parameters) {
        const double elements = q.elements * item.repeat;
        if (q.frozen) continue;  // neither reduced nor gathered, and cast once for all
        if (q.embedding && q.module == Module::embedding) n.input_embedding += elements;
        if (q.narrow) (q.expert ? n.expert_narrow : n.dense_narrow) += elements;
        if (q.matrix && !q.embedding) (q.expert ? n.expert_matrix : n.dense_matrix) += elements;
        (q.expert ? n.expert : n.dense) += elements;
        (q.expert ? n.expert_tensors : n.dense_tensors) += q.copies * item.repeat;
        if (q.replicated) n.replicated += elements;
        if (q.embedding && twice) n.shared_embedding += elements;
      }
    }
  }
  return n;
}

void step_ops(const job::CheckedJob& job, const RankParameters& n, std::vector<ops::Op>& out) {
  const job::JobSpec& spec = *job.spec;
  const auto& profile = spec.framework;
  const DType main = job::held_gradient(spec);
  if (job.parallel.sequence_parallel && job.parallel.tp > 1 && n.replicated > 0) {
    // What every rank holds whole sees only the rank's shard of the tokens. Source: arXiv 2205.05198,
    // section 4.2.2; Megatron-LM core/distributed/finalize_model_grads.py (`sequence_parallel`).
    collective(out, Module::gradient_reduce, CollectiveKind::all_reduce, Axis::tp, ops::Stream::tp,
               bytes_of(n.replicated, main), 0.0);
  }
  if (n.shared_embedding > 0) {
    // The two ends of the pipeline exchange their sums: an all-reduce of two ranks.
    collective(out, Module::gradient_reduce, CollectiveKind::send_recv, Axis::pp, ops::Stream::pp,
               bytes_of(n.shared_embedding, main), 0.0);
  }
  if (copies(job) > 1) mirror_gradients(job, n, out);
  reduce_gradients(job, n.dense, n.dense_narrow, n.input_embedding, Axis::dp_cp, out);
  reduce_gradients(job, n.expert, n.expert_narrow, 0, Axis::edp, out);
  if (job.parallel.sharding == Sharding::hsdp && n.dense > 0) {
    collective(out, Module::gradient_reduce, CollectiveKind::all_reduce, Axis::hsdp_replica,
               ops::Stream::dp, bytes_of(n.dense / dense_shards(job), main),
               spec.overlap.grad_reduce ? profile.overlap.dp_share : 0.0);
  }
  const double owned = n.dense / dense_shards(job) + n.expert / expert_shards(job);
  const double gradient = bytes_per_element(main);
  // Norm: one read. Adam: read the gradient, read and write master and both moments, write the
  // parameter: counted, 34 B with the norm's 4 where state is fp32. Step times of four frameworks
  // agree with it at about half of the bandwidth (share `optimizer` of data/calibrations).
  elementwise(out, Module::gradient_norm, owned * gradient, 2);
  const DType stored = job::activation_dtype(spec.precision);
  const job::OptimizerKind* kind = job::find_optimizer(spec.optimizer.kind);
  const double owned_matrix =
      n.dense_matrix / dense_shards(job) + n.expert_matrix / expert_shards(job);
  const double update =
      (owned - owned_matrix) * job::optimizer_bytes(spec.optimizer, stored, false, true).traffic +
      owned_matrix * job::optimizer_bytes(spec.optimizer, stored, true, true).traffic;
  const double host = spec.offload.optimizer;
  // A rank owns its part of a flat buffer, so that part of the tensors.
  const double tensors =
      n.dense_tensors / dense_shards(job) + n.expert_tensors / expert_shards(job);
  const double copies = job::optimizer_bytes(spec.optimizer, stored, false, true).copies;
  const double launches = (kind != nullptr ? kind->kernels : 4) + copies * std::ceil(tensors);
  elementwise(out, Module::optimizer, update * (1 - host),
              static_cast<int>(std::min(65535.0, launches)));
  if (host > 0) update_on_host(job, host * owned, out);
  const double narrow = spec.narrow.parameter_gather
                            ? n.dense_narrow / dense_shards(job) + n.expert_narrow / expert_shards(job)
                            : n.dense_narrow + n.expert_narrow;
  if (narrow > 0) {
    elementwise(out, Module::quantize,
                narrow * job::cast_traffic(spec.precision, spec.cluster.accelerator),
                job::cast_rule(spec.precision).kernels);
  }
}

void orthogonalise(const ops::Program& p, int repeat, std::vector<ops::Op>& out) {
  for (const ops::Op& op : p.backward) {
    const auto* w = std::get_if<ops::Gemm>(&op.work);
    if (w == nullptr || op.pass != ops::Pass::wgrad || op.module == Module::output_layer) continue;
    const double matrices = std::max(1.0, w->groups) * repeat;
    const double rows = w->m / std::max(1.0, w->groups);
    const double a = std::min(rows, w->n);
    const double b = std::max(rows, w->n);
    ops::Op product;
    product.pass = ops::Pass::step;
    product.module = Module::optimizer;
    product.kernels = static_cast<std::uint16_t>(std::min(65535.0, matrices));
    const ops::Gemm round[] = {{matrices * a, a, b, matrices, DType::bf16, false},
                               {matrices * a, a, a, matrices, DType::bf16, false},
                               {matrices * a, b, a, matrices, DType::bf16, false}};
    for (int i = 0; i < kNewtonSchulzRounds; ++i) {
      for (const ops::Gemm& g : round) {
        product.work = g;
        out.push_back(product);
      }
    }
  }
}

}  // namespace eratos::lower
