#include "eratos/agent/wire.h"

#include <algorithm>

#include "eratos/agent/anthropic.h"
#include "eratos/agent/json_parts.h"
#include "eratos/agent/one_line.h"
#include "eratos/agent/openai.h"
#include "eratos/text/json.h"

namespace eratos::agent {

std::unique_ptr<Wire> wire_of(const ModelSettings& settings) {
  return settings.api == Api::anthropic ? anthropic_wire(settings) : openai_wire(settings);
}

ServerWords server_words(std::string_view body) {
  constexpr std::size_t kMost = 300;
  const Result<text::Node> read = text::parse_json(body, "answer");
  if (!read || !read->is_mapping()) return {one_line(body, kMost), ""};
  const text::Node* error = read->find("error");
  if (error == nullptr) {
    const std::string message = string_at(*read, "message");
    return {one_line(message.empty() ? body : std::string_view(message), kMost), ""};
  }
  if (error->is_scalar()) return {one_line(error->raw(), kMost), ""};
  std::string code = string_at(*error, "code");
  if (code.empty()) code = string_at(*error, "type");
  return {one_line(string_at(*error, "message"), kMost), one_line(code, 60)};
}

bool is_overflow(int status, const ServerWords& words) {
  if (status != 400 && status != 413 && status != 422 && status != 500) return false;
  if (status == 413) return true;
  std::string all = words.code + " " + words.message;
  std::transform(all.begin(), all.end(), all.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c);
  });
  // OpenAI's code; what Anthropic, vLLM, llama.cpp and Ollama write.
  for (const char* words_of_it :
       {"context_length_exceeded", "prompt is too long", "maximum context length",
        "exceed_context_size", "exceeds the available context", "context window",
        "input length and `max_tokens` exceed context limit"}) {
    if (all.find(words_of_it) != std::string::npos) return true;
  }
  return false;
}

}  // namespace eratos::agent
