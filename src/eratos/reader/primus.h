// Primus experiment files: from the YAML, its `extends` and its presets to a job.
//
// What is read first: resolve_primus() gives the flat mapping that the trainer would see, each
// value with the file and line it comes from; primus_job() turns it into a job.
//
// Rules (Source: AMD-AGI/Primus@fd1eeabb primus/core/config/yaml_loader.py, merge_utils.py,
// primus/core/launcher/parser.py):
//   1. `${NAME:default}` is replaced in every string before merging (environment.h).
//   2. `extends` is a path or a list of paths beside the file; later entries win over earlier, the
//      file itself over all; mappings merge key by key, everything else is replaced.
//   3. A module names two presets, primus/configs/modules/FRAMEWORK/CONFIG and
//      primus/configs/models/FRAMEWORK/MODEL, of the checkout that the experiment lies in. The
//      module preset wins over the model preset, `overrides` over both.
//   4. The string "null" is null.
//
// Worked example: for examples/.../mixtral_8x22B_v0.1-BF16-pretrain.yaml there are 624 keys;
// `num_layers` is 56, from primus/configs/models/megatron/mixtral_8x22B_v0.1.yaml:6.
#pragma once

#include <optional>
#include <string>

#include "eratos/base/diagnostic.h"
#include "eratos/reader/environment.h"
#include "eratos/reader/import_report.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

struct PrimusConfig {
  text::Node keys;          // flat: every key the trainer would see
  std::string trainer;      // "pre_trainer"
  std::string framework;    // "megatron"
  std::string name;         // exp_name
  std::string model;        // the model preset, without .yaml
  std::string preset_root;  // .../primus/configs, "" when the file needs no preset
  Location name_at;
  Location model_at;
  Location framework_at;
};

// True for a mapping with `modules` that hold trainers.
bool is_primus(const text::Node& root);

// `root` is the experiment as parsed from `path`. Errors: a missing preset (with the paths tried),
// a cycle of `extends` (with its chain), no trainer, an unset `${NAME}` in what names a file.
Result<PrimusConfig> resolve_primus(const text::Node& root, const std::string& path,
                                    const Environment& environment);

// Why experiments of this backend are not read; nothing for those that are.
std::optional<Diagnostic> backend_fault(const std::string& framework, const Location& at);

// The job of a resolved experiment without its cluster. Errors: backends that train no language
// model (diffusion, recommenders), and everything that the backend's own reader refuses.
Result<JobRead> primus_job(const PrimusConfig& config);

}  // namespace eratos::reader
