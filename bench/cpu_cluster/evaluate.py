#!/usr/bin/env python3
"""Measures steps, pieces and links of the cluster of processes, and writes what a projection is judged by.

    evaluate.py --eratos PATH            everything: half an hour on two idle cores at most
    evaluate.py --eratos PATH --keep     projects from the committed measurements and prints the table

Writes data/measured/cpu_cluster.json (pieces, links, steps) and cpu_cluster_reduced.json (pieces at tp 1,
ep 1, pp 1, one layer, and links). Exit: 0 all bars hold, 1 one does not.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
sys.path.insert(0, HERE)
import accuracy_cluster  # noqa: E402
import measure  # noqa: E402

# The same job on one rank with one layer, as the downscale rules have it.
REDUCED = ["parallel.tp=1", "parallel.pp=1", "parallel.ep=1", "parallel.sequence_parallel=false",
           "model.layers=1", "sharding.stage=none"]


def run(command):
    sys.stderr.write(" ".join(os.path.basename(word) for word in command[:3]) + " ...\n")
    subprocess.run(command, check=True)


def plans(eratos, folder, changes, label):
    paths = []
    for name in sorted(os.listdir(os.path.join(HERE, "configs"))):
        path = os.path.join(folder, "%s-%s.plan" % (label, name))
        command = [eratos, "measure", os.path.join(HERE, "configs", name), "--plan", "--format", "plan",
                   "--ranks", "2", "-o", path]
        for change in changes:
            command += ["--set", change]
        if changes:
            command += ["--cluster", "cpu-core-avx512-1x1"]
        subprocess.run(command, check=True)
        paths.append(path)
    return paths


def merged(pieces, links, steps):
    with open(pieces, encoding="utf-8") as file:
        out = json.load(file)
    with open(links, encoding="utf-8") as file:
        other = json.load(file)
    out["pieces"] += other["pieces"]
    out["provenance"]["notes"] += other["provenance"]["notes"]
    out["unmeasured"] += other["unmeasured"]
    if steps:
        with open(steps, encoding="utf-8") as file:
            out["steps"] = json.load(file)["steps"]
    return out


def measure_all(eratos, python):
    os.makedirs(os.path.dirname(accuracy_cluster.MEASURED), exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)  # noqa: E731
        own, small = plans(eratos, folder, [], "own"), plans(eratos, folder, REDUCED, "small")
        run([python, os.path.join(HERE, "steps.py"), "-o", at("steps.json")])
        run([python, os.path.join(HERE, "measure.py"), *own, "-o", at("own.json")])
        run([python, os.path.join(HERE, "measure.py"), *small, "-o", at("small.json")])
        run([python, os.path.join(HERE, "measure.py"), "--links", *own, "-o", at("links.json")])
        measure.write(merged(at("own.json"), at("links.json"), at("steps.json")), accuracy_cluster.MEASURED)
        measure.write(merged(at("small.json"), at("links.json"), None), accuracy_cluster.REDUCED)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--eratos", default=os.path.join(ROOT, "build", "eratos"))
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has torch (/usr/bin/python3)")
    parser.add_argument("--keep", action="store_true", help="measure nothing")
    args = parser.parse_args()
    if not args.keep:
        measure_all(args.eratos, args.python)
    print("\n".join(accuracy_cluster.section(args.eratos)))
    missed = accuracy_cluster.faults(accuracy_cluster.rows_of(args.eratos))
    missed += accuracy_cluster.faults(accuracy_cluster.rows_of(args.eratos, accuracy_cluster.REDUCED))
    for fault in missed:
        sys.stderr.write("missed: %s\n" % fault)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
