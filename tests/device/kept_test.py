#!/usr/bin/env python3
"""Nothing that was measured is lost: interrupts, kills, full disks, two runs at once."""

import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import time

from device import command, environment, expect, gemm, need_program, pieces, read, run, write_plan

MANY = [gemm(f"gemm/{i}", 32 + 8 * i) for i in range(16)]


def start(plan, output, *flags, **how):
    return subprocess.Popen(command(plan, output, *flags, budget="30s"), env=environment(),
                            stderr=subprocess.PIPE, text=True, **how)


def wait_for_lines(path, count):
    """Until the journal holds so many pieces."""
    for _ in range(600):
        if pathlib.Path(path).exists() and pathlib.Path(path).read_text().count("\n") > count:
            return
        time.sleep(0.02)
    raise AssertionError(f"{path} did not come to {count} pieces")


def test_interrupt_and_resume(folder):
    plan, output = write_plan(folder, MANY), f"{folder}/a.json"
    one = start(plan, output)
    wait_for_lines(output + ".partial", 3)

    # A second run at the same file, and a third without saying what to do with the first one's.
    second = run(plan, output)
    expect(second.returncode == 4 and f"process {one.pid}" in second.stderr, second.stderr)

    one.send_signal(signal.SIGINT)
    said = one.communicate(timeout=20)[1]
    expect(one.returncode == 130, (one.returncode, said))
    first = pieces(output)
    expect(3 <= len(first) < len(MANY), (len(first), said))
    expect({u["why"] for u in read(output)["unmeasured"]} == {"interrupted"}, said)
    expect(not os.path.exists(output + ".partial") and not os.path.exists(output + ".lock"), folder)

    refused = run(plan, output)
    expect(refused.returncode == 2 and "--resume" in refused.stderr, refused.stderr)
    other = run(write_plan(folder, MANY[:1], "other"), output, "--resume")
    expect(other.returncode == 2 and "another" in other.stderr, other.stderr)
    done = run(plan, output, "--resume", budget="2s")
    expect(done.returncode == 0, done.stderr)
    after = pieces(output)
    expect(len(after) == len(MANY), (len(after), done.stderr))
    expect(all(after[i] == first[i] for i in first), "what was there was measured again")


def test_kill(folder):
    """Killed: the journal stays, its torn last line is no piece, its lock holds nobody up."""
    plan, output = write_plan(folder, MANY), f"{folder}/b.json"
    one = start(plan, output)
    wait_for_lines(output + ".partial", 2)
    one.kill()
    one.communicate()
    expect(os.path.exists(output + ".lock") and not os.path.exists(output), folder)
    kept = pathlib.Path(output + ".partial").read_text().count("\n") - 1
    with open(output + ".partial", "a", encoding="utf-8") as journal:
        journal.write('{"id":"gemm/15","kind":"gemm","median_s":1')
    refused = run(plan, output)
    expect(refused.returncode == 2 and "--resume" in refused.stderr, refused.stderr)
    done = run(plan, output, "--resume", budget="2s")
    expect(done.returncode == 0, done.stderr)
    expect(f"resumed: {kept} of 16" in done.stderr, (kept, done.stderr))
    expect(pieces(output)["gemm/15"]["median_s"] < 1, "a torn line became a piece")


def test_full_disk(folder):
    """Files may grow to 8 kB: the journal fills up, keeps its whole lines, and goes on."""
    plan, output = write_plan(folder, MANY), f"{folder}/c.json"
    limit = 8 << 10
    full = run(plan, output,
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    expect(full.returncode == 4 and "cannot be written" in full.stderr, full.stderr)
    expect("--resume" in full.stderr, full.stderr)
    journal = pathlib.Path(output + ".partial").read_text()
    expect(journal.endswith("}\n") and journal.count("\n") > 2, journal[-200:])
    done = run(plan, output, "--resume", budget="2s")
    expect(done.returncode == 0, done.stderr)
    expect(len(pieces(output)) == len(MANY), done.stderr)
    none = run(plan, f"{folder}/no/such/folder.json")
    expect(none.returncode == 4 and "folder" in none.stderr, none.stderr)


def test_memory_runs_out(folder):
    """Three pieces that do not fit, in three ways; what is around them is measured."""
    plan = write_plan(folder, [
        gemm("gemm/first"),
        gemm("gemm/huge", 1_000_000),
        "block id=block/huge what=mlp pass=forward tokens=64 hidden=500000 ffn=500000 dtype=fp32",
        "attention id=attention/huge dtype=fp32 batch=1 seq_q=60000 seq_kv=60000 heads=8 "
        "kv_heads=8 head_dim=8 causal=0 pass=forward",
        gemm("gemm/last"),
    ])
    output = f"{folder}/d.json"
    space = 6 << 30
    done = run(plan, output, budget="5s",
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (space, space)))
    expect(done.returncode == 0, (done.returncode, done.stderr))
    expect(set(pieces(output)) == {"gemm/first", "gemm/last"}, done.stderr)
    for one in read(output)["unmeasured"]:
        expect("out of memory" in one["why"], one)


def test_budget(folder):
    plan = write_plan(folder, [gemm(f"gemm/{i}") for i in range(500)], "more")
    output = f"{folder}/e.json"
    done = run(plan, output, budget="0.3s")
    expect(done.returncode == 0, done.stderr)
    left = read(output)["unmeasured"]
    expect(left and {u["why"] for u in left} == {"the budget was spent"}, done.stderr)
    for wrong in ("0", "-1s", "soon", "3h"):
        done = run(plan, f"{folder}/f.json", budget=wrong)
        expect(done.returncode == 2, (wrong, done.stderr))


def test_no_device(folder):
    done = run(write_plan(folder, MANY), f"{folder}/g.json", "--device", "cuda")
    expect(done.returncode == 4 and "--device cpu" in done.stderr, (done.returncode, done.stderr))
    expect(not os.path.exists(f"{folder}/g.json.partial"), "a journal without a device")


if __name__ == "__main__":
    need_program()
    with tempfile.TemporaryDirectory() as folder:
        test_interrupt_and_resume(folder)
        test_kill(folder)
        test_full_disk(folder)
        test_memory_runs_out(folder)
        test_budget(folder)
        test_no_device(folder)
