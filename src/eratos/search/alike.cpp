#include "eratos/search/alike.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "eratos/search/walk.h"

namespace eratos::search {

namespace {

// Settings of a table. Longer ones cost more than the walks that they spare.
constexpr std::uint64_t kLongest = 1 << 14;
// Prefixes whose tables lie in a list, one after the other.
constexpr std::uint64_t kListed = 1 << 18;

AxisSet before(std::size_t first) { return (AxisSet{1} << first) - 1; }

std::vector<std::size_t> places_of(AxisSet axes) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < kAxes; ++i) {
    if ((axes & axis_bit(static_cast<AxisId>(i))) != 0) out.push_back(i);
  }
  return out;
}

// Axes that another one looks at when it is set, and those that look, in front: what changes
// fastest has nobody to be set again.
void put_linked_first(std::vector<std::size_t>& places) {
  constexpr AxisSet kLinked =
      axes({AxisId::tp, AxisId::sequence_parallel, AxisId::pp, AxisId::vpp, AxisId::split});
  std::stable_partition(places.begin(), places.end(), [&](std::size_t i) {
    return (kLinked & axis_bit(static_cast<AxisId>(i))) != 0;
  });
}

std::uint64_t settings_of(const Space& space, const std::vector<std::size_t>& axes) {
  std::uint64_t product = 1;
  for (const std::size_t i : axes) product *= space.axes[i].size();
  return product;
}

}  // namespace

Alike::Alike(Cursor& cursor, const RulesByAxis& rules, std::size_t first) : cursor_(cursor) {
  const AxisSet prefix = before(first);
  for (std::size_t i = first; i < kAxes; ++i) {
    for (const Rule* r : rules.at[i]) {
      const AxisSet seen = r->reads & prefix;
      if (seen == 0) continue;  // the same behind every prefix
      Asked asked{r, places_of(r->reads & ~prefix)};
      put_linked_first(asked.behind);
      const bool is_long = settings_of(cursor.space, asked.behind) > kLongest;
      const auto same = std::find_if(all_.begin(), all_.end(), [&](const Tables& t) {
        return t.before == seen && t.rules.empty() == is_long;
      });
      Tables& tables = same != all_.end() ? *same : all_.emplace_back();
      tables.before = seen;
      if (!is_long) tables.rules.push_back(std::move(asked));
    }
  }
  // Fewer axes join more, the most that there are.
  std::stable_sort(all_.begin(), all_.end(), [](const Tables& a, const Tables& b) {
    return std::popcount(a.before) > std::popcount(b.before);
  });
  std::vector<Tables> joined;
  for (Tables& t : all_) {
    const auto more = std::find_if(joined.begin(), joined.end(), [&](const Tables& other) {
      return (t.before & ~other.before) == 0 && (!t.rules.empty() || other.rules.empty());
    });
    if (more == joined.end()) {
      joined.push_back(std::move(t));
    } else if (!more->rules.empty()) {
      std::move(t.rules.begin(), t.rules.end(), std::back_inserter(more->rules));
    }
  }
  all_ = std::move(joined);
  for (Tables& t : all_) {
    t.places = places_of(t.before);
    const std::uint64_t prefixes = settings_of(cursor.space, t.places);
    if (prefixes <= kListed) t.few.resize(prefixes);
  }
  now_.resize(all_.size());
}

const std::vector<std::uint32_t>& Alike::of_prefix() {
  for (std::size_t i = 0; i < all_.size(); ++i) now_[i] = number_of(all_[i]);
  return now_;
}

std::uint32_t Alike::number_of(Tables& tables) {
  std::uint64_t at = 0;
  for (const std::size_t axis : tables.places) {
    at = at * cursor_.space.axes[axis].size() + cursor_.at.at[axis];
  }
  std::uint32_t& known = tables.few.empty() ? tables.many[at] : tables.few[at];
  if (known == 0) known = make(tables) + 1;
  return known - 1;
}

std::uint32_t Alike::make(Tables& tables) {
  std::string bits;
  if (tables.rules.empty()) {
    for (const std::size_t axis : tables.places) {
      bits.push_back(static_cast<char>(cursor_.at.at[axis]));
    }
  }
  const Partial partial{cursor_.space, cursor_.at, cursor_.job, *cursor_.scratch};
  for (const auto& [rule, behind] : tables.rules) {
    // All settings of those axes, the last of them fastest. Each sets what stands behind it again:
    // an axis may look at those before it.
    std::size_t changed = 0;
    for (const std::size_t axis : behind) cursor_.at.at[axis] = 0;
    for (;;) {
      for (std::size_t i = changed; i < behind.size(); ++i) {
        cursor_.set(behind[i], cursor_.at.at[behind[i]]);
      }
      bits.push_back(rule->refuses(partial) ? '1' : '0');
      changed = behind.size();
      while (changed > 0) {
        std::uint8_t& value = cursor_.at.at[behind[changed - 1]];
        if (++value < cursor_.space.axes[behind[changed - 1]].size()) break;
        value = 0;
        --changed;
      }
      if (changed == 0) break;
      --changed;
    }
  }
  const auto number = static_cast<std::uint32_t>(tables.numbers.size());
  return tables.numbers.try_emplace(std::move(bits), number).first->second;
}

}  // namespace eratos::search
