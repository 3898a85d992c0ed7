#!/usr/bin/env python3
"""Puts curves that `eratos calibrate POINTS.csv -o FIT.yaml` fitted into data/calibrations.

    merge_points.py FIT.yaml [--only PART[:SECTION[:WORD]] ...]

A curve replaces the one it stands for (a format's products, a kernel's pass, mask and head dim, a
collective's algorithm and group size) and comes last where there is none. What a source says of
`in_training` and of grouped products is kept: the fit does not touch the first. A part whose table of
attention is its kin's gets one that adds to it.
"""

import argparse
import pathlib
import re

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "calibrations"
SECTIONS = ("gemm", "gemm_libraries", "casts", "attention_curves", "collectives")


def read_fit(path):
    """{part: {section: [entry]}}, an entry a list of lines as in data/calibrations."""
    parts, part, section = {}, None, None
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        if match := re.match(r"^([\w.-]+):$", line):
            part = parts.setdefault(match[1], {})
        elif match := re.match(r"^  (\w+):$", line):
            section = part.setdefault(match[1], [])
        elif re.match(r"^    (- |\w+:$)", line):
            section.append([line[2:]])
        else:
            section[-1].append(line[2:])
    return parts


def key_of(entry):
    """What an entry stands for: its words without its numbers."""
    text = " ".join(entry)
    words = [re.search(rf"\b{name}: ([\w-]+)", text) for name in
             ("library", "kernel", "pass", "causal", "head_dim", "dtype", "kind", "algorithm", "gpus")]
    return tuple(match[1] if match else "" for match in words)


def source_of(entry):
    match = re.search(r'source: "(.*)"\}?$', entry[-1])
    return match[1] if match else ""


def blocks(lines, indent):
    """Entries of a section: each starts at `indent` with `- ` or a key of its own."""
    out = []
    for line in lines:
        if re.match(rf"^ {{{indent}}}(- |\w+:$)", line):
            out.append([line])
        elif out:
            out[-1].append(line)
    return out


def section_span(lines, head, indent=0):
    start = next((i for i, line in enumerate(lines) if line == " " * indent + head + ":"), None)
    if start is None:
        return None
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" " * (indent + 1))):
        end += 1
    return start, end


def place_before(lines, sections):
    """Where one of the sections begins, or the end."""
    return next((i for i, line in enumerate(lines) if re.match(rf"^({sections}):", line)), len(lines))


def merge_gemm(lines, entries):
    span = section_span(lines, "gemm")
    own = blocks(lines[span[0] + 1:span[1]], 2) if span else []
    for entry in entries:
        at = next((i for i, old in enumerate(own) if old[0] == entry[0]), None)
        entry = list(entry)
        if at is None:
            own.append(entry)
            continue
        kept = re.search(r"(in_training.*|in-training.*)$", source_of(own[at]))
        if kept:
            entry[-1] = entry[-1][:-1] + "; " + kept[1] + '"'
        own[at] = entry
    text = ["gemm:"] + [line for block in own for line in block]
    if span:
        return lines[:span[0]] + text + lines[span[1]:]
    at = next(i for i, line in enumerate(lines) if line.startswith("source:")) + 1
    return lines[:at] + text + lines[at:]


def merge_list(lines, head, entries, before, indent=0):
    span = section_span(lines, head, indent)
    own = blocks(lines[span[0] + 1:span[1]], indent + 2) if span else []
    for entry in entries:
        entry = [" " * indent + line for line in entry]
        at = next((i for i, old in enumerate(own) if key_of(old) == key_of(entry)), None)
        if at is None:
            own.append(entry)
        else:
            own[at] = entry
    text = [" " * indent + head + ":"] + [line for block in own for line in block]
    if span:
        return lines[:span[0]] + text + lines[span[1]:]
    at = place_before(lines, before)
    return lines[:at] + text + lines[at:]


def merge_attention(lines, entries, source):
    if section_span(lines, "attention") is None:
        at = place_before(lines, "elementwise|collectives|network")
        lines = lines[:at] + ["attention:", "  adds_to_kin: true", "  default_kernel: cudnn",
                              f'  source: "{source}"', "  curves:"] + lines[at:]
    start, end = section_span(lines, "attention")
    return lines[:start] + merge_list(lines[start:end], "curves", entries, "none", 2) + lines[end:]


def wanted(only, part, section, entry):
    if not only:
        return True
    text = " ".join(entry)
    for rule in only:
        words = rule.split(":")
        if words[0] in ("*", part) and (len(words) < 2 or words[1] == section) and (
                len(words) < 3 or words[2] in text):
            return True
    return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fit", type=pathlib.Path)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    for part, sections in read_fit(arguments.fit).items():
        path = DATA / f"{part}.yaml"
        if not path.exists():
            continue
        lines = path.read_text().splitlines()
        chosen = {s: [e for e in sections.get(s, []) if wanted(arguments.only, part, s, e)]
                  for s in SECTIONS}
        rest = "attention|elementwise|collectives|network"
        if chosen["gemm"]:
            lines = merge_gemm(lines, chosen["gemm"])
        if chosen["gemm_libraries"]:
            lines = merge_list(lines, "gemm_libraries", chosen["gemm_libraries"], rest)
        if chosen["casts"]:
            lines = merge_list(lines, "casts", chosen["casts"], rest)
        if chosen["attention_curves"]:
            lines = merge_attention(lines, chosen["attention_curves"],
                                    "each curve names its rows; other kernels are the kin's")
        if chosen["collectives"]:
            lines = merge_list(lines, "collectives", chosen["collectives"], "network")
        path.write_text("\n".join(lines) + "\n")
        print(f"{path.name}: " + ", ".join(f"{len(v)} {k}" for k, v in chosen.items() if v))


if __name__ == "__main__":
    main()
