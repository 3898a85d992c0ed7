// How a layer reports that a job cannot run it: appends a Diagnostic with the field at fault.
#pragma once

#include <string>

#include "eratos/base/diagnostic.h"
#include "eratos/parallel/parallel.h"

namespace eratos::layer {

inline void reject(Diagnostics& out, const char* field, std::string message, std::string cure) {
  Diagnostic d;
  d.field = field;
  d.message = std::move(message);
  d.cure = std::move(cure);
  out.push_back(std::move(d));
}

inline std::string number(double v) { return std::to_string(static_cast<long long>(v)); }

}  // namespace eratos::layer
