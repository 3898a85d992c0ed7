// From argv to Arguments, or to what must be said instead.
#pragma once

#include <string>
#include <variant>

#include "apps/arguments.h"
#include "apps/commands.h"

namespace eratos::apps {

// The program ends here: help that was asked for, or a usage error.
struct Said {
  int code = 0;
  std::string out;  // for standard output
  std::string err;  // for standard error
};

struct Call {
  const Command* command = nullptr;
  Arguments arguments;
};

// Unknown subcommands and flags are answered with the nearest known one; those of a later version
// by that fact.
std::variant<Call, Said> parse_command_line(int argc, const char* const* argv);

}  // namespace eratos::apps
