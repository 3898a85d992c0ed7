#include "eratos/agent/settings.h"

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace eratos::agent {
namespace {

constexpr std::string_view kOpenAi = "https://api.openai.com/v1";
constexpr std::string_view kAnthropic = "https://api.anthropic.com";

const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> kKeys = {"api",
                                                 "url",
                                                 "model",
                                                 "key",
                                                 "key_variable",
                                                 "key_file",
                                                 "stream",
                                                 "temperature",
                                                 "reply_tokens",
                                                 "reply_tokens_field",
                                                 "context_tokens",
                                                 "connect_s",
                                                 "first_byte_s",
                                                 "idle_s",
                                                 "tries",
                                                 "longest_wait_s",
                                                 "longest_asked_s",
                                                 "requests_per_minute",
                                                 "price_in",
                                                 "price_out",
                                                 "currency",
                                                 "most_tokens",
                                                 "most_money"};
  return kKeys;
}

// Reads the file's values; messages name keys and places, never values, which may be a key in the
// wrong place.
class Values {
 public:
  Values(const text::Node* file, Diagnostics& faults) : file_(file), faults_(faults) {
    if (file_ == nullptr) return;
    if (!file_->is_mapping()) {
      say(*file_, "the model's file must be a mapping");
      file_ = nullptr;
      return;
    }
    for (const text::Entry& e : file_->entries()) {
      bool known = false;
      for (const std::string& key : known_keys()) known = known || key == e.key;
      if (known) continue;
      const std::string near = nearest_name(e.key, known_keys());
      faults_.push_back({.where = e.key_location(),
                         .message = "unknown key in the model's file",
                         .cure = near.empty() ? "docs/tuning_models.md lists the keys"
                                              : fmt::format("did you mean `{}`?", near)});
    }
  }

  std::string text(std::string_view key, std::string otherwise) const {
    const text::Node* at = find(key);
    if (at == nullptr) return otherwise;
    if (at->is_scalar()) return at->raw();
    say(*at, fmt::format("`{}` must be text", key));
    return otherwise;
  }
  bool boolean(std::string_view key, bool otherwise) const {
    const text::Node* at = find(key);
    if (at == nullptr) return otherwise;
    if (const Result<bool> value = at->as_bool()) return *value;
    say(*at, fmt::format("`{}` must be true or false", key));
    return otherwise;
  }
  std::optional<double> number(std::string_view key, double least) const {
    const text::Node* at = find(key);
    if (at == nullptr) return std::nullopt;
    const Result<double> value = at->as_double();
    if (value && std::isfinite(*value) && *value >= least && *value <= 1e15) return *value;
    say(*at, fmt::format("`{}` must be a number of at least {}", key, least));
    return std::nullopt;
  }
  void number(std::string_view key, double least, double& into) const {
    if (const auto value = number(key, least)) into = *value;
  }
  std::int64_t count(std::string_view key, double least, std::int64_t otherwise) const {
    const auto value = number(key, least);
    return value ? static_cast<std::int64_t>(*value) : otherwise;
  }
  const text::Node* find(std::string_view key) const {
    const text::Node* at = file_ == nullptr ? nullptr : file_->find(key);
    return at == nullptr || at->is_null() ? nullptr : at;
  }
  void say(const text::Node& at, std::string message, std::string cure = {}) const {
    faults_.push_back(
        {.where = at.where(), .message = std::move(message), .cure = std::move(cure)});
  }

 private:
  const text::Node* file_;
  Diagnostics& faults_;
};

std::string trimmed(std::string s) {
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (!s.empty() && is_space(s.back())) s.pop_back();
  std::size_t begin = 0;
  while (begin < s.size() && is_space(s[begin])) ++begin;
  return s.substr(begin);
}

Secret key_of(const Values& values, const ModelEnvironment& environment, Api api, bool own_url,
              const KeySources& sources, Diagnostics& faults) {
  const text::Node* plain = values.find("key");
  const text::Node* variable = values.find("key_variable");
  const text::Node* file = values.find("key_file");
  std::string key;
  if ((plain != nullptr) + (variable != nullptr) + (file != nullptr) > 1) {
    faults.push_back({.message = "the model's file gives its key in more than one way",
                      .cure = "keep one of `key`, `key_variable` and `key_file`"});
  } else if (plain != nullptr) {
    key = values.text("key", "");
  } else if (variable != nullptr) {
    key = sources.read_variable(variable->raw());
    if (key.empty()) {
      values.say(*variable, "the variable that `key_variable` names is not set",
                 "export it, or leave the line out for a server without a key");
    }
  } else if (file != nullptr) {
    const Result<std::string> read = sources.read_key(file->raw());
    if (read) key = *read;
    if (!read) values.say(*file, "the file that `key_file` names cannot be read");
  } else if (!environment.key.empty()) {
    key = environment.key;
  } else if (own_url) {
    key = "";  // OPENAI_API_KEY is for OpenAI, not for whoever else's server
  } else {
    key = api == Api::openai ? environment.openai_key : environment.anthropic_key;
  }
  key = trimmed(std::move(key));
  for (const char c : key) {
    if (static_cast<unsigned char>(c) > 0x20 && static_cast<unsigned char>(c) < 0x7F) continue;
    faults.push_back({.message = "the model's key has characters that no header can hold",
                      .cure = "it is one word of printable ASCII"});
    break;
  }
  return Secret(std::move(key));
}

}  // namespace

Result<std::optional<ModelSettings>> model_settings(const text::Node* file,
                                                    const ModelEnvironment& environment,
                                                    const KeySources& keys) {
  Diagnostics faults;
  const Values values(file, faults);
  ModelSettings s;
  s.model = values.text("model", environment.model);
  const std::string api = values.text("api", environment.api);
  s.url = values.text("url", environment.url);
  if (file == nullptr && s.model.empty() && s.url.empty() && api.empty()) {
    return std::optional<ModelSettings>();
  }
  if (api == "anthropic") {
    s.api = Api::anthropic;
  } else if (!api.empty() && api != "openai") {
    faults.push_back({.message = "the interface of the model is unknown",
                      .cure = "`openai` (chat completions) or `anthropic` (messages)"});
  }
  if (s.model.empty()) {
    faults.push_back({.message = "no model is named",
                      .cure = "set `model` in the model's file, or ERATOS_MODEL"});
  }
  const bool own_url = !s.url.empty();
  if (!own_url) s.url = s.api == Api::openai ? kOpenAi : kAnthropic;
  while (!s.url.empty() && s.url.back() == '/') s.url.pop_back();
  const bool plain = s.url.rfind("http://", 0) == 0;
  if (!plain && s.url.rfind("https://", 0) != 0) {
    faults.push_back({.message = "the model's address must begin with http:// or https://"});
  }
  if (s.url.find('@') != std::string::npos ||
      s.url.find_first_of("?# \t\n\r") != std::string::npos) {
    faults.push_back({.message = "the model's address holds a name, a query or a space",
                      .cure = "give a key as `key_variable`, `key_file` or ERATOS_MODEL_KEY"});
  }
  s.key = key_of(values, environment, s.api, own_url, keys, faults);
  s.stream = values.boolean("stream", true);
  s.temperature = values.number("temperature", 0);
  s.reply_tokens = static_cast<int>(values.count("reply_tokens", 16, s.reply_tokens));
  s.reply_tokens_field =
      values.text("reply_tokens_field",
                  own_url || s.api == Api::anthropic ? "max_tokens" : "max_completion_tokens");
  if (s.reply_tokens_field != "max_tokens" && s.reply_tokens_field != "max_completion_tokens") {
    faults.push_back({.message = "`reply_tokens_field` is max_tokens or max_completion_tokens"});
  }
  s.context_tokens = values.count("context_tokens", 0, 0);
  values.number("connect_s", 0.001, s.patience.connect_s);
  values.number("first_byte_s", 0.001, s.patience.first_byte_s);
  values.number("idle_s", 0.001, s.patience.idle_s);
  s.retry.tries = static_cast<int>(values.count("tries", 1, s.retry.tries));
  values.number("longest_wait_s", 0, s.retry.longest_wait_s);
  values.number("longest_asked_s", 0, s.retry.longest_asked_s);
  values.number("requests_per_minute", 0, s.requests_per_minute);
  s.price_in = values.number("price_in", 0);
  s.price_out = values.number("price_out", 0);
  s.currency = values.text("currency", s.currency);
  s.most_tokens = values.count("most_tokens", 0, 0);
  s.most_money = values.number("most_money", 0);
  if (s.most_money && (!s.price_in || !s.price_out)) {
    faults.push_back({.message = "`most_money` cannot be kept without prices",
                      .cure = "give `price_in` and `price_out`, of a million tokens"});
  }
  if (!faults.empty()) return eratos::faults(std::move(faults));
  return std::optional<ModelSettings>(std::move(s));
}

}  // namespace eratos::agent
