#include "eratos/reader/megatron_keys.h"

#include <limits>
#include <utility>

#include "eratos/reader/environment.h"

namespace eratos::reader {

MegatronKeys::MegatronKeys(const text::Node& keys, std::string preset_root, ImportReport& report,
                           Diagnostics& faults)
    : keys_(keys), preset_root_(std::move(preset_root)), report_(report), faults_(faults) {}

const text::Node* MegatronKeys::node(std::string_view key) {
  const bool first = used_.emplace(key).second;
  const text::Node* value = keys_.find(key);
  if (value == nullptr || value->is_null()) return nullptr;
  if (!value->is_scalar()) return value;
  if (value->raw() == "null") return nullptr;
  const std::vector<std::string> open = open_placeholders(value->raw());
  if (open.empty()) return value;
  for (const std::string& name : open) {
    if (!first) break;  // said once
    fail(key, "environment variable `" + name + "` is not set; `" + std::string(key) + "` needs it",
         "give it with --env " + name + "=VALUE");
  }
  return nullptr;
}

bool MegatronKeys::is_open(std::string_view key) const {
  const text::Node* value = keys_.find(key);
  return value != nullptr && value->is_scalar() && !open_placeholders(value->raw()).empty();
}

std::optional<int> MegatronKeys::integer(std::string_view key) {
  const text::Node* value = node(key);
  if (value == nullptr) return std::nullopt;
  const auto read = value->as_int64(key);
  if (read && *read >= std::numeric_limits<int>::min() &&
      *read <= std::numeric_limits<int>::max()) {
    return static_cast<int>(*read);
  }
  faults_.push_back(value->mismatch(key, "an integer"));
  return std::nullopt;
}

std::optional<double> MegatronKeys::number(std::string_view key) {
  const text::Node* value = node(key);
  if (value == nullptr) return std::nullopt;
  const auto read = value->as_double(key);
  if (read) return *read;
  faults_.push_back(value->mismatch(key, "a number"));
  return std::nullopt;
}

std::optional<bool> MegatronKeys::flag(std::string_view key) {
  const text::Node* value = node(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_scalar() && value->scalar_kind() == text::ScalarKind::integer) {
    return value->as_int64(key).value_or(0) != 0;
  }
  const auto read = value->as_bool(key);
  if (read) return *read;
  faults_.push_back(value->mismatch(key, "true or false"));
  return std::nullopt;
}

std::optional<std::string> MegatronKeys::word(std::string_view key) {
  const text::Node* value = node(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_scalar()) return value->raw();
  faults_.push_back(value->mismatch(key, "a word"));
  return std::nullopt;
}

std::optional<DType> MegatronKeys::dtype(std::string_view key) {
  const auto name = word(key);
  if (!name) return std::nullopt;
  for (const DType t : {DType::fp32, DType::fp16, DType::bf16, DType::fp8}) {
    if (*name == name_of(t)) return t;
  }
  if (*name == "torch.float32" || *name == "float32") return DType::fp32;
  if (*name == "torch.bfloat16" || *name == "bfloat16") return DType::bf16;
  if (*name == "torch.float16" || *name == "float16") return DType::fp16;
  fail(key, "`" + std::string(key) + "` cannot be `" + *name + "`",
       "it is one of fp32, bf16, fp16 or fp8");
  return std::nullopt;
}

Location MegatronKeys::where(std::string_view key) const {
  const text::Node* value = keys_.find(key);
  return value == nullptr ? Location{} : value->where();
}

bool MegatronKeys::is_preset(const Location& where) const {
  return !preset_root_.empty() && where.file.compare(0, preset_root_.size(), preset_root_) == 0;
}

void MegatronKeys::note(std::string_view path, std::string_view key, std::string rule) {
  const text::Node* value = keys_.find(key);
  Provenance from{.rule = std::move(rule)};
  if (value == nullptr || value->is_null()) {
    from.origin = Origin::framework_default;
    if (from.rule.empty()) from.rule = "`" + std::string(key) + "` not given";
  } else {
    from.where = value->where();
    from.origin = is_preset(from.where) ? Origin::preset : Origin::user;
    from.rule = from.rule.empty() ? std::string(key) : std::string(key) + ": " + from.rule;
  }
  report_.provenance[std::string(path)] = std::move(from);
}

void MegatronKeys::derive(std::string_view path, const std::vector<std::string_view>& keys,
                          std::string rule) {
  Provenance from{.origin = Origin::derived, .rule = std::move(rule)};
  for (const std::string_view key : keys) {
    if (const Location at = where(key); !at.file.empty()) {
      from.where = at;
      break;
    }
  }
  report_.provenance[std::string(path)] = std::move(from);
}

void MegatronKeys::fail(std::string_view key, std::string message, std::string cure,
                        std::string field) {
  faults_.push_back({.where = where(key),
                     .message = std::move(message),
                     .cure = std::move(cure),
                     .field = std::move(field)});
}

void MegatronKeys::warn(std::string code, std::string message, std::string_view key) {
  report_.warnings.push_back(
      {.code = std::move(code), .message = std::move(message), .where = where(key)});
}

}  // namespace eratos::reader
