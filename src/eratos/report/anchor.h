// What an anchor run explained, and what of it stands in the answer: `project --anchor`.
//
// Worked example: "gpus=8,step_s=8.08" on 64 MI325X: the run's measured and projected step, by how
// much they differ and which constants take how much of it; each constant before and after, what
// the change does to this job's step; the job's step and peak without the anchor.
#pragma once

#include <string>
#include <vector>

#include "eratos/projection/anchor.h"
#include "eratos/report/answer.h"
#include "eratos/report/page.h"
#include "eratos/report/table.h"
#include "eratos/text/tree.h"

namespace eratos::report {

struct CarriedConstant {
  calibration::Attributed constant;
  bool of_step = true;  // else of the peak
  bool carried = true;
  std::string why_not;
  double effect = 0;  // ln(this job's step, or peak, with that change alone / without)
};

struct AnchorAnswer {
  std::string run;   // as it was asked for
  std::string what;  // "8 x mi325x, megatron@2026.06"
  projection::Anchor anchor;
  double tokens_per_s_per_gpu = 0;   // measured; 0: only a peak
  std::string peak_kind;             // "device"
  std::vector<std::string> differs;  // of the run's job against this one: "parallel.tp 4, here 8"
  std::vector<std::string> notes;
  std::vector<CarriedConstant> constants;
  projection::Projection alone;  // this job without the anchor
};

std::string anchor_text(const AnchorAnswer& a, const Style& style);
text::Node anchor_node(const AnchorAnswer& a);
Section anchor_section(const AnchorAnswer& a);

}  // namespace eratos::report
