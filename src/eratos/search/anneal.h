// Simulated annealing: chains that wander through the legal candidates and cool down, in the manner
// of FlexFlow's Markov-chain search (arXiv 1807.05358, section 6.2). For spaces that are too large
// even to be screened; nothing is proven.
//
// A fixed number of chains, each with a generator of its own, asks one projection each a batch: the
// same seed gives the same answer on any number of threads. A step changes one axis, or two, and
// then whatever the rules ask for, as little as they let it. A chain goes to a better candidate
// always, to a worse one with probability exp(-(worse by, as a share) / temperature). Candidates
// that do not fit are worse than all that do, by what they lack. At every quarter of the way the
// worse half of the chains goes on from the best one's candidate.
//
// Worked example: at temperature 0.05 a candidate 5 % slower is taken in 37 of 100 steps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "eratos/base/rng.h"
#include "eratos/search/method.h"

namespace eratos::search {

class Anneal final : public Method {
 public:
  static constexpr std::size_t kChains = 16;

  // `steps`: of all chains together.
  Anneal(const Space& space, std::size_t top, std::uint64_t seed, std::uint64_t steps);

  std::span<const Ask> ask() override;
  void tell(std::span<const Tell> answers) override;
  const Outcome& outcome() const override { return outcome_; }
  double progress() const override;

 private:
  struct Chain {
    explicit Chain(std::uint64_t seed) : rng(seed) {}
    Rng rng;
    bool there = false;  // `at` has been told; until then `next` is where it begins
    Candidate at;
    double height = 0;
    Candidate next;  // waits to be told
  };

  std::optional<Candidate> near(const Candidate& wanted, std::uint32_t fixed, Rng& rng);
  std::optional<Candidate> start_of(std::size_t chain);
  void start();
  Candidate neighbour(const Candidate& from, Rng& rng);
  std::size_t other_value(std::size_t axis, std::size_t from, Rng& rng) const;
  double height_of(const Tell& tell) const;
  double temperature() const;
  void arrive(Chain& chain, const Tell& tell);
  void gather();

  const Space& space_;
  std::size_t top_;
  std::uint64_t rounds_;  // steps of each chain
  std::uint64_t round_ = 0;
  bool started_ = false;
  Cursor cursor_;
  RulesByAxis rules_;
  std::vector<std::size_t> free_;  // axes with a choice
  std::vector<Chain> chains_;
  std::vector<Ask> asks_;
  std::vector<std::size_t> askers_;  // [asks_]
  std::unordered_map<std::uint64_t, Tell> known_;
  Outcome outcome_;
};

}  // namespace eratos::search
