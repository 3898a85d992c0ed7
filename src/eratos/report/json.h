// Answers as JSON. Key names and units are a contract (docs/USING.md, docs/schema/project.json):
// SI units, the unit is the key's last word, a ratio is a fraction, an absent key is not modelled.
//
// Numbers are the shortest text that reads back as the same double; whole numbers have no point.
// Keys come in a fixed order, so equal answers are equal bytes.
#pragma once

#include <string>

#include "eratos/projection/projection.h"
#include "eratos/report/answer.h"
#include "eratos/text/tree.h"

namespace eratos::report {

inline constexpr int kSchema = 1;

// A JSON number: 4 for 4.0; null for what is not finite.
text::Node number(double value);

std::string project_json(const Answer& a);
// The same without what every document begins with.
text::Node project_node(const Answer& a);
std::string memory_json(
    const Answer& a);  // the memory half: no time, throughput, confidence of time
std::string explanation_json(const projection::Explanation& e, const std::string& version);

// {schema, eratos}: what every JSON document begins with.
text::Node document(const std::string& version);
// Appends the entries of one mapping to another.
void put_all(text::Node& out, text::Node from);
text::Node warnings_node(const std::vector<projection::Warning>& warnings);
// The memory object of `project`, shared with `check`.
text::Node memory_node(const projection::MemoryAnswer& m);

}  // namespace eratos::report
