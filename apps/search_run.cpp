#include "apps/search_run.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include "apps/answers.h"
#include "apps/interrupt.h"
#include "apps/ranks.h"
#include "apps/search_store.h"
#include "eratos/report/quantity.h"
#include "eratos/search/evaluate.h"

namespace eratos::apps {

namespace {

using Clock = std::chrono::steady_clock;

// A line a second on standard error, after the first.
class Reporter {
 public:
  explicit Reporter(const SearchRun& run) : run_(run) {}

  void count(std::span<const search::Ask> asks) {
    (asks[0].what == search::Ask::What::project ? projected_ : screened_) += asks.size();
  }

  void tell(const search::Method& method) {
    const Clock::time_point now = Clock::now();
    // A log gets a line every ten seconds once it is clear that this takes long.
    const bool long_run = now - began_ > std::chrono::seconds(10);
    if (now - last_ < std::chrono::seconds(long_run && !terminal_ ? 10 : 1)) return;
    last_ = now;
    told_ = true;
    const double gone = std::chrono::duration<double>(now - began_).count();
    const double share = method.progress();
    std::string line = fmt::format(
        "search: {} of {} candidates, {} screens and {} simulations ({} a second)",
        report::percent(share), report::thousands(static_cast<double>(run_.space.raw())),
        report::thousands(static_cast<double>(screened_)),
        report::thousands(static_cast<double>(projected_)),
        report::thousands(static_cast<double>(screened_ + projected_) / gone));
    if (const search::Outcome& o = method.outcome(); !o.top.empty()) {
      line += fmt::format(", best {:.1f} tokens/s/GPU",
                          1 / o.top[0].per_token / run_.space.base.cluster.gpus());
    }
    // Of a sweep nobody knows how many steps it will take.
    const double left = share > 0 ? gone * (1 - share) / share : 0;
    if (screened_ > 0 && share > 0.01 && left >= 1) {
      line += fmt::format(", about {:.0f} s of screens left", left);
    }
    std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
    std::fflush(stderr);
  }

  ~Reporter() {
    if (terminal_ && told_) std::fprintf(stderr, "\r\033[K");
  }
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

 private:
  const SearchRun& run_;
  const bool terminal_ = isatty(STDERR_FILENO) != 0;  // its line is written over
  bool told_ = false;
  Clock::time_point began_ = Clock::now();
  Clock::time_point last_ = began_;
  std::uint64_t screened_ = 0;
  std::uint64_t projected_ = 0;
};

}  // namespace

bool run_method(search::Method& method, const SearchRun& run) {
  const Interruptible guard;
  std::unique_ptr<Answers> answers = answers_of_ranks(run);
  if (answers == nullptr) {
    answers = answers_of_threads(run.space, run.calibration, run.options, run.threads);
  }
  if (run.store != nullptr) answers = run.store->before(run, std::move(answers));
  Reporter reporter(run);
  std::vector<search::Tell> tells;
  while (!interrupted()) {
    const std::span<const search::Ask> asks = method.ask();
    if (asks.empty()) return true;
    tells.resize(asks.size());
    answers->answer(asks, tells, [&] { method.prepare(); });
    for (std::size_t i = 0; i < asks.size(); ++i) {
      search::judge(run.aim, run.space, asks[i], tells[i]);
    }
    reporter.count(asks);
    method.tell(tells);
    reporter.tell(method);
  }
  return false;
}

}  // namespace eratos::apps
