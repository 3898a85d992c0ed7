// Hardware that the catalogue does not have: a user's own accelerator or cluster, described by any
// subset of the catalogue's fields, and parts of the catalogue with one figure changed.
//
// What a description leaves out is taken from its `kin`, a part of the catalogue; without `kin`,
// from the part nearest to what is stated (vendor, then architecture, then the ratios of rates and
// capacity). AcceleratorSpec::kin and ::borrowed remember both.
//
// Worked example: `{kin: h100-sxm, memory: {bandwidth_bytes_per_s: 6.7e12}}` is an H100 with twice
// its memory bandwidth, called as its file is; `hardware.bandwidth=x2` on a job there says the
// same.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/hardware/cluster.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

// True for a mapping that describes an accelerator and no cluster around it.
bool is_accelerator(const text::Node& root);

// Keys: data/README.md, accelerators, none of them required, and `kin`. Errors: unknown keys, an
// unknown kin, nothing stated at all.
Result<hardware::AcceleratorSpec> complete_accelerator(const text::Node& own);

// What `accelerator:` of a cluster says: a name of the catalogue, a path (beside the file it stands
// in), or a mapping.
Result<hardware::AcceleratorSpec> accelerator_of(const text::Node& node);

// Every field, with `kin` and `borrowed` where the part has them; complete_accelerator() gives the
// same part back.
text::Node accelerator_to_node(const hardware::AcceleratorSpec& part);

// `hardware.FIELD=VALUE` on a cluster. FIELD is a path of the accelerator's file, `levels.N.KEY` of
// the cluster's, or one of compute, bandwidth, capacity, scale_up, domain, network. VALUE is a
// number in the field's unit, or a factor: x2, x0.5. Errors: unknown field (with the nearest), a
// value that is no positive number.
Result<hardware::ClusterSpec> with_hardware(const hardware::ClusterSpec& cluster,
                                            std::string_view field, std::string_view value);

// The fields that with_hardware() knows by a short word, each with what it changes.
struct HardwareWord {
  std::string_view word;
  std::vector<std::string_view> paths;
};
const std::vector<HardwareWord>& hardware_words();

}  // namespace eratos::reader
