// What the two layouts of a comparison share: names of the jobs, parts of their memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "eratos/report/compare.h"
#include "eratos/report/page.h"
#include "eratos/report/time_parts.h"

namespace eratos::report {

// Up to here every job is a column, and the page says why they differ; beyond, every job is a line.
inline constexpr std::size_t kMostColumns = 5;

struct MemoryPart {
  std::string name;
  Bytes bytes;
};

// Parts of the fullest stage, of which its device memory is the sum.
std::vector<MemoryPart> memory_parts(const projection::MemoryAnswer& m);

// A, B, ...; #27 after Z.
std::string letter(std::size_t i);

// A value of a job as a cell: large figures in powers of ten.
std::string cell(const text::Node& node);

// "0.818x"
std::string times(double ratio);

// "model on cluster"
std::string where(const Compared& c);

// The step of each job as one bar, of the longest step.
std::vector<Stack> step_stacks(const std::vector<Compared>& all,
                               const std::vector<std::string>& names);

// Sections of a page with a column a job, and of one with a line a job.
std::vector<Section> column_sections(const std::vector<Compared>& all);
std::vector<Section> line_sections(const std::vector<Compared>& all,
                                   const std::vector<std::string>& names);

}  // namespace eratos::report
