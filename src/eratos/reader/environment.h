// Values of `${NAME}` in a user's file: what --env gives, and the process environment if asked.
//
// Worked example: with TP=4, "${TP:1}" is the integer 4, "x${TP}" the string "x4", and "${PP:2}"
// the integer 2; "${EP}" stays as it is and is named, for whoever needs the value.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/text/tree.h"

namespace eratos::reader {

// NAME to VALUE: what --env gives, and the process environment's where the user asked for it.
using Environment = std::map<std::string, std::string>;

// Replaces `${NAME}` and `${NAME:default}` in every string of `tree` (not in keys). A set but empty
// variable counts as set. A changed string is typed again: true and false in any case, integers,
// floats, else a string. Placeholders without value or default stay in the text.
// Source: AMD-AGI/Primus@fd1eeabb primus/core/config/yaml_loader.py.
void substitute(text::Node& tree, const Environment& environment);

// Names of the placeholders that are left in a string.
std::vector<std::string> open_placeholders(std::string_view text);

}  // namespace eratos::reader
