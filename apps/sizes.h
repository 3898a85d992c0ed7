// Which clusters a search is asked about: --cluster, repeated or with commas, times --nodes.
#pragma once

#include <string>
#include <vector>

#include "apps/arguments.h"
#include "eratos/base/diagnostic.h"

namespace eratos::apps {

struct Size {
  std::string cluster;  // "": the job's own
  int nodes = 0;        // 0: as the cluster says
};

// `--nodes 4..64` is 4, 8, 16, 32, 64; `4,6,8` these. Clusters in the order they are given, sizes
// of one together. Errors: neither a number nor a range nor a list; a cluster or a size twice.
Result<std::vector<Size>> sizes_of(const Arguments& arguments);

// The arguments of one of them.
Arguments at_size(const Arguments& arguments, const Size& size);

}  // namespace eratos::apps
