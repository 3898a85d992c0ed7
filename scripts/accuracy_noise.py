"""What the measured runs say of one another: repeats of one job, neighbours that differ in one
number, and how well a projection without any error would rank what was measured so. All of it is
counted out of the runs; no projection enters."""

import collections
import csv
import math
import random

from accuracy_page import percent, table

TEXT = """What measured runs agree on among themselves; no projection enters. A job that was run more than
once has one projection, so half of the spread between its slowest and fastest run is the least error
that its worst row can have. Neighbours differ in the micro-batch alone: how far the middle one of
three lies from the straight line between the other two, in logarithms. A flawless projection of the
jobs, compared with measurements that scatter so, would reach the rank correlation of the last table
(the measured speeds against themselves, each moved by a normal deviate; mean of 200 draws).
"""

# Families whose repeats are repeats of the whole job, by the source's own words.
REPEATED = {"jean-zay": "Jean Zay, V100", "bloom": "BLOOM", "modalities": "Modalities"}
NEIGHBOURS = "vtrain-multi"
JOB = ("gpu num_gpus gpus_per_node framework model precision seq_len mbs gbs tp cp pp vpp ep etp dp "
       "sharding recompute sequence_parallel schedule overlap attention moe_comm cuda_graphs").split()


def read(runs, files, families):
    """{family: rows of the CSVs with their seconds}; suspect runs and untimed ones left out."""
    out = collections.defaultdict(list)
    for file in files:
        with open(runs / f"{file}.csv", newline="", encoding="utf-8") as source:
            for row in csv.DictReader(source):
                family = families.get(row["id"])
                speed = float(row.get("tokens_per_s_per_gpu") or 0)
                seconds = 1 / speed if speed else float(row.get("step_time_s") or 0)
                if family and seconds and not row.get("suspect"):
                    out[family].append({**row, "seconds": seconds})
    return out


def quantile(values, share):
    values = sorted(values)
    at = share * (len(values) - 1)
    low = int(at)
    return values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def repeats(rows):
    """Logarithms of slowest over fastest, of each job that was run more than once."""
    jobs = collections.defaultdict(list)
    for row in rows:
        jobs[tuple(row.get(key) for key in JOB)].append(row["seconds"])
    return [math.log(max(t) / min(t)) for t in jobs.values() if len(t) > 1]


def bends(rows):
    """{tp: distances of the middle of three neighbours from the line between the others}."""
    lines = collections.defaultdict(list)
    for row in rows:
        lines[row["num_gpus"], row["model"], row["tp"], row["pp"]].append(
            (math.log(int(row["mbs"])), math.log(row["seconds"])))
    out = collections.defaultdict(list)
    for (_, _, tp, _), points in lines.items():
        points.sort()
        for (a, x), (b, y), (c, z) in zip(points, points[1:], points[2:]):
            out[tp].append(abs(y - x - (b - a) / (c - a) * (z - x)))
    return out


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    out = [0.0] * len(values)
    for place, i in enumerate(order):
        out[i] = place
    return out


def ceiling(rows, scatter):
    """Spearman's of each group of five layouts and more; scatter: standard deviation by row."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["model"], row["gpu"], row["num_gpus"], row["seq_len"], row["gbs"],
               row["precision"]].append(row)
    chance = random.Random(1)
    out = []
    for group in groups.values():
        if len(group) < 5:
            continue
        n, true = len(group), ranks([r["seconds"] for r in group])
        total = 0.0
        for _ in range(200):
            seen = ranks([math.log(r["seconds"]) + chance.gauss(0, scatter(r)) for r in group])
            total += 1 - 6 * sum((a - b) ** 2 for a, b in zip(true, seen)) / (n * (n * n - 1))
        out.append(total / 200)
    return out


def section(runs, answers):
    families = {row["id"]: row["family"] for answer in answers.values() for row in answer["rows"]
                if row.get("family")}
    rows = read(runs, answers, families)
    spreads = {f: repeats(rows.get(f, [])) for f in REPEATED}
    lines = [[REPEATED[f], str(len(s)), percent(math.expm1(quantile(s, 0.5))),
              percent(math.expm1(quantile(s, 0.9))), percent(math.expm1(quantile(s, 0.5) / 2)),
              percent(math.expm1(quantile(s, 0.9) / 2))] for f, s in spreads.items() if s]
    if not lines:
        return []
    out = [TEXT, table(["one job, several runs", "jobs", "slowest over fastest, median", "90%",
                        "least error, median", "90%"], lines)]
    bent = bends(rows.get(NEIGHBOURS, []))
    if not bent:
        return out
    names = {"tp 1, 8, 16": ("1", "8", "16"), "tp 2, 4": ("2", "4")}
    apart = {name: [d for tp in tps for d in bent.get(tp, [])] for name, tps in names.items()}
    out.append(table(["vTrain, multi-node: three neighbours", "triples", "off the line, median", "90%"],
                     [[name, str(len(d)), percent(quantile(d, 0.5)), percent(quantile(d, 0.9))]
                      for name, d in apart.items() if d]))
    # A normal deviate is within 0.674 of its standard deviation half of the time; a middle point's
    # distance has 1.22 times the deviation of one point, a spread of two runs 1.41 times.
    deviation = {tp: quantile(apart[name], 0.5) / 0.674 / 1.22
                 for name, tps in names.items() for tp in tps if apart[name]}
    reached = {"vTrain, multi-node": ceiling(rows[NEIGHBOURS],
                                             lambda r: deviation.get(r["tp"], 0))}
    for f, s in spreads.items():
        if s:
            reached[REPEATED[f]] = ceiling(rows[f], lambda r, s=s: quantile(s, 0.5) / 0.674 / 1.41)
    out.append(table(["rank correlation that is left", "groups", "median group", "least"],
                     [[name, str(len(c)), f"{quantile(c, 0.5):.2f}", f"{min(c):.2f}"]
                      for name, c in reached.items() if c]))
    return out
