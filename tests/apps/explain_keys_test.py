#!/usr/bin/env python3
"""Every number of `eratos project --format json` has a tree, and the tree's value is that number."""

import json
import os
import pathlib
import subprocess
import unittest

JOBS = pathlib.Path(__file__).resolve().parent / "jobs"
BINARY = os.environ["ERATOS_BINARY"]
# What is said of the answer, not answered.
ABOUT = ("schema", "eratos", "job", "provenance", "warnings")
UNITS = {"GiB": 1024.0**3, "s": 1.0, "ms": 1e-3, "us": 1e-6, "TFLOP/s": 1.0}


def run(*words):
    return subprocess.run([BINARY, *words], capture_output=True, text=True, check=False, timeout=60)


def numbers(path, value):
    if isinstance(value, dict):
        for key, each in value.items():
            yield from numbers(f"{path}.{key}" if path else key, each)
    elif isinstance(value, list):
        for i, each in enumerate(value):
            yield from numbers(f"{path}[{i}]", each)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


class ExplainKeys(unittest.TestCase):
    def check_job(self, *job):
        answer = json.loads(run("project", *job, "--format", "json").stdout)
        seen = 0
        for key, value in numbers("", {k: v for k, v in answer.items() if k not in ABOUT}):
            with self.subTest(key=key):
                done = run("explain", job[0], key, *job[1:], "--format", "json")
                self.assertEqual(done.returncode, 0, done.stderr)
                words = json.loads(done.stdout)["explanation"]["value"].split()
                unit = UNITS.get(words[1], 1.0) if len(words) > 1 else 1.0
                self.assertAlmostEqual(float(words[0]) * unit, value,
                                       delta=1e-3 * abs(value) + 6e-4 * (unit if unit > 1e6 else 1))
                seen += 1
        self.assertGreater(seen, 50)

    def test_dense(self):
        self.check_job(str(JOBS / "dense.yaml"), "--cluster", "h100-sxm-2x8")

    def test_experts(self):
        self.check_job(str(JOBS / "moe.yaml"))

    def test_unknown_keys_name_the_nearest(self):
        job = (str(JOBS / "dense.yaml"), "--cluster", "h100-sxm-2x8")
        done = run("explain", job[0], "time.stepp", *job[1:])
        self.assertEqual(done.returncode, 3)
        self.assertIn("did you mean `time.step`?", done.stderr)
        done = run("explain", job[0], "memory.stages[7].device_bytes", *job[1:])
        self.assertEqual(done.returncode, 3)
        self.assertIn("is no stage of 0..", done.stderr)


if __name__ == "__main__":
    unittest.main()
