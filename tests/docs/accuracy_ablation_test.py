#!/usr/bin/env python3
"""Which errors stand in which cell of docs/accuracy_ablation.md, on answers made up here."""

import csv
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(os.environ["ERATOS_SOURCE_DIR"]) / "scripts"))
import accuracy_ablation  # noqa: E402
import accuracy_left_out  # noqa: E402


def row(id_, error, **left_out):
    return {"id": id_, "file": "runs.csv", "family": "simumax", "error": {"throughput": error},
            "left_out": {"source": {"throughput": error}, **left_out}}


ANSWERS = {"runs": {"rows": [
    row("a", 0.2, known={"host": 0.2, "part": -0.01}, own_draws=[0.1, 0.3],
        few={"any": {"1": [0.05, 0.07]}}),
    row("b", 0.1, known={"host": 0.1, "part": 0.03}, own_draws=[0.2],
        few={"any": {"1": [-0.09]}}),
]}}

with tempfile.TemporaryDirectory() as folder:
    runs = pathlib.Path(folder)
    with open(runs / "runs.csv", "w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, ["id", "model", "mfu", "step_time_s", "suspect"])
        out.writeheader()
        for id_, step in (("a", 1.0), ("b", 1.1)):
            out.writerow({"id": id_, "model": "m", "step_time_s": step})
    known = accuracy_ablation.known(ANSWERS, runs)
    # Medians of |0.2|, |0.1| and of |-0.01|, |0.03|; nothing is said of kernels.
    assert "| SimuMax (B200) | 15.0 / 19.0% | 15.0 / 19.0% | - | 2.0 / 2.8% | - | - |" in known, known
    few = accuracy_ablation.few(ANSWERS, runs)
    assert "| every constant | 7.0 / 8.6% | - | - |" in few, few
    # Run b is in one of the two draws' tenths, so only run a has both.
    draws = accuracy_ablation.draws(ANSWERS, runs)
    assert "| SimuMax (B200) | 1 | 10.0 / 10.0% | 30.0 / 30.0% |" in draws, draws
    repeats = accuracy_ablation.repeats(ANSWERS, runs)
    assert "| SimuMax (B200) | 1 | 10.0 / 10.0% | 10.0% |" in repeats, repeats
    # All draws together: 0.1, 0.3, 0.2.
    assert "| 20.0 / 28.0% | 2.0 / 5.0% | missed |" in accuracy_left_out.table(ANSWERS, runs)
