// The project's own job file, and the normalised form of every job: one mapping, every field named.
//
// Answers "which JobSpec does this YAML describe?" and "how is this JobSpec written down?", so that
// decode_job(job_to_node(job)) is `job` again. The keys are listed in docs/JOB.md; those of
// `framework: {...}` are data/frameworks/README.md's, of `model: {...}` data/README.md's.
//
// Worked example: `{model: llama3.1-8b, parallel: {tp: 2}, batch: {global: 64, sequence: 8192}}`
// is a job on framework megatron with micro-batch 1; `batch: {global: 64, sequnce: 8192}` is the
// fault "unknown key `batch.sequnce`; did you mean `batch.sequence`?" and, beside it, "`batch.
// sequence` is missing".
#pragma once

#include "eratos/base/diagnostic.h"
#include "eratos/job/job.h"
#include "eratos/reader/import_report.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

// The framework of jobs that name none.
inline constexpr std::string_view kDefaultFramework = "megatron";

// Every fault at once, each with its place and field path. `cluster` may be absent: then
// job.cluster.accelerator.name is "".
Result<job::JobSpec> decode_job(const text::Node& root);

// As decode_job, with a report: user values, defaults, catalogue entries.
Result<JobRead> read_job_yaml(const text::Node& root);

// Which names are written out as mappings although the catalogue has them.
struct Expand {
  bool model = false;
  bool framework = false;
  bool cluster = false;
};

// The canonical tree. A model, framework or cluster that the catalogue describes exactly is written
// as its name, otherwise as a mapping (of a framework: the profile's name and what differs).
text::Node job_to_node(const job::JobSpec& job, Expand expand = {});

// Gives every leaf of `tree` the place that the report remembers for it.
void restore_places(text::Node& tree, const ImportReport& report);

}  // namespace eratos::reader
