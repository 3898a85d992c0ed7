// Names of pipeline schedules as papers and frameworks write them.
#pragma once

#include <string_view>

#include "eratos/job/job.h"

namespace eratos::reader {

// Sets the schedule that `word` names, pp being known: our own name, or one of the papers' that
// means one of ours with a limit (zb-1p, zb-2p). False: not known; nothing is set.
bool set_schedule(std::string_view word, job::JobSpec& job);

// Our name of a `pp_algorithm` of Primus; empty: not known.
// Source: AMD-AGI/Primus primus/core/pipeline_parallel/scheduler.
std::string_view primus_schedule(std::string_view word);
// The other way; empty where Primus has none.
std::string_view primus_schedule_word(std::string_view ours);

// Our name of a `zero_bubble_v_schedule_mem_setup`, and the other way; empty: not known.
// Source: arXiv 2405.15362; sail-sg/zero-bubble-pipeline-parallelism,
// --zero-bubble-v-schedule-mem-setup.
std::string_view zero_bubble_v(std::string_view word);
std::string_view zero_bubble_v_word(std::string_view ours);

}  // namespace eratos::reader
