// What an axis may be told, and what it is when nothing is said.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/search/space.h"

namespace eratos::search {

// The value that `word` names on an axis, or nothing. Recomputations that the space does not know
// yet are added to it.
std::optional<Value> value_of(Space& space, AxisId axis, std::string_view word);

// What the job says.
Value value_of_job(const Space& space, AxisId axis);

// Of the layer that has most; 0 of a dense model.
int most_experts(const job::JobSpec& s);

// Degrees, sequences, percents: the values stand in an order.
bool is_numeric(AxisId axis);

// Numbers ascend, and a switch is off first: the first value stands for the axis where it changes
// nothing, and off is what every framework takes.
void put_in_order(AxisId axis, std::vector<Value>& values);

// Every value that could be legal for this model on this cluster, the job's own among them.
std::vector<Value> default_values(Space& space, AxisId axis);

// Those, and the ones that are rarely worth their number: every recipe, kind, set of recomputed
// modules, HSDP group, quarter of the optimizer's state, both orders of ranks that Megatron-LM has.
std::vector<Value> every_value(Space& space, AxisId axis);

// Words of an axis whose values have names, for messages; empty where they are numbers.
std::vector<std::string> words_of(AxisId axis);

}  // namespace eratos::search
