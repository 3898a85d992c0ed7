#include "eratos/solver/solver.h"

#include <chrono>
#include <memory>
#include <string>

#include "eratos/solver/cbc.h"

namespace eratos::solver {
namespace {

using Clock = std::chrono::steady_clock;

// Of the time limit, what our own search may take before CBC begins. Its branch and bound is the
// faster of the two where either ends; CBC's bounds help where neither does.
constexpr double kOwnShare = 0.5;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

std::string_view solver_name() { return cbc_name(); }

std::string_view solver_note() {
  if (!cbc_name().empty()) return "";
#ifdef ERATOS_CBC_FILE
  return "CBC's library (" ERATOS_CBC_FILE
         ") is not on this machine: eratos searched alone and proves fewer orders optimal; install "
         "CBC (Debian: coinor-libcbc3)";
#else
  return "eratos was built without CBC: it searched alone and proves fewer orders optimal; install "
         "CBC (Debian: coinor-libcbc-dev) and build again";
#endif
}

Result<schedule::Solution> optimal_order(const schedule::OptimalProblem& problem,
                                         const Options& options) {
  const double limit = options.time_limit.value;
  if (!(limit > 0)) {
    return fault({.message = "the time limit of an optimal schedule is " + std::to_string(limit) +
                             " seconds",
                  .cure = "give more than 0",
                  .field = "schedule.time_limit"});
  }
  const Clock::time_point begin = Clock::now();
  Found found;
  bool ended = false;
  const auto goes_on = [&] {
    found.seconds = Seconds{seconds_since(begin)};
    ended = ended || (options.go_on && !options.go_on(found));
    return !ended;
  };
  const std::unique_ptr<schedule::Solver> cbc =
      make_cbc([&] { return goes_on() ? limit - seconds_since(begin) : 0; }, goes_on);
  const double own = cbc == nullptr ? limit : limit * kOwnShare;
  schedule::Effort effort;
  effort.stop = [&] { return seconds_since(begin) >= own || !goes_on(); };
  effort.better = [&](const schedule::Solution& best) {
    found.makespan = best.makespan;
    found.lower = best.lower;
  };
  Result<schedule::Solution> solution = schedule::find_optimal(problem, cbc.get(), effort);
  if (!solution) return solution;
  solution->seconds = Seconds{seconds_since(begin)};
  if (cbc == nullptr && !solution->proven) solution->solver += " (without cbc)";
  return solution;
}

}  // namespace eratos::solver
