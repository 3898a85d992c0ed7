// A job as the file that another program reads: the readers, the other way round.
//
// Every writer is checked by its reader: what was written is read again, and each field that comes
// back different is named. So nothing is lost silently, whatever a job may hold one day.
//
// Worked example: a Mixtral on mi355x-8x8 as a Primus experiment has 90 keys; the cluster is named
// as what the file cannot say. A job of profile nanotron exported to Primus names
// `framework.profile` as well: the file is read as primus-megatron.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/job/job.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

// A field that the file cannot hold, or holds differently.
struct Unsaid {
  std::string path;   // in the normalised job
  std::string value;  // of the job
  std::string read;   // what the file would be read as; "" where nothing is read
};

struct Exported {
  std::string text;
  std::vector<Unsaid> unsaid;
};

struct ExportTarget {
  std::string_view name;  // "primus"
  std::string_view what;
  Result<Exported> (*write)(const job::JobSpec& job);
};

const std::vector<ExportTarget>& export_targets();

// Errors: an unknown target (with the nearest), a job that the target's reader would refuse.
Result<Exported> export_job(const job::JobSpec& job, std::string_view target);

// Fields of `job` that `again` does not have alike. Names, sources and the cluster are left to the
// caller: files say them elsewhere.
std::vector<Unsaid> unsaid_of(const job::JobSpec& job, const job::JobSpec& again);

// Megatron's flat arguments of a job, with Primus's own keys where `primus`.
text::Node megatron_keys_of(const job::JobSpec& job, bool primus);

}  // namespace eratos::reader
