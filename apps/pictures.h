// Pictures of a schedule, written beside the answer.
#pragma once

#include "apps/arguments.h"
#include "eratos/report/timeline.h"

namespace eratos::apps {

// The files of --trace, --svg and --html, each where its flag is given. Returns kAnswered, or why one
// could not be written.
int write_pictures(const report::Timeline& t, const Arguments& arguments);

}  // namespace eratos::apps
