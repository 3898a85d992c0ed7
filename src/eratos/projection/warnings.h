// What the reader of an answer must know about it: borrowed numbers, effects left out.
#pragma once

#include "eratos/projection/projection.h"

namespace eratos::projection {

void append_warnings(const job::CheckedJob& job, const calibration::Calibration& calibration,
                     Projection& out);

}  // namespace eratos::projection
