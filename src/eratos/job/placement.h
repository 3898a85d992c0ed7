// Which layers stand on which virtual stage.
//
// Letters: L layers, p pipeline ranks, v chunks a rank; virtual stage i = chunk i/p of rank i mod
// p. Worked example: 56 layers, p 4, v 1: 14 a stage. 61 layers with an explicit layout: as it
// says.
#pragma once

#include "eratos/job/job.h"

namespace eratos::job {

// Fills out.stages or appends what is wrong, recomputed units that do not divide a stage included.
// Source of the even rule and the uneven first and last stages: Megatron-LM
// core/transformer/transformer_block.py (get_num_layers_to_build); of what an explicit layout must
// place, core/transformer/pipeline_parallel_layer_layout.py (validate_layer_layout); of the cost
// rule: nanotron models/base.py (build_model, v0.4).
void place_layers(const JobSpec& spec, CheckedJob& out, Diagnostics& faults);

}  // namespace eratos::job
