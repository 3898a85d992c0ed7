#!/usr/bin/env python3
"""Lists the constants of data/ that were fitted to measured training steps, and counts them.

    parameters.py [--list]

A constant counts where its section's `source` says "this project's fit" (data/frameworks) or where
it is a part's `in_training` factor (data/calibrations). Isolated kernels and collectives have
curves of their own, fitted to measurements of single kernels; they are counted apart.
"""

import argparse
import collections
import pathlib
import re

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
SECTION = re.compile(r"^([a-z_]+):\n((?:  .*\n?)+)", re.M)
NUMBER = re.compile(r"^  ([a-z_0-9]+): ([-+0-9.eE]+)$", re.M)
FIT = ("this project's fit", "the same fit", "this project's fits")


def framework_constants():
    for path in sorted((DATA / "frameworks").glob("*.yaml")):
        for section, body in SECTION.findall(path.read_text()):
            source = re.search(r'^  source: "(.*)"$', body, re.M)
            if source is None or not any(word in source[1] for word in FIT):
                continue
            for key, value in NUMBER.findall(body):
                # 0 and 1 are the absence of an effect, 6 is the default of the exponent, and
                # contention is a paper's.
                neutral = float(value) in (0, 1) or (key == "overlap_exponent" and value == "6")
                if neutral or key == "contention":
                    continue
                if section in ("host", "kernel", "overlap") or "traffic" in key:
                    yield path.stem, section, key, value


def in_training():
    for path in sorted((DATA / "calibrations").glob("*.yaml")):
        dtype = ""
        for line in path.read_text().splitlines():
            if match := re.match(r"^  ([a-z0-9]+):$", line):
                dtype = match[1]
            if match := re.match(r"^    in_training: ([0-9.]+)$", line):
                yield path.stem, dtype, match[1]


def curves():
    count = 0
    for path in (DATA / "calibrations").glob("*.yaml"):
        count += len(re.findall(r"rate_tflops:|busbw_gb_per_s:|peak_fraction:", path.read_text()))
    return count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    frameworks = list(framework_constants())
    parts = list(in_training())
    if arguments.list:
        for name, section, key, value in frameworks:
            print(f"{name:22} {section}.{key} = {value}")
        for name, dtype, value in parts:
            print(f"{name:22} gemm.{dtype}.in_training = {value}")
    by_profile = collections.Counter(name for name, *_ in frameworks)
    print(f"frameworks: {len(frameworks)} fitted constants in {len(by_profile)} profiles, "
          f"at most {max(by_profile.values())} in one")
    print(f"parts: {len(parts)} in-training factors of {len({p for p, *_ in parts})} parts")
    print(f"single kernels and collectives: {curves()} curves, fitted apart")


if __name__ == "__main__":
    main()
