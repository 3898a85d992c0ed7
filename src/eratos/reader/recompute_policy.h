// Named recompute policies: which results of a layer they keep (data/recompute_policies.csv).
#pragma once

#include <string_view>

#include "eratos/job/job.h"

namespace eratos::reader {

// Fills what the policy keeps; false for a name that the table lacks.
bool set_policy(std::string_view name, job::RecomputeSpec& out);

}  // namespace eratos::reader
