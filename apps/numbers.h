// Flags whose value is a number. The command line has checked that it is one.
#pragma once

#include <string_view>

#include "apps/arguments.h"
#include "eratos/projection/projection.h"

namespace eratos::apps {

double number_of(const Arguments& arguments, std::string_view flag, double otherwise);

// --memory-margin.
projection::Options options_of(const Arguments& arguments);

}  // namespace eratos::apps
