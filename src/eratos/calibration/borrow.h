// What a part without measurements of its own takes from its nearest kin.
//
// Shares and efficiencies carry over as they are, because they are relative to the part's own
// data sheet; absolute rates are scaled by the ratio of the data sheets (attention by matrix
// peak, collectives by scale-up bandwidth, times not at all).
//
// Worked example: H800 has H100's chip and 200 instead of 450 GB/s of NVLink. Its GEMM table is
// H100's; its 8-GPU ring bus bandwidth becomes 366 * 200 / 450 = 163 GB/s (published: 160).
#pragma once

#include "eratos/calibration/calibration.h"
#include "eratos/hardware/accelerator.h"

namespace eratos::calibration {

// Fills every section that `part` lacks (a format's GEMM curve, the attention table, elementwise
// shares, collectives of a kind, the network) from `kin`, and appends to part.statements one
// sentence a section. Sections that `part` has are untouched, but for an attention table that adds to
// its kin's: it gets the kernels that it lacks. Chains are the caller's: borrow
// kin's own gaps first.
void borrow_from(PartCalibration& part, const hardware::AcceleratorSpec& part_spec,
                 const PartCalibration& kin, const hardware::AcceleratorSpec& kin_spec);

// What a part that nobody has run yet adds to the error band of the runs most alike.
//
// Each side of the step's band grows by
//   w = 0.02 n + 0.1 sum |ln(x)|
// n: how many of the four figures that rule a step (matrix peak, memory bandwidth, scale-up
// bandwidth, network cards) were not stated and are the kin's; x: the ratio of each to the kin's,
// the size of the scale-up domain among them. Memory's band stays: its bytes do not depend on rates.
// Assumes: an efficiency that was measured on one part holds on another within 10% for each factor
// of e between their rates, and a figure that was not stated within 2% of the step.
//
// Worked example: twice the memory bandwidth (0.069), 1.2 times the matrix rate (0.018) and a
// domain of 16 instead of 8 (0.069), network cards not stated (0.02): w = 0.177, so a band of
// -0.2 .. 0.2 becomes -0.377 .. 0.377.
Unmeasured unmeasured(const hardware::AcceleratorSpec& part, const hardware::AcceleratorSpec& kin);

}  // namespace eratos::calibration
