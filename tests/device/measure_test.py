#!/usr/bin/env python3
"""`eratos measure`: from a job to a file and into a projection; on a terminal; alone."""

import json
import os
import pathlib
import pty
import signal
import subprocess
import tempfile
import time

from device import PROGRAM, environment, expect, gemm, need_program, pieces, read, write_plan

HERE = pathlib.Path(__file__).resolve()
ROOT = pathlib.Path(os.environ.get("ERATOS_SOURCE_DIR", HERE.parents[2]))
ERATOS = os.environ.get("ERATOS_BINARY") or str(ROOT / "build" / "eratos")
JOB = [str(ROOT / "examples/measure/moe-block.yaml"), "--cluster", "h100-sxm-1x1",
       "--set", "batch.sequence=32", "--set", "model.vocab=64", "--set", "model.hidden=64",
       "--set", "model.moe.ffn=96", "--set", "model.head_dim=8"]


def eratos(*words, **how):
    return subprocess.run([ERATOS, "measure", *map(str, words)], env=environment(**how),
                          capture_output=True, text=True, timeout=60, check=False)


def test_a_job(folder):
    output = f"{folder}/a.json"
    plan = eratos(*JOB, "--plan", "--format", "plan")
    expect(plan.returncode == 0 and plan.stdout.startswith("eratos-plan 1\n"), plan.stderr)
    wanted = {word[3:] for line in plan.stdout.splitlines() for word in line.split(" ")
              if word.startswith("id=")}
    done = eratos(*JOB, "--threads", 1, "--budget", "3s", "-o", output)
    expect(done.returncode == 0 and done.stdout == "", (done.returncode, done.stderr))
    file = read(output)
    found = set(pieces(output))
    expect(found | {u["id"] for u in file["unmeasured"]} == wanted, wanted ^ found)
    expect(sum(i.startswith("block/layer/") for i in found) == 2, found)
    expect(file["provenance"]["commit"].startswith("eratos "), file["provenance"])
    expect("progress" not in done.stderr, done.stderr)
    # The other end: every id is that of its fields, and each piece stands for one of the job's.
    back = subprocess.run([ERATOS, "project", *JOB, "--measured", output, "--mode", "hybrid",
                           "--format", "json"], capture_output=True, text=True, timeout=20,
                          check=False)
    expect(back.returncode == 0, back.stderr)
    known = json.loads(back.stdout)["provenance"]
    # Halves of a layer that is there whole add nothing, and bytes are no times.
    apart = ("block/attention/", "block/moe/", "memory/")
    used = sum(not i.startswith(apart) for i in found)
    expect(known["measured"]["pieces"] == len(found), known)
    expect(known["measured"]["matched_pieces"] == used, (known, used))
    expect(0 < known["measured_fraction"] <= 1, known)
    again = eratos(*JOB, "-o", output)
    expect(again.returncode == 2 and "--force" in again.stderr, again.stderr)


def test_words(folder):
    for words, said in [
            ([], "needs JOB"),
            (JOB, "needs -o FILE"),
            ([*JOB, "--plan-file", "x", "-o", f"{folder}/w"], "needs JOB, or the plan"),
            (["--plan", "--plan-file", "x"], "--plan` needs JOB"),
            ([*JOB, "--format", "json", "-o", f"{folder}/w"], "is for --plan"),
            ([*JOB, "--device", "tpu", "-o", f"{folder}/w"], "cpu and cuda"),
            ([*JOB, "--budget", "soon", "-o", f"{folder}/w"], "no time such as 120s"),
            ([*JOB, "--ranks", "0", "-o", f"{folder}/w"], "no whole number of 1"),
    ]:
        done = eratos(*words)
        expect(done.returncode == 2 and said in done.stderr, (words, done.returncode, done.stderr))
    done = eratos(ROOT / "none.yaml", "--cluster", "h100-sxm-1x1", "-o", f"{folder}/w")
    expect(done.returncode == 3, done.stderr)


def test_without_the_program(folder):
    """Beside a copy of eratos in an empty folder there is none, and the path leads nowhere."""
    alone = pathlib.Path(folder) / "bin"
    alone.mkdir()
    os.link(ERATOS, alone / "eratos") if os.stat(ERATOS).st_dev == os.stat(folder).st_dev else \
        (alone / "eratos").write_bytes(pathlib.Path(ERATOS).read_bytes())
    os.chmod(alone / "eratos", 0o755)
    done = subprocess.run([str(alone / "eratos"), "measure", *JOB, "-o", f"{folder}/n.json"],
                          env=environment(PATH=str(alone)), capture_output=True, text=True,
                          timeout=20, check=False)
    expect(done.returncode == 4 and "cmake -S measure" in done.stderr, done.stderr)
    done = eratos(*JOB, "--device-program", f"{folder}/none", "-o", f"{folder}/n.json")
    expect(done.returncode == 4 and "no program" in done.stderr, done.stderr)
    found = eratos("--plan-file", f"{folder}/none.plan", "-o", f"{folder}/n.json",
                   PATH=str(PROGRAM.parent))
    expect(found.returncode == 4 and "cannot be read" in found.stderr, found.stderr)


def test_terminal_and_interrupt(folder):
    """On a terminal the progress is one line that is written over; Ctrl-C leaves what is done."""
    plan = write_plan(folder, [gemm(f"gemm/{i}", 64) for i in range(400)])
    try:
        ours, theirs = pty.openpty()
    except OSError as why:
        print(f"no terminal can be made here ({why}): what it shows is not looked at")
        return
    one = subprocess.Popen([ERATOS, "measure", "--plan-file", str(plan), "--threads", "1", "-o",
                            f"{folder}/t.json", "--device-program", str(PROGRAM)],
                           env=environment(), stderr=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    said = b""
    began = time.monotonic()
    while b"[=" not in said and time.monotonic() - began < 30:
        said += os.read(ours, 4096)
    one.send_signal(signal.SIGINT)
    while True:
        try:
            more = os.read(ours, 4096)
        except OSError:
            break
        if not more:
            break
        said += more
    expect(one.wait(timeout=20) == 130, said[-500:])
    expect(b"\r\x1b[K[=" in said and b"/400 gemm/" in said, said[:500])
    expect(0 < len(pieces(f"{folder}/t.json")) < 400, said[-300:])


if __name__ == "__main__":
    need_program()
    with tempfile.TemporaryDirectory() as folder:
        test_a_job(folder)
        test_words(folder)
        test_without_the_program(folder)
        test_terminal_and_interrupt(folder)
