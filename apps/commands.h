// Every subcommand, one line each; its file has the same name.
//
// Adding one: a file with `int run_NAME(const Arguments&)`, a line in ERATOS_COMMANDS, and its name
// in the flags it takes (flags.cpp).
#pragma once

#include <string>
#include <string_view>

#include "apps/arguments.h"

namespace eratos::apps {

inline constexpr int kAnyNumber = 1'000'000;

struct Command {
  std::string_view name;
  std::string_view words;  // of the usage line
  int least = 1;           // words
  int most = 1;            // kAnyNumber for lists
  std::string_view what;
  int (*run)(const Arguments&) = nullptr;
};

// clang-format off
//       function     name          words           least most     what
#define ERATOS_COMMANDS(X)                                                                        \
  X(project,    "project",    "JOB",          1, 1, "memory, step time and throughput of a job")    \
  X(memory,     "memory",     "JOB",          1, 1, "only the memory half, with its tables")        \
  X(check,      "check",      "JOB",          1, 1, "is it legal, does it fit, and what would")     \
  X(explain,    "explain",    "JOB [KEY]",    1, 2, "one number as a tree: formula, inputs, source") \
  X(compare,    "compare",    "JOB ...",      1, kAnyNumber, "side by side: what differs, what it costs, why") \
  X(schedule,   "schedule",   "",             0, 0, "pipeline schedules: makespan, bubble, peak memory, compared and drawn") \
  X(search,     "search",     "JOB",          1, kAnyNumber, "which configuration to run: the whole legal space, with a proof") \
  X(validate,   "validate",   "RUNS.csv ...", 1, kAnyNumber, "projections against measured runs")   \
  X(calibrate,  "calibrate",  "RUNS.csv ...", 1, kAnyNumber, "constants of parts and frameworks, fitted to measured runs; or those of kernels and collectives") \
  X(measure,    "measure",    "JOB",          0, 1, "times of the job's kernels, blocks and collectives on a device at hand") \
  X(import_,    "import",     "JOB",          1, 1, "the normalised job, and where each value came from") \
  X(export_,    "export",     "JOB",          1, 1, "the job as another program's file")             \
  X(list,       "list",       "KIND",         1, 1, "what the catalogue knows")                     \
  X(show,       "show",       "KIND NAME",    2, 2, "one entry of the catalogue, with its sources") \
  X(completion, "completion", "SHELL",        1, 1, "completion script for bash, zsh or fish")      \
  X(man,        "man",        "",             0, 0, "the manual page, for man(1)")
// clang-format on

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
    "import-trace", "tune", "serve", "mcp"};

// What --help and the manual say of JOB.
inline constexpr std::string_view kAboutJob =
    "JOB is a file whose kind is seen from its content (eratos YAML, Primus experiment, Megatron-LM "
    "arguments as YAML, launch script or log, torchtitan TOML, nanotron, NeMo, DeepSpeed, Hugging "
    "Face config.json) or a name of `eratos list models`.";

// The whole manual page, as `man` prints it.
std::string manual_page();

}  // namespace eratos::apps
