"""The counting behind data/residuals.csv, on figures worked by hand."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(os.environ["ERATOS_SOURCE_DIR"]) / "scripts"))
import residuals  # noqa: E402


def row(name, error, framework="megatron", busy=0.5, source="s", model="m", gpus=8):
    return {"id": name, "family": "f", "gpu": "g", "error": {"memory": error},
            "like": {"source": source, "model": model, "framework": framework,
                     "architecture": "sm90", "experts": False, "busy": busy, "gpus": gpus,
                     "parameters": 1e9}}


def errors(rows):
    return residuals.errors_of({"file": {"rows": rows}}, "memory")


# Nine runs: 0.9 * (9 + 1) = 9, so the band is from the least to the largest.
nine = [i / 100 for i in range(9)]
assert residuals.quantile(nine, [1] * 9, 0.9) == 0.08
assert residuals.quantile(nine, [1] * 9, 0.1) == 0
# Nineteen: rank 18 of 19, and the second.
nineteen = [i / 100 for i in range(19)]
assert residuals.quantile(nineteen, [1] * 19, 0.9) == 0.17
assert residuals.quantile(nineteen, [1] * 19, 0.1) == 0.01
# Two sources that count alike: thirty runs of one do not drown the two of the other.
values, weights = [0.0] * 30 + [1.0, 1.0], [1 / 30] * 30 + [1 / 2] * 2
assert residuals.quantile(values, weights, 0.9) == 1.0
assert residuals.quantile(values, [1] * 32, 0.9) == 0.0

# A run of two files counts once, a suspect time not at all.
twice = row("a", 0.1)
assert len(errors([twice, twice])) == 1
both = {**row("b", 0.1), "error": {"throughput": 0.1, "memory": 0.1}, "suspect": "stalls"}
assert residuals.errors_of({"file": {"rows": [both]}}, "throughput") == []
assert len(errors([both])) == 1

# 1.1 as shipped; a fit without the group errs 1.2 where one with it errs 1.05.
left = {**row("l", 0.1), "left_out": {"all": {"memory": 0.05}, "group": {"memory": 0.2}}}
judged = errors([left])[0]
assert abs(judged.unseen() - (1.1 * 1.2 / 1.05 - 1)) < 1e-12 and judged.lost["source"] == 1
low, high = residuals.band([judged], False)
assert abs(low - (1.1 / (1.2 / 1.05) - 1)) < 1e-12 and abs(high - judged.unseen()) < 1e-12
low, high = residuals.band([judged], True)
assert abs(low - 0.1) < 1e-12 and abs(high - 0.1) < 1e-12
# A throughput a quarter too high is a step a fifth too short.
fast = {**row("fast", 0.25), "error": {"throughput": 0.25}}
step = residuals.errors_of({"file": {"rows": [fast]}}, "throughput")[0]
assert abs(step.shipped - (1 / 1.25 - 1)) < 1e-12

# Fewer than twelve runs make no class of their own, but all runs together always do.
classes = residuals.classes_of(errors([row(f"r{i}", 0.01 * i) for i in range(11)]), "step")
assert classes == [], classes
classes = residuals.classes_of(errors([row(f"r{i}", 0.01 * i) for i in range(12)]), "step")
assert [c.get("framework", "") for c in classes] == ["megatron", "megatron", "", "", ""], classes
assert round(classes[0]["low"], 9) == 0.0 and round(classes[0]["high"], 9) == 0.11
assert classes[0]["gpus_from"] == 4 and classes[0]["gpus_to"] == 16
assert classes[-1]["gpus_from"] == ""

# Cut by the share of computing where both parts have thirty runs.
many = [row(f"i{i}", 0.3, busy=0.1) for i in range(30)] + \
       [row(f"b{i}", 0.1, busy=0.9) for i in range(30)]
classes = residuals.classes_of(errors(many), "step")
assert [(c["busy_from"], c["busy_to"], round(c["high"], 9)) for c in classes[:3]] == \
    [(0, 0.2, 0.3), (0.2, 1, 0.1), (0, 1, 0.3)], classes[:3]

# A group that errs in its own way is not inside a band counted out without it.
odd = [row(f"o{i}", 0.01 * i, model=f"m{i % 4}") for i in range(40)] + \
      [row("far", 5.0, model="other")]
runs, share = residuals.coverage_left_out(errors(odd), "step")["f"]
assert runs == 41 and share < 40 / 41, (runs, share)

# The file that ships has a class for every job, last.
shipped = pathlib.Path(os.environ["ERATOS_SOURCE_DIR"], "data/residuals.csv").read_text()
lines = [line.split(",") for line in shipped.splitlines()[1:]]
for quantity in ("step", "peak"):
    last = [line for line in lines if line[0] == quantity][-1]
    assert last[1:4] == ["", "", ""] and last[6:10] == ["", "", "", ""], last
