// What a search was after, as its reports say it: figures beyond speed and memory, limits, and what
// would have to give where no candidate keeps them all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eratos/report/search.h"
#include "eratos/report/table.h"
#include "eratos/search/objective.h"
#include "eratos/text/tree.h"

namespace eratos::report {

search::Measures measures_of(const Answer& answer);

// "12.6 s", "31.2 days", "6.2 GiB", "0.43 J/token": a value of value_of() with its unit.
std::string figure_text(search::Objective objective, double value);
// The same for a column, whose head has the unit.
Column figure_column(search::Objective objective);
std::string figure_cell(search::Objective objective, double value);

// Figures that a table of configurations shows beside speed, step and memory.
std::vector<search::Objective> more_figures(const search::Aim& aim);

// "nothing is cheaper": what the proof proves.
std::string proven_words(const search::Aim& aim);

// Lines below the table: the limits, the bill for --tokens, what failures take.
std::string bill_text(const search::Aim& aim, const Answer& best);
// Lines in place of an answer: which limit refuses, and the nearest value that one alone could
// have.
std::string limits_text(const SearchAnswer& a, const Style& style);

// Every figure that can be worked out, by its JSON key.
text::Node figures_node(const search::Aim& aim, const search::Measures& m);
// objective, requirements[], goodput, and the terms they stand on.
void put_aim(const SearchAnswer& a, text::Node& out);

}  // namespace eratos::report
