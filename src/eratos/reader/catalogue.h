// The catalogue by name: parts, clusters, models, frameworks and what was measured of them.
//
// Answers "what is an MI355X, a `mi355x-8x8`, a Llama 3.1 70B, a `megatron@2026.06`?" from the
// files of data/, which are compiled into the program (catalogue_data.h). Their keys are described
// in data/README.md, data/frameworks/README.md and data/calibrations/README.md.
//
// Worked example: load_cluster("mi355x-8x8") has 8 nodes of 8 accelerators of 309,216,170,476
// visible bytes; load_cluster("mi355-8x8") is the fault "unknown accelerator or cluster
// `mi355`; did you mean `mi355x`?".
//
// Names are found by file name or by an alias, in any case. An unknown name is a fault with the
// nearest known one. A fault inside one of the catalogue's own files is a fault here as well.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/calibration/calibration.h"
#include "eratos/catalogue_data.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/model/architecture.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

struct Overlay;  // overlay.h: numbers said instead of the catalogue's; nullptr: none

// What a folder of data/ holds.
enum class Kind { accelerators, clusters, models, frameworks, calibrations };
std::string_view folder_of(Kind kind);
// "accelerator", "cluster", ...: for messages.
std::string_view word_of(Kind kind);

// Names of the folder's files, sorted; for frameworks `name@generation`.
std::vector<std::string> names_of(Kind kind);

// The file called `name`, by file name or alias, or nullptr.
const DataFile* find_file(Kind kind, std::string_view name);

// The tree of one file. Errors: unknown name.
Result<text::Node> load_tree(Kind kind, std::string_view name);
// A framework's with the overlay's numbers, its own and those of the profile it is based on.
Result<text::Node> load_tree(Kind kind, std::string_view name, const Overlay* overlay);

Result<hardware::AcceleratorSpec> load_accelerator(std::string_view name);

// `PART-NxM`, `CLUSTER-NxM` (the last -NxM is N nodes of M accelerators), a part or catalogue
// cluster alone (one node), or the path of a file: a cluster with the keys of data/clusters and
// `nodes`, or an accelerator (one node of it); either with any subset of its keys
// (hardware_file.h).
Result<hardware::ClusterSpec> load_cluster(std::string_view name);

// `cluster` with another number of nodes; what follows from it (the last level's size, the name)
// follows. Errors: fewer than 1.
Result<hardware::ClusterSpec> with_nodes(const hardware::ClusterSpec& cluster, int nodes);

Result<model::Architecture> load_model(std::string_view name);

// The catalogue's name of a model that is called by it, by an alias or by its name on the hub, as
// it stands or under the hub's; "" where there is none.
std::string model_called(const std::string& name);

// `NAME@GENERATION`, or NAME alone for the newest generation.
Result<framework::FrameworkProfile> load_framework(std::string_view name,
                                                   const Overlay* overlay = nullptr);

// What was measured of a part, gaps filled from the kin it names; a part without a file of its own
// takes everything from the nearest part that has one (same architecture first, then same vendor,
// then the nearest bf16 peak), which part.borrowed then names.
Result<calibration::Calibration> load_calibration(std::string_view accelerator);
// The same of a part that may be described by the user: everything is its kin's, scaled as
// calibration/borrow.h says, and its error band is widened by what `unmeasured` there adds.
Result<calibration::Calibration> load_calibration(const hardware::AcceleratorSpec& part,
                                                  const Overlay* overlay = nullptr);

// Errors of published runs that were projected from a smaller run of their kind
// (projection/anchor.h), whose job differed in its size alone, or in its layout too:
// data/anchored_residuals.csv, data/anchored_residuals_other_layout.csv.
Result<std::vector<calibration::ErrorClass>> load_anchored_classes(bool same_layout);

}  // namespace eratos::reader
