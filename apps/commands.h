// Every subcommand, one line each; its file has the same name.
//
// Adding one: a file with `int run_NAME(const Arguments&)`, a line in ERATOS_COMMANDS, and its name
// in the flags it takes (flags.cpp).
#pragma once

#include <string_view>

#include "apps/arguments.h"

namespace eratos::apps {

struct Command {
  std::string_view name;
  std::string_view words;  // of the usage line
  int least = 1;           // words
  int most = 1;            // 0: any number
  std::string_view what;
  int (*run)(const Arguments&) = nullptr;
};

//       function  name        words            least most  what
#define ERATOS_COMMANDS(X)                                                                  \
  X(project, "project", "JOB", 1, 1, "memory, step time and throughput of a job")           \
  X(memory, "memory", "JOB", 1, 1, "only the memory half, with its tables")                 \
  X(check, "check", "JOB", 1, 1, "is it legal, does it fit, and what would")                \
  X(explain, "explain", "JOB [KEY]", 1, 2, "one number as a tree: formula, inputs, source") \
  X(validate, "validate", "RUNS.csv ...", 1, 0, "projections against measured runs")        \
  X(import_, "import", "JOB", 1, 1, "the normalised job, and where each value came from")   \
  X(list, "list", "KIND", 1, 1, "what the catalogue knows")                                 \
  X(show, "show", "KIND NAME", 2, 2, "one entry of the catalogue, with its sources")

#define ERATOS_DECLARE_COMMAND(id, name, words, least, most, what) int run_##id(const Arguments&);
ERATOS_COMMANDS(ERATOS_DECLARE_COMMAND)
#undef ERATOS_DECLARE_COMMAND

inline constexpr Command kCommands[] = {
#define ERATOS_LIST_COMMAND(id, name, words, least, most, what) \
  Command{name, words, least, most, what, run_##id},
    ERATOS_COMMANDS(ERATOS_LIST_COMMAND)
#undef ERATOS_LIST_COMMAND
};

// Named in the manual, not built yet: refused by name instead of as a typing error.
inline constexpr std::string_view kLaterCommands[] = {
    "compare", "schedule", "measure", "import-trace", "calibrate",
    "search",  "tune",     "export",  "serve",        "mcp"};

}  // namespace eratos::apps
