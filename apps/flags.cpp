#include "apps/flags.h"

#include <string>

namespace eratos::apps {

namespace {

constexpr std::string_view kOneJob = " project memory check explain import export search ";
constexpr std::string_view kJobs = " project memory check explain import export compare search ";
constexpr std::string_view kProjections =
    " project memory check explain validate compare search ";
constexpr std::string_view kAll =
    " project memory check explain compare schedule search import export list show validate "
    "calibrate completion man ";
constexpr std::string_view kSchedule = " schedule ";
constexpr std::string_view kDrawn = " project schedule ";

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
    {"--schedule", "", Value::text, "NAME", false,
     "order the pipeline by this one of `eratos list schedules`; auto, the framework's own; all, "
     "every legal one compared",
     "", " project "},
    {"--schedule", "", Value::text, "NAME", false,
     "order the pipeline by this one of `eratos list schedules`; auto, the framework's own", "",
     " memory check explain "},
    {"--micro-batch", "", Value::index, "N", false,
     "the micro-batch that --trace draws op by op, counted from 0 (0)", "", " project "},
    {"--snapshot", "", Value::text, "FILE", false,
     "write every allocation of one rank there, for pytorch.org/memory_viz; an existing file is kept",
     "", " memory "},
    {"--rank", "", Value::index, "N", false,
     "the pipeline rank of the timeline and of --snapshot, counted from 0 (the fullest)", "",
     " memory "},
    {"--calibration", "", Value::text, "FILE", false,
     "numbers of `eratos calibrate`, or your own, in place of the catalogue's", "",
     " project memory check explain validate compare calibrate search "},
    {"--require-fit", "", Value::none, "", false, "exit with 1 when the job does not fit", "",
     " project memory check compare "},
    {"--to", "", Value::text, "TARGET", false, "megatron, primus, nanotron or torchtitan",
     "megatron primus nanotron torchtitan", " export "},
    {"--models", "", Value::text, "FILE", true,
     "architectures of the runs, looked up before the catalogue; models_NAME.yaml first for NAME.csv",
     "", " validate calibrate "},
    {"--mfu-min", "", Value::share, "SHARE", false,
     "leave rows whose stated MFU is lower out of the throughput figures, or of the fit", "",
     " validate calibrate "},
    {"--left-out", "", Value::none, "", false,
     "each row's error by fits that have not seen its group, its source, or all but a tenth of it",
     "", " validate "},
    {"--shipped", "", Value::none, "", false,
     "fit the catalogue's own constants, from what is known of each class before any run", "",
     " calibrate "},
    {"--axes", "", Value::text, "AXIS=VALUES", true,
     "tp=1,2,4 lists, pp=1..16 doubles, vpp!=8 excludes, mbs=job pins; rest=job pins all others", "",
     " search "},
    {"--top", "", Value::count, "N", false,
     "configurations to list, no two of which cut the model alike (5)", "", " search "},
    {"--threads", "", Value::count, "N", false, "threads of the search (all cores)", "", " search "},
    {"--explain-space", "", Value::none, "", false,
     "count the candidates axis by axis, and what each rule removed", "", " search "},
    {"--pp", "", Value::count, "N", false,
     "ranks of the pipeline; with --times, what the file says where it is left out", "",
     kSchedule},
    {"--vpp", "", Value::count, "N", false,
     "chunks a rank; left out, what the schedule is made for (interleaved-1f1b: 2)", "", kSchedule},
    {"--micro-batches", "", Value::count, "N", false, "micro-batches of one step", "", kSchedule},
    {"--group-size", "", Value::count, "N", false,
     "micro-batches of one chunk in a row, interleaved-1f1b (pp)", "", kSchedule},
    {"--algorithm", "", Value::text, "NAME", false,
     "one of `eratos list schedules`; auto, Megatron-LM's own choice (the default); all, compared; "
     "optimal, by a solver",
     "", kSchedule},
    {"--forward", "", Value::text, "TIME", false,
     "forward of one micro-batch through one rank's layers: 10ms, or 1.5 to count in units (1)", "",
     kSchedule},
    {"--backward", "", Value::text, "TIME", false,
     "its whole backward (both halves, else twice the forward)", "", kSchedule},
    {"--input-gradient", "", Value::text, "TIME", false,
     "its first half, which the rank before waits for (as the forward)", "", kSchedule},
    {"--weight-gradient", "", Value::text, "TIME", false,
     "its second half, which nobody waits for (as the forward)", "", kSchedule},
    {"--send", "", Value::text, "TIME", false, "one transfer between neighbours, either way (0)",
     "", kSchedule},
    {"--sends", "", Value::text, "HOW", false,
     "overlapped: ranks compute meanwhile (the default); blocking: both sides stand still",
     "overlapped blocking", kSchedule},
    {"--held", "", Value::text, "BYTES", false,
     "what one micro-batch of one rank's layers holds from F to B: 1.5GiB", "", kSchedule},
    {"--kept", "", Value::text, "BYTES", false,
     "what it keeps from B to W: inputs and output gradients of its products (as held)", "",
     kSchedule},
    {"--memory-limit", "", Value::text, "LIMIT", false,
     "most a rank may hold, for schedules that take it: 40GiB, or stage-micro-batches", "",
     kSchedule},
    {"--hideable", "", Value::share, "SHARE", false,
     "share of F and B that is communication, hidden where two run side by side (0)", "", kSchedule},
    {"--output-layer", "", Value::text, "WHERE", false,
     "on the last stage, or cut over all ranks and how they meet",
     "last-stage two-barriers one-barrier interlaced", kSchedule},
    {"--output-work", "", Value::text, "TIME", false,
     "the output layer's forward of one micro-batch on one rank, uncut (0)", "", kSchedule},
    {"--output-held", "", Value::text, "BYTES", false,
     "what the output layer holds of one micro-batch until its backward, uncut: the logits (0)", "",
     kSchedule},
    {"--barrier", "", Value::text, "TIME", false, "one collective of a cut output layer (0)", "",
     kSchedule},
    {"--time-limit", "", Value::text, "TIME", false, "how long optimal may search (30s)", "",
     kSchedule},
    {"--times", "", Value::text, "FILE", false,
     "times of every stage, as YAML, JSON or CSV, in place of --forward and its kin", "",
     kSchedule},
    {"--order", "", Value::none, "", false, "list what each rank runs, in order", "", kSchedule},
    {"--width", "", Value::count, "N", false, "columns of the picture (the terminal's, else 96)",
     "", kSchedule},
    {"--trace", "", Value::text, "FILE", false,
     "write a Chrome/Perfetto trace there; an existing file is kept", "", kDrawn},
    {"--svg", "", Value::text, "FILE", false, "write the picture there, as SVG", "", kDrawn},
    {"--html", "", Value::text, "FILE", false,
     "write the picture there, as a page to zoom and pan", "", kDrawn},
    {"--from", "", Value::text, "TIME", false,
     "where the pictures begin: a time of their axis (the start of the step)", "", kDrawn},
    {"--to", "", Value::text, "TIME", false, "where they end (the end of the step)", "", kDrawn},
    {"--ranks", "", Value::text, "A-B", false, "ranks they show, 3 or 2-5, counted from 0 (all)", "",
     kDrawn},
    {"--actions", "", Value::count, "N", false,
     "most actions drawn one by one; more are drawn as shares of time (20000; --trace: 400000)", "",
     kDrawn},
    {"--format", "", Value::text, "NAME", false, "text, json, csv, markdown, html or svg",
     "text json csv markdown html svg", kSchedule},
    {"--format", "", Value::text, "NAME", false, "text, json, csv, markdown or html",
     "text json csv markdown html", " project memory compare "},
    {"--format", "", Value::text, "NAME", false, "text or json", "text json",
     " check explain import list show calibrate search "},
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
    {"--anchor", "", Value::text, "RUN", false, "", "", kOneJob},
};

}  // namespace

std::span<const Flag> all_flags() { return kFlags; }

bool takes(std::string_view command, const Flag& flag) {
  return flag.commands.find(' ' + std::string(command) + ' ') != std::string_view::npos;
}

}  // namespace eratos::apps
