// `eratos search JOB --method layers`: which layers recompute, and how they stand on stages.
#pragma once

#include <string>
#include <vector>

#include "apps/arguments.h"
#include "apps/output.h"

namespace eratos::apps {

// `job`: with JOB as its only word; `axes`: what the user said of axes.
int search_layers(const Arguments& job, const std::vector<std::string>& axes,
                  const Arguments& arguments, Format format);

}  // namespace eratos::apps
