"""What the tests of eratos-device share: the program, small plans, the file it writes."""

import json
import os
import pathlib
import subprocess
import sys

PROGRAM = pathlib.Path(os.environ.get("ERATOS_BUILD_DIR", "build")) / "eratos-device"
SKIPPED = 77


def need_program():
    if not PROGRAM.exists():
        print("eratos-device was not built: libtorch is not here")
        sys.exit(SKIPPED)


def environment(**more):
    """Without what a launcher around the tests may have set; one thread."""
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith(("OMPI_", "PMI_", "SLURM_", "RANK", "WORLD_SIZE", "MASTER_"))}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def write_plan(folder, pieces, name="plan"):
    path = pathlib.Path(folder) / name
    path.write_text("eratos-plan 1\njob test 0\n" + "".join(f"piece {p}\n" for p in pieces))
    return path


def gemm(name, n=64, **more):
    fields = {"dtype": "fp32", "m": n, "n": n, "k": n, "pass": "forward", **more}
    return f"gemm id={name} " + " ".join(f"{k}={v}" for k, v in fields.items())


def command(plan, output, *flags, budget="20s"):
    """With a cache of no bytes: one set of buffers a piece, as the tests ask for no true times."""
    return [str(PROGRAM), "--plan", str(plan), "-o", str(output), "--budget", budget,
            "--threads", "1", "--cache", "0", *flags]


def run(plan, output, *flags, timeout=60, **how):
    budget = how.pop("budget", "20s")
    return subprocess.run(command(plan, output, *flags, budget=budget), env=environment(),
                          capture_output=True, text=True, timeout=timeout, check=False, **how)


def read(path):
    return json.loads(pathlib.Path(path).read_text())


def pieces(path):
    return {p["id"]: p for p in read(path)["pieces"]}


def expect(condition, said):
    if not condition:
        raise AssertionError(said)
