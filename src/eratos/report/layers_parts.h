// What text and JSON of chosen layers share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eratos/report/layers.h"

namespace eratos::report {

// Those of a stage's layers that are recomputed, by their numbers in the model.
std::vector<int> recomputed_layers(const search::StagePlan& stage);

// "0-3, 8": runs of numbers that rise.
std::string runs_of(const std::vector<int>& numbers);

// What the plan's recomputation is, as a search's axis spells it; "some layers" where no word does.
std::string plan_word(const search::LayerPlan& plan);

double gain_over_alike(const LayersAnswer& a);

}  // namespace eratos::report
