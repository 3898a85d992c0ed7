#!/usr/bin/env python3
"""Primus's own validation of its projection: one node to eight, Llama 3.1 8B in fp8 on MI325X.

Source: AMD-AGI/Primus@fd1eeabb docs_deprecated/tech_blogs/projection/projection.md, table "MI325X - Dense
Models": 16,224 tokens/s/GPU on one node, 16,186 on eight; Primus projects 17,351 from the first, 7.2% off.
"""

import json
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
BINARY = os.environ.get("ERATOS_BINARY") or str(HERE.parents[1] / "build" / "eratos")
ONE_NODE, EIGHT_NODES = 16224, 16186
MOST = 0.03


def eratos(*words):
    done = subprocess.run([BINARY, *words], capture_output=True, cwd=HERE, check=False, text=True)
    assert done.returncode == 0, (words, done.returncode, done.stderr)
    return json.loads(done.stdout)


def project(*words):
    return eratos("project", "jobs/primus_8b.yaml", "--format", "json", *words)


by_row = project("--anchor", "jobs/primus_runs.csv:primus-8b-1n")
speed = by_row["throughput"]["tokens_per_s_per_gpu"]
assert abs(speed / EIGHT_NODES - 1) <= MOST, speed

# Two numbers say what the row says: without gbs= a rank has as many micro-batches as the job's.
by_words = project("--anchor", f"gpus=8,tokens_per_s_per_gpu={ONE_NODE}")
assert by_words["throughput"]["tokens_per_s_per_gpu"] == speed
step = 128 * 8192 / ONE_NODE / 8
by_step = project("--anchor", f"gpus=8,step_s={step!r},gbs=128")
assert abs(by_step["throughput"]["tokens_per_s_per_gpu"] / speed - 1) < 1e-9

# Nearer than without, in a narrower band that holds the truth.
alone = project()
assert abs(alone["throughput"]["tokens_per_s_per_gpu"] / EIGHT_NODES - 1) > abs(
    speed / EIGHT_NODES - 1)
low, high = by_row["confidence"]["step_s"]
alone_low, alone_high = alone["confidence"]["step_s"]
assert high / low < alone_high / alone_low
assert "anchored" in by_row["confidence"]["basis"]

# The account adds up: what is carried, and the run's own, are the residual.
anchor = by_row["anchor"]
residual = anchor["residual"]["step"]
assert abs(sum(residual["log_by_part"].values()) - residual["log"]) < 1e-9
carried = sum(c["run_log"] for c in anchor["carried"])
assert abs(carried + residual["log_by_part"]["own"] - residual["log"]) < 1e-9
assert abs(anchor["measured"]["tokens_per_s_per_gpu"] / ONE_NODE - 1) < 1e-9
assert anchor["not_carried"] == [] and anchor["differs"] == [
    "batch.global 128, here 1024", "cluster mi325x-1x8, here mi325x-8x8"]
names = {c["constant"] for c in anchor["carried"]}
assert "gemm.fp8.in_training" in names and "network.share" not in names, names
assert by_row["job"] == alone["job"], "the job is the user's, without what was carried"

# Other software: the part's constants carry, the framework's do not, and it is said.
other = project("--set", "framework=megatron", "--anchor", "jobs/primus_runs.csv:primus-8b-1n")
kinds = {c["constant"].split(".")[0] for c in other["anchor"]["carried"]}
assert kinds == {"gemm"}, kinds
assert all("other software" in c["why_not"] for c in other["anchor"]["not_carried"])

# The same by groups of measured runs.
runs = eratos("validate", "jobs/primus_runs.csv", "--anchored", "--format", "json")
row, = runs["rows"]
assert (row["id"], row["anchor"], row["differs"]) == ("primus-8b-8n", "primus-8b-1n", [])
assert abs(row["error"]["throughput"] - (speed / EIGHT_NODES - 1)) < 1e-9
assert runs["summary"]["all"]["throughput"]["n"] == 1

# Groups: the suspect run anchors nothing, tp 8 is nearer to 4 than to 1, another micro-batch or software is
# no kin; made-up times of a toy.
runs = eratos("validate", "jobs/anchored_runs.csv", "--models", "jobs/models.yaml", "--anchored",
              "--format", "json")
assert [(r["id"], r["anchor"], r["differs"]) for r in runs["rows"]] == [
    ("large-tp1", "small-tp1", []), ("large-tp8", "small-tp4", ["parallel.tp"])], runs["rows"]
assert runs["summary"]["same_layout"]["throughput"]["n"] == 1
assert runs["summary"]["all"]["anchors"] == 2
