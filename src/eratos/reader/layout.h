// Megatron's pipeline layout strings: which layers stand on which virtual pipeline stage.
//
// Letters: E embedding, t a decoder layer, m a multi-token-prediction layer, L output and loss;
// `|` ends a stage; x*n repeats a letter or a bracketed group; commas and blanks mean nothing.
// Worked example: "Et*2|(t|)*2 t*2,L" is four stages: E t t; t; t; t t L.
// Source: NVIDIA/Megatron-LM megatron/core/transformer/pipeline_parallel_layer_layout.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/job/job.h"

namespace eratos::reader {

// Stages in the order of the string, which is virtual-stage order: stage r + c*pp is chunk c of
// rank r. Errors, each with the character at fault: a letter that means nothing, brackets that do
// not match, counts that are no positive integers, more than 100,000 letters; and what Megatron
// refuses: not one E first and one L last, t after m, m on two stages. `field` names the path in
// diagnostics.
Result<job::LayoutSpec> parse_layout(std::string_view text,
                                     std::string_view field = "parallel.layout");

// The shortest string that parse_layout() reads as `stages`.
std::string layout_text(const std::vector<job::StageLayout>& stages);

// "[0]*3+[1]*58", "([0,1]*27)", "[1,0]": the list of numbers it stands for, without evaluating
// anything. Only integers, lists, `+` between lists and `*` with an integer are understood.
// Source of the spelling: NVIDIA/Megatron-LM megatron/training/arguments.py, moe_freq_type.
Result<std::vector<int>> parse_list_expression(std::string_view text, std::string_view field);

}  // namespace eratos::reader
