#!/usr/bin/env python3
"""data/priors.csv against the table of what a fit may move (`eratos list parameters`)."""

import csv
import fnmatch
import json
import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("ERATOS_BINARY") or str(ROOT / "build" / "eratos")


def parameters():
    done = subprocess.run([BINARY, "list", "parameters", "--format", "json"], capture_output=True,
                          check=True)
    return {p["path"]: p for p in json.loads(done.stdout)["parameters"]}


def priors():
    with open(ROOT / "data" / "priors.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class PriorsTest(unittest.TestCase):
    def test_every_line_is_of_a_parameter_within_its_bounds_and_has_a_source(self):
        known = parameters()
        for row in priors():
            with self.subTest(row=row):
                self.assertIn(row["path"], known)
                value = float(row["prior"])
                self.assertGreaterEqual(value, known[row["path"]]["least"])
                self.assertLessEqual(value, known[row["path"]]["most"])
                self.assertGreater(float(row["spread"]), 0)
                self.assertGreater(float(row["class_spread"]), 0)
                self.assertTrue(row["class"] and row["source"])

    def test_every_parameter_that_a_step_informs_has_a_class_for_everyone(self):
        """network.share is measured on collectives: no fit of the catalogue moves it."""
        general = {row["path"] for row in priors() if row["pattern"] == "*"}
        self.assertEqual(set(parameters()) - {"network.share"}, general)

    def test_no_line_is_hidden_by_one_before_it(self):
        before = []
        for row in priors():
            hidden = [r for r in before if r["path"] == row["path"]
                      and fnmatch.fnmatchcase(row["pattern"].replace("*", ""), r["pattern"])
                      and r["pattern"] == "*"]
            self.assertFalse(hidden, f"{row} can never be reached: {hidden}")
            before.append(row)


if __name__ == "__main__":
    unittest.main()
