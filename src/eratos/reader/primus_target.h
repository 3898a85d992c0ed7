// What Primus's target-cluster files say beside the cluster: how much memory may be used, what is
// worth how many trials, which axes are free, and which language model is asked.
//
// The cluster itself is primus_cluster.h's. Defaults are the original's, but for `axes`: an axis
// that the file does not name is left as `eratos search` has it.
//
// Worked example: examples/agents/tuning_agent/target_cluster_mi355x_4nodes.yaml has
// memory_safety_margin 0.10 and hbm_capacity_gb 288, which is compared with GiB there; its budget
// is 12 benchmarks and 0 of everything else, so that nothing is investigated. Source of the keys
// and defaults: AMD-AGI/Primus primus/agents/tuning_agent/config.py.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/hardware/cluster.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

struct TargetBudget {
  int proposals = 30;    // of the investigation
  int simulations = 30;  // of the investigation
  int measurements = 0;
  int rounds = 8;       // of the investigation
  int iterations = 30;  // within a round of a language model
};

struct TargetModel {
  std::string provider;  // "" where the file does not say
  std::string model;
  std::string api_key;
  std::string base_url;
  int timeout_s = 300;
  int max_tokens = 16000;
};

struct TuneTarget {
  std::string name;
  std::string objective = "tokens_per_s_per_gpu";
  double margin = 0.10;
  Bytes capacity;       // 0: the part's
  double clock_hz = 0;  // 0: the part's
  TargetBudget budget;
  // Words of --axes: what the file pins ("tp=job") or frees ("gbs=every").
  std::vector<std::string> axes;
  bool has_gpu = false;
  int benchmark_gpus = 0;
  std::string benchmark_arch;
  TargetModel llm;
  std::vector<std::string> prompt_extras;
};

// True for a mapping with `target_cluster`.
bool is_tune_target(const text::Node& root);

// Errors: unknown keys, numbers that are none or out of range, an objective that is not known here.
Result<TuneTarget> tune_target_of(const text::Node& root);

// The cluster with the target's capacity and clock. Errors: a capacity beyond the part's.
Result<hardware::ClusterSpec> with_target(const hardware::ClusterSpec& cluster,
                                          const TuneTarget& target, const Location& at);

}  // namespace eratos::reader
