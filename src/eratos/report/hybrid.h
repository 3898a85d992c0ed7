// What a projection with measurements is made of: for the text report, for pages, and as JSON.
//
// Answers "how much of this is measured, what did the modules take beyond their kernels, and what
// did the way from one device to the job add?". Numbers come from projection/hybrid.h.
#pragma once

#include <string>
#include <vector>

#include "eratos/report/answer.h"
#include "eratos/report/page.h"

namespace eratos::report {

// Nothing where the answer has no measurements.
std::string hybrid_text(const Answer& a, const Style& style);
std::vector<Section> hybrid_sections(const Answer& a);

// The shares of `provenance`, and who measured.
void put_shares(const Answer& a, text::Node& provenance);
// Spans, families, terms, memory; `simulation` beside it where both are asked for.
void put_hybrid(const Answer& a, text::Node& out);

}  // namespace eratos::report
