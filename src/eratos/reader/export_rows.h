// A job as a mapping of a framework's keys, from the same rows that its reader uses.
#pragma once

#include <string>

#include "eratos/job/job.h"
#include "eratos/reader/key_rows.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

// Every row of kind copy whose field the job has, translated back where the row has words. A value
// that no word stands for is left out. Rows with a `*` name no key of their own.
//
// Worked example: {"optimizer.zero_stage", "sharding.stage", copy, "0=none,1=zero1"} of a ZeRO-1
// job gives optimizer: {zero_stage: 1}.
text::Node tree_from_rows(KeyRows rows, const text::Node& written);

// nanotron's YAML of a job. Without a cluster all accumulation is one replica's.
text::Node nanotron_tree_of(const job::JobSpec& job);

// torchtitan's sections of a job, all but model.name and model.flavor. Without a cluster all
// accumulation is one replica's.
text::Node torchtitan_tree_of(const job::JobSpec& job);

// The flavor of data/torchtitan_flavors.csv with the job's sizes; where none is, one with as many
// layers (or the first), for reading the rest again.
struct TorchtitanFlavor {
  std::string name;    // "llama3"
  std::string flavor;  // "8B"
  bool exact = false;
};
TorchtitanFlavor torchtitan_flavor_of(const job::JobSpec& job);

// A mapping of sections as TOML: {training: {seq_len: 8192}} is "[training]\nseq_len = 8192\n".
// Values are integers, booleans, words, and lists of them.
std::string toml_sections(const text::Node& root);

}  // namespace eratos::reader
