#!/usr/bin/env python3
"""import, export and import again give the same job, for every configuration of tests/data whose
framework can be written, and for random jobs of the command line."""

import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("ERATOS_SOURCE_DIR",
                                   pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("ERATOS_BINARY") or str(ROOT / "build" / "eratos")
DATA = ROOT / "tests" / "data"
ENVIRONMENT = {"TP": 1, "PP": 4, "EP": 8, "CP": 1, "MBS": 1, "GBS": 256, "VPP": 1,
               "SEQ_LEN": 4096, "LAYERS_PER_VP": 1, "MOE_GROUPED_GEMM": "true",
               "MOE_TOKEN_DISPATCHER": "alltoall"}
SET = [word for key, value in ENVIRONMENT.items() for word in ("--env", f"{key}={value}")]
TARGETS = {"primus-megatron": "primus", "megatron": "megatron", "nanotron": "nanotron",
           "torchtitan": "torchtitan", "torchtitan-eager": "torchtitan"}


def run(*arguments):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60)


def imported(path, *arguments):
    done = run("import", str(path), *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["job"]


def profile_of(job):
    framework = job["framework"]
    return (framework if isinstance(framework, str) else framework["profile"]).split("@")[0]


def said(job):
    """The job without what files say by their names or elsewhere."""
    job = {key: value for key, value in job.items() if key not in ("name", "cluster")}
    if isinstance(job["model"], dict):
        job["model"] = {k: v for k, v in job["model"].items()
                        if k not in ("name", "source", "parameters")}
    return job


class ExportTest(unittest.TestCase):
    def comes_back(self, path, *arguments):
        first = imported(path, *arguments)
        target = TARGETS[profile_of(first)]
        ending = "toml" if target == "torchtitan" else "yaml"
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, f"again.{ending}")
            done = run("export", str(path), *arguments, "--to", target, "-o", file)
            self.assertEqual(done.returncode, 0, done.stderr)
            named = [line for line in done.stderr.splitlines() if "`cluster:" not in line]
            self.assertEqual(named, [])
            self.assertEqual(said(imported(file)), said(first))

    def test_every_file_whose_framework_can_be_written(self):
        files = sorted(p for p in DATA.rglob("*")
                       if p.suffix in (".yaml", ".sh", ".log", ".toml") and "configs/models" not in str(p)
                       and "configs/modules" not in str(p))
        count = 0
        for path in files:
            done = run("import", str(path), *SET, "--format", "json")
            if done.returncode != 0:
                continue  # no job, or one that is refused: tests/reader/cases_test.cpp
            job = json.loads(done.stdout)["job"]
            if profile_of(job) not in TARGETS:
                continue
            count += 1
            with self.subTest(str(path.relative_to(DATA))):
                self.comes_back(path, *SET)
        self.assertGreater(count, 12)

    def test_random_jobs(self):
        rng = random.Random(11)
        for _ in range(20):
            model = rng.choice(["llama3.1-8b", "mixtral-8x7b", "deepseek-v2-lite"])
            sets = ["model.name=random", f"framework={rng.choice(['megatron', 'primus-megatron'])}",
                    f"parallel.tp={rng.choice([1, 2, 4])}", f"parallel.pp={rng.choice([1, 2])}",
                    f"batch.micro={rng.choice([1, 2])}", "batch.global=256",
                    f"precision.recipe={rng.choice(['bf16', 'mxfp8', 'fp8-delayed'])}",
                    f"recompute.granularity={rng.choice(['none', 'full'])}",
                    f"overlap.p2p={rng.choice(['true', 'false'])}"]
            with self.subTest(" ".join([model, *sets])):
                self.comes_back(model, *[word for s in sets for word in ("--set", s)])


if __name__ == "__main__":
    unittest.main()
