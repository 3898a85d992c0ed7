// Runs work in a process of its own, so that a library that crashes, prints, keeps state or does
// not look at the clock costs us no more than its answer.
#pragma once

#include <functional>
#include <optional>
#include <vector>

namespace eratos::solver {

// What `work` returns, computed in a child that prints nothing; nothing when it throws, crashes or
// is not done after `seconds` or when `goes_on`, asked ten times a second, says false: it is killed
// then. The caller's memory is seen by `work`, and not changed.
std::optional<std::vector<double>> run_apart(const std::function<std::vector<double>()>& work,
                                             double seconds,
                                             const std::function<bool()>& goes_on = {});

}  // namespace eratos::solver
