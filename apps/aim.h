// What a search is after, from its flags: --objective, --require, --within, --pareto, and what they
// stand on: --tokens, --price, --mtbf and its kin.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/arguments.h"
#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/hardware/cluster.h"
#include "eratos/search/goodput.h"
#include "eratos/search/objective.h"

namespace eratos::apps {

struct Wishes {
  search::Objective objective = search::Objective::throughput;
  std::vector<search::Limit> limits;
  std::vector<search::Objective> front;
  double tokens = 0;
  double price = 0;                      // of every part that has none of its own
  std::map<std::string, double> prices;  // of a part, by its name
  search::Failures failures;
};

// "step_time,cost": what --pareto is after, which is `asked` for or not; one figure alone may be a
// file's name where it is not.
bool is_front(const std::string& word, bool asked);

// `front`: words of that kind. Errors, all at once: what is unknown, without a unit, or said
// without what it stands on.
Result<Wishes> wishes_of(const Arguments& arguments, const std::vector<std::string>& front);

// On one cluster. Errors: a figure that lacks a price, tokens or watts, with where to say it.
Result<search::Aim> aim_of(const Wishes& wishes, const hardware::ClusterSpec& cluster,
                           double memory_margin);

}  // namespace eratos::apps
