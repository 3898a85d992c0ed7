// Do arguments fit their schema? The part of JSON Schema that descriptions of tools need.
//
// type (one or a list), enum, properties, required, additionalProperties (false or a schema),
// maxProperties, items, minItems, maxItems, minLength, maxLength (bytes), minimum, maximum;
// `description` says nothing to fit. Every fault is said at once, with the path of the value.
// Source: JSON Schema, draft 2020-12, "Validation", sections 6.1 to 6.5.
//
// Worked example: {"trials": [1]} against trials' schema is "`trials` has 1 items, 2 or more are
// needed"; {"trails": [1, 2]} is "unknown argument `trails`; did you mean `trials`?" and "`trials`
// is missing".
#pragma once

#include <string>
#include <vector>

#include "eratos/text/tree.h"

namespace eratos::agent {

std::vector<std::string> schema_faults(const text::Node& schema, const text::Node& value);

// What is wrong with a schema itself: words that are not of the part above. For tests.
std::vector<std::string> faults_of_schema(const text::Node& schema);

}  // namespace eratos::agent
