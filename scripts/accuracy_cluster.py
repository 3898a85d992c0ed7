"""The section of docs/ACCURACY.md on a cluster of processes, and its bars.

Steps of bench/cpu_cluster as they were measured stand beside what eratos projects for the same job files:
by the model alone, and with the pieces that one process measured (data/measured/cpu_cluster.json).

Letters: e = |projected / measured - 1|.
"""

import json
import os
import statistics
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MEASURED = os.path.join(ROOT, "data", "measured", "cpu_cluster.json")
REDUCED = os.path.join(ROOT, "data", "measured", "cpu_cluster_reduced.json")
CONFIGS = os.path.join(ROOT, "bench", "cpu_cluster", "configs")

# Median and worst error of the step, least rank correlation, worst error of the bytes held.
BARS = {"median": 0.10, "worst": 0.25, "spearman": 0.95, "held": 0.02}


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def project(binary, name, measured, mode):
    """One job's answer as eratos prints it."""
    command = [binary, "project", os.path.join(CONFIGS, name + ".yaml"), "--format", "json"]
    command += ["--measured", measured, "--mode", mode] if measured else []
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1):
        raise SystemExit("%s: %s" % (name, run.stderr))
    return json.loads(run.stdout)


def ranks_of(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    for place, i in enumerate(order):
        ranks[i] = place
    return ranks


def spearman(a, b):
    """1 - 6 sum d^2 / (n (n^2 - 1)), no two values alike."""
    n = len(a)
    d = sum((x - y) ** 2 for x, y in zip(ranks_of(a), ranks_of(b)))
    return 1 - 6 * d / (n * (n * n - 1))


def rows_of(binary, measured=MEASURED):
    rows = []
    for step in read(MEASURED)["steps"]:
        simulated = project(binary, step["name"], None, None)
        hybrid = project(binary, step["name"], measured, "hybrid")
        held = [stage["held_bytes"] for stage in simulated["memory"]["stages"]]
        # Ranks of one stage hold alike; the file has one number a rank, pipeline ranks in order.
        each = len(step["held_bytes"]) // len(held)
        rows.append({
            "name": step["name"], "measured": step["step_s"], "simulated": simulated["time"]["step_s"],
            "hybrid": hybrid["time"]["step_s"], "answer": hybrid,
            "held": [(h, step["held_bytes"][i * each]) for i, h in enumerate(held)]})
    return rows


def error(row, what):
    return abs(row[what] / row["measured"] - 1)


def summary(rows, what):
    errors = [error(row, what) for row in rows]
    return {"median": statistics.median(errors), "worst": max(errors),
            "spearman": spearman([row[what] for row in rows], [row["measured"] for row in rows])}


def worst_held(rows):
    return max(abs(a / b - 1) for row in rows for a, b in row["held"])


def faults(rows):
    """Bars that are missed, as sentences."""
    found, reached = [], summary(rows, "hybrid")
    for key in ("median", "worst"):
        if reached[key] > BARS[key]:
            found.append("%s error of the step %.1f%%, bar %.0f%%" % (key, 100 * reached[key], 100 * BARS[key]))
    if reached["spearman"] < BARS["spearman"]:
        found.append("rank correlation %.3f, bar %.2f" % (reached["spearman"], BARS["spearman"]))
    if worst_held(rows) > BARS["held"]:
        found.append("bytes held off by %.2f%%, bar %.0f%%" % (100 * worst_held(rows), 100 * BARS["held"]))
    return found


def percent(value):
    return "%+.1f%%" % (100 * value)


def table(rows, reduced):
    out = ["| job | step, s | by the model | hybrid | from the small job | held, MiB | projected |",
           "|---|--:|--:|--:|--:|--:|--:|"]
    for row, small in zip(rows, reduced):
        held = max(row["held"], key=lambda pair: abs(pair[0] / pair[1] - 1))
        out.append("| %s | %.3f | %s | %s | %s | %.1f | %s |" % (
            row["name"], row["measured"], percent(row["simulated"] / row["measured"] - 1),
            percent(row["hybrid"] / row["measured"] - 1), percent(small["hybrid"] / small["measured"] - 1),
            held[1] / 2 ** 20, "%+.2f%%" % (100 * (held[0] / held[1] - 1))))
    return out


def bars(rows, reduced):
    out = ["| | median error | worst | rank correlation |", "|---|--:|--:|--:|"]
    for name, some, what in (("by the model alone", rows, "simulated"),
                             ("with one process's measurement", rows, "hybrid"),
                             ("with the small job's measurement", reduced, "hybrid")):
        s = summary(some, what)
        out.append("| %s | %.1f%% | %.1f%% | %.3f |" % (name, 100 * s["median"], 100 * s["worst"], s["spearman"]))
    out.append("| bar | %.0f%% | %.0f%% | %.2f |" % (100 * BARS["median"], 100 * BARS["worst"], BARS["spearman"]))
    return out


def restored(rows, names):
    """What a measurement of one block of one process is multiplied and joined with, in seconds."""
    terms = []
    for row in rows:
        for term in row["answer"]["hybrid"]["restored"]:
            if term["what"] not in terms:
                terms.append(term["what"])
    out = ["| job | " + " | ".join(terms) + " | step |", "|---|" + "--:|" * (len(terms) + 1)]
    for row in rows:
        if row["name"] not in names:
            continue
        seconds = {term["what"]: term["seconds_s"] for term in row["answer"]["hybrid"]["restored"]}
        cells = ["%.3f" % seconds[t] if t in seconds else "" for t in terms]
        out.append("| %s | %s | %.3f |" % (row["name"], " | ".join(cells), row["hybrid"]))
    return out


def section(binary):
    rows, reduced = rows_of(binary), rows_of(binary, REDUCED)
    made = read(MEASURED)["provenance"]
    return [
        "## A cluster of processes", "",
        "%d jobs of `bench/cpu_cluster`: PyTorch %s and gloo, each rank one thread on one core, fp32. The"
        % (len(rows), made["libtorch"]),
        "pieces were measured by one process at each job's own local shapes, with the same work on the core",
        "beside it, and the links by two ranks; \"from the small job\" has them at tp 1, ep 1, pp 1 and one layer",
        "only. `python3 bench/cpu_cluster/evaluate.py` measures all of it again.", "",
        *bars(rows, reduced), "", *table(rows, reduced), "",
        "What the reduced measurement is completed with, seconds of the critical rank:", "",
        *restored(reduced, [row["name"] for row in reduced]), ""]
