// What a rank does once a step: gradient reduction, norm, optimizer, parameter gather.
#pragma once

#include <vector>

#include "eratos/job/job.h"
#include "eratos/ops/stage.h"

namespace eratos::lower {

// Local parameters of one pipeline rank, by what reduces them.
struct RankParameters {
  double dense = 0;
  double expert = 0;
  double replicated = 0;  // norms, router, MLA down projections: every tp rank holds them whole
  double shared_embedding = 0;  // tied table held on two stages
};

RankParameters rank_parameters(const job::CheckedJob& job, const ops::LoweredJob& lowered, int rank);

// Appends the step ops of one rank. Source of the byte counts: docs/MODEL.md, optimizer.
void step_ops(const job::CheckedJob& job, const RankParameters& n, std::vector<ops::Op>& out);

// Ranks that share optimizer state of dense and of expert parameters.
double dense_shards(const job::CheckedJob& job);
double expert_shards(const job::CheckedJob& job);

}  // namespace eratos::lower
