// What a projected job has in common with runs whose errors are known (calibration/residuals.h).
#pragma once

#include "eratos/calibration/residuals.h"
#include "eratos/projection/projection.h"

namespace eratos::projection {

calibration::Likeness likeness_of(const job::CheckedJob& job, const Projection& p);

// Bands of step and peak. measured = projected / (1 + error), so an error band from low to high puts
// the truth between projected / (1 + high) and projected / (1 + low).
Confidence confidence_of(const job::CheckedJob& job, const calibration::Calibration& calibration,
                         const Projection& p);

}  // namespace eratos::projection
