// Architectures of published runs say sizes and often not the rest: which layers have windows,
// where norms stand, which router has a bias. The catalogue's model of the same name and the same
// layers, width and heads says it for them; what the run's file says stays.
//
// Worked example: `gemma3-12b` with `sliding_window: 1024` and no more becomes 5 local layers to
// each global one, with norms behind the branches, as data/models/gemma3-12b.yaml has it.
#pragma once

#include <string>

#include "eratos/text/tree.h"

namespace eratos::reader {

// `run` with what it leaves unsaid, or `run` as it is where the catalogue has no such model.
text::Node completed_model(const text::Node& run, const std::string& name);

}  // namespace eratos::reader
