// Deterministic sweeps from many starts: for when a space is too large or an evaluation too dear to
// look at everything. No proof, some thousand evaluations.
//
// Axes that only make sense together are one block (pp with chunks and their split, ...). Block
// after block, every legal setting of it around the incumbent is projected and the best becomes the
// incumbent, until a round over all blocks changes nothing. Where nothing fits yet, less memory is
// better; once something does, more speed.
//
// It starts from the job's own values, where they are legal; then from every tp with every pp,
// which are held, at the smallest micro-batch under full recomputation, which most often fits; and
// in the end from the best of them with everything free. All starts but the last go side by side, a
// block each a batch, so that there is work for many threads. Worked example: axes of 4 and 3
// values in two blocks are at most 4 + 3 projections a round.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "eratos/search/method.h"

namespace eratos::search {

class Sweep final : public Method {
 public:
  Sweep(const Space& space, std::size_t top);

  std::span<const Ask> ask() override;
  void tell(std::span<const Tell> answers) override;
  const Outcome& outcome() const override { return outcome_; }
  double progress() const override;

 private:
  // The best that is known around an incumbent.
  struct Held {
    bool any = false;
    Candidate at;
    Tell tell;
  };

  // One start and where it has come to.
  struct Path {
    AxisSet free = ~AxisSet{0};  // axes that may move
    Held incumbent;
    std::vector<Candidate> asked;  // of the block, in order; legal all
    std::size_t block = 0;         // asked next
    std::size_t unchanged = 0;     // blocks in a row that changed nothing
    bool ended = false;
  };

  bool is_legal(const Candidate& at);
  std::vector<Candidate> starts();
  void begin(const Candidate& at, AxisSet free);
  bool begin_last();
  bool find_legal(Candidate& at);
  bool ask_block(Path& path);
  bool ask_if_new(const Candidate& at);
  void step(Path& path);
  void advance(Path& path);

  const Space& space_;
  std::size_t top_;
  RulesByAxis rules_;
  Cursor cursor_;
  std::size_t passed_ = 0;     // its axes that no rule refuses
  std::size_t held_from_ = 0;  // starts from here on hold tp and pp
  std::vector<Path> paths_;
  bool finished_ = false;  // the last start has been made
  std::vector<Ask> asks_;
  std::unordered_map<std::uint64_t, Tell> known_;  // by index_of
  std::unordered_set<std::uint64_t> asking_;       // in this batch
  Outcome outcome_;
};

}  // namespace eratos::search
