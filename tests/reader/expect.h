// What every test of the readers needs: the value of a Result or its faults as text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "eratos/base/diagnostic.h"
#include "eratos/text/tree.h"
#include "eratos/text/yaml.h"

namespace eratos::reader {

inline std::string text_of(const Diagnostics& all) {
  std::string out;
  for (const Diagnostic& d : all) out += to_text(d) + "\n";
  return out;
}

template <class T>
T good(Result<T> result, const std::string& what = "result") {
  EXPECT_TRUE(result.has_value()) << what << ": " << (result ? "" : text_of(result.error()));
  return result ? std::move(*result) : T{};
}

inline void good(const Result<void>& result) {
  EXPECT_TRUE(result.has_value()) << (result ? "" : text_of(result.error()));
}

// The faults as text; fails when there are none.
template <class T>
std::string faults_of(const Result<T>& result) {
  EXPECT_FALSE(result.has_value());
  return result ? std::string() : text_of(result.error());
}

inline text::Node yaml(const std::string& text) {
  return good(text::parse_yaml(text, "job.yaml"), "yaml");
}

}  // namespace eratos::reader
