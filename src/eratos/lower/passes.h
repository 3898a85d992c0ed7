// The passes over one program, in the order lower() runs them.
#pragma once

#include "eratos/job/job.h"
#include "eratos/layer/context.h"
#include "eratos/ops/ops.h"

namespace eratos::lower {

// Adapters: every weight is frozen (no weight gradient, no operand kept for one), and beside the
// products of the named modules stand two small ones that are trained. Runs first, so that the
// other passes see what remains.
// Assumes: the first layer hands a gradient on, though nothing before it is trained.
void apply_lora(ops::Program& p, const job::LoraSpec& spec, const layer::LayerContext& context);

// Packed sequences: a query sees its own part alone.
void apply_packing(ops::Program& p, double part_length);

// Linear layers' products take the recipe's format, their operands are kept in it, and the casts
// become ops of their own. Router, output layer and attention stay in the activation format.
// Source: TransformerEngine documentation, fp8 primer (which GEMMs run in fp8).
void apply_precision(ops::Program& p, const job::JobSpec& spec);

// Full recomputation: only the program's input is kept, and backward begins with its forward. A head
// at the program's end is left alone: it is not repeated, and keeps what it needs.
// `stops_early`: what neither keeps something for backward nor is needed for it is not repeated.
// Source: PyTorch torch/utils/checkpoint.py, set_checkpoint_early_stop.
// Assumes: routed experts are a layer's last branch, as their shared ones run before or beside them.
void apply_full_recompute(ops::Program& p, bool stops_early);

// Selective recomputation: what the named modules made is dropped, and made again just before
// backward first reads it, after whatever else was dropped that it is made from. Modules whose output only they can rebuild cheaply (norms,
// activations, MLA up projections) drop that as well; others keep what other modules read.
// Source: Megatron-LM core/transformer/transformer_config.py, recompute_modules.
void apply_selective_recompute(ops::Program& p, const job::ModuleSet& modules);

// Full recomputation less what a policy keeps; the rest is made again at once, before the layer's
// backward. `alternate` counts plain products: those of grouped experts and the router are made
// again, results of reduce-scatters are kept.
// `drops_unread`: a compiler cuts the layer, so that a result which backward never reads is not
// kept, whatever the policy says, and nothing is made again for it. Eager, both are done.
// Source: pytorch/torchtitan torchtitan/distributed/activation_checkpoint.py; pytorch
// torch/_functorch/partitioners.py (forward hands on only what backward depends on).
// Worked example: Llama 3.1 8B keeps the products of Q, V, gate and down, attention with its
// statistics and the layer's input: 2 (4096 + 1024 + 14336 + 4096 + 4096 + 4096) + 4 32 = 63,616
// bytes a token; compiled 55,424, as only the next residual reads what down wrote.
void apply_policy(ops::Program& p, const job::RecomputeSpec& spec, bool drops_unread);

// What the named modules keep leaves for the host after forward and returns before backward.
// Assumes: the copies run beside the compute of the layer they belong to, however fine-grained.
void apply_offload(ops::Program& p, const job::ModuleSet& modules);

// Which communication may run beside compute, from the job's switches and the profile.
void apply_overlap(ops::Program& p, const job::JobSpec& spec);

// ZeRO-3: gathers before forward and backward, the gradient's reduce-scatter after it.
void apply_sharding(ops::Program& p, const job::CheckedJob& job);

}  // namespace eratos::lower
