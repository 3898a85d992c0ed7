#include "apps/flags.h"

#include <string>

namespace eratos::apps {

namespace {

constexpr std::string_view kJobs = " project memory check explain import ";
constexpr std::string_view kProjections = " project memory check explain validate ";

constexpr Flag kFlags[] = {
    {"--cluster", "", Value::text, "C", false,
     "where it runs: a catalogue cluster, PART-NxM (N nodes of M), or a file", kJobs},
    {"--nodes", "", Value::count, "N", false, "the same cluster with N nodes", kJobs},
    {"--set", "", Value::pair, "KEY=VALUE", true,
     "change a field of the normalised job, e.g. parallel.tp=4", kJobs},
    {"--env", "", Value::pair, "NAME=VALUE", true,
     "value of a placeholder ${NAME} in the job's file", kJobs},
    {"--env-from-process", "", Value::none, "", false,
     "placeholders take the process environment as well", kJobs},
    {"--memory-margin", "", Value::share, "SHARE", false,
     "share of the memory to keep free before it is said to fit (0.05)", kProjections},
    {"--require-fit", "", Value::none, "", false, "exit with 1 when the job does not fit",
     " project memory check "},
    {"--models", "", Value::text, "FILE", true,
     "architectures of the runs, looked up before the catalogue", " validate "},
    {"--mfu-min", "", Value::share, "SHARE", false,
     "leave rows whose stated MFU is lower out of the throughput figures", " validate "},
    {"--format", "", Value::text, "NAME", false, "text or json; validate has csv as well",
     " project memory check explain import list show validate "},
    {"--output", "-o", Value::text, "FILE", false,
     "write there instead of standard output; an existing file "
     "is kept",
     " project memory check explain import list show validate "},
    {"--force", "", Value::none, "", false, "let --output replace an existing file",
     " project memory check explain import list show validate "},

    {"--measured", "", Value::text, "FILE", false, "", " project memory check explain validate "},
    {"--mode", "", Value::text, "NAME", false, "", kJobs},
    {"--schedule", "", Value::text, "NAME", false, "", kJobs},
    {"--trace", "", Value::text, "FILE", false, "", kJobs},
    {"--anchor", "", Value::text, "RUN", false, "", kJobs},
};

}  // namespace

std::span<const Flag> all_flags() { return kFlags; }

bool takes(std::string_view command, const Flag& flag) {
  return flag.commands.find(' ' + std::string(command) + ' ') != std::string_view::npos;
}

}  // namespace eratos::apps
