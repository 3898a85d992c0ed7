#!/usr/bin/env python3
"""Counts out how far projections were off, by classes of comparable runs: data/residuals.csv.

    residuals.py --binary build/eratos --runs FOLDER --output data/residuals.csv
    residuals.py ... --check     write nothing; exit 1 where the file is not what the runs say

The file is what the printed bands are made from (src/eratos/calibration/residuals.h says how a job
finds its class). Classes stand from the most to the least specific.

A class of one framework holds the errors of its runs, each counted once and taken further out, to both
sides, by what a fit that leaves its group out (one model on one accelerator from one source) differs
from one that has it. A class of any framework stands for software that was never measured: there the
whole source is left out, and every source counts alike.
"""

import argparse
import bisect
import collections
import csv
import io
import pathlib
import sys

COLUMNS = ["quantity", "framework", "architecture", "mixture", "busy_from", "busy_to", "gpus_from",
           "gpus_to", "parameters_from", "parameters_to", "rows", "sources", "low", "high"]

# The tenth of n + 1 must be a row: nine rows at least, and a few more so that one row is not the band.
LEAST_ROWS = 12
LEAST_ROWS_OF_A_PART = 30  # of a class by its share of computing
BUSY_EDGES = [0, 0.2, 0.35, 0.5, 0.65, 0.8, 1]
SLACK = 2  # sizes up to this factor beyond the measured ones count as measured

# Keys of a class, the most specific first; whether it is cut by the share of computing.
TIERS = [(("framework", "architecture", "mixture"), True),
         (("framework", "architecture", "mixture"), False),
         (("framework", "mixture"), False),
         (("architecture", "mixture"), False),
         (("mixture",), False),
         ((), False)]


def unseen(row, part, what):
    """The factor on (1 + error) that a fit loses which has not seen the run's group or source."""
    fits = row.get("left_out", {})
    if part not in fits.get(what, {}) or part not in fits.get("all", {}):
        return 1.0
    return (1 + fits[what][part]) / (1 + fits["all"][part])


class Error:
    """One run's error, and by which factor it moves where its group, or its source, is left out."""

    def __init__(self, row, part):
        like = row["like"]
        self.keys = {"framework": like["framework"], "architecture": like["architecture"],
                     "mixture": "experts" if like["experts"] else "dense"}
        self.source = like["source"] or row["family"]
        self.group = (self.source, like["model"], row["gpu"])
        self.busy = like["busy"]
        self.gpus = like["gpus"]
        self.parameters = like["parameters"]
        # Of the step: as much too long as the throughput is too low.
        error = row["error"][part]
        self.shipped = 1 / (1 + error) - 1 if part == "throughput" else error
        self.lost = {what: unseen(row, part, what) for what in ("group", "source")}
        if part == "throughput":
            self.lost = {what: 1 / factor for what, factor in self.lost.items()}
        self.family = row["family"]


    def unseen(self):
        return (1 + self.shipped) * self.lost["group"] - 1


def errors_of(answers, part):
    """Each run once, though it may stand in two files; suspect times left out."""
    seen, out = set(), []
    for answer in answers.values():
        for row in answer["rows"]:
            if row["id"] in seen or part not in row.get("error", {}):
                continue
            if part == "throughput" and row.get("suspect"):
                continue
            seen.add(row["id"])
            out.append(Error(row, part))
    return out


def quantile(values, weights, share):
    """The order statistic of rank share * (n + 1), by weight where the rows do not count alike."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    total = sum(weights) * (1 + 1 / len(values))
    reach, sums = 0.0, []
    for i in order:
        reach += weights[i]
        sums.append(reach)
    if share < 0.5:  # from the other end, so that both tails are cut alike
        return -quantile([-v for v in values], weights, 1 - share)
    at = bisect.bisect_left(sums, share * total - 1e-9)
    return values[order[min(at, len(order) - 1)]]


def band(errors, any_framework):
    what = "source" if any_framework else "group"
    # A fit that misses the run may err to either side of the one that has it.
    moved = [max(e.lost[what], 1 / e.lost[what]) for e in errors]
    lows = [(1 + e.shipped) / m - 1 for e, m in zip(errors, moved)]
    highs = [(1 + e.shipped) * m - 1 for e, m in zip(errors, moved)]
    count = collections.Counter(e.source for e in errors)
    weights = [1 / count[e.source] if any_framework else 1.0 for e in errors]
    return quantile(lows, weights, 0.1), quantile(highs, weights, 0.9)


def busy_parts(errors):
    """[(from, to, errors)]: neighbouring intervals of the share of computing, none too small."""
    parts, lower = [], BUSY_EDGES[0]
    for upper in BUSY_EDGES[1:]:
        inside = [e for e in errors if lower <= e.busy < upper or (upper == 1 and e.busy >= lower)]
        if len(inside) >= LEAST_ROWS_OF_A_PART:
            parts.append((lower, upper, inside))
            lower = upper
    if parts and parts[-1][1] < 1:  # the rest joins the last
        first = parts[-1][0]
        parts[-1] = (first, 1, [e for e in errors if e.busy >= first])
    return parts if len(parts) > 1 else []


def classes_of(errors, quantity):
    out = []
    for keys, by_busy in TIERS:
        groups = collections.defaultdict(list)
        for e in errors:
            groups[tuple(e.keys[k] for k in keys)].append(e)
        for values in sorted(groups):
            inside = groups[values]
            if len(inside) < LEAST_ROWS:
                continue
            parts = (busy_parts(inside) if quantity == "step" else []) if by_busy \
                else [(0, 1, inside)]
            for lower, upper, part in parts:
                low, high = band(part, "framework" not in keys)
                limited = bool(keys)
                out.append({
                    "quantity": quantity, **dict(zip(keys, values)), "busy_from": lower,
                    "busy_to": upper,
                    "gpus_from": min(e.gpus for e in part) / SLACK if limited else "",
                    "gpus_to": max(e.gpus for e in part) * SLACK if limited else "",
                    "parameters_from": min(e.parameters for e in part) / SLACK if limited else "",
                    "parameters_to": max(e.parameters for e in part) * SLACK if limited else "",
                    "rows": len(part), "sources": len({e.source for e in part}), "low": low,
                    "high": high})
    return out


def holds(c, e):
    return (all(c.get(k, "") in ("", e.keys[k]) for k in ("framework", "architecture", "mixture"))
            and c["busy_from"] <= min(e.busy, 1) <= c["busy_to"]
            and (c["gpus_from"] == "" or c["gpus_from"] <= e.gpus <= c["gpus_to"])
            and (c["parameters_from"] == ""
                 or c["parameters_from"] <= e.parameters <= c["parameters_to"]))


def coverage_left_out(errors, quantity):
    """{family: (runs, share inside)} of bands counted out without the runs of the judged group."""
    by_group = collections.defaultdict(list)
    for e in errors:
        by_group[e.group].append(e)
    inside = collections.defaultdict(list)
    for group, judged in by_group.items():
        classes = classes_of([e for e in errors if e.group != group], quantity)
        for e in judged:
            c = next((c for c in classes if holds(c, e)), None)
            inside[e.family].append(c is not None and c["low"] <= e.unseen() <= c["high"])
    return {family: (len(marks), sum(marks) / len(marks)) for family, marks in inside.items()}


def cell(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def text_of(classes):
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for c in classes:
        writer.writerow({k: cell(v) for k, v in c.items()})
    return out.getvalue()


def main():
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    import accuracy  # which prints the coverage, so it imports this

    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--runs", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    answers = accuracy.answers_of(arguments.binary, arguments.runs)
    text = ""
    for quantity, part in (("step", "throughput"), ("peak", "memory")):
        lines = text_of(classes_of(errors_of(answers, part), quantity))
        text += lines if not text else lines.split("\n", 1)[1]
    if arguments.check:
        if arguments.output.read_text() != text:
            sys.exit(f"{arguments.output} is not what the runs say: run scripts/residuals.py")
        return
    arguments.output.write_text(text)
    print(f"wrote {arguments.output}")


if __name__ == "__main__":
    main()
