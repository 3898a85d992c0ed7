// What one measured run of a model, small enough to be had, says of the same model at another size.
//
// The anchor run is projected itself. How far its measured step is off is put down to the named
// constants that its step reads (calibration/attribution.h): rates of kernels, costs of the host,
// rates of the links it uses. The constants so changed price the other job. Nothing else is
// carried: a constant that the anchor does not read (a network that it does not cross, an exchange
// that it does not make) keeps its value, and the bubble is the other job's own schedule, simulated
// with the changed times. A measured peak moves, in the same way, what is held outside live
// tensors: context, communicators' buffers, and what the allocator reserves beyond what it hands
// out. Live tensors are counted, not fitted, so a peak that is stated as allocated says nothing of
// them.
//
// A framework's constants hold for jobs of the same profile and generation, a part's for the same
// part.
//
// Worked example: Llama 3.1 8B in fp8 on 8 MI325X is projected at 8.42 s a step and was measured at
// 8.08 s (16,224 tokens/s/GPU): -4.1%, of which kernels take -2.9% and the run keeps -1.2%. 64 of
// them are then projected at 16,050 tokens/s/GPU instead of 15,584, where 16,186 were measured
// (tests/apps/anchor_test.py).
//
// Assumes: what makes one run of a model slower than projected makes the next one so; a slow node
// or a throttled accelerator in the anchor is carried as well, less the run's own share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/units.h"
#include "eratos/calibration/attribution.h"
#include "eratos/calibration/calibration.h"
#include "eratos/job/job.h"
#include "eratos/projection/projection.h"

namespace eratos::projection {

enum class PeakKind { allocated, reserved, device };

// What was measured; 0: not.
struct MeasuredRun {
  Seconds step;
  Bytes peak;
  PeakKind kind = PeakKind::device;
  bool first_stage = false;  // the peak of pipeline rank 0 instead of the worst rank
};

Bytes peak_of(const MemoryAnswer& memory, PeakKind kind, bool first_stage);

// What a constant is of.
enum class CarriedPart { kernels, launch, communication, memory };
std::string_view name_of(CarriedPart part);
CarriedPart part_of(const calibration::Parameter& parameter);

// One figure of the anchor run, in seconds or bytes.
struct Explained {
  double measured = 0;
  double projected = 0;                            // with the constants before
  double anchored = 0;                             // with those after
  std::vector<calibration::Attributed> constants;  // those that it reads, in their table's order

  double expected = 0;  // standard deviation of the residual, by the constants' spreads and noise

  double residual() const;                   // ln(measured / projected)
  double unexplained() const;                // ln(measured / anchored): the run's own
  double explained(CarriedPart part) const;  // of the residual
};

struct Anchor {
  std::string profile;  // of the run: "megatron@2026.06"
  std::string accelerator;
  Projection projection;  // of the run, with the constants before
  std::optional<Explained> step;
  std::optional<Explained> peak;
};

// `run` is legal (ERATOS_CHECK) and has a step.
Anchor anchor_on(const job::JobSpec& run, const MeasuredRun& measured,
                 const calibration::Calibration& calibration, Workspace& w);

// Does the constant hold for this job too?
bool carries(const Anchor& anchor, const calibration::Attributed& constant,
             const job::JobSpec& job);

// Changes one constant of the job's profile, or of its part's calibration, as the anchor's changed.
void carry(const calibration::Attributed& constant, job::JobSpec& job,
           calibration::Calibration& calibration);
// All that hold for it.
void carry_all(const Anchor& anchor, job::JobSpec& job, calibration::Calibration& calibration);

// Bands of an anchored projection: those of `classes`, which are counted out of anchored runs,
// where one holds the job; the others stay.
Confidence anchored_confidence(const job::CheckedJob& job, const Anchor& anchor,
                               const std::vector<calibration::ErrorClass>& classes,
                               const Projection& p);

}  // namespace eratos::projection
