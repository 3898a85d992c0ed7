#!/usr/bin/env python3
"""`eratos project --format json` against docs/schema/project.json, and its sums.

The schema's own list of keys is checked against the agreed one below, so that neither can drift.
"""

import json
import math
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BINARY = os.environ.get("ERATOS_BINARY") or str(ROOT / "build" / "eratos")

# The keys that scripts rely on: no change of eratos may drop or rename one (docs/USING.md).
AGREED = """
schema eratos job
parameters.total parameters.active parameters.per_stage
memory.fits memory.capacity_bytes memory.peak_bytes memory.allocated_peak_bytes
memory.reserved_peak_bytes memory.device_peak_bytes memory.least_peak_bytes memory.peak_stage
memory.stages.stage memory.stages.parameters_bytes memory.stages.gradients_bytes
memory.stages.optimizer_bytes memory.stages.activations_bytes memory.stages.transient_bytes
memory.stages.communication_bytes memory.stages.framework_bytes memory.stages.peak_bytes
memory.stages.in_flight_micro_batches
time.step_s time.compute_s time.bubble_s time.optimizer_s time.launch_s
time.exposed.tp_s time.exposed.cp_s time.exposed.ep_s time.exposed.pp_s time.exposed.dp_s
time.bubble_ratio time.by_module_s
throughput.tokens_per_s_per_gpu throughput.tokens_per_s throughput.samples_per_s
throughput.model_tflops_per_gpu throughput.hardware_tflops_per_gpu throughput.mfu throughput.hfu
confidence.step_s confidence.peak_bytes confidence.basis
provenance.calibration provenance.measured_fraction
warnings.code warnings.message
""".split()

JOBS = [
    ["jobs/dense.yaml", "--cluster", "h100-sxm-2x8"],
    ["jobs/dense.yaml", "--cluster", "h100-sxm-2x8", "--set", "recompute.granularity=full"],
    ["jobs/dense.yaml", "--cluster", "h100-sxm-2x8", "--set", "offload.layers=2"],
    ["jobs/dense.yaml", "--cluster", "h100-sxm-2x8", "--set", "lora.rank=16"],
    ["jobs/dense.yaml", "--cluster", "h100-sxm-2x8", "--measured", "jobs/measured_dense.json",
     "--mode", "both"],
    ["jobs/moe.yaml"],
    ["jobs/moe.yaml", "--set", "parallel.vpp=1", "--cluster", "mi355x-8x8"],
]

KINDS = {"object": dict, "array": list, "string": str, "boolean": bool}


def is_kind(value, kind):
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, KINDS[kind])


def faults_of(value, schema, path):
    """What of `value` the schema refuses; knows the words that project.json uses."""
    if "const" in schema and value != schema["const"]:
        yield f"{path}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if "type" in schema and not is_kind(value, schema["type"]):
        yield f"{path}: {value!r} is no {schema['type']}"
        return
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for key in schema.get("required", []):
            if key not in value:
                yield f"{path}: {key} is missing"
        for key, item in value.items():
            if key in known:
                yield from faults_of(item, known[key], f"{path}.{key}")
            elif isinstance(schema.get("additionalProperties"), dict):
                yield from faults_of(item, schema["additionalProperties"], f"{path}.{key}")
            elif schema.get("additionalProperties") is False:
                yield f"{path}: {key} is not in the schema"
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{path}: {len(value)} items"
        for i, item in enumerate(value):
            yield from faults_of(item, schema.get("items", {}), f"{path}[{i}]")


def lookup(schema, path):
    for key in path.split("."):
        schema = schema.get("items", schema).get("properties", {}).get(key)
        if schema is None:
            return None
    return schema


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


def sums_of(answer):
    """What must hold between the numbers of one answer."""
    t, m = answer["time"], answer["memory"]
    parts = sum(t[k] for k in ("compute_s", "bubble_s", "optimizer_s", "launch_s"))
    parts += sum(t["exposed"].values())
    if not close(parts, t["step_s"]):
        yield f"the parts of the step sum to {parts}, step_s is {t['step_s']}"
    if not close(t["bubble_ratio"], t["bubble_s"] / t["step_s"]):
        yield "bubble_ratio is not bubble_s / step_s"
    if m["peak_bytes"] != m["allocated_peak_bytes"]:
        yield "peak_bytes is not allocated_peak_bytes"
    if not m["allocated_peak_bytes"] <= m["reserved_peak_bytes"] <= m["device_peak_bytes"]:
        yield "allocated, reserved and device peaks are not in this order"
    if not m["allocated_peak_bytes"] <= m["least_peak_bytes"] <= m["device_peak_bytes"]:
        yield "allocated, least and device peaks are not in this order"
    if m["fits"] != (m["least_peak_bytes"] <= m["capacity_bytes"] * (1 - m["margin"])):
        yield "fits does not follow from least_peak_bytes, capacity_bytes and margin"
    if not close(max(s["peak_bytes"] for s in m["stages"]), m["peak_bytes"]):
        yield "no stage has the peak"
    low, high = answer["confidence"]["step_s"]
    if not low <= t["step_s"] <= high:
        yield "step_s is outside of its own band"
    if len(answer["parameters"]["per_stage"]) != len(m["stages"]):
        yield "per_stage and stages differ in length"
    if "hybrid" in answer:
        shares = sum(answer["provenance"][f"{origin}_fraction"]
                     for origin in ("measured", "interpolated", "calibrated", "modelled"))
        if not close(shares, 1):
            yield f"the shares of the step sum to {shares}"
        terms = sum(term["seconds_s"] for term in answer["hybrid"]["restored"])
        if not close(terms, t["step_s"]):
            yield f"what is restored sums to {terms}, step_s is {t['step_s']}"
    batch = answer["job"]["batch"]
    tokens = batch["global"] * batch["sequence"] / t["step_s"]
    if not close(tokens, answer["throughput"]["tokens_per_s"]):
        yield f"{tokens} tokens/s follow from batch and step"


def main():
    schema = json.loads((ROOT / "docs" / "schema" / "project.json").read_text())
    faults = [f"schema: {path} is not there" for path in AGREED if lookup(schema, path) is None]
    for job in JOBS:
        command = [BINARY, "project", *job, "--format", "json"]
        runs = [subprocess.run(command, cwd=HERE, capture_output=True, check=False, timeout=60)
                for _ in range(2)]
        name = " ".join(job)
        if runs[0].returncode != 0:
            faults.append(f"{name}: exit {runs[0].returncode}: {runs[0].stderr.decode()}")
            continue
        if runs[0].stdout != runs[1].stdout:
            faults.append(f"{name}: two runs differ")
        answer = json.loads(runs[0].stdout)
        faults += [f"{name}: {f}" for f in faults_of(answer, schema, "answer")]
        faults += [f"{name}: {f}" for f in sums_of(answer)]
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
