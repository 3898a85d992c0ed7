// simulate() of a schedule's order without making, or walking, the whole of it.
//
// Most orders repeat one turn over and over between filling and draining (Schedule::period). The
// order of few micro-batches is made and simulated as far as a turn; the turns that it lacks then
// run as a short list of steps; and once all that matters to the next turn is where it was one or
// more turns ago, only later, the rest is one multiplication. Where no such moment comes, every
// turn runs.
//
// Worked example: 1F1B, p = 16, m = 256 makes the order of 19 micro-batches; the other 237 are
// turns of 32 steps, and with equal stages two of them are looked at.
#pragma once

#include "eratos/base/diagnostic.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule {

// The same Timing, in every field, as make_order() and simulate() give. `scratch` is left with some
// order, not with the whole one. No allocation once scratch, workspace and timing have seen the
// shape. Errors: as make_order() and simulate().
Result<void> simulate_fast(const Schedule& schedule, const Shape& shape, const Costs& costs,
                           Order& scratch, Workspace& workspace, Timing& timing);

// Fewest micro-batches whose order it looks at for turns; Schedule::period is relied on from there
// on. Filling takes about p micro-batches, a V whose two halves fill one after the other twice as
// many, and a turn is only seen where it comes again. Requires a period.
int fewest_for_turns(const Schedule& schedule, const Shape& shape);

}  // namespace eratos::schedule
