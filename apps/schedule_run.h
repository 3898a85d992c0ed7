// One schedule of `eratos schedule`, run: its order, times, peaks and bounds.
#pragma once

#include <functional>
#include <vector>

#include "apps/schedule_request.h"
#include "eratos/base/diagnostic.h"
#include "eratos/report/schedule_answer.h"
#include "eratos/schedule/order.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"
#include "eratos/solver/solver.h"

namespace eratos::apps {

// `order` and `timeline` are empty where only numbers were asked for. The timing's spans point
// into `costs`, so a Ran is moved, not copied.
struct Ran {
  report::ScheduleRun run;
  ScheduleCosts costs;
  schedule::Order order;
  std::vector<schedule::Interval> timeline;
};

// What Megatron-LM runs for the shape.
const schedule::Schedule& automatic(const schedule::Shape& shape);

// The shape as `s` runs it: its own number of chunks where --vpp does not say, and, with
// `compared`, where it does not take what --vpp says.
schedule::Shape shape_for(const ScheduleRequest& request, const schedule::Schedule& s,
                          bool compared);

// Action by action, for a picture. Errors: a shape or costs that the schedule refuses.
Result<Ran> run_in_full(const ScheduleRequest& request, const schedule::Schedule& s,
                        const schedule::Shape& shape);
// The same numbers without the order.
Result<Ran> run_numbers(const ScheduleRequest& request, const schedule::Schedule& s,
                        const schedule::Shape& shape);

// The best order found within --time-limit, or until `go_on` says false. Errors: those of
// optimal_order().
Result<Ran> run_optimal(const ScheduleRequest& request,
                        const std::function<bool(const solver::Found&)>& go_on);
// The same without clock and solver, so that equal questions have equal answers; nothing where the
// shape is too large for that.
bool is_small(const ScheduleRequest& request);
Result<Ran> run_small_optimal(const ScheduleRequest& request);

}  // namespace eratos::apps
