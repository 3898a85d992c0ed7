#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#ifdef ERATOS_TBB
#include <tbb/blocked_range.h>
#include <tbb/enumerable_thread_specific.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_invoke.h>
#include <tbb/task_arena.h>
#endif

#include "apps/answers.h"

namespace eratos::apps {

namespace {

#ifdef ERATOS_TBB
// Neighbours in a batch of screens share a layer's shapes, and those of bounds some: hand them out
// in runs.
std::size_t piece_of(search::Ask::What what) {
  switch (what) {
    case search::Ask::What::bound:
      return 16;
    case search::Ask::What::screen:
      return 64;
    case search::Ask::What::project:
      break;
  }
  return 2;
}

// More than the processors would answer nothing sooner, and oneTBB sets aside room for each.
int threads_for(int asked) {
  const int most = tbb::info::default_concurrency();
  return asked > 0 ? std::min(asked, most) : most;
}
#endif

class Threads final : public Answers {
 public:
  Threads(const search::Space& space, const calibration::Calibration& calibration,
          const projection::Options& options, [[maybe_unused]] int threads)
      : space_(space),
        calibration_(calibration),
        options_(options)
#ifdef ERATOS_TBB
        ,
        arena_(threads_for(threads))
#endif
  {
  }

  void answer(std::span<const search::Ask> asks, std::span<search::Tell> tells,
              const std::function<void()>& beside) override {
#ifdef ERATOS_TBB
    const std::size_t piece = piece_of(asks[0].what);
    const auto answer_all = [&] {
      tbb::parallel_for(
          tbb::blocked_range<std::size_t>(0, asks.size(), piece),
          [&](const tbb::blocked_range<std::size_t>& range) {
            search::Evaluator& own = *evaluators_.local();
            for (std::size_t i = range.begin(); i < range.end(); ++i)
              tells[i] = own.answer(asks[i]);
          },
          tbb::simple_partitioner());
    };
    arena_.execute([&] { tbb::parallel_invoke(answer_all, beside); });
#else
    for (std::size_t i = 0; i < asks.size(); ++i) tells[i] = evaluator_->answer(asks[i]);
    beside();
#endif
  }

 private:
  std::unique_ptr<search::Evaluator> make() const {
    return std::make_unique<search::Evaluator>(space_, calibration_, options_);
  }

  const search::Space& space_;
  const calibration::Calibration& calibration_;
  projection::Options options_;
#ifdef ERATOS_TBB
  tbb::task_arena arena_;
  tbb::enumerable_thread_specific<std::unique_ptr<search::Evaluator>> evaluators_{
      [this] { return make(); }};
#else
  std::unique_ptr<search::Evaluator> evaluator_ = make();
#endif
};

}  // namespace

void on_threads([[maybe_unused]] int threads, std::size_t n,
                const std::function<void(std::size_t)>& one) {
#ifdef ERATOS_TBB
  tbb::task_arena arena(threads_for(threads));
  arena.execute([&] { tbb::parallel_for(std::size_t{0}, n, one); });
#else
  for (std::size_t i = 0; i < n; ++i) one(i);
#endif
}

std::unique_ptr<Answers> answers_of_threads(const search::Space& space,
                                            const calibration::Calibration& calibration,
                                            const projection::Options& options, int threads) {
  return std::make_unique<Threads>(space, calibration, options, threads);
}

}  // namespace eratos::apps
