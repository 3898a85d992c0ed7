#!/usr/bin/env python3
"""bench/gpu/run.sh on a processor, tiny; its plans; what the component is built from."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from device import PROGRAM, environment, expect, need_program, pieces, read

HERE = pathlib.Path(__file__).resolve()
ROOT = pathlib.Path(os.environ.get("ERATOS_SOURCE_DIR", HERE.parents[2]))
SCRIPT = ROOT / "bench/gpu/run.sh"


def script(*words):
    return subprocess.run([str(SCRIPT), *map(str, words)], env=environment(), capture_output=True,
                          text=True, timeout=120, check=False)


def test_tiny(folder):
    output = f"{folder}/cpu.json"
    done = script("--device", "cpu", "--tiny", "--device-program", PROGRAM, "--budget", "4s",
                  "--threads", "1", "--cache", "0", "-o", output)
    expect(done.returncode == 0 and done.stdout.strip() == output, (done.returncode, done.stderr))
    found = pieces(output)
    for part, of in (("layer", "/f1408/"), ("layer", "/e8/"), ("head", ""), ("embedding", "")):
        for way in ("forward", "backward"):
            expect(any(i.startswith(f"block/{part}/{way}/") and of in i for i in found),
                   (part, of, way, sorted(found)))
    expect(all(p["checked"] < 1e-3 for p in found.values() if p["checked"] is not None), found)
    expect(read(output)["job"]["name"] == "bench-gpu-tiny", read(output)["job"])


def test_refusals(folder):
    done = script("--device-program", PROGRAM, "-o", f"{folder}/gpu.json")
    expect(done.returncode == 4 and "--device cpu" in done.stderr, (done.returncode, done.stderr))
    expect(script("--colour").returncode == 2 and script("-o").returncode == 2, "usage")


def test_plans():
    """The Llama and the Mixtral-like layer are there whole, both ways, at tp 1, 2, 4, 8."""
    for model in ("llama3.1-8b-tp{}", "mixtral-8x7b-tp{}-ep8"):
        for tp in (1, 2, 4, 8):
            text = (ROOT / "bench/gpu/plans" / (model.format(tp) + ".plan")).read_text()
            for way in ("forward", "backward"):
                at = text.find(f"id=block/layer/{way}/")
                expect(at > 0, (model, tp))
                line = text[at:text.find("\n", at)].split(" ")
                expect(f"tp={tp}" in line and "dtype=bf16" in line, line)
                expect(f"heads={32 // tp}" in line, line)


def test_configures_alone(folder):
    """The component needs nothing of the rest of the checkout."""
    shutil.copytree(ROOT / "measure", f"{folder}/measure")
    done = subprocess.run(["cmake", "-G", "Ninja", "-S", f"{folder}/measure", "-B", f"{folder}/build"],
                          capture_output=True, text=True, timeout=60, check=False)
    expect(done.returncode == 0, done.stderr)


if __name__ == "__main__":
    need_program()
    with tempfile.TemporaryDirectory() as folder:
        test_tiny(folder)
        test_refusals(folder)
        test_plans()
        test_configures_alone(folder)
