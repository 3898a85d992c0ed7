// Pictures of a schedule, written beside the answer.
#pragma once

#include <string>

#include "apps/arguments.h"
#include "eratos/base/diagnostic.h"
#include "eratos/report/timeline.h"

namespace eratos::apps {

// One of --trace, --svg and --html is given.
bool is_drawn(const Arguments& arguments);
// The first of --from, --to, --ranks and --actions that is given, or "".
std::string view_flag(const Arguments& arguments);

// The part that --from, --to, --ranks and --actions ask for. Errors, all of them wrong use: a time
// that is none, that has a unit where the picture has none or none where it has one; an empty part;
// ranks that are not there.
Result<report::View> view_of(const report::Timeline& t, const Arguments& arguments);

// The files of --trace, --svg and --html, each where its flag is given. Returns kAnswered, or why
// one could not be written.
int write_pictures(const report::Timeline& t, const report::View& view, const Arguments& arguments);

}  // namespace eratos::apps
