#include "apps/flags.h"

#include <string>

namespace eratos::apps {

namespace {

constexpr std::string_view kOneJob = " project memory check explain import export ";
constexpr std::string_view kJobs = " project memory check explain import export compare ";
constexpr std::string_view kProjections = " project memory check explain validate compare ";
constexpr std::string_view kAll =
    " project memory check explain compare import export list show validate completion man ";

constexpr Flag kFlags[] = {
    {"--cluster", "", Value::text, "C", false,
     "where it runs: a catalogue cluster, PART-NxM (N nodes of M), or a file", "", kOneJob},
    {"--cluster", "", Value::text, "C", true,
     "where the jobs run; several compare every job on each", "", " compare "},
    {"--vary", "", Value::pair, "KEY=a,b,...", true,
     "the job with each value of a field, or hardware.FIELD=x1.5,x2 of its cluster", "",
     " compare "},
    {"--nodes", "", Value::count, "N", false, "the same cluster with N nodes", "", kJobs},
    {"--set", "", Value::pair, "KEY=VALUE", true,
     "change a field of the normalised job, e.g. parallel.tp=4", "", kJobs},
    {"--env", "", Value::pair, "NAME=VALUE", true,
     "value of a placeholder ${NAME} in the job's file", "", kJobs},
    {"--env-from-process", "", Value::none, "", false,
     "placeholders take the process environment as well", "", kJobs},
    {"--memory-margin", "", Value::share, "SHARE", false,
     "share of the memory to keep free before it is said to fit (0.05)", "", kProjections},
    {"--require-fit", "", Value::none, "", false, "exit with 1 when the job does not fit", "",
     " project memory check compare "},
    {"--to", "", Value::text, "TARGET", false, "megatron, primus, nanotron or torchtitan",
     "megatron primus nanotron torchtitan", " export "},
    {"--models", "", Value::text, "FILE", true,
     "architectures of the runs, looked up before the catalogue", "", " validate "},
    {"--mfu-min", "", Value::share, "SHARE", false,
     "leave rows whose stated MFU is lower out of the throughput figures", "", " validate "},
    {"--format", "", Value::text, "NAME", false, "text, json, csv, markdown or html",
     "text json csv markdown html", " project memory compare "},
    {"--format", "", Value::text, "NAME", false, "text or json", "text json",
     " check explain import list show "},
    {"--format", "", Value::text, "NAME", false, "text, json or csv", "text json csv",
     " validate "},
    {"--output", "-o", Value::text, "FILE", false,
     "write there instead of standard output; an existing file "
     "is kept",
     "", kAll},
    {"--force", "", Value::none, "", false, "let --output replace an existing file", "", kAll},

    {"--measured", "", Value::text, "FILE", false, "", "",
     " project memory check explain validate "},
    {"--mode", "", Value::text, "NAME", false, "", "", kOneJob},
    {"--schedule", "", Value::text, "NAME", false, "", "", kOneJob},
    {"--trace", "", Value::text, "FILE", false, "", "", kOneJob},
    {"--anchor", "", Value::text, "RUN", false, "", "", kOneJob},
};

}  // namespace

std::span<const Flag> all_flags() { return kFlags; }

bool takes(std::string_view command, const Flag& flag) {
  return flag.commands.find(' ' + std::string(command) + ' ') != std::string_view::npos;
}

}  // namespace eratos::apps
