// Which model, where, with what patience, and what it may cost.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "eratos/agent/retry.h"
#include "eratos/agent/transport.h"
#include "eratos/base/diagnostic.h"
#include "eratos/base/secret.h"
#include "eratos/text/tree.h"

namespace eratos::agent {

enum class Api : std::uint8_t { openai, anthropic };

struct ModelSettings {
  Api api = Api::openai;
  std::string url;  // of the interface, without the last word: https://api.openai.com/v1
  std::string model;
  Secret key;  // none: a local server
  bool stream = true;
  std::optional<double> temperature;  // left out unless it is said
  int reply_tokens = 4096;            // most of one answer
  // The name of that field: servers that speak OpenAI's interface know the older one, OpenAI's own
  // newer models only the newer.
  std::string reply_tokens_field = "max_tokens";
  std::int64_t context_tokens =
      0;  // what the model takes; 0: it says so itself when it is too much
  Patience patience;
  RetryPolicy retry;
  double requests_per_minute = 0;  // 0: no limit of ours
  // Money for a million tokens; nothing: unknown, and said so.
  std::optional<double> price_in;
  std::optional<double> price_out;
  std::string currency = "USD";
  std::int64_t most_tokens = 0;  // of the whole talk, in and out; 0: no limit
  std::optional<double> most_money;
};

// What the environment says: the names that are read, one line each, are in docs/tuning_models.md.
struct ModelEnvironment {
  std::string api, url, model, key;       // ERATOS_MODEL_API, _URL, ERATOS_MODEL, _KEY
  std::string openai_key, anthropic_key;  // OPENAI_API_KEY, ANTHROPIC_API_KEY
};

// How keys that stand elsewhere are read.
struct KeySources {
  std::function<Result<std::string>(const std::string& path)> read_key;  // of `key_file`
  std::function<std::string(const std::string& name)> read_variable;     // of `key_variable`
};

// The settings that a file (nullptr: none) and the environment give together; the file wins. The
// usual variables of an interface (OPENAI_API_KEY, ANTHROPIC_API_KEY) count only where no address
// is said: another server is sent no key that was not meant for it. Nothing where neither the file
// nor the environment names a model. Errors: unknown keys and values, a price or limit below zero,
// a limit of money without prices, an address that is none, a key that cannot be read. No message
// repeats a value of the file, which may be a key in the wrong place.
Result<std::optional<ModelSettings>> model_settings(const text::Node* file,
                                                    const ModelEnvironment& environment,
                                                    const KeySources& keys);

}  // namespace eratos::agent
