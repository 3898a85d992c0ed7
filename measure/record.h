// A measured piece, and the whole file, as JSON. Written here with a dozen lines instead of a
// library: inside a training container there is none to count on.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan.h"

namespace eratos::device {

std::string quoted(const std::string& text);
// Nine digits; null for what is no number.
std::string number(double value);

// Keys and JSON values, in order.
using Members = std::vector<std::pair<std::string, std::string>>;
std::string object(const Members& members);
std::string list(const std::vector<std::string>& values);

// What was found of one piece.
struct Measured {
  std::vector<double> samples;  // seconds of one call; empty for a piece of kind `memory`
  int warm_up = 0;              // calls before the first sample
  int calls = 1;                // in one sample
  double error = -1;            // largest relative error against the reference; < 0: not checked
  double bytes_peak = -1;       // < 0: not known
  double bytes_reserved = -1;
  double bytes_live = -1;  // held at the end of the phase
  bool disturbed = false;
  std::vector<std::string> notes;
};

// One line: {"id":"...","kind":...,...}.
std::string piece_json(const Piece& piece, const Measured& measured);

struct Unmeasured {
  std::string id;
  std::string why;
};

// The whole file. `pieces` are lines of piece_json() in the order of the plan.
std::string file_json(const Plan& plan, const Members& provenance, const std::string& key,
                      const std::vector<std::string>& pieces,
                      const std::vector<Unmeasured>& unmeasured);

}  // namespace eratos::device
