// Two or more answers side by side: what differs between the jobs, what it costs, and which parts
// of the step and of the memory explain it. The first answer is what the others are set against.
//
// Letters: for answers a (the first) and b, delta = b - a, ratio = b / a. A part explains the share
// delta(part) / delta(step) of the difference; shares of all ten parts sum to 1, one may be
// negative or exceed 1 when parts move against each other.
//
// Worked example: steps of 10 s (compute 7, bubble 1, tp 1, ...) and 8 s (compute 5.5, tp 0.5, the
// rest equal) differ by -2 s, of which compute explains 75% and tp communication 25%.
#pragma once

#include <string>
#include <vector>

#include "eratos/report/answer.h"
#include "eratos/report/page.h"
#include "eratos/text/tree.h"

namespace eratos::report {

struct Compared {
  std::string label;    // what sets it apart: "h100-sxm-8x8", "parallel.tp=4"
  Answer answer;        // points to values that outlive this
  text::Node hardware;  // figures of the part and of the network levels
};

// A variant that is no legal job, and why.
struct Refused {
  std::string label;
  Diagnostics faults;
};

// A field whose value is not the same everywhere; null where a job does not have it.
struct Difference {
  std::string path;  // in the normalised job; `hardware.` before figures of the cluster
  std::vector<text::Node> values;
};
std::vector<Difference> differences(const std::vector<Compared>& all);

Page compare_page(const std::vector<Compared>& all, const std::vector<Refused>& refused);
std::string compare_json(const std::vector<Compared>& all, const std::vector<Refused>& refused);

// A line an answer: its figures, and ratios to the first.
std::string answers_csv(const std::vector<Compared>& all);
// A line a stage.
std::string memory_csv(const Answer& a);

}  // namespace eratos::report
