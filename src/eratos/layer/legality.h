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

// Heads or groups that tensor parallelism cuts, and that context parallelism trades for positions
// among the rank's own: tp divides them, and cp what is left.
inline void check_cut_twice(int count, const char* what, const parallel::ParallelSpec& p,
                            Diagnostics& out) {
  if (count % p.tp != 0) {
    reject(out, "parallel.tp",
           "tp=" + number(p.tp) + " does not divide the " + number(count) + " " + what,
           "choose a tp that divides " + number(count));
  } else if (count / p.tp % p.cp != 0) {
    reject(out, "parallel.cp",
           "cp=" + number(p.cp) + " does not divide the rank's " + number(count / p.tp) + " " + what +
               ", which context parallelism trades for positions",
           "choose a tp*cp that divides " + number(count));
  }
}

}  // namespace eratos::layer
