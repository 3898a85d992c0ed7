// How the layers of a measured run were dealt to its pipeline stages, where that is not evenly.
#pragma once

#include <optional>
#include <string>

#include "eratos/job/job.h"

namespace eratos::reader {

// A layout string of Megatron-LM in the notes: "...; pp layout Et*4|(t*4|)*14tmL; ...".
std::optional<job::LayoutSpec> layout_in(const std::string& notes);

// Layers dealt so that the largest stage, output layer counted by its FLOPs, is as small as whole
// layers allow; stages that get one less come first, where memory is scarce. Letters: L layers,
// p stages, w the output layer in layers: w = V / (12 h + 2 s).
// Source: arXiv 2411.05288 (its redistributed baseline); FLOPs of arXiv 2104.04473.
// Worked example: L 32, p 8, h 3072, s 2048, V 131072: w 3.2; 4 4 4 4 5 5 5 and 1 with the output.
job::LayoutSpec redistributed(const job::JobSpec& spec);

// Layers that pp x vpp does not divide, dealt so that stages differ by one: the longer ones come
// second and on, since the first also embeds and the last has the head.
job::LayoutSpec balanced(const job::JobSpec& spec);

// The same, dealt as Megatron-Bridge's recipes do: every stage gets ceil(L / stages), and the last,
// which has the predictions and the head, what remains. Empty where nothing would remain.
// Source: NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/recipes/deepseek/deepseek_v3.py, layout_map
// (4x1, 8x1, 4x2, 16x1, 8x2, 4x4).
// Worked example: 61 layers on 16 stages: 4 on each, 1 on the last; on 8: 8 and 5.
std::optional<job::LayoutSpec> rest_last(const job::JobSpec& spec);

}  // namespace eratos::reader
