#include "eratos/agent/trial.h"

#include <iterator>

namespace eratos::agent {

namespace {

constexpr std::string_view kFidelityNames[] = {"memory", "simulate", "measure", "run"};
constexpr std::string_view kVerdictNames[] = {"fits", "too-big", "illegal", "out-of-memory",
                                              "failed"};

}  // namespace

std::string_view name_of(Fidelity f) { return kFidelityNames[static_cast<std::size_t>(f)]; }

std::optional<Fidelity> fidelity_of(std::string_view word) {
  for (std::size_t i = 0; i < std::size(kFidelityNames); ++i) {
    if (kFidelityNames[i] == word) return static_cast<Fidelity>(i);
  }
  return std::nullopt;
}

std::string_view name_of(Verdict v) { return kVerdictNames[static_cast<std::size_t>(v)]; }

std::string text_of(const Patch& patch) {
  std::string out;
  for (const std::string& set : patch) out += (out.empty() ? "" : " ") + set;
  return out.empty() ? "as it came" : out;
}

}  // namespace eratos::agent
