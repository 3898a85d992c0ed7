#!/usr/bin/env python3
"""Runs jobs of configs/ and writes what their steps took and what autograd held.

    steps.py -o STEPS.json [--steps 6] [NAME ...]     all of configs/ without names

Rows of a file that exists are kept, those of the named jobs replaced. A step's time is the median over the
undisturbed steps behind the first, of the slowest rank; `noise` is the share of a step in which a rank
waited for its core, which is what other processes took.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import train  # noqa: E402


def provenance():
    """Where and with what it was measured; no name of the machine."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        lines = file.read().split("\n\n")[0].splitlines()
        facts = dict((line.split(":", 1) + [""])[:2] for line in lines)
        facts = {key.strip(): value.strip() for key, value in facts.items()}
        model = " ".join((facts.get("model name", "unknown"), "family", facts.get("cpu family", "?"),
                          "model", facts.get("model", "?")))
    torch = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"],
                           capture_output=True, text=True, check=True).stdout.strip()
    blas = os.path.realpath("/usr/lib/x86_64-linux-gnu/libblas.so.3")
    commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True,
                            text=True, check=False)
    return {"device": model, "device_kind": "cpu", "libtorch": torch, "blas": os.path.basename(blas),
            "blas_folder": os.path.basename(os.path.dirname(blas)), "backend": "gloo", "threads": 1,
            "commit": commit.stdout.strip(),
            "date_utc": datetime.datetime.utcnow().strftime("%Y-%m-%dT%H:%M:%SZ")}


QUIET = 0.02  # of a step that may be other processes'


def cores_waited(result):
    """Of each step behind the first the share in which a rank neither computed nor waited in a collective."""
    lost = []
    for wall, cpu, links in zip(result["steps_s"][1:], result["cpu_s"][1:], result["links"][1:]):
        waiting = sum(value[0] for value in links.values())
        lost.append(max(0.0, wall - cpu - waiting) / wall)
    return lost


def measure(name, steps, limit):
    ranks = train.launch(os.path.join(HERE, "configs", name + ".yaml"), steps + 1, held=True, limit=limit)
    slowest = [max(times) for times in zip(*(r["steps_s"][1:] for r in ranks))]
    noise = [max(shares) for shares in zip(*(cores_waited(r) for r in ranks))]
    # Steps that nothing disturbed; of a machine that is never quiet, the third that was disturbed least.
    order = sorted(range(len(slowest)), key=noise.__getitem__)
    kept = [i for i in order if noise[i] <= QUIET] or order[:max(1, len(order) // 3)]
    middle = sorted(kept, key=slowest.__getitem__)[len(kept) // 2]
    return {"name": name, "step_s": statistics.median(slowest[i] for i in kept), "minimum_s": min(slowest),
            "steps_s": slowest, "noise": [round(share, 4) for share in noise], "kept": sorted(kept),
            "quiet": all(noise[i] <= QUIET for i in kept),
            "held_bytes": [r["held_bytes"] for r in ranks],
            "loss": [ranks[0]["loss"][0], ranks[0]["loss"][-1]],
            "phases_s": [r["phases_s"][middle + 1] for r in ranks],
            "links": [r["links"][middle + 1] for r in ranks]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--steps", type=int, default=6, help="steps behind the first (6)")
    parser.add_argument("--limit", type=int, default=300, help="seconds for one job (300)")
    args = parser.parse_args()
    names = args.names or sorted(f[:-5] for f in os.listdir(os.path.join(HERE, "configs")))
    rows = {}
    if os.path.exists(args.output):
        with open(args.output, encoding="utf-8") as file:
            rows = {row["name"]: row for row in json.load(file)["steps"]}
    made = provenance()
    for name in names:
        rows[name] = dict(measure(name, args.steps, args.limit), date_utc=made["date_utc"])
        sys.stderr.write("%-28s %7.3f s  %d quiet steps of %d%s\n" % (
            name, rows[name]["step_s"], len(rows[name]["kept"]), args.steps, "" if rows[name]["quiet"] else ", NOISY"))
        with open(args.output + ".new", "w", encoding="utf-8") as file:
            json.dump({"provenance": made, "steps": [rows[key] for key in sorted(rows)]}, file, indent=1)
        os.replace(args.output + ".new", args.output)


if __name__ == "__main__":
    main()
