#!/usr/bin/env python3
"""examples/tune/hybrid.sh: what a device says of a job's pieces is a measurement for `eratos tune`."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from device import environment, expect, need_program

HERE = pathlib.Path(__file__).resolve()
ROOT = pathlib.Path(os.environ.get("ERATOS_SOURCE_DIR", HERE.parents[2]))
ERATOS = os.environ.get("ERATOS_BINARY") or str(ROOT / "build" / "eratos")
SCRIPT = ROOT / "examples/tune/hybrid.sh"
JOB = ROOT / "bench/cpu_cluster/configs/small-dp2.yaml"


def measured(**how):
    return subprocess.run([str(SCRIPT)], capture_output=True, text=True, timeout=60, check=False,
                          env=environment(ERATOS=ERATOS, ERATOS_DEVICE="cpu", ERATOS_BUDGET="1s",
                                          **how))


def main():
    need_program()
    done = measured(ERATOS_JOB=str(JOB))
    expect(done.returncode == 0, done.stderr)
    said = json.loads(done.stdout.splitlines()[-1])
    model = subprocess.run([ERATOS, "project", str(JOB), "--format", "json"], capture_output=True,
                           text=True, timeout=20, check=True)
    step = json.loads(model.stdout)["time"]["step_s"]
    expect(said["step_s"] > 0 and said["step_s"] != step, (said, step))
    expect(said["cost_s"] >= 1, said)
    with tempfile.TemporaryDirectory() as folder:
        done = measured(ERATOS_JOB=f"{folder}/none.yaml")
        expect(done.returncode != 0 and done.stdout == "", done)
    return 0


if __name__ == "__main__":
    sys.exit(main())
