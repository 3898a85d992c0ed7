// Answers of a search that outlive its process: one SQLite file that the user names.
//
// Three tables. `search`: which searches were made, for whoever resumes one or looks into the file.
// `screens`: the answers to a batch of screens, by what was asked. `projections`: the answer to one
// projection, by its job. A key is a digest of everything that the answer follows from: the model's
// own sources and compiler (model.h), every field of the job, cluster, profile, calibration and
// options. So an answer of another model, calibration or margin has another key and is never found.
//
// What is kept waits in memory until flush(), which writes it in one short transaction; nobody is
// locked out for longer, and what a killed process loses is what waited. The file is in WAL mode
// where its folder allows that: FILE-wal and FILE-shm stand beside it while it is open.
//
// Once something is wrong with the file, trouble() says what, and the store finds and keeps nothing
// more: whoever searches goes on without it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "eratos/base/diagnostic.h"
#include "eratos/store/digest.h"

namespace eratos::store {

struct Trouble {
  enum class Kind : std::uint8_t {
    usage,        // a folder stands there
    bad_file,     // no store of ours, of a newer eratos, or damaged
    environment,  // cannot be written, full, locked, or eratos was built without SQLite
  };
  Kind kind = Kind::environment;
  Diagnostic what;  // with the file and the cure
};

// Of a search, by what its answers depend on.
struct Identity {
  Digest model;
  Digest job;  // without the three that follow
  Digest framework;
  Digest cluster;
  Digest axes;
  Digest calibration;
  Digest options;

  friend bool operator==(const Identity&, const Identity&) = default;
};

struct SearchRecord {
  Identity identity;
  std::string said;  // the command's words
};

class Store {
 public:
  // Makes the file where there is none, unless `must_exist`.
  static tl::expected<std::unique_ptr<Store>, Trouble> open(const std::string& file,
                                                            bool must_exist);
  virtual ~Store() = default;

  // All that are there; written at once.
  virtual std::vector<SearchRecord> searches() = 0;
  virtual void add(const SearchRecord& record) = 0;

  // Packed answers, or nothing.
  virtual std::optional<std::string> screens(const Digest& key) = 0;
  virtual std::optional<std::string> projection(const Digest& key) = 0;

  virtual void keep_screens(const Digest& key, std::string packed) = 0;
  virtual void keep_projection(const Digest& key, std::string packed) = 0;

  // Writes what waits, if it has waited for a second or `now`.
  virtual void flush(bool now) = 0;

  virtual const std::optional<Trouble>& trouble() const = 0;
};

}  // namespace eratos::store
