// MaxText's configuration, as Primus experiments carry it.
//
// A mesh axis has a degree within a node (ici_) and one across nodes (dcn_); -1 takes what is left.
// Worked example: llama3.3_70B-fp8-pretrain.yaml (ici_fsdp_parallelism 8, dcn_data_parallelism -1,
// per_device_batch_size 10) is HSDP in groups of 8 with 10 sequences a device and step: 640 on 64.
// Source of the rules: AI-Hypercomputer/maxtext src/MaxText/configs/base.yml and max_utils.py
// (fill_unspecified_mesh_axes), layers/decoders.py (get_remat_policy), pyconfig.py (batch sizes).
#pragma once

#include <string>

#include "eratos/base/diagnostic.h"
#include "eratos/reader/import_report.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

struct MaxtextSource {
  std::string format;
  std::string name;
  std::string preset_root;  // files below it are presets
};

Result<JobRead> read_maxtext(const text::Node& root, const MaxtextSource& source);

}  // namespace eratos::reader
