// Where a traced step went: each nanosecond in one class.
//
// Answers "what did the accelerator do, and what did it wait for?". At each moment of the window
// the first of these that is true takes the time:
//   a compute kernel runs        its class; of several at once the one that started first
//   a communication kernel runs  exposed communication
//   a copy or a fill runs        copy, fill
//   nothing runs                 idle: what comes next had not been launched (host), was launched
//   and
//                                had not begun (launch), had been launched before the device went
//                                idle (queued: it waits for an event or another stream), or the
//                                trace does not say when (untold); behind the last kernel: tail
// So the parts add up to the window exactly, in whole nanoseconds.
//
// Worked example: window 0 to 100 ns, a product from 10 to 40 launched at 2, an all-reduce from 30
// to 70 launched at 5: product 30, exposed communication 30 (40 to 70), host 2, launch 8, tail 30;
// hidden communication 10.
#pragma once

#include <array>
#include <vector>

#include "eratos/projection/step_trace.h"

namespace eratos::projection {

enum class IdleCause : std::uint8_t { host, launch, queued, untold, tail, count_ };
std::string_view name_of(IdleCause cause);

struct StepAccount {
  Nanoseconds step = 0;
  // By class; communication is what is exposed.
  std::array<Nanoseconds, static_cast<std::size_t>(KernelClass::count_)> busy{};
  std::array<std::size_t, static_cast<std::size_t>(KernelClass::count_)> kernels{};
  std::array<Nanoseconds, static_cast<std::size_t>(IdleCause::count_)> idle{};
  Nanoseconds hidden = 0;  // communication beside compute
  // Of each kernel of the step what it takes of `busy`.
  std::vector<Nanoseconds> own;

  Nanoseconds busy_total() const;
  Nanoseconds idle_total() const;
};

// Kernels may overlap, lie partly or wholly outside the window, and have no length; their order is
// of no meaning but for kernels that start together: the first in the list counts.
StepAccount account_of(const TracedStep& step);

}  // namespace eratos::projection
