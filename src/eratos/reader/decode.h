// From the tree of one data file to the value it describes. One file a kind; every key must be
// known, every fault is reported at once.
#pragma once

#include <string>
#include <string_view>

#include "eratos/base/diagnostic.h"
#include "eratos/calibration/calibration.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/model/architecture.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

// Keys: data/README.md, accelerators.
Result<hardware::AcceleratorSpec> decode_accelerator(const text::Node& root);

// Keys: data/README.md, clusters; `nodes` may stand there as well. The accelerator is a name of the
// catalogue, or a description (hardware_file.h); without `levels` they follow from it. `nodes` and `gpus_per_node` 0: as the file says (one node where it says nothing).
Result<hardware::ClusterSpec> decode_cluster(const text::Node& root, int nodes = 0,
                                             int gpus_per_node = 0);
text::Node cluster_to_node(const hardware::ClusterSpec& cluster);

// Keys: data/README.md, models, and those of published-run files (`models_*.yaml`), whose
// unmodelled parts (sliding windows, state-space mixers, ...) are faults that say so.
// `path` prefixes the field paths of faults.
Result<model::Architecture> decode_model(const text::Node& root, std::string_view path = {});
// The canonical mapping: decode_model(model_to_node(a)) is a.
text::Node model_to_node(const model::Architecture& architecture);

// Keys: data/frameworks/README.md. `path` prefixes the field paths of faults.
Result<framework::FrameworkProfile> decode_framework(const text::Node& root,
                                                     std::string_view path = {});
text::Node framework_to_node(const framework::FrameworkProfile& profile);

// Keys: data/calibrations/README.md. Gaps stay gaps.
Result<calibration::Calibration> decode_calibration(const text::Node& root);

}  // namespace eratos::reader
