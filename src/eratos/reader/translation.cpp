#include "eratos/reader/translation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "eratos/reader/environment.h"
#include "eratos/reader/fields.h"
#include "eratos/reader/job_yaml.h"

namespace eratos::reader {

using text::Node;

Translation::Translation(const Node& source, KeyRows rows, std::string format,
                         std::string preset_root)
    : source_(source), rows_(rows), preset_root_(std::move(preset_root)) {
  report_.format = std::move(format);
}

bool Translation::says(std::string_view key) const {
  const Node* value = text::find_at(source_, key);
  return value != nullptr && !value->is_null() && value->raw() != "null";
}

const Node* Translation::node(std::string_view key) {
  used_.emplace(key);
  if (!says(key)) return nullptr;
  const Node* value = text::find_at(source_, key);
  if (!value->is_scalar()) return value;
  const std::vector<std::string> open = open_placeholders(value->raw());
  if (open.empty()) return value;
  for (const std::string& name : open) {
    if (!open_.insert(std::string(key) + " " + name).second) continue;
    fail(key, "environment variable `" + name + "` is not set; `" + std::string(key) + "` needs it",
         "give it with --env " + name + "=VALUE");
  }
  return nullptr;
}

std::optional<int> Translation::integer(std::string_view key) {
  const Node* value = node(key);
  if (value == nullptr) return std::nullopt;
  const auto read = value->as_int64(key);
  if (read && *read >= std::numeric_limits<int>::min() &&
      *read <= std::numeric_limits<int>::max()) {
    return static_cast<int>(*read);
  }
  bad_.push_back(value->mismatch(key, "an integer"));
  return std::nullopt;
}

std::optional<double> Translation::number(std::string_view key) {
  const Node* value = node(key);
  if (value == nullptr) return std::nullopt;
  const auto read = value->as_double(key);
  if (read) return *read;
  bad_.push_back(value->mismatch(key, "a number"));
  return std::nullopt;
}

std::optional<bool> Translation::flag(std::string_view key) {
  const Node* value = node(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_scalar() && value->scalar_kind() == text::ScalarKind::integer) {
    return value->as_int64(key).value_or(0) != 0;
  }
  if (value->is_scalar() && text::bool_of(value->raw())) return text::bool_of(value->raw());
  bad_.push_back(value->mismatch(key, "true or false"));
  return std::nullopt;
}

std::optional<std::string> Translation::word(std::string_view key) {
  const Node* value = node(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_scalar()) return value->raw();
  bad_.push_back(value->mismatch(key, "a word"));
  return std::nullopt;
}

Location Translation::where(std::string_view key) const {
  const Node* value = text::find_at(source_, key);
  return value == nullptr ? Location{} : value->where();
}

bool Translation::is_preset(const Location& where) const {
  return !preset_root_.empty() && where.file.compare(0, preset_root_.size(), preset_root_) == 0;
}

void Translation::put(std::string_view field, Node value, std::string_view key, std::string rule) {
  Provenance from{.rule = std::move(rule)};
  if (says(key)) {
    from.where = where(key);
    from.origin = is_preset(from.where) ? Origin::preset : Origin::user;
    from.rule = from.rule.empty() ? std::string(key) : std::string(key) + ": " + from.rule;
    value.set_place(from.where);
  } else {
    from.origin = Origin::framework_default;
    if (from.rule.empty()) from.rule = "`" + std::string(key) + "` not given";
  }
  used_.emplace(key);
  note(field, std::move(from));
  (void)text::set_at(fields_, field, std::move(value));
}

void Translation::derive(std::string_view field, Node value,
                         const std::vector<std::string_view>& keys, std::string rule) {
  Provenance from{.origin = Origin::derived, .rule = std::move(rule)};
  for (const std::string_view key : keys) {
    used_.emplace(key);
    if (from.where.file.empty() && says(key)) from.where = where(key);
  }
  value.set_place(from.where);
  note(field, std::move(from));
  (void)text::set_at(fields_, field, std::move(value));
}

void Translation::assume(std::string_view field, Node value, std::string rule) {
  note(field, {.origin = Origin::framework_default, .rule = std::move(rule)});
  (void)text::set_at(fields_, field, std::move(value));
}

bool Translation::copy(std::string_view key) {
  const KeyRow* row = find_row(rows_, key);
  const Node* value = node(key);
  if (row == nullptr || value == nullptr) return false;
  if (row->words.empty()) {
    put(row->field, *value, key);
    return true;
  }
  const std::string_view ours = our_word(row->words, value->raw());
  if (value->is_scalar() && !ours.empty()) {
    put(row->field, Node::plain(std::string(ours)), key);
    return true;
  }
  std::vector<std::string> known;
  for (std::string_view rest = row->words; !rest.empty();) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    known.emplace_back(pair.substr(0, pair.find('=')));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
  }
  fail(key, "`" + std::string(key) + "` cannot be " + value->describe(),
       "it is one of " + list_of(known), std::string(row->field));
  return false;
}

void Translation::copy_rows() {
  for (const KeyRow& row : rows_) {
    if (row.say == Say::copy) (void)copy(row.key);
  }
}

void Translation::fail(std::string_view key, std::string message, std::string cure,
                       std::string field) {
  bad_.push_back({.where = says(key) ? where(key) : source_.where(),
                  .message = std::move(message),
                  .cure = std::move(cure),
                  .field = std::move(field)});
}

void Translation::warn(std::string code, std::string message, std::string_view key) {
  report_.warnings.push_back(
      {.code = std::move(code), .message = std::move(message), .where = where(key)});
}

void Translation::list_unused() {
  std::vector<std::string> known(used_.begin(), used_.end());
  for (const KeyRow& row : rows_) {
    if (row.key.find('*') == std::string_view::npos) known.emplace_back(row.key);
  }
  const auto is_used = [&](const std::string& path) {
    std::string above = path;
    for (;;) {
      if (used_.contains(above)) return true;
      const std::size_t dot = above.rfind('.');
      if (dot == std::string::npos) return false;
      above.resize(dot);
    }
  };
  for_each_value(source_, "", [&](const std::string& path, const Node& value) {
    if (is_used(path)) return;
    const Location at = value.where();
    const KeyRow* row = find_row(rows_, path);
    std::string reason = row != nullptr && row->say == Say::nothing ? std::string(row->words)
                         : row != nullptr ? "says nothing beside the other keys"
                                          : std::string();
    if (row == nullptr) {
      if (is_preset(at)) return;
      const std::string near = nearest_name(path, known);
      if (!near.empty()) {
        bad_.push_back({.where = at,
                        .message = "unknown key `" + path + "`",
                        .cure = "did you mean `" + near + "`?"});
        return;
      }
      reason = "unknown to this reader";
      report_.warnings.push_back({.code = "unknown-key",
                                  .message = "`" + path + "` is unknown to this reader",
                                  .where = at});
    } else if (is_preset(at)) {
      return;
    }
    report_.unused.push_back({.key = path, .where = at, .reason = std::move(reason)});
  });
}

Result<JobRead> Translation::finish(const std::string& name) {
  list_unused();
  if (text::find_at(fields_, "name") == nullptr) {
    assume("name", Node::string(name), "the file's name");
  }
  auto decoded = decode_job(fields_);
  if (!decoded) {
    for (Diagnostic d : decoded.error()) {
      // What is missing because its value could not be read was said where it stands.
      const bool missing = d.message.find("is missing") != std::string::npos;
      if (!(missing && !bad_.empty())) bad_.push_back(std::move(d));
    }
  }
  if (!bad_.empty()) {
    locate(bad_, report_);
    return faults(std::move(bad_));
  }
  JobRead out;
  out.job = std::move(*decoded);
  out.has_cluster = !out.job.cluster.accelerator.name.empty();
  out.report = std::move(report_);
  out.report.resolved = source_;
  out.follows = follows;
  auto& provenance = out.report.provenance;
  const Provenance model = provenance.contains("model") ? provenance["model"] : Provenance{};
  const Node* model_field = fields_.find("model");
  const bool named = model_field != nullptr && model_field->is_scalar();
  std::map<std::string, Provenance> written;
  const auto write = [&](const std::string& path, const Node& value) {
    Provenance from;
    if (const auto noted = provenance.find(path); noted != provenance.end()) {
      from = noted->second;
    } else if (path.rfind("model.", 0) == 0 && provenance.contains("model")) {
      from = {.origin = named ? Origin::catalogue : model.origin,
              .where = model.where,
              .rule = model.rule};
    } else {
      from.origin = Origin::framework_default;
      from.rule = out.job.framework.name + "@" + out.job.framework.generation;
      if (path == "cluster" || path == "lora") from.rule = "not in the file";
    }
    from.value = shown(value);
    written[path] = std::move(from);
  };
  for_each_value(job_to_node(out.job, {.model = true}), "", write);
  for_each_value(job_to_node(out.job), "", write);
  provenance = std::move(written);
  if (auto done = follow_cluster(out, {}); !done) return faults(done.error());
  return out;
}

}  // namespace eratos::reader
