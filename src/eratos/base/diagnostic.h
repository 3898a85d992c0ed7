// What is wrong with an input, where, and how to cure it: a value, never an exception.
//
// A function that can meet bad input returns Result<T>: the value, or *every* fault at once.
// Printed as `file:line:column: error: message; cure` (line and column left out when 0).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

namespace eratos {

// Place in a user's file. line and column count from 1; 0 means the input has none (a flag, say).
struct Location {
  std::string file;
  int line = 0;
  int column = 0;
};

struct Diagnostic {
  Location where = {};
  std::string message;  // lower case, with the offending values in it
  std::string cure;     // what to do about it; may be empty only when the message says it
  // Path in the normalised job ("parallel.tp") of the value at fault, "" when there is none. The
  // core knows paths, not files: the reader that remembers where each value stood fills `where`.
  std::string field;
};

using Diagnostics = std::vector<Diagnostic>;

template <class T>
using Result = tl::expected<T, Diagnostics>;

inline tl::unexpected<Diagnostics> fault(Diagnostic d) {
  Diagnostics all;
  all.push_back(std::move(d));
  return tl::unexpected<Diagnostics>(std::move(all));
}
inline tl::unexpected<Diagnostics> faults(Diagnostics all) {
  return tl::unexpected<Diagnostics>(std::move(all));
}

// One line as the command line prints it.
std::string to_text(const Diagnostic& d);

// The entry of `known` nearest to `word` by edit distance, or "" when none is within a third of
// its length (at least 1, at most 3 edits). Used for "unknown key `tpp`; did you mean `tp`?".
std::string nearest_name(std::string_view word, const std::vector<std::string>& known);

}  // namespace eratos
