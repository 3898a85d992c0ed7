// The whole legal space, and a proof: every candidate is illegal, too big, cut by its bound, or
// simulated.
//
// Four sieves, each finer and dearer than the one before. A stem is what is set before pp: first
// without its recomputation, then with it; behind it stand hundreds or thousands of candidates. Its
// bound is the work of the whole model, which no pipeline does in less. Stems are bounded in the
// order of the walk, and their recomputations in the order of their bounds. Behind a stem that may
// matter prefixes (candidates without their overlap switches) are screened; those that fit wait in
// a heap by their bound, and the most promising of them are simulated between two batches of
// screens, so that a good figure is known early.
//
// A candidate is cut when its bound is not below the best figure of its family, or not below the
// worst of the top: neither can change the answer, because a bound never exceeds what the
// simulation finds. A stem is cut by the second alone, and what is behind it is counted without
// being visited; some of it may not have fitted. Where a front is asked for, a candidate must also
// be beaten by a point of the front in all its figures: of a prefix bytes are known exactly, of a
// stem not, so that no stem is cut. What a limit refuses by a bound is cut with all that stands
// behind; what it refuses after its simulation is simulated, and no answer.
//
// Of prefixes that differ in the optimizer's offload alone the one that keeps least on the device
// is screened first: what is kept there is (1 - share) of the state and everything else is alike,
// so where that one does not fit none of them does.
//
// Batches have a fixed size: the same work is done in the same order on any number of threads.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "eratos/search/front.h"
#include "eratos/search/groups.h"
#include "eratos/search/method.h"

namespace eratos::search {

// How much is asked at once. Smaller batches cut more, larger ones keep more threads busy; the
// answer is the same.
struct Batches {
  std::size_t screens = 4096;
  std::size_t projections = 256;  // and the rest of the last prefix
  std::size_t bounds = 1024;      // and the rest of the last stem
};

struct Wanted {
  std::size_t top = 5;  // families that the answer lists, each with its best proven; 1 or more
  bool front = false;   // of the figures of the aim, proven as well
};

class Exhaustive final : public Method {
 public:
  // `seeds`: legal candidates that fit, with their figures, from another method; they cut from the
  // beginning and are an answer already where the search is interrupted.
  Exhaustive(const Space& space, Wanted wanted, Batches batches = {},
             std::span<const Found> seeds = {});

  std::span<const Ask> ask() override;
  void prepare() override;
  void tell(std::span<const Tell> answers) override;
  const Outcome& outcome() const override { return outcome_; }
  double progress() const override;
  // Values that its walks have put into a job: its own work, which one thread does.
  std::uint64_t settings() const { return cursor_.settings + groups_.settings(); }

 private:
  struct Stem {
    double bound = 0;
    double per_token = 0;
    int refused_by = -1;  // a limit that nothing behind it keeps
    Candidate at;
    std::uint64_t legal = 0;  // candidates behind it
  };
  struct Waiting {
    double bound = 0;
    std::uint64_t index = 0;  // of the prefix; breaks ties
    Candidate at;
    std::uint64_t family = 0;
    std::uint32_t legal = 0;  // candidates behind the prefix
    double per_token = 0;     // bounds as well
    Along along{};
  };
  static bool later(const Waiting& a, const Waiting& b);

  // Groups that have been walked, and how many of them have been asked.
  struct Piece {
    std::size_t stem = 0;  // of with_recompute_
    Groups groups;
    std::size_t asked = 0;
  };

  enum class Stage : std::uint8_t { stems, recomputes, prefixes, walked };

  void go_to(const Candidate& at, std::size_t axes);
  void walk_stems();
  void ask_stems();
  void ask_recomputes();
  bool add_stem(const TailCount& behind, AxisId open, std::vector<Stem>& to);
  void ask_bound(const Stem& stem, AxisId open);
  bool ask_screens();
  bool next_stem();
  void walk_on();
  bool ask_groups();
  void ask_screen(const Prefix& prefix);
  void ask_projections();
  void screened(const Tell& tell, std::size_t i);
  void projected(const Ask& ask, const Tell& tell);
  void lacks(const Candidate& at, Bytes least_peak);
  void take(const Found& found);
  bool can_enter_top(const Found& bound) const;
  bool can_matter(const Waiting& w) const;
  bool can_matter(const Stem& s) const;
  void cut(const Stem& stem, Tails& tails);
  void finish();

  const Space& space_;
  Wanted wanted_;
  Batches batches_;
  Cursor cursor_;
  RulesByAxis rules_;
  Walk stems_;       // without recomputation
  Walk recomputes_;  // of a stem
  GroupWalk groups_;
  Walk tail_;
  Tails tails_;
  Tails behind_recompute_;
  Tails behind_stem_;
  Stage stage_ = Stage::stems;
  bool screens_next_ = true;  // screens and projections take turns
  std::vector<Ask> asks_;
  std::vector<Stem> next_stems_;  // of the walk, not asked yet
  bool stems_walked_ = false;
  std::vector<Stem>* bounded_ = nullptr;  // whose bounds a batch asks for, the last of them
  std::vector<Stem> all_stems_;           // by rising bound
  std::size_t next_stem_ = 0;
  std::vector<Stem> with_recompute_;  // of a few of them
  std::size_t next_recompute_ = 0;
  std::size_t to_walk_ = 0;           // of them, the one that groups_ is in or begins next
  bool walking_ = false;              // it is in it
  bool in_stem_ = false;              // screens are asked of the next_recompute_-th
  std::deque<Piece> pieces_;          // walked, in their order
  std::vector<Prefix> asked_;         // of a batch of screens: what each asks of,
  std::vector<Prefix> held_back_;     // the siblings that their answers may settle,
  std::vector<std::size_t> held_to_;  // and where those of each end
  std::vector<Prefix> ready_;         // siblings that were not settled
  std::vector<Waiting> waiting_;      // a heap, lowest bound first
  std::unordered_map<std::uint64_t, Found> best_;  // by family
  Front front_;
  Outcome outcome_;
};

}  // namespace eratos::search
