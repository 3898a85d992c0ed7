"""What `eratos check` prints as nearest that fits is true when it is applied: every row, said again
through --set, gives a legal job of the same device peak."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(os.environ["ERATOS_SOURCE_DIR"])
BINARY = os.environ["ERATOS_BINARY"]
MIXTRAL = str(
    ROOT / "examples/primus/examples/megatron/configs/MI355X/mixtral_8x22B_v0.1-BF16-pretrain.yaml")
JOBS = [
    [MIXTRAL, "--cluster", "mi355x-8x8"],
    ["llama3.1-405b", "--cluster", "h100-sxm-64x8", "--set", "parallel.tp=8"],
    ["gpt3-175b", "--cluster", "a100-80g-16x8"],
    ["qwen3-235b-a22b", "--cluster", "b200-8x8"],
]


def check(job, changes):
    sets = [word for change in changes for word in ("--set", change)]
    done = subprocess.run([BINARY, "check", *job, *sets, "--format", "json"], capture_output=True,
                          text=True, timeout=60, check=False)
    if done.returncode != 0:
        sys.exit(f"{job} {changes}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


rows = 0
for job in JOBS:
    for row in check(job, [])["nearest_that_fit"]:
        again = check(job, row["change"].split(", "))
        if round(again["memory"]["device_peak_bytes"]) != row["device_peak_bytes"]:
            sys.exit(f"{job}: {row['change']} was said to take {row['device_peak_bytes']} bytes, "
                     f"applied it takes {again['memory']['device_peak_bytes']}")
        rows += 1
if rows < len(JOBS):
    sys.exit(f"only {rows} rows to try")
print(f"{rows} rows hold")
