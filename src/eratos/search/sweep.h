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
// in the end from the best of them with everything free. Worked example: axes of 4 and 3 values in
// two blocks are at most 4 + 3 projections a round.
#pragma once

#include <cstdint>
#include <unordered_map>
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

  bool is_legal(const Candidate& at);
  std::vector<Candidate> starts();
  bool begin_next();
  bool find_legal(Candidate& at);
  void ask_if_new(const Candidate& at);
  void ask_block(AxisSet block);
  void step();
  void take(const Candidate& at, const Tell& tell);

  const Space& space_;
  std::size_t top_;
  std::vector<const Rule*> rules_;
  Cursor cursor_;
  std::vector<Candidate> starts_;
  std::size_t start_ = 0;       // the next one
  std::size_t held_from_ = 0;   // starts from here on hold tp and pp
  AxisSet free_ = ~AxisSet{0};  // axes that may move
  bool finished_ = false;       // the last start has been made
  Held incumbent_;
  Held next_;                  // the best of the block that is asked
  std::size_t block_ = 0;      // asked next
  std::size_t unchanged_ = 0;  // blocks in a row that changed nothing
  std::vector<Ask> asks_;
  std::unordered_map<std::uint64_t, Tell> known_;  // by index_of
  Outcome outcome_;
};

}  // namespace eratos::search
