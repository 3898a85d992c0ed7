#!/usr/bin/env python3
"""eratos tune: the shipped example, and a run that is killed again and again.

Killed at any moment and resumed, a run gives the bytes of an uninterrupted one, and every
measurement is made once: the measuring program keeps a list of what it was asked.
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

BINARY = os.environ["ERATOS_BINARY"]
SOURCE = pathlib.Path(os.environ["ERATOS_SOURCE_DIR"])
PRIMUS = SOURCE / "examples/primus/examples"
MIXTRAL = PRIMUS / "megatron/configs/MI355X/mixtral_8x22B_v0.1-BF16-pretrain.yaml"
TARGET = PRIMUS / "agents/tuning_agent/target_cluster_mi355x_4nodes.yaml"

# A device that is 10 % slower than the model, and slower still where micro-batches are larger.
DEVICE = """#!/bin/sh
echo "$ERATOS_DIGEST" >> "{log}"
sleep 0.0{sleep}
micro=$(sed -n 's/^  micro: //p' "$ERATOS_JOB")
tp=$(sed -n 's/^  tp: //p' "$ERATOS_JOB" | head -n 1)
pp=$(sed -n 's/^  pp: //p' "$ERATOS_JOB")
echo "{{\\"step_s\\": $((100 * micro + 10 * tp + pp))e-2, \\"cost_s\\": 60}}"
"""


def run(*words, code=0, **more):
    done = subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, **more)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done


def device(folder, sleep):
    log = folder / "asked.log"
    path = folder / "device.sh"
    path.write_text(DEVICE.format(log=log, sleep=sleep))
    path.chmod(0o755)
    return path, log


def small(out, command):
    return ["tune", "llama3.1-8b", "--cluster", "h100-sxm-2x8", "--set", "batch.global=64",
            "--set", "batch.sequence=4096", "--axes", "rest=job tp=1,2,4,8 pp=1,2,4 mbs=1,2 "
            "recompute=none,full", "--seed-budget", "8", "--budget-simulate", "6",
            "--budget-measure", "6", "--measure-command", str(command), "--threads", "1",
            "-o", str(out)]


def example(folder):
    out = folder / "example"
    began = time.monotonic()
    done = run("tune", MIXTRAL, "--cluster", TARGET, "-o", out)
    assert time.monotonic() - began < 60
    summary = json.loads((out / "summary.json").read_text())
    winner = summary["winner"]
    assert winner["verdict"] == "fits"
    assert summary["optimum"]["proven"] and summary["optimum"]["behind"] <= 0.01, summary["optimum"]
    assert summary["baseline"]["verdict"] == "too-big"
    assert summary["ahead_of_baseline"] is None  # it cannot run
    assert summary["baseline"]["projected"]["step_s"] is None
    assert summary["baseline"]["projected"]["device_peak_bytes"] > 288 * 2**30
    ahead = summary["ahead_of_best_baseline"]
    assert ahead["low"] < ahead["gain"] < ahead["high"] and ahead["gain"] > 0.1
    assert summary["best_baseline"]["verdict"] == "fits" and summary["changes"]
    stages = {s["stage"]: s for s in summary["stages"]}
    assert not stages["investigation"]["on"] and "budget of 0" in stages["investigation"]["what"]
    assert not stages["refinement"]["on"] and "--measure-command" in stages["refinement"]["what"]
    low, high = winner["projected"]["tokens_per_s_per_gpu_band"]
    assert low < winner["projected"]["tokens_per_s_per_gpu"] < high
    assert "budget of 0" in done.stdout and "does not fit" in done.stdout
    for name in ("report.md", "report.html"):
        text = (out / name).read_text()
        assert "incumbent against trial" in text and "speed against memory" in text
    assert (out / "report.html").read_text().count("<svg viewBox") == 2
    # The framework's own file is read as the winner again: but for its name and cluster all alike.
    written = json.loads(run("import", out / "winner.yaml", "--format", "json").stdout)["job"]
    exported = PRIMUS / "megatron/configs/MI355X" / f"tune_test_{os.getpid()}.yaml"
    preset = SOURCE / "examples/primus"
    copy = folder / "checkout"
    subprocess.run(["cp", "-r", str(preset), str(copy)], check=True)
    again = copy / "examples/megatron/configs/MI355X" / exported.name
    again.write_text((out / "winner.primus.yaml").read_text())
    back = json.loads(run("import", again, "--cluster", TARGET, "--format", "json").stdout)["job"]
    for key in set(written) - {"name", "cluster", "model"}:
        assert written[key] == back[key], (key, written[key], back[key])
    # Another run is not overwritten, and a resumed one is told from another.
    refused = run("tune", MIXTRAL, "--cluster", TARGET, "-o", out, code=2)
    assert "--resume" in refused.stderr
    other = run("tune", MIXTRAL, "--cluster", TARGET, "-o", out, "--resume", "--seed-budget", "3", code=3)
    assert "seed_budget" in other.stderr


def killed(folder):
    quick, log = device(folder, 2)
    whole = folder / "whole"
    run(*small(whole, quick))
    wanted = (whole / "summary.json").read_bytes()
    asked = log.read_text().split()
    assert len(asked) == len(set(asked)) >= 3, asked
    measured = json.loads(wanted)["trials"]["measured"]
    assert measured == len(asked)
    whole_trials = (whole / "trials.jsonl").read_bytes()
    rng = random.Random(8)
    kills = 0
    for attempt in range(2):
        log.unlink(missing_ok=True)
        out = folder / f"killed{attempt}"
        words = small(out, quick)
        done = False
        for _ in range(40):
            process = subprocess.Popen([BINARY, *words, "--resume"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE)
            try:
                process.wait(timeout=rng.uniform(0.03, 0.4))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                kills += 1
            stderr = process.communicate()[1]
            if process.returncode == 0:
                done = True
                break
            assert process.returncode == -signal.SIGKILL, stderr
        if not done:
            run(*words, "--resume")
        assert (out / "summary.json").read_bytes() == wanted
        assert (out / "trials.jsonl").read_bytes() == whole_trials
        again = log.read_text().split()
        assert sorted(again) == sorted(asked), (again, asked)
    assert kills > 0
    # A last line that a crash has torn off, and a trial that was never written behind its payment.
    torn = folder / "killed0"
    text = (torn / "trials.jsonl").read_bytes()
    (torn / "trials.jsonl").write_bytes(text[: len(text) - 40])
    log.unlink()
    run(*small(torn, quick), "--resume")
    assert (torn / "trials.jsonl").read_bytes() == whole_trials
    assert (torn / "summary.json").read_bytes() == wanted
    assert not log.exists()


def remembered(folder):
    quick, log = device(folder, 0)
    log.unlink(missing_ok=True)
    memory = ["--memory", folder / "machine.db"]
    run(*small(folder / "first", quick), *memory)
    first = json.loads((folder / "first/summary.json").read_text())
    asked = log.read_text().split()
    log.unlink()
    run(*small(folder / "second", quick), *memory)
    second = json.loads((folder / "second/summary.json").read_text())
    again = log.read_text().split() if log.exists() else []
    assert not set(asked) & set(again), "measured again what is remembered"
    assert second["winner"]["measured"]["step_s"] <= first["winner"]["measured"]["step_s"]
    assert second["stages"][0]["stage"] == "memory", second["stages"]


def runs(folder):
    out = folder / "runs"
    words = [w for w in small(out, "") if w]
    at = words.index("--budget-measure")
    del words[at:at + 3]
    words += ["--budget-run", "2"]
    for step in range(3):
        done = run(*words, "--resume")
        summary = json.loads((out / "summary.json").read_text())
        refined = next(s for s in summary["stages"] if s["stage"] == "refinement")
        assert summary["refinement"]["measured"] == step, refined
        if step == 2:
            break
        waiting = [p for p in (out / "runs").glob("*.config") if not p.with_suffix(".log").exists()]
        assert len(waiting) == 1 and str(waiting[0]) in done.stderr, done.stderr
        assert "--resume" in refined["what"], refined
        line = " iteration %d/ 9 | elapsed time per iteration (ms): %s | loss\n"
        times = [30000, 12000, 2000 + step, 2100 + step, 1900 + step]
        if step == 0:  # a log that was put there too early, and then as it should be
            waiting[0].with_suffix(".log").write_text("Traceback\n")
            assert "0 of 2 runs" in run(*words, "--resume").stdout
        waiting[0].with_suffix(".log").write_text("".join(line % x for x in enumerate(times)))
    measured = [json.loads(t)["measured"] for t in (out / "trials.jsonl").read_text().splitlines()]
    assert [m["step_s"] for m in measured if m] == [2.0, 2.001], measured


def failures(folder):
    bad = folder / "bad.sh"
    bad.write_text("#!/bin/sh\necho nothing to say\nexit 3\n")
    bad.chmod(0o755)
    done = run(*small(folder / "bad", bad))
    assert "status 3" in done.stdout and "no JSON mapping" in done.stdout, done.stdout
    # What is said and is no figure is not taken for left out.
    for line, words in (('{"step_s": 3, "device_peak_bytes": -5}', 'no figure in "device_peak_bytes"'),
                        ('{"step_s": "fast", "cost_s": -1}', 'no figure in "step_s", "cost_s"'),
                        ('{"step_s": 3, "out_of_memory": true}', "and that memory ran out"),
                        ("", "it printed nothing")):
        bad.write_text(f"#!/bin/sh\necho '{line}'\n")
        done = run(*small(folder / "bad", bad), "--force")
        assert words in done.stdout and "0 of 6 measurements" in done.stdout, done.stdout
    # What failed is asked again by --resume, once the device or the log is mended; what was paid is
    # not.
    device_path, log = device(folder, 0)
    broken = folder / "broken"
    bad.write_text(f'#!/bin/sh\n[ -e {broken} ] && [ $(wc -l < {log}) -ge 2 ] && exit 1\n'
                   f'exec {device_path}\n')
    broken.touch()
    log.write_text("")  # other cases ask the same device
    flaky = small(folder / "flaky", bad)
    assert "2 of 6 measurements" in run(*flaky).stdout
    broken.unlink()
    done = run(*flaky, "--resume")
    assert "came to no figure" not in done.stdout, done.stdout
    asked = log.read_text().split()
    measured = json.loads((folder / "flaky/summary.json").read_text())["refinement"]["measured"]
    assert len(asked) == len(set(asked)) == measured > 2, (asked, measured)
    oom = folder / "oom.sh"
    oom.write_text("#!/bin/sh\necho '{\"out_of_memory\": true}'\n")
    oom.chmod(0o755)
    run(*small(folder / "oom", oom), code=1)
    summary = json.loads((folder / "oom/summary.json").read_text())
    assert summary["winner"] is None, summary["winner"]


def refused(folder):
    """Nothing of the user's is replaced, and what is asked wrongly is said before any work."""
    mine = folder / "mine"
    mine.mkdir()
    (mine / "report.md").write_text("precious")
    for flags in ([], ["--resume"]):
        done = run(*small(mine, "true"), *flags, code=2)
        assert "holds files that are no run's" in done.stderr, done.stderr
        assert (mine / "report.md").read_text() == "precious"
        assert [p.name for p in mine.iterdir()] == ["report.md"]
    done = run(*small(folder / "none", "true"), "--policy", "wizard", code=2)
    assert "unknown policy `wizard`; known: model, scripted" in done.stderr, done.stderr
    junk = folder / "junk.jsonl"
    junk.write_text('{"junk": 1}\n')
    done = run(*small(folder / "none", "true"), "--policy", "model", "--replay", junk, code=3)
    assert "does not begin as a transcript" in done.stderr and not (folder / "none").exists()
    # A target file says what is tuned and on what: the faults of both.
    target = folder / "target.yaml"
    target.write_text("target_cluster: {num_nodes: -4, gpu_arch: mi355x}\n"
                      "optimization: {objective: fame}\n"
                      "available_for_benchmark: {benchmark_gpus: -3}\n")
    done = run("tune", "llama3.1-8b", "--cluster", target, "-o", folder / "none", code=3)
    for words in ("num_nodes", "objective `fame`", "benchmark_gpus` is -3"):
        assert words in done.stderr, done.stderr
    assert not (folder / "none").exists()


def unsaid(folder):
    """A winner that the framework's file cannot say is an answer all the same."""
    out = folder / "unsaid"
    done = run("tune", "mamba2-130m", "--cluster", "h100-sxm-1x8", "--axes", "rest=job mbs=1,2",
               "--seed-budget", "2", "--rounds", "0", "--budget-measure", "0", "-o", out)
    assert "no file of megatron can say the winner: " in done.stdout + done.stderr, done
    assert json.loads((out / "summary.json").read_text())["winner"]["verdict"] == "fits"
    assert (out / "report.html").exists() and (out / "winner.yaml").exists()
    assert not (out / "winner.megatron.yaml").exists()


def measured_without_seeds(folder):
    """Each stage is usable alone: a budget of measurements is spent without seeds too."""
    path, log = device(folder, 0)
    out = folder / "alone"
    words = small(out, path)
    words[words.index("--seed-budget") + 1] = "0"
    words[words.index("--budget-simulate") + 1] = "0"
    words[words.index("--budget-measure") + 1] = "2"
    run(*words)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["refinement"]["measured"] == 2, summary["stages"]
    assert summary["winner"]["measured"]["step_s"] > 0
    assert summary["winner"]["measured"]["device_peak_bytes"] is None  # not stated is not 0
    # Without a device the reason is the budget or the device, not a lack of candidates.
    words[words.index("--measure-command"):words.index("--measure-command") + 2] = ["--force"]
    run(*words)
    stage = json.loads((out / "summary.json").read_text())["stages"][-1]
    assert not stage["on"] and "name a program with --measure-command" in stage["what"], stage
    # What does not fit has no step: 0 seconds would be the fastest of all.
    base = json.loads((out / "summary.json").read_text())["baseline"]
    fits = base["verdict"] == "fits"
    assert (base["projected"]["step_s"] is None) != fits, base


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        example(folder)
        killed(folder)
        remembered(folder)
        runs(folder)
        failures(folder)
        refused(folder)
        unsaid(folder)
        measured_without_seeds(folder)


if __name__ == "__main__":
    sys.exit(main())
