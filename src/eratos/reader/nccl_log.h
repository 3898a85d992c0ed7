// What nccl-tests and rccl-tests print, as tables of times by size.
//
// Answers "how long does this collective take on this machine, size by size?". A log may hold
// several programs one after another, lines of a launcher in front of each line (`srun -l`,
// `mpirun --tag-output`), and lines of the library (NCCL INFO) in between. Columns by their number,
// for the programs' versions differ: size, count, type, then redop and root where there are, then
// time, algbw, busbw and error out of place, and the same four in place (N/A where a program has no
// such variant). Sizes are the larger of one rank's two buffers, as ops::Collective counts them.
// Source: NVIDIA/nccl-tests src/common.cu and doc/PERFORMANCE.md; ROCm/rccl-tests prints the same.
//
// Which collective? The log says it (`Collective test starting: NAME`, or a command line that names
// NAME_perf); else the name of the file does. Who took part? Its `#  Rank` lines.
//
// Worked example: the line
//      1048576        262144     float     sum      -1    41.20   25.45   44.54      0    40.9 ...
// of all_reduce_perf over 8 ranks says that 1 MiB takes 41.2 us out of place; busbw is
// 1.75 * 1048576 B / 41.2 us = 44.5 GB/s.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/calibration/measured.h"
#include "eratos/ops/ops.h"
#include "eratos/reader/points.h"

namespace eratos::reader {

struct NcclRow {
  int line = 0;
  double bytes = 0;
  std::string type;            // float, half, bfloat16, ...
  double out_of_place_us = 0;  // 0: N/A
  double in_place_us = 0;

  // Of the columns that there are, their mean: frameworks call some collectives this way and some
  // the other.
  double mean_us() const;
};

struct NcclTable {
  std::string program;  // all_reduce_perf
  ops::CollectiveKind kind = ops::CollectiveKind::all_reduce;
  std::string skipped;  // why it is of no use here; "" where `rows` are
  int line = 0;         // of the first row
  int ranks = 0;
  int hosts = 0;
  std::string device;  // the driver's name
  int iterations = 0;  // averaged in each time; 0: not said
  std::vector<NcclRow> rows;
  std::vector<std::string> notes;  // rows left out, and why
};

// Does the text look like such a log?
bool is_nccl_log(std::string_view text);

// Errors, all at once: no table; rows of a length that no version prints (a log that was cut off),
// no collective, no ranks, another number of ranks a host.
Result<std::vector<NcclTable>> parse_nccl_log(std::string_view text, const std::string& file);

// The rows as points that can be priced and fitted, on the part that the log names or, where it
// names none of the catalogue, on that of `cluster` (a catalogue cluster; "" for none). Errors: an
// unknown device without a cluster, a cluster of another size.
Result<std::vector<Point>> points_of(const NcclTable& table, const std::string& file,
                                     const std::string& cluster);

// The rows as measured pieces; each column is a sample.
std::vector<calibration::MeasuredPiece> pieces_of(const NcclTable& table);

}  // namespace eratos::reader
