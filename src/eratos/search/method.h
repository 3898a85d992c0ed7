// Ask and tell: a method says what it wants to know next, is told, and in the end has an answer. It
// calls no model, holds no clock and starts no thread; whoever runs it may answer a batch in any
// order and on any number of threads, and stop between two batches with the best so far.
//
//   while (!(batch = method.ask()).empty()) method.tell(answers to batch, in its order);
//
// While a batch is answered, one thread may call prepare().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "eratos/search/evaluate.h"
#include "eratos/search/walk.h"

namespace eratos::search {

// Where every candidate of the space went.
struct Proof {
  std::uint64_t raw = 0;
  std::uint64_t illegal = 0;
  std::uint64_t too_big = 0;
  std::uint64_t cut_by_bound = 0;
  std::uint64_t simulated = 0;
  // Nothing is left: no candidate is better than the answer, and the four add up to raw.
  bool proven = false;
};

struct Found {
  Candidate at;
  double figure = 0;
  Bytes device_peak;
  double per_token = 0;  // seconds; decides between equal figures
  double busy = 0;
  Along along{};
};
Found found_of(const Candidate& at, const Tell& tell);
// The lower figure; between equal ones more speed.
bool is_better(const Found& a, const Found& b);

struct Outcome {
  Proof proof;
  Removed removed;           // of the illegal, by rule
  std::vector<Found> top;    // best first, no two alike (family_of)
  std::vector<Found> front;  // where it was asked for: by its first figure, the best first
  // Of those that fit, by the first limit against each (objective.h); grows as limits refuse.
  std::vector<std::uint64_t> refused;
  bool any_too_big = false;
  Candidate least;  // of those too big the one that lacks least
  Bytes least_peak;
};

class Method {
 public:
  virtual ~Method() = default;
  // The next batch, valid until tell(); empty when the method has its answer.
  virtual std::span<const Ask> ask() = 0;
  // Works ahead, between ask() and tell(). Changes nothing that is asked or found, so that it may
  // be left out as well.
  virtual void prepare() {}
  virtual void tell(std::span<const Tell> answers) = 0;
  virtual const Outcome& outcome() const = 0;
  // Share of the space that is settled or waits to be simulated, 0 to 1.
  virtual double progress() const = 0;
};

// Candidates with the same degrees (tp, cp, ep, etp, pp) are one family. An answer lists the best
// of a family once, not ten siblings of the winner.
std::uint64_t family_of(const Space& space, const Candidate& candidate);

void count_refused(int limit, std::uint64_t candidates, Outcome& outcome);

// Puts `found` into a list of the best of each family, best first and at most `most` long, unless
// its family has a better one there. Nobody else in the list changes places.
void keep_best(const Found& found, const Space& space, std::size_t most, std::vector<Found>& top);

// Puts the answer to a projection into an outcome: its count, and the list of the best or, of those
// too big, the one that lacks least.
void settle(const Candidate& at, const Tell& tell, const Space& space, std::size_t most,
            Outcome& outcome);

}  // namespace eratos::search
