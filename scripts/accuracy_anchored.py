#!/usr/bin/env python3
"""Runs projected from the smallest measured one of their kind: the section of docs/ACCURACY.md, and the
classes of data/anchored_residuals*.csv that the bands of `project --anchor` are made from.

    accuracy_anchored.py --binary build/eratos --runs FOLDER             print the section
    accuracy_anchored.py ... --residuals data             write the classes there
    accuracy_anchored.py ... --residuals data --check     exit 1 where they are not what the runs say

Classes are counted as those of data/residuals.csv are (residuals.py), from the errors that anchored
projections of the same runs have: a run's own measurement never enters its projection. Peaks that are
stated as allocated are left out: no anchor moves them.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import residuals  # noqa: E402
from accuracy_page import asked, percent, table  # noqa: E402

# What a file's slow runs are left out by: the benchmark of nanotron tries layouts at 0 to 2% MFU.
FLAGS = {"nanotron": ["--mfu-min", "0.2"]}

# The sources that the bars are of, by words of their names, and the bars on median and 90th percentile.
NAMED = ("DGX Cloud", "Megatron-LM", "Reducing Activation", "torchtitan", "MaxText", "Ultra-Scale",
         "Primus")
BARS = (0.03, 0.08)

# Classes of runs that differ from their anchor in size alone, and of the others.
FILES = {True: "anchored_residuals.csv", False: "anchored_residuals_other_layout.csv"}

HEAD = ["throughput", "anchors", "runs", "median abs error", "90th percentile", "mean error",
        "inside the band", "alone: median", "alone: 90th percentile"]

INTRO = """`eratos validate RUNS.csv --anchored`: runs of one source that share model, accelerator, number format,
micro-batch, sequence length and software ([USING](USING.md#validate)) on two sizes or more. The one on the
fewest accelerators, of several the one most like the run in question, is measured; all larger ones are
projected from it ([anchors](model/anchors.md)). *Alone* is the same run without an anchor. nanotron's
runs are those of 20% MFU and more. Bars: median at most 3%, 90th percentile at most 8%, over the sources
that are named (*). Of those meant, MaxText's runs on GPUs state neither micro-batch nor sequence, and arXiv
2205.05198 has each model on one size.
"""

WHY = """What an anchor cannot know, and rows that contradict one another, make the 90th percentile:

- nanotron, most of the named runs. The chart's own spread is as wide: of runs of 20% MFU and more, those
  with and without ZeRO-1 that are alike in all else differ by 1.4% in the median and 12.2% at the 90th
  percentile (64 pairs; of all 216, those called a stall included, 73 by more than 1.5 times), and a run between a smaller and a
  larger twin lies 2.6 and 7.0% off the line through them (75 runs). 8B at tp 8 and micro-batches of 8 has
  an MFU of 0.356, 0.387, 0.337, 0.229 and 0.363 on 8, 16, 32, 64 and 128; at tp 2, pp 2 and
  micro-batches of 1 it loses 4% from one node to two with ZeRO-1 (0.407, 0.390), and three quarters
  without (0.408, 0.091, called a stall and not counted). A node says nothing of hosts that wait for one another across nodes, which the
  profile prices for pipelines of tensor-parallel ranks: too high for the first of the two, too low for
  the second.
- DeepSeek-V4-Flash on MI355X without overlap: 843.5 TFLOPS on 8 accelerators, 378.6 on 16, 404 on 32; with
  overlap 833.5, 736.3 and 776.1.
- torchtitan's eager FSDP of 8B at one sequence a rank: 7,380 tokens/s on 8, 5,097 on 64; a node exercises no
  network.
- MLPerf (not named): its LoRA runs go from cp 1 to cp 8 with size, Llama 3.1 8B from tp 1, cp 2 to tp 2, cp
  4. The anchors make neither exchange.
- Anchors that are off themselves are believed, less the run's own share: Jean Zay's 39B took 129 to 225
  s on four days; llm-foundry's 1B on 32 A100 of 40 GB reached 15,555 tokens/s where 64 reached 19,001.
"""


def answer_of(binary, runs, name, models):
    command = [str(binary), "validate", str(runs / f"{name}.csv"), "--anchored", "--format", "json",
               *FLAGS.get(name, [])]
    for path in sorted(runs.glob("models_*.yaml"), key=lambda p: (p.stem != f"models_{models}", p.name)):
        command += ["--models", str(path)]
    return asked(command)


def answers_of(binary, runs, models_of):
    """{file: its answer}; `models_of`: files whose architectures stand under another name."""
    names = sorted(p.stem for p in runs.glob("*.csv"))
    return {n: answer_of(binary, runs, n, models_of.get(n, n)) for n in names}


def named(source):
    return any(word in source for word in NAMED)


def percentile(values, share):
    """Of ascending values, linearly between the two nearest, as the program does."""
    at = share * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


def figures(rows):
    """Median and 90th percentile of absolute errors, anchored and alone; mean; share inside the band."""
    errors = [r["error"]["throughput"] for r in rows]
    alone = sorted(abs(r["unanchored"]["throughput"]) for r in rows)
    absolute = sorted(abs(e) for e in errors)
    return {"anchors": len({(r["file"], r["anchor"]) for r in rows}), "n": len(rows),
            "median": percentile(absolute, 0.5), "p90": percentile(absolute, 0.9),
            "mean": sum(errors) / len(errors),
            "in_band": sum(r["in_band"] for r in rows) / len(rows),
            "alone_median": percentile(alone, 0.5), "alone_p90": percentile(alone, 0.9)}


def cells(name, rows):
    f = figures(rows)
    return [name, str(f["anchors"]), str(f["n"]), percent(f["median"]), percent(f["p90"]),
            percent(f["mean"], sign=True), percent(f["in_band"]), percent(f["alone_median"]),
            percent(f["alone_p90"])]


def memory_rows(by_source):
    out = []
    for source in sorted(by_source):
        rows = [r for r in by_source[source] if "memory" in r["error"]]
        if not rows:
            continue
        errors = sorted(abs(r["error"]["memory"]) for r in rows)
        alone = sorted(abs(r["unanchored"]["memory"]) for r in rows)
        kinds = " ".join(sorted({r["memory_kind"] for r in rows}))
        out.append([source, kinds, str(len(rows)), percent(percentile(errors, 0.5)),
                    percent(percentile(errors, 0.9)), percent(percentile(alone, 0.5)),
                    percent(percentile(alone, 0.9))])
    return table(["peak memory", "kind", "runs", "median abs error", "90th percentile", "alone: median",
                  "alone: 90th percentile"], out)


def section(answers):
    # A run may stand in two files.
    every = list({row["id"]: row for answer in answers.values() for row in answer["rows"]}.values())
    if not every:
        return ""
    by_source = {}
    for row in every:
        by_source.setdefault(row["like"]["source"], []).append(row)
    of_bars = [r for r in every if named(r["like"]["source"])]
    rows = [cells(source + (" *" if named(source) else ""), by_source[source])
            for source in sorted(by_source)]
    tails = [("the anchor's layout", [r for r in every if not r["differs"]]),
             ("another layout", [r for r in every if r["differs"]]),
             ("named (*)", of_bars),
             ("named (*), without nanotron",
              [r for r in of_bars if "Ultra-Scale" not in r["like"]["source"]]),
             ("all", every)]
    rows += [cells(name, of) for name, of in tails if of]
    out = "## Anchored on a smaller run\n\n" + INTRO + "\n" + table(HEAD, rows)
    if of_bars:
        f = figures(of_bars)
        kept = [f["median"] <= BARS[0], f["p90"] <= BARS[1]]
        out += (f"\nOf the named sources the median is {percent(f['median'])} (bar "
                f"{percent(BARS[0])}, {'met' if kept[0] else 'missed'}) and the 90th percentile "
                f"{percent(f['p90'])} (bar {percent(BARS[1])}, {'met' if kept[1] else 'missed'}).\n")
    worst = sorted(of_bars, key=lambda r: -abs(r["error"]["throughput"]))[:10]
    out += "\n### Anchored runs that are furthest off\n\n" + table(
        ["furthest off, of the named", "anchor", "error", "alone", "what differs besides size"],
        [[r["id"], r["anchor"], percent(r["error"]["throughput"], sign=True),
          percent(r["unanchored"]["throughput"], sign=True), " ".join(r["differs"])] for r in worst])
    return out + "\n" + WHY + "\n### Peaks of anchored runs\n\n" + memory_rows(by_source)


def picked(answers, takes):
    return {name: {"rows": [r for r in answer["rows"] if takes(r)]} for name, answer in answers.items()}


def classes_text(answers, same_layout):
    steps = residuals.errors_of(picked(answers, lambda r: (not r["differs"]) == same_layout),
                                "throughput")
    text = residuals.text_of(residuals.classes_of(steps, "step"))
    # Too few to be told apart by layout.
    outside = picked(answers, lambda r: r.get("memory_kind") != "allocated")
    peaks = residuals.text_of(residuals.classes_of(residuals.errors_of(outside, "memory"), "peak"))
    return text + peaks.split("\n", 1)[1]


def main():
    import accuracy  # which prints the section, so it imports this

    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--runs", type=pathlib.Path, required=True)
    parser.add_argument("--residuals", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    answers = answers_of(arguments.binary, arguments.runs, accuracy.MODELS_OF)
    if arguments.residuals is None:
        print(section(answers), end="")
        return
    for same_layout, name in FILES.items():
        text = classes_text(answers, same_layout)
        path = arguments.residuals / name
        if not arguments.check:
            path.write_text(text)
            print(f"wrote {path}")
        elif path.read_text() != text:
            sys.exit(f"{path} is not what the runs say: run scripts/accuracy_anchored.py")


if __name__ == "__main__":
    main()
