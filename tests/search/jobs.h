// Jobs that the tests of searches start from.
#pragma once

#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/job/job.h"
#include "eratos/model/architecture.h"
#include "eratos/parallel/parallel.h"
#include "eratos/reader/catalogue.h"

namespace eratos::search {

// Micro-batches of 1, `global` sequences of 4,096 tokens a step, ZeRO-1, no degree cut.
inline job::JobSpec job_of(const char* model, const char* cluster, int global) {
  job::JobSpec s;
  s.model = *reader::load_model(model);
  s.framework = *reader::load_framework("megatron");
  s.cluster = *reader::load_cluster(cluster);
  s.parallel.sharding = parallel::Sharding::zero1;
  s.batch = {1, global, 4096};
  return s;
}

}  // namespace eratos::search
