// What a rank does once a step: gradient reduction, norm, optimizer, parameter gather.
#pragma once

#include <vector>

#include "eratos/job/job.h"
#include "eratos/ops/stage.h"

namespace eratos::lower {

// Local trained parameters of one pipeline rank, by what reduces them.
struct RankParameters {
  double dense = 0;
  double expert = 0;
  double replicated = 0;  // norms, router, MLA down projections: every tp rank holds them whole
  double dense_matrix = 0;  // trained weights of linear layers
  double expert_matrix = 0;
  double dense_narrow = 0;  // whose products run in 8 or 4 bits
  double expert_narrow = 0;
  double shared_embedding = 0;  // tied table held on two stages
  double input_embedding = 0;   // trained, of the rank that looks tokens up
  double dense_tensors = 0;     // trained tensors, an expert's weight counted as one
  double expert_tensors = 0;
};

RankParameters rank_parameters(const job::CheckedJob& job, const ops::LoweredJob& lowered, int rank);

// Appends the step ops of one rank. Source of the byte counts: docs/MODEL.md, optimizer.
void step_ops(const job::CheckedJob& job, const RankParameters& n, std::vector<ops::Op>& out);

// Newton-Schulz rounds on every matrix of `repeat` layers: per round and matrix of a x b, a <= b,
// products of 2 a^2 b, 2 a^3 and 2 a^2 b FLOPs. The shapes are those of the weight gradients.
// Worked example: 4096 x 14336: 5 * (4 * 4096^2 * 14336 + 2 * 4096^3) = 5.5 TFLOP.
// Assumes: each rank orthogonalises its own shard of a matrix (Megatron-LM muon_tp_mode blockwise).
void orthogonalise(const ops::Program& p, int repeat, std::vector<ops::Op>& out);

// Ranks that share optimizer state of dense and of expert parameters.
double dense_shards(const job::CheckedJob& job);
double expert_shards(const job::CheckedJob& job);

}  // namespace eratos::lower
