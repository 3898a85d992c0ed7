// Primus's hardware configurations and target clusters, as clusters.
//
// `hardware_config` names rates and latencies of three network levels; the part is the file's name
// (mi355x.yaml). `target_cluster` names the part, the number of nodes, and a hardware
// configuration beside it or in the checkout above.
//
// Worked example: examples/hardware_configs/mi355x.yaml has node_bw 537.6 (GB/s, an accelerator's
// egress), pod_bw 50 and 8 NICs for 8 GPUs: 5.376e11 within a node, 5.0e10 across, 2.5e10 beyond
// the pod of 64.
// Source of the keys: AMD-AGI/Primus@fd1eeabb examples/hardware_configs/*.yaml and
// examples/agents/tuning_agent.
#pragma once

#include "eratos/base/diagnostic.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

bool is_primus_cluster(const text::Node& root);

// The same cluster with the keys of data/README.md, clusters. Errors: an unknown part, a
// hardware configuration that is not there, numbers that are none.
Result<text::Node> primus_cluster_tree(const text::Node& root);

}  // namespace eratos::reader
