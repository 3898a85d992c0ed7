// What tuning runs measured and learned of a machine, for the next run: one SQLite file that the
// user names.
//
// A record belongs to a model and to a cluster with its framework, both as digests of their written
// form, and to the version of our model that it was learned against (model.h). Measurements are
// facts and are offered whatever that version is; what was learned is a correction of one version,
// and is offered to that one alone.
//
// Worked example: a run on Mixtral and mi355x-4x8 keeps six measurements and what they say of the
// network. The next run on the two is given both; after an update of eratos, the six.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "eratos/store/digest.h"
#include "eratos/store/store.h"

namespace eratos::store {

struct MachineKey {
  Digest model;
  Digest machine;  // the cluster and the framework
};

struct MachineRecord {
  std::string text;         // JSON
  std::string fingerprint;  // of our model when it was kept
};

class MachineMemory {
 public:
  // Makes the file where there is none.
  static tl::expected<std::unique_ptr<MachineMemory>, Trouble> open(const std::string& file);
  virtual ~MachineMemory() = default;

  // The last that was kept. Errors: the file cannot be read.
  virtual tl::expected<std::optional<MachineRecord>, Trouble> last(const MachineKey& key) = 0;
  // In place of the last. Errors: cannot be written.
  virtual tl::expected<void, Trouble> keep(const MachineKey& key, const MachineRecord& record) = 0;
};

}  // namespace eratos::store
