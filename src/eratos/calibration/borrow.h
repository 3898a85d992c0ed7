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
// sentence a section. Sections that `part` has are untouched. Chains are the caller's: borrow
// kin's own gaps first.
void borrow_from(PartCalibration& part, const hardware::AcceleratorSpec& part_spec,
                 const PartCalibration& kin, const hardware::AcceleratorSpec& kin_spec);

}  // namespace eratos::calibration
