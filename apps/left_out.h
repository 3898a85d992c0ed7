// How far projections are off on runs that the constants were not fitted to.
//
// The catalogue's constants are fitted to all rows, from what is known of each class before any run
// (data/priors.csv), and then judged on throughput:
//
//   all     by that fit: what the method can describe, for comparison
//   source  by the fit without the row's source
//   group   by the fit without the row's group: one model on one accelerator from one source
//   own     by the fit without the row's source, then calibrated as `eratos calibrate` would on a
//           tenth of the source's rows (the first tenth by crc32 of the id, at least one); the other
//           nine tenths are judged, and so for five draws of the tenth. A source of one row has none.
//   known   by the fit without the row's source, but with what the fit of all rows says of one kind of
//           constant (host, kernel, part, link; "any" is all of them)
//   few     as own, on one, three and ten rows, with every constant free or one kind: what a source of
//           at least 30 rows would need
//
// The constants that are shipped were set by hand with most rows in view; this is how well the
// procedure foresees runs, not the shipped values.
#pragma once

#include <vector>

#include "apps/measured_runs.h"
#include "eratos/report/accuracy.h"

namespace eratos::apps {

// Fills fit_to_all, left_out_*, own*, known and few of `rows`, which are measured.rows with answers.
// Leaves other constants in `measured` than it had.
// Rows of a stated MFU below `least_mfu` are judged and not fitted, but for a source's own rows: its
// owner has what was run, slow runs too.
void leave_out(MeasuredRuns& measured, double least_mfu, std::vector<report::AccuracyRow>& rows);

}  // namespace eratos::apps
