#include "eratos/job/optimizer.h"

#include "eratos/job/job.h"

namespace eratos::job {

namespace {

// flops: m 3, v 4, both bias corrections 2, root, epsilon, quotient and step 5, decay 2: 16.
constexpr double kAdamFlops = 16;

constexpr OptimizerKind kKinds[] = {
    // arXiv 1412.6980, algorithm 1; decoupled decay: arXiv 1711.05101.
    {.name = "adam", .flops = kAdamFlops},
    {.name = "adamw", .flops = kAdamFlops},
    // arXiv 2110.02861; blocks of 256 with an fp32 maximum each, 16-bit parameters updated in
    // place: bitsandbytes-foundation/bitsandbytes optim/optimizer.py.
    {.name = "adam8bit", .block_bytes = 4.0 / 256, .master = false, .flops = kAdamFlops + 8},
    // Momentum kept (Megatron-LM sgd_momentum 0.9): scale and add, step 2, decay 2.
    {.name = "sgd", .second_moment = false, .flops = 6, .kernels = 2},
    // arXiv 2302.06675, algorithm 2: interpolation 3, sign, step 2, decay 2, momentum 3.
    {.name = "lion", .second_moment = false, .flops = 11, .kernels = 2},
    // arXiv 1804.04235, algorithm 4, no momentum. Assumes: row and column sums, (m + n) of m n
    // elements, weigh nothing.
    {.name = "adafactor", .first_moment = false, .second_moment = false, .flops = 12, .kernels = 8},
    // arXiv 2502.16982; matrices hold momentum alone, embeddings, head and vectors use Adam.
    // Whole matrices are needed: NVIDIA/Megatron-LM core/optimizer/muon.py refuses the distributed
    // optimizer.
    {.name = "muon", .second_moment = false, .orthogonalised = true, .shards = false, .flops = 8,
     .kernels = 4},
    // arXiv 1904.00962: Adam, and two norms a layer.
    {.name = "lamb", .flops = kAdamFlops + 4, .kernels = 6},
};

// A moment that the update cannot read as it is held.
void widen(DType held, OptimizerBytes& out) {
  const double bytes = bytes_per_element(held);
  if (bytes >= 4) return;
  constexpr double kWide = 4;
  out.traffic += (bytes + kWide) + 2 * kWide + (kWide + bytes) + 2 * bytes - 2 * bytes;
  out.widened += kWide;
  out.copies += 3;
}

}  // namespace

const OptimizerKind* find_optimizer(std::string_view name) {
  for (const OptimizerKind& kind : kKinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

OptimizerBytes optimizer_bytes(const OptimizerSpec& spec, DType parameter, bool matrix,
                               bool master_weights) {
  const OptimizerKind* found = find_optimizer(spec.kind);
  const OptimizerKind& kind = found != nullptr ? *found : kKinds[0];
  const bool adam = kind.orthogonalised && !matrix;
  const auto state = [&](DType t) {
    return kind.block_bytes > 0 ? 1.0 + kind.block_bytes : bytes_per_element(t);
  };
  OptimizerBytes out;
  if (kind.first_moment || adam) out.states += state(spec.exp_avg);
  if (kind.second_moment || adam) out.states += state(spec.exp_avg_sq);
  const double p = bytes_per_element(parameter);
  if (parameter != DType::fp32 && master_weights && kind.master) {
    const bool remainder = spec.precision_aware && parameter == DType::bf16 &&
                           spec.main_parameter == DType::fp32;
    out.master = remainder ? 2.0 : bytes_per_element(spec.main_parameter);
    // A remainder completes the parameter, which is read as well.
    out.traffic = 2.0 * out.master + (remainder ? 2.0 * p : p);
  } else {
    out.traffic = 2.0 * p;
  }
  out.traffic += bytes_per_element(spec.main_gradient) + 2.0 * out.states;
  if (spec.precision_aware && kind.block_bytes <= 0) {
    if (kind.first_moment || adam) widen(spec.exp_avg, out);
    if (kind.second_moment || adam) widen(spec.exp_avg_sq, out);
  }
  return out;
}

}  // namespace eratos::job
