// The whole legal space, and a proof: every candidate is illegal, too big, cut by its bound, or
// simulated.
//
// Prefixes (candidates without their overlap switches) are screened in the order of the walk. Those
// that fit wait in a heap by their bound, and the most promising of them are simulated between two
// batches of screens, so that a good figure is known early. A candidate is cut when its bound is not
// below the best figure of its family, or not below the worst of the top: neither can change the
// answer, because a bound never exceeds what the simulation finds.
//
// Batches have a fixed size: the same work is done in the same order on any number of threads.
#pragma once

#include <unordered_map>
#include <vector>

#include "eratos/search/method.h"

namespace eratos::search {

// How much is asked at once. Smaller batches of projections cut more, larger ones keep more threads
// busy; the answer is the same.
struct Batches {
  std::size_t screens = 4096;
  std::size_t projections = 256;  // and the rest of the last prefix
};

class Exhaustive final : public Method {
 public:
  // `top`: how many families the answer lists, each with its best proven; 1 or more.
  Exhaustive(const Space& space, std::size_t top, Batches batches = {});

  std::span<const Ask> ask() override;
  void tell(std::span<const Tell> answers) override;
  const Outcome& outcome() const override { return outcome_; }
  double progress() const override;

 private:
  struct Waiting {
    double bound = 0;
    std::uint64_t index = 0;  // of the prefix; breaks ties
    Candidate at;
    std::uint64_t family = 0;
    std::uint32_t legal = 0;  // candidates behind the prefix
  };
  static bool later(const Waiting& a, const Waiting& b);

  void ask_screens();
  void ask_projections();
  void screened(const Ask& ask, const Tell& tell, std::uint32_t legal);
  void projected(const Ask& ask, const Tell& tell);
  double worst_of_top() const;
  bool can_matter(double bound, std::uint64_t family) const;
  void finish();

  const Space& space_;
  std::size_t top_;
  Batches batches_;
  Cursor cursor_;
  RulesByAxis rules_;
  Walk prefixes_;
  Walk tail_;
  Tails tails_;
  bool walked_ = false;      // every prefix has been seen
  bool screens_next_ = true;  // screens and projections take turns
  std::vector<Ask> asks_;
  std::vector<std::uint32_t> behind_;  // of a batch of screens: candidates behind each
  std::vector<Waiting> waiting_;       // a heap, lowest bound first
  std::unordered_map<std::uint64_t, Found> best_;  // by family
  Outcome outcome_;
};

}  // namespace eratos::search
