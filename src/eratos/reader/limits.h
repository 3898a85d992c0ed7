// Limits, times and numbers of tokens as users write them.
//
// Worked example: "headroom>=8GiB" is a limit of 8 * 2^30 on headroom; "days<=30" one of 2,592,000
// seconds on the time to train.
#pragma once

#include <string>
#include <string_view>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/search/objective.h"

namespace eratos::reader {

// `tokens/s/GPU>=1200`, `step_time<=12s`, `days<=30` or `train_time<=30d`, `cost<=4e-7`,
// `energy<=0.5J`, `headroom>=8GiB`. Errors: no comparison, unknown figures and units, a limit from
// the side that the better values are on.
Result<search::Limit> limit_of(const std::string& text);
// "30d", "12 s", "900ms", "36h", "10min". "15T", "300B", "1.5e12": tokens.
Result<Seconds> seconds_of(std::string_view text);
Result<double> tokens_of(std::string_view text);

}  // namespace eratos::reader
