// Every legal candidate, and exactly what each rule removed on the way.
//
// Axis by axis, depth first: a rule is asked as soon as the axes it reads are set, and a refusal
// there removes all that would have followed, which is counted without being visited.
//
// Worked example: axes of 2, 3 and 4 values, a rule of the first axis alone that refuses one of its
// values: it removed 12, and 12 are left.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "eratos/search/alike.h"
#include "eratos/search/legality.h"
#include "eratos/search/space.h"

namespace eratos::search {

// A candidate and the job that it is, changed together axis by axis.
struct Cursor {
  explicit Cursor(const Space& space);
  void set(std::size_t axis, std::size_t at);

  const Space& space;
  Candidate at;
  job::JobSpec job;
  std::unique_ptr<job::CheckedJob> scratch;
  std::uint64_t settings = 0;  // so far: what a walk costs, whatever the machine
};

// Rules by the axis at which they can be asked.
struct RulesByAxis {
  explicit RulesByAxis(const Space& space);
  std::array<std::vector<const Rule*>, kAxes> at;
};

// Candidates removed by each rule, in the order of rules().
struct Removed {
  std::vector<std::uint64_t> by_rule = std::vector<std::uint64_t>(rules().size());
  std::array<std::uint64_t, kAxes> at_axis{};
  std::uint64_t total() const;
};

// Walks axes first .. last - 1 of a cursor whose axes before `first` are set.
class Walk {
 public:
  Walk(Cursor& cursor, const RulesByAxis& rules, std::size_t first, std::size_t last);

  // Moves the cursor to the next assignment that no rule refuses; false at the end.
  bool next(Removed& removed);
  // From the beginning again, for another prefix.
  void restart() { depth_ = kNotBegun; }

 private:
  static constexpr std::size_t kNotBegun = kAxes;

  const Rule* refusing(std::size_t axis) const;

  Cursor& cursor_;
  const RulesByAxis& rules_;
  std::size_t first_;
  std::size_t last_;
  std::size_t depth_ = kNotBegun;
  std::array<std::size_t, kAxes> next_{};
  std::array<std::uint64_t, kAxes + 1> behind_{};  // candidates of the axes from here on
};

// What a walk of the last axes comes to behind one prefix.
struct TailCount {
  std::uint64_t legal = 0;
  Candidate last;  // the last value of each of those axes that some legal candidate has
  std::vector<std::pair<std::size_t, std::uint64_t>> by_rule;  // place in rules(), candidates
  std::vector<std::pair<std::size_t, std::uint64_t>> at_axis;
};

// Of axes `first` and on. Prefixes that are alike to the rules of those axes share one walk.
class Tails {
 public:
  Tails(Cursor& cursor, const RulesByAxis& rules, std::size_t first = kScreenedAxes);
  // Walks as far as `inner` begins, and asks it for the rest.
  Tails(Cursor& cursor, const RulesByAxis& rules, std::size_t first, Tails& inner);

  // Of the cursor's prefix; leaves the cursor's last axes anywhere.
  const TailCount& of_prefix();

 private:
  Tails(Cursor& cursor, const RulesByAxis& rules, std::size_t first, std::size_t last,
        Tails* inner);

  struct Hash {
    std::size_t operator()(const std::vector<std::uint32_t>& tables) const;
  };

  Cursor& cursor_;
  std::size_t first_;
  Tails* inner_;
  Walk walk_;
  Alike alike_;
  std::unordered_map<std::vector<std::uint32_t>, TailCount, Hash> known_;
  std::vector<std::uint32_t> last_tables_;
  const TailCount* last_ = nullptr;  // behind those
};
void add(const TailCount& tail, Removed& to);
void add(const Removed& some, Removed& to);

struct Count {
  std::uint64_t raw = 0;
  std::uint64_t legal = 0;
  Removed removed;
};
Count count(const Space& space);

}  // namespace eratos::search
