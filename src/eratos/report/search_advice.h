// What a search's answer says beyond the figures: where the step of the best goes, which one change
// would help, what separates it from the job as it came and from the runner-up, how sure its place
// is, and what to do where it runs out of memory.
#pragma once

#include <string>

#include "eratos/report/search.h"

namespace eratos::report {

// "micro 2 -> 4: +1.0%, lacks 131.3 GiB"; "" where no single change is faster.
std::string help_words(const SearchAnswer& a, const Ranked& one);

// `a` has a best.
std::string advice_text(const SearchAnswer& a);
void add_advice(const SearchAnswer& a, text::Node& out);
// Of one of the top.
void add_losses(const Ranked& one, text::Node& out);

}  // namespace eratos::report
