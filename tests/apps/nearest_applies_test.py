"""What `eratos check` and a search that found nothing print as what would help is true when it is applied:
every row, said again through --set and --nodes, gives a legal job that fits, of the same device peak."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(os.environ["ERATOS_SOURCE_DIR"])
BINARY = os.environ["ERATOS_BINARY"]
MIXTRAL = str(
    ROOT / "examples/primus/examples/megatron/configs/MI355X/mixtral_8x22B_v0.1-BF16-pretrain.yaml")
# Too big, illegal in one way, illegal in several, on too few nodes.
JOBS = [
    [MIXTRAL, "--cluster", "mi355x-8x8"],
    ["llama3.1-405b", "--cluster", "h100-sxm-64x8", "--set", "parallel.tp=8"],
    ["gpt3-175b", "--cluster", "a100-80g-16x8"],
    ["qwen3-235b-a22b", "--cluster", "b200-8x8"],
    ["llama3.1-70b", "--cluster", "h100-sxm-1x8"],
    ["llama3.1-405b", "--cluster", "h100-sxm-1x8", "--set", "parallel.tp=8"],
    ["gpt3-175b", "--cluster", "a100-80g-1x8", "--set", "parallel.tp=8"],
    ["deepseek-v3", "--cluster", "h100-sxm-4x8"],
    ["deepseek-v3", "--cluster", "h100-sxm-16x8", "--set", "parallel.pp=16", "--set", "parallel.ep=8"],
    ["llama3.1-8b", "--cluster", "h100-sxm-1x8", "--set", "parallel.tp=3"],
    ["llama3.1-8b", "--cluster", "h100-sxm-1x8", "--set", "parallel.tp=16"],
    ["llama3.1-8b", "--cluster", "h100-sxm-1x8", "--set", "parallel.pp=3"],
    ["llama3.1-8b", "--cluster", "h100-sxm-1x8", "--set", "parallel.ep=2"],
    ["llama3.1-8b", "--cluster", "h100-sxm-1x8", "--set", "parallel.vpp=2"],
    ["llama3.1-8b", "--cluster", "h100-sxm-1x8", "--set", "parallel.cp=8", "--set", "batch.sequence=4100"],
    ["llama3.1-8b", "--cluster", "h100-sxm-1x8", "--set", "batch.global=7"],
    ["llama3.1-8b", "--cluster", "h100-sxm-1x8", "--set", "batch.micro=64"],
    ["llama3.1-8b", "--cluster", "h100-sxm-1x8", "--set", "batch.sequence=131072"],
    ["llama3.1-8b", "--cluster", "h100-sxm-1x8", "--set", "parallel.pp=2", "--set",
     "parallel.layout=Et*30|t*3L"],
    ["llama3.1-8b", "--cluster", "h100-sxm-1x8", "--set", "schedule.algorithm=zb-h1"],
    ["mixtral-8x7b", "--cluster", "h100-sxm-2x8", "--set", "parallel.ep=3"],
    ["mixtral-8x7b", "--cluster", "h100-sxm-2x8", "--set", "parallel.tp=2", "--set",
     "parallel.sequence_parallel=false"],
    ["llama3.1-70b", "--cluster", "mi355x-1x8", "--set", "parallel.pp=3", "--set", "parallel.vpp=3"],
]
# A space of which nothing is legal, or nothing fits.
SPACES = [
    (["llama3.1-8b", "--cluster", "h100-sxm-1x8"], ["gbs=7", "tp=1", "pp=1", "cp=1"]),
    (["llama3.1-8b", "--cluster", "h100-sxm-1x8"], ["tp=3", "rest=job"]),
    (["llama3.1-70b", "--cluster", "h100-sxm-1x8"], ["tp=1", "offload=0", "rest=job"]),
    (["llama3.1-70b", "--cluster", "h100-sxm-1x8"], ["schedule=zbv", "rest=job"]),
    (["mixtral-8x7b", "--cluster", "h100-sxm-1x8"], ["ep=3", "rest=job"]),
]


def applied(changes):
    """"--nodes 4, a=b" as arguments."""
    words = []
    for change in changes:
        words += change.split() if change.startswith("--") else ["--set", change]
    return words


def run(command, *words):
    done = subprocess.run([BINARY, command, *words, "--format", "json"], capture_output=True, text=True,
                          timeout=60, check=False)
    if done.returncode not in (0, 1, 3) or not done.stdout:
        sys.exit(f"{command} {words}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def try_rows(what, job, found):
    for row in found:
        again = run("check", *job, *applied(row["change"].split(", ")))
        if not again.get("legal") or not again.get("fits"):
            sys.exit(f"{what}: {row['change']} was said to help, applied it does not: "
                     f"{again.get('faults', 'it does not fit')}")
        if round(again["memory"]["device_peak_bytes"]) != row["device_peak_bytes"]:
            sys.exit(f"{what}: {row['change']} was said to take {row['device_peak_bytes']} bytes, "
                     f"applied it takes {again['memory']['device_peak_bytes']}")
    return len(found)


def field(axis_words):
    """Words of --axes as the settings they pin."""
    fields = {"gbs": "batch.global", "tp": "parallel.tp", "pp": "parallel.pp", "cp": "parallel.cp",
              "ep": "parallel.ep", "schedule": "schedule.algorithm", "offload": "offload.optimizer"}
    pairs = [word.split("=") for word in axis_words if not word.startswith("rest")]
    return [word for axis, value in pairs for word in ("--set", f"{fields[axis]}={value}")]


rows = 0
for job in JOBS:
    answer = run("check", *job)
    tried = try_rows(job, job, answer["nearest_that_fit"])
    if tried == 0:
        sys.exit(f"{job}: nothing was found that helps")
    rows += tried
for job, axes in SPACES:
    answer = run("search", *job, "--axes", *axes)
    if answer["best"] is not None:
        sys.exit(f"{job} {axes}: not impossible")
    if answer["proof"]["too_big"] == 0 and answer["proof"]["illegal"] == 0:
        sys.exit(f"{job} {axes}: no reason")
    tried = try_rows((job, axes), [*job, *field(axes)], answer["nearest_that_fit"])
    if tried == 0:
        sys.exit(f"{job} {axes}: nothing was found that helps")
    rows += tried
print(f"{rows} rows hold")
