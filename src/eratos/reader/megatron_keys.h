// The flat arguments of a Megatron run, read one by one: typed, with the place of each, and with a
// record of which were used.
//
// Megatron's own habits are kept: an integer 1 is a true switch, null is "not given", the string
// "null" too.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/base/dtype.h"
#include "eratos/reader/import_report.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

class MegatronKeys {
 public:
  // `preset_root`: files below it are presets, everything else is the user's.
  MegatronKeys(const text::Node& keys, std::string preset_root, ImportReport& report,
               Diagnostics& faults);

  // The value, or nothing where it is absent or null. A value of another kind, or one that still
  // holds an unset `${NAME}`, is a fault and counts as absent.
  std::optional<int> integer(std::string_view key);
  std::optional<double> number(std::string_view key);
  std::optional<bool> flag(std::string_view key);
  std::optional<std::string> word(std::string_view key);
  std::optional<DType> dtype(std::string_view key);
  const text::Node* node(std::string_view key);

  bool is_on(std::string_view key) { return flag(key).value_or(false); }

  // Provenance of `path` in the normalised job: taken from `key` as it stands there, or the
  // framework's default where the key is absent or null. `rule` adds how it was translated.
  void note(std::string_view path, std::string_view key, std::string rule = {});
  // Follows from several keys by `rule`; the place is the first key's that has one.
  void derive(std::string_view path, const std::vector<std::string_view>& keys, std::string rule);

  Location where(std::string_view key) const;
  void fail(std::string_view key, std::string message, std::string cure = {},
            std::string field = {});
  void take(Diagnostic d) { faults_.push_back(std::move(d)); }
  void warn(std::string code, std::string message, std::string_view key);
  bool is_preset(const Location& where) const;
  bool is_used(const std::string& key) const { return used_.contains(key); }
  // There, but an unset `${NAME}` hides the value: said already.
  bool is_open(std::string_view key) const;
  bool has_presets() const { return !preset_root_.empty(); }
  // Every key that was asked for, there or not.
  const std::set<std::string>& asked() const { return used_; }
  const text::Node& all() const { return keys_; }

 private:
  const text::Node& keys_;
  std::string preset_root_;
  ImportReport& report_;
  Diagnostics& faults_;
  std::set<std::string> used_;
};

}  // namespace eratos::reader
