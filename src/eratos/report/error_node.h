// Errors of many runs in JSON, as `validate` prints them wherever it does.
#pragma once

#include "eratos/report/accuracy.h"
#include "eratos/text/tree.h"

namespace eratos::report {

// n; where that is not 0 the median and 90th percentile of absolute errors, their mean with sign,
// the share within 10 % and, where bands are known, the share inside them: all fractions.
text::Node summary_node(const ErrorSummary& s);

}  // namespace eratos::report
