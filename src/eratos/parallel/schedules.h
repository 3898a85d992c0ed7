// Which pipeline schedules are there, and what does each ask of the cut of a job? The one list of
// them: a job is checked by these facts, before anything is ordered, and room `schedule` takes them
// from here for the orders themselves, one file each.
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
  bool side_by_side = false;     // runs forwards beside backwards; some of these stay whole
  bool cuts_output = false;      // takes an OutputLayer other than last_stage
  bool needs_limit = false;      // looks at schedule.activation_limit
};

// One line a schedule, in the order `eratos list schedules` prints them: its name in code, its
// facts.
// clang-format off
#define ERATOS_SCHEDULES(X)                                                                           \
  X(none, .name = "none")                                                                             \
  X(gpipe, .name = "gpipe")                                                                           \
  X(one_f_one_b, .name = "1f1b", .cuts_output = true)                                                 \
  X(interleaved_one_f_one_b, .name = "interleaved-1f1b", .least_vpp = 2, .most_vpp = 0)               \
  X(looped_bfs, .name = "looped-bfs", .most_vpp = 0)                                                  \
  X(zb_h1, .name = "zb-h1", .splits_backward = true)                                                  \
  X(zb_h2, .name = "zb-h2", .splits_backward = true)                                                  \
  X(zb_auto, .name = "zb-auto", .splits_backward = true, .needs_limit = true)                         \
  X(v_min, .name = "v-min", ERATOS_TWO_CHUNKS_OF_A_V, .splits_backward = true)                        \
  X(v_half, .name = "v-half", ERATOS_TWO_CHUNKS_OF_A_V, .splits_backward = true, .cuts_output = true) \
  X(zbv, .name = "zbv", ERATOS_TWO_CHUNKS_OF_A_V, .splits_backward = true)                            \
  X(zbv_greedy, .name = "zbv-greedy", ERATOS_TWO_CHUNKS_OF_A_V, .splits_backward = true,              \
    .needs_limit = true)                                                                              \
  X(dualpipe, .name = "dualpipe", .placement = Placement::bidirectional, .splits_backward = true,     \
    .side_by_side = true)                                                                             \
  X(dualpipev, .name = "dualpipev", ERATOS_TWO_CHUNKS_OF_A_V, .splits_backward = true,                \
    .side_by_side = true)
#define ERATOS_TWO_CHUNKS_OF_A_V .placement = Placement::vee, .least_vpp = 2, .most_vpp = 2
// clang-format on

namespace schedule_facts {
#define ERATOS_DEFINE_FACTS(id, ...) inline constexpr ScheduleFacts id{__VA_ARGS__};
ERATOS_SCHEDULES(ERATOS_DEFINE_FACTS)
#undef ERATOS_DEFINE_FACTS
}  // namespace schedule_facts

inline constexpr ScheduleFacts kScheduleFacts[] = {
#define ERATOS_LIST_FACTS(id, ...) schedule_facts::id,
    ERATOS_SCHEDULES(ERATOS_LIST_FACTS)
#undef ERATOS_LIST_FACTS
};

constexpr const ScheduleFacts* find_schedule_facts(std::string_view name) {
  for (const ScheduleFacts& f : kScheduleFacts) {
    if (f.name == name) return &f;
  }
  return nullptr;
}

}  // namespace eratos::parallel
