// Jobs side by side, for commands besides `compare`.
#pragma once

#include "apps/arguments.h"
#include "apps/output.h"

namespace eratos::apps {

// The one job under every schedule that is legal for it, as it is first, the others by their steps;
// and why the rest are not. vpp becomes what a schedule asks for.
int compare_schedules(const Arguments& arguments, Format format);

}  // namespace eratos::apps
