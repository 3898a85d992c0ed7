#!/usr/bin/env python3
"""Collectives among ranks, started in each way there is; a rank that dies."""

import os
import signal
import subprocess
import tempfile
import time

from device import command, environment, expect, gemm, need_program, pieces, run, write_plan

WHAT = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")
PLAN = [gemm("gemm/one"),
        *[f"collective id={what} what={what} ranks=2 bytes=8192 dtype=fp32" for what in WHAT]]


def without_gloo(said):
    return "whose headers were not there" in said


def test_ranks(folder):
    output = f"{folder}/a.json"
    done = run(write_plan(folder, PLAN), output, "--ranks", "2", budget="2s")
    if without_gloo(done.stderr):
        return False
    expect(done.returncode == 0, (done.returncode, done.stderr))
    found = pieces(output)
    expect(set(found) == {"gemm/one", *WHAT}, (set(found), done.stderr))
    expect(all(found[what]["checked"] == 0 for what in WHAT), found)
    expect("all-to-all" in found["reduce_scatter"]["notes"][0], found["reduce_scatter"])
    # Three ranks are there, two are wanted.
    done = run(write_plan(folder, PLAN), f"{folder}/b.json", "--ranks", "3", budget="1s")
    expect(done.returncode == 0 and "3 are at hand" in done.stderr, done.stderr)
    return True


def children_of(pid):
    """Ranks that run eratos-device by now."""
    out = []
    try:
        ids = open(f"/proc/{pid}/task/{pid}/children", encoding="ascii").read().split()
    except FileNotFoundError:
        return out
    for child in ids:
        try:
            variables = open(f"/proc/{child}/environ", "rb").read().split(b"\0")
        except OSError:
            continue
        for variable in variables:
            if variable.startswith(b"ERATOS_DEVICE_RANK="):
                out.append((int(variable.split(b"=")[1]), int(child)))
    return out


def test_a_rank_dies(folder):
    plan = write_plan(folder, [gemm(f"gemm/{i}", 32) for i in range(300)] + PLAN[1:], "long")
    output = f"{folder}/c.json"
    run_of_two = subprocess.Popen(command(plan, output, "--ranks", "2", budget="60s"),
                                  env=environment(), stderr=subprocess.PIPE, text=True)
    for _ in range(500):
        if os.path.exists(output + ".partial") and os.path.getsize(output + ".partial") > 2000:
            break
        time.sleep(0.02)
    ranks = dict(children_of(run_of_two.pid))
    expect(set(ranks) == {0, 1}, ranks)
    os.kill(ranks[1], signal.SIGKILL)
    began = time.monotonic()
    said = run_of_two.communicate(timeout=20)[1]
    lasted = time.monotonic() - began
    expect(run_of_two.returncode == 4, (run_of_two.returncode, said))
    expect("rank 1 was ended by signal 9" in said, said)
    expect(lasted < 5, f"the others lived on for {lasted:.1f} s")
    expect(not os.path.exists(f"/proc/{ranks[0]}"), "rank 0 lives on")
    done = run(plan, output, "--resume", budget="1s")
    expect("resumed: 0 of" not in done.stderr and "resumed: " in done.stderr, done.stderr)


def test_launchers(folder):
    """As mpirun and srun would start them: by what they set, without them."""
    for name, rank, size, job in (
            ("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_MCA_ess_base_jobid"),
            ("srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID")):
        output = f"{folder}/{name}.json"
        plan = write_plan(folder, PLAN[:2], name)
        both = [subprocess.Popen(command(plan, output, budget="1s"),
                                 env=environment(**{rank: str(r), size: "2", job: str(os.getpid())}),
                                 stderr=subprocess.PIPE, text=True) for r in (0, 1)]
        said = [p.communicate(timeout=30)[1] for p in both]
        expect([p.returncode for p in both] == [0, 0], (name, said))
        expect(set(pieces(output)) == {"gemm/one", "all_reduce"}, said)
    far = subprocess.run(command(write_plan(folder, PLAN), f"{folder}/far.json"),
                         env=environment(SLURM_PROCID="0", SLURM_NTASKS="2", SLURM_NNODES="2"),
                         capture_output=True, text=True, timeout=20, check=False)
    expect(far.returncode == 4 and "MASTER_ADDR" in far.stderr, far.stderr)


if __name__ == "__main__":
    need_program()
    with tempfile.TemporaryDirectory() as folder:
        if test_ranks(folder):
            test_a_rank_dies(folder)
            test_launchers(folder)
