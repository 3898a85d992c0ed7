// A calibration of the user's own: numbers said instead of the catalogue's, from the file that
// `eratos calibrate` writes or from one written by hand.
//
// Answers "what do this machine and this build of the framework sustain?" for everything that is
// projected with `--calibration FILE`. The file:
//
//   parts:
//     h100-sxm:                       # keys of data/calibrations, any subset
//       gemm: {bf16: {in_training: 0.74}}
//       network: {share: 0.6}
//   frameworks:
//     megatron@2026.06:               # host, overlap, kernel, memory and the loss's traffic
//       kernel: {attention: 0.82}
//   fit: {rows: 12, ...}              # where the numbers come from; not read but for `rows`
//
// What a job says itself wins over the overlay, the overlay over the catalogue. A profile that is
// based on another one takes that one's overlay, but for what its own file states. Numbers of a
// section that a part borrows from its kin (`gemm.bf16.in_training`, `network.share`) replace the
// borrowed ones.
#pragma once

#include <string>
#include <string_view>

#include "eratos/base/diagnostic.h"
#include "eratos/framework/profile.h"
#include "eratos/job/job.h"
#include "eratos/reader/catalogue.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

struct Overlay {
  std::string file;
  int rows = 0;            // measured runs behind it; 0: the file does not say
  text::Node parts;        // mappings from name to keys, or null
  text::Node frameworks;

  // What is said of it, or null.
  text::Node of_part(std::string_view name) const;
  text::Node of_framework(const DataFile& file) const;
  // "calibrated (FILE, 12 rows)"
  std::string name() const;
};

// Errors, all at once and with their places: not YAML, unknown keys, sections that a calibration
// may not change, frameworks that the catalogue does not have, numbers out of range.
Result<Overlay> read_overlay(const std::string& file);
Result<Overlay> overlay_of(const text::Node& root, const std::string& file);

// The profile with the overlay's numbers; what the job changed of the catalogue's profile stays.
Result<framework::FrameworkProfile> with_overlay(const framework::FrameworkProfile& of_job,
                                                 const Overlay& overlay);

// True when some of its numbers are of the job's part, of the kin that the part borrows from, or of
// its framework's profile.
bool speaks_of(const Overlay& overlay, const job::JobSpec& job);

}  // namespace eratos::reader
