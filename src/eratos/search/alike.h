// Which prefixes are alike to all that follows?
//
// A prefix sets the axes before `first`. To a rule that is asked behind it, it is a table: for
// every setting of the later axes that the rule reads, refused or not. Prefixes with the same
// tables have the same candidates behind them, legal and removed, so that one count serves them
// all. Rules that read the same axes of the prefix, or fewer, share a table. Where a table would be
// long, the prefix's own values stand for it: then fewer are found alike, and none that is not.
//
// Worked example: rules of the pipeline see tp and cp by tp * cp alone. With pp 1..64 on 4,096
// accelerators the 49 pairs of tp 1..64 and cp 1..64 are 7 tables: up to a product of 64 every pp
// divides what is left, and 128, 256, ... 4096 leave one fewer each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "eratos/search/legality.h"
#include "eratos/search/space.h"

namespace eratos::search {

struct Cursor;
struct RulesByAxis;

class Alike {
 public:
  Alike(Cursor& cursor, const RulesByAxis& rules, std::size_t first);

  // The cursor's prefix as the numbers of its tables: equal for prefixes that are alike. Valid
  // until the next call, which may leave the cursor's axes from `first` on anywhere.
  const std::vector<std::uint32_t>& of_prefix();

 private:
  // A rule, and the axes from `first` on that it reads.
  struct Asked {
    const Rule* rule = nullptr;
    std::vector<std::size_t> behind;
  };
  struct Tables {
    AxisSet before = 0;               // axes of the prefix that its rules read
    std::vector<std::size_t> places;  // the same
    std::vector<Asked> rules;         // none where the values stand for themselves
    std::vector<std::uint32_t> few;   // by the values: the table's number and 1; 0: not known
    std::unordered_map<std::uint64_t, std::uint32_t> many;  // the same, where there are too many
    std::unordered_map<std::string, std::uint32_t> numbers;
  };

  std::uint32_t number_of(Tables& tables);
  std::uint32_t make(Tables& tables);

  Cursor& cursor_;
  std::vector<Tables> all_;
  std::vector<std::uint32_t> now_;
};

}  // namespace eratos::search
