// What every pipeline schedule asks of the cut of a job: facts a job is checked by, before anything
// is ordered. Room `schedule` has the orders themselves, one file each.
#pragma once

#include <string_view>

#include "eratos/parallel/parallel.h"

namespace eratos::parallel {

struct ScheduleFacts {
  std::string_view name;  // as users write it
  Placement placement = Placement::looped;
  int least_vpp = 1;
  int most_vpp = 1;  // 0: any
  bool splits_backward = false;  // runs the input's and the weights' gradients apart
  bool cuts_output = false;      // takes an OutputLayer other than last_stage
  bool needs_limit = false;      // looks at schedule.activation_limit
};

inline constexpr ScheduleFacts kScheduleFacts[] = {
    {.name = "none"},
    {.name = "gpipe"},
    {.name = "1f1b", .cuts_output = true},
    {.name = "interleaved-1f1b", .least_vpp = 2, .most_vpp = 0},
    {.name = "looped-bfs", .most_vpp = 0},
    {.name = "zb-h1", .splits_backward = true},
    {.name = "zb-h2", .splits_backward = true},
    {.name = "zb-auto", .splits_backward = true, .needs_limit = true},
    {.name = "v-min", .placement = Placement::vee, .least_vpp = 2, .most_vpp = 2, .splits_backward = true},
    {.name = "v-half",
     .placement = Placement::vee,
     .least_vpp = 2,
     .most_vpp = 2,
     .splits_backward = true,
     .cuts_output = true},
    {.name = "zbv", .placement = Placement::vee, .least_vpp = 2, .most_vpp = 2, .splits_backward = true},
    {.name = "zbv-greedy",
     .placement = Placement::vee,
     .least_vpp = 2,
     .most_vpp = 2,
     .splits_backward = true,
     .needs_limit = true},
    {.name = "dualpipe", .placement = Placement::bidirectional, .splits_backward = true},
    {.name = "dualpipev", .placement = Placement::vee, .least_vpp = 2, .most_vpp = 2, .splits_backward = true},
};

constexpr const ScheduleFacts* find_schedule_facts(std::string_view name) {
  for (const ScheduleFacts& f : kScheduleFacts) {
    if (f.name == name) return &f;
  }
  return nullptr;
}

}  // namespace eratos::parallel
