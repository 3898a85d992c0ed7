// What a reader did to get a job from a file: where each value came from, which defaults it
// filled, what it left out and why.
//
// Worked example: `eratos import` of a Primus experiment says of parallel.vpp
//   value "2", origin derived, rule "32 chunks of pipeline_model_parallel_layout / 16",
//   where deepseek_v3-FP8-pretrain.yaml:40:39.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/job/job.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

enum class Origin : std::uint8_t {
  user,               // stands in the user's own file
  preset,             // stands in a file that the user's file names
  framework_default,  // what the framework takes when nothing is said
  derived,            // follows from other values by a rule
  command_line,       // --set, --cluster, --nodes
  catalogue,          // from a data file of this program
};
std::string_view name_of(Origin origin);

// Rule of parallel.etp where the file says nothing of it: --set parallel.tp changes both.
inline constexpr std::string_view kEtpFollowsTp = "expert tensor parallelism follows tp";

struct Provenance {
  std::string value;  // as the normalised job writes it
  Origin origin = Origin::user;
  Location where;    // no file for defaults
  std::string rule;  // how it follows, for derived values and defaults; else ""
};

struct UnusedKey {
  std::string key;
  Location where;
  std::string reason;
};

struct Warning {
  std::string code;  // stable, kebab-case: "unknown-key", "vocabulary", ...
  std::string message;
  Location where;
};

struct ImportReport {
  std::string format;                            // "Primus experiment (Megatron)", ...
  std::map<std::string, Provenance> provenance;  // by path in the normalised job
  std::vector<UnusedKey> unused;
  std::vector<Warning> warnings;
  text::Node resolved;  // every key of the source after its own rules (extends, presets, ...)

  // Paths whose origin is framework_default, sorted.
  std::vector<std::string> defaults() const;
};

// What a file leaves to the number of accelerators it is launched on, and what it says of that.
//
// Worked example: torchtitan's local_batch_size 2 with global_batch_size -1 on 64 accelerators at
// tensor_parallel_degree 8 is 2 x 8 = 16 sequences a step; on 128 it is 32.
struct FollowsCluster {
  int accelerators = 0;          // of the run the file describes; 0: not said
  double replica_sequences = 0;  // batch.global is this times dp; 0: batch.global is stated
  int replicas = 0;              // sharding.group is dp*cp over this; 0: stated
};

struct JobRead {
  job::JobSpec job;
  ImportReport report;
  bool has_cluster = false;  // false: job.cluster is empty and nothing can be projected yet
  FollowsCluster follows;
};

// Fills in what follows from the cluster (of none, from the file's own number of accelerators, or
// one replica, with a warning). What `set_paths` names stays. Errors: shares that are not whole.
Result<void> follow_cluster(JobRead& read, const std::vector<std::string>& set_paths);

// Gives each diagnostic without a place the place of the value it names: of its field, or of the
// nearest mapping around it.
void locate(Diagnostics& diagnostics, const ImportReport& report);

// Calls `see(path, value)` for every value of a written job; a list is one value.
void for_each_value(
    const text::Node& tree, std::string_view prefix,
    const std::function<void(const std::string& path, const text::Node& value)>& see);

// A value as provenance shows it: lists on one line, null as `null`.
std::string shown(const text::Node& value);

// Records every leaf of `tree` (below `prefix`) that has no provenance yet.
void note_leaves(ImportReport& report, const text::Node& tree, std::string_view prefix,
                 Origin origin, std::string_view rule = {});

}  // namespace eratos::reader
