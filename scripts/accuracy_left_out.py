"""Errors of runs that a fit has not seen, beside those of the shipped constants.

One call of `eratos validate --left-out` over all files of a folder: a source left out of the fit may
have rows in several.
"""

import csv
import pathlib

from accuracy_page import asked

# What, families, least stated MFU, {figure: (median, 90th percentile)} that this project holds itself to.
BARS = [
    ("NVIDIA dense", ["nvidia-dense"], 0, {"source": (0.05, 0.15), "own": (0.04, 0.12)}),
    ("NVIDIA MoE", ["nvidia-moe"], 0, {"source": (0.10, 0.30), "own": (0.06, 0.20)}),
    ("AMD, dense and MoE", ["amd"], 0, {"source": (0.12, 0.35), "own": (0.06, 0.20)}),
    ("llm-foundry", ["llm-foundry"], 0, {"source": (0.03, 0.10), "own": (0.025, 0.09)}),
    ("nanotron, MFU at least 20%", ["nanotron"], 0.2,
     {"source": (0.045, 0.14), "own": (0.04, 0.12)}),
    ("vTrain multi-node", ["vtrain-multi"], 0, {"source": (0.06, 0.16), "own": (0.045, 0.14)}),
    ("vTrain single-node", ["vtrain-single"], 0, {"source": (0.10, 0.25), "own": (0.04, 0.12)}),
    ("SimuMax (B200)", ["simumax"], 0, {"source": (0.03, 0.07), "own": (0.02, 0.05)}),
    ("everything else", None, 0, {"source": (0.08, 0.25), "own": (0.05, 0.15)}),
]

# Users' reports of trouble, and files about fitting: not what a fit is judged by.
APART = ("feasibility", "slow-cases", "layouts-other")

TEXT = """Throughput, absolute error, median / 90th percentile; each run once, suspect ones left out. *Shipped* are
the constants of `data/`, set with most of these runs in view. The other columns are of fits that start
at what is known of a class of framework and part before any run (`data/priors.csv`,
[fitted](model/fitted.md)): *all rows* has seen the run; *group left out* has not seen its model on its
accelerator from its source; *source left out* no run of its source; *own* is that, then calibrated on a
tenth of the source's runs and judged on the rest: five tenths drawn by the ids, all judged together,
since one draw is luck ([what limits these figures](accuracy_ablation.md)). Runs of a stated MFU below 20% are
judged and not fitted, since nobody would run them twice; a tenth of a source's runs is of all of them, as
an owner's first runs would be. nanotron, llm-foundry and Megatron-DeepSpeed (vTrain)
are each measured by one source or nearly so: with it left out, their frameworks' constants are the
class's, which is what a stack would get that nobody has run. SimuMax's cluster runs its B200 at their
power limit, a fifth below other tables of that part; with its steps left out, what is known of that is
its own table of single products.
"""


def ask(binary, runs, names, models, flags=()):
    command = [str(binary), "validate", *(str(runs / f"{n}.csv") for n in names), "--left-out",
               "--format", "json", *flags]
    for path in models:
        command += ["--models", str(path)]
    return asked(command)


def join(answers, binary, runs, models):
    """Puts `left_out` into the rows of the files' own answers."""
    found = {}
    for row in ask(binary, runs, list(answers), models, ("--mfu-min", "0.2"))["rows"]:
        if "left_out" in row:
            found[pathlib.Path(row["file"]).stem, row["line"]] = row["left_out"]
    for name, answer in answers.items():
        for row in answer["rows"]:
            if (name, row["line"]) in found:
                row["left_out"] = found[name, row["line"]]


def stated_mfu(runs, names):
    out = {}
    for name in names:
        with open(runs / f"{name}.csv", newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                out[row["id"]] = float(row.get("mfu") or 0)
    return out


def quantile(values, share):
    values = sorted(values)
    at = share * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


def figures(errors):
    errors = [abs(e) for e in errors if e is not None]
    return (quantile(errors, 0.5), quantile(errors, 0.9)) if errors else None


def pair(value):
    return "-" if value is None else f"{100 * value[0]:.1f} / {100 * value[1]:.1f}%"


def verdict(value, bar):
    if value is None:
        return "-"
    met = [v <= b for v, b in zip(value, bar)]
    return "met" if all(met) else "missed" if not any(met) else "half"


def families(answers, runs):
    """What, its rows (each run once, suspect ones left out) and its bars."""
    mfu = stated_mfu(runs, answers)
    seen, rows = set(), []
    for answer in answers.values():
        for row in answer["rows"]:
            if row["id"] not in seen and not row.get("suspect") and "throughput" in row.get("error", {}):
                seen.add(row["id"])
                rows.append(row)
    named = {family for _, of, _, _ in BARS for family in of or ()}
    for what, of, least, bars in BARS:
        inside = [r for r in rows
                  if (r["family"] in of if of
                      else r["family"] not in named and r["family"] not in APART)
                  and (least == 0 or mfu[r["id"]] >= least or mfu[r["id"]] == 0)]
        if inside:
            yield what, inside, bars


def table(answers, runs):
    lines = ["| family | runs | shipped | all rows | group left out | source left out | bar | | own | bar "
             "| |", "|---|--:|--:|--:|--:|--:|--:|---|--:|--:|---|"]
    for what, inside, bars in families(answers, runs):
        left = [r.get("left_out", {}) for r in inside]

        def of(key, left=left):
            return figures([x.get(key, {}).get("throughput") for x in left])
        source = of("source")
        own = figures([e for x in left for e in x.get("own_draws", [])])
        lines.append("| " + " | ".join(
            [what, str(len(inside)), pair(figures([r["error"]["throughput"] for r in inside])),
             pair(of("all")), pair(of("group")), pair(source), pair(bars["source"]),
             verdict(source, bars["source"]), pair(own), pair(bars["own"]),
             verdict(own, bars["own"])]) + " |")
    return "\n".join(lines) + "\n"
