#!/usr/bin/env python3
"""How many trials until within 1 % of the proven optimum: seeds, the scripted policy, a model of rules.

    scripts/tuning_convergence.py --binary BUILD/eratos [--held-out] [--only WORD]
                                  [--page docs/tuning_models.md]

Each workload is tuned three times, each from nothing: by the seed planner alone, by the scripted
policy without seeds, and by tests/models/policy_model.py without seeds, over HTTP like any model. What
is counted are the trials of trials.jsonl up to the first that fits and comes within 1 % of the optimum
which the seed planner's search has proven. The rules of that model were written while its results on
WORKLOADS were looked at; --held-out takes those that were not. With --page the table of the list that
was run, all of it, is replaced in that page.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "models"))

from model_server import ModelServer  # noqa: E402
from policy_model import decide  # noqa: E402

# kind, model, cluster, what is set beside the model's defaults
WORKLOADS = [
    ("dense", "llama3.1-8b", "h100-sxm-2x8", []),
    ("dense", "llama3.1-70b", "h100-sxm-8x8", ["batch.global=512"]),
    ("dense", "llama3.1-70b", "mi300x-4x8", ["batch.global=256"]),
    ("dense", "qwen2.5-32b", "mi355x-2x8", ["batch.global=256"]),
    ("MoE", "mixtral-8x7b", "h100-sxm-4x8", ["batch.global=256"]),
    ("MoE", "mixtral-8x22b", "mi355x-4x8", ["batch.global=256"]),
    ("MoE", "qwen3-30b-a3b", "mi300x-2x8", ["batch.global=256"]),
    ("MLA", "deepseek-v2-lite", "mi300x-1x8", ["batch.global=256"]),
    ("MLA", "deepseek-v2-lite", "h100-sxm-2x8", ["batch.global=256"]),
    ("MLA", "deepseek-v2", "b200-8x8", ["batch.global=512"]),
]
# What nobody looked at while the rules were written; chosen before the first run of them, and kept.
HELD_OUT = [
    ("dense", "llama3.2-3b", "a100-80g-1x8", ["batch.global=128"]),
    ("dense", "qwen3-14b", "h200-sxm-2x8", ["batch.global=256"]),
    ("dense", "mistral-large-123b", "b200-4x8", ["batch.global=256"]),
    ("MoE", "mixtral-8x7b", "mi325x-2x8", ["batch.global=256"]),
    ("MoE", "gpt-oss-20b", "h200-sxm-2x8", ["batch.global=256"]),
    ("MoE", "qwen3-30b-a3b", "b200-4x8", ["batch.global=512"]),
    ("MLA", "deepseek-v2-lite", "a100-80g-2x8", ["batch.global=256"]),
    ("MLA", "moonlight-16b-a3b", "mi325x-1x8", ["batch.global=256"]),
]
WITHIN = 0.01
# Which table of the page holds which workloads.
TABLES = {"seen": WORKLOADS, "held-out": HELD_OUT}


def marks(which):
    return (f"<!-- {which} workloads of scripts/tuning_convergence.py -->",
            f"<!-- end of {which} workloads -->")


def tune(binary, workload, folder, *flags, env=None):
    _, model, cluster, sets = workload
    command = [binary, "tune", model, "--cluster", cluster, "-o", str(folder), *flags]
    for word in sets:
        command += ["--set", word]
    clean = {k: v for k, v in os.environ.items() if "_API_KEY" not in k and "ERATOS_MODEL" not in k}
    done = subprocess.run(command, capture_output=True, text=True, env={**clean, **(env or {})})
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    summary = json.loads((folder / "summary.json").read_text())
    lines = (folder / "trials.jsonl").read_text().splitlines()
    return summary, [json.loads(line) for line in lines]


def speed(trial):
    if trial.get("verdict") != "fits":
        return 0
    figure = trial.get("projected", {}).get("tokens_per_s_per_gpu", 0)
    return figure["value"] if isinstance(figure, dict) else figure[0] if isinstance(figure, list) else figure


def reached(trials, optimum):
    for i, trial in enumerate(trials, 1):
        if speed(trial) >= optimum * (1 - WITHIN):
            return i
    return None


def row(binary, workload):
    kind, model, cluster, _ = workload
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        summary, seeds = tune(binary, workload, folder / "seeds", "--policy", "seeds")
        if not summary["optimum"]["proven"]:
            sys.exit(f"{model} on {cluster}: the optimum was not proven")
        winner = summary["winner"]["projected"]["tokens_per_s_per_gpu"]
        optimum = winner / (1 - summary["optimum"]["behind"])
        _, scripted = tune(binary, workload, folder / "scripted", "--policy", "scripted",
                           "--seed-budget", "0")
        with ModelServer(decide) as server:
            told, policy = tune(binary, workload, folder / "model", "--policy", "model",
                                "--seed-budget", "0",
                                env={"ERATOS_MODEL": "rules", "ERATOS_MODEL_URL": server.url})
            if server.faults:
                sys.exit(f"the model of rules is broken: {server.faults}")
    cells = [kind, model, cluster, f"{optimum:,.0f}"]
    for trials in (seeds, scripted, policy):
        at = reached(trials, optimum)
        best = max(map(speed, trials))
        cells.append(str(at) if at else f"no: {best / optimum - 1:+.1%} after {len(trials)}")
    cells.append(str(told["language_model"]["turns"]))
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--page")
    args = parser.parse_args()
    if args.page and args.only:
        parser.error("--page takes the whole list: a part of it would replace all of the table")
    which = "held-out" if args.held_out else "seen"
    head = ["kind", "model", "cluster", "optimum, tokens/s/GPU", "seeds", "scripted policy",
            "model of rules", "its answers"]
    lines = ["| " + " | ".join(head) + " |", "|---|---|---|--:|--:|--:|--:|--:|"]
    for workload in TABLES[which]:
        if args.only not in " ".join(workload[:3]):
            continue
        lines.append("| " + " | ".join(row(args.binary, workload)) + " |")
        print(lines[-1], flush=True)
    if args.page:
        page = pathlib.Path(args.page)
        text = page.read_text()
        first, last = marks(which)
        begin, end = text.index(first) + len(first), text.index(last)
        page.write_text(text[:begin] + "\n" + "\n".join(lines) + "\n" + text[end:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
