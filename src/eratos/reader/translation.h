// From the keys of a framework's file to the normalised job, field by field.
//
// A reader asks for keys by their path, puts fields, and says how each follows; at the end the
// fields go through the same door as a job the user wrote (decode_job), so every format meets the
// same checks. What is kept beside: where each value came from, which keys were used, which still
// hold an unset `${NAME}`.
//
// Worked example: of a torchtitan file
//   Translation t(root, kTorchtitanKeys, "torchtitan (TOML)");
//   t.copy_rows();                                       // training.seq_len -> batch.sequence
//   t.derive("parallel.vpp", Node::integer(2), {"parallelism.pipeline_parallel_schedule"},
//            "two stages a rank");
//   return t.finish("llama3_8b");
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/reader/import_report.h"
#include "eratos/reader/key_rows.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

class Translation {
 public:
  // `source` and `rows` must outlive this. Files below `preset_root` are presets: their keys are
  // not the user's, and unknown ones among them no fault.
  Translation(const text::Node& source, KeyRows rows, std::string format,
              std::string preset_root = {});

  // The value at a path, or nothing where it is absent or null; a value of another kind, or one
  // that holds an unset `${NAME}`, is a fault and counts as absent.
  const text::Node* node(std::string_view key);
  std::optional<int> integer(std::string_view key);
  std::optional<double> number(std::string_view key);
  std::optional<bool> flag(std::string_view key);
  std::optional<std::string> word(std::string_view key);
  bool is_on(std::string_view key) { return flag(key).value_or(false); }
  // There, whether or not its value is known.
  bool says(std::string_view key) const;

  // Puts a field that stands at `key` (or is the framework's default, where `key` is absent).
  void put(std::string_view field, text::Node value, std::string_view key, std::string rule = {});
  // Puts a field that follows from several keys.
  void derive(std::string_view field, text::Node value, const std::vector<std::string_view>& keys,
              std::string rule);
  // Puts a field that no key decides: how the framework has it.
  void assume(std::string_view field, text::Node value, std::string rule);
  // Every row of kind copy whose key is there.
  void copy_rows();
  // As put(), translated by the row of `key`; false where it is absent. Fault: an unknown word.
  bool copy(std::string_view key);

  void fail(std::string_view key, std::string message, std::string cure = {},
            std::string field = {});
  void take(const Diagnostics& all) { bad_.insert(bad_.end(), all.begin(), all.end()); }
  void warn(std::string code, std::string message, std::string_view key);

  Location where(std::string_view key) const;
  // What the cluster decides once it is known; see import_report.h.
  FollowsCluster follows;

  // Decodes the fields, lists what nobody read, and gives every field an origin.
  Result<JobRead> finish(const std::string& name);

 private:
  void note(std::string_view field, Provenance from) {
    report_.provenance[std::string(field)] = std::move(from);
  }
  bool is_preset(const Location& where) const;
  void list_unused();

  const text::Node& source_;
  KeyRows rows_;
  std::string preset_root_;
  text::Node fields_ = text::Node::mapping();
  ImportReport report_;
  Diagnostics bad_;
  std::set<std::string> used_;
  std::set<std::string> open_;  // placeholders that were said already
};

}  // namespace eratos::reader
