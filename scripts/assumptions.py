#!/usr/bin/env python3
"""Gathers what the project assumes into docs/ASSUMPTIONS.md.

    scripts/assumptions.py             rewrite the generated half of docs/ASSUMPTIONS.md
    scripts/assumptions.py --check     exit 1 and print the difference when it is stale
    scripts/assumptions.py --root DIR  another checkout

The generated half follows the line `<!-- generated below -->`; what stands above it is written by
hand and kept. It holds every `Assumes:` comment of src/ and apps/, and every value of data/ whose
source says that it is assumed, estimated or borrowed, recalled, unverified or without a source.

Line numbers are those of the day the page was generated: --check passes over a number that only
moved, so that an edit above an assumption does not make the page stale.
"""

import argparse
import difflib
import pathlib
import re
import sys

MARK = "<!-- generated below -->"
PAGE = "docs/ASSUMPTIONS.md"

# A comment ends its assumption where another labelled sentence begins.
NEXT_LABEL = re.compile(r"(?:^|(?<=[.;] ))(?:Source|Worked example|Letters|Errors|Limit|Question|"
                        r"Allocation)\b[^.:]{0,30}:")
WEAK = re.compile(r"\b(?:as recalled|no source read|unverified|contradict)", re.I)
ASSUMED = re.compile(r"\b(?:assum\w*|estimat\w*)", re.I)


class Remark:
    def __init__(self, file, line, key, text):
        self.file = file
        self.line = line
        self.key = key
        self.text = text

    def place(self):
        return f"[{self.file}:{self.line}](../{self.file}#L{self.line})"


def comment_blocks(text):
    """Yields (first line, [comment texts]) of each run of // lines that hold nothing else."""
    first, block = 0, []
    for number, line in enumerate(text.splitlines() + [""], 1):
        match = re.match(r"\s*//+ ?(.*)", line)
        if match:
            if not block:
                first = number
            block.append(match.group(1))
        elif block:
            yield first, block
            block = []


def assumes_of_source(file, text):
    for first, block in comment_blocks(text):
        for offset, line in enumerate(block):
            start = line.find("Assumes:")
            if start < 0:
                continue
            words = [line[start + len("Assumes:"):]]
            for after in block[offset + 1:]:
                if not after.strip() or "Assumes:" in after or NEXT_LABEL.match(after):
                    break
                words.append(after)
            sentence = re.sub(r"\s+", " ", " ".join(words)).strip()
            cut = NEXT_LABEL.search(sentence)
            if cut:
                sentence = sentence[:cut.start()].strip()
            yield Remark(file, first + offset, "", sentence)


def clauses(text, pattern):
    """The clauses of a source text that match, joined again."""
    parts = re.split(r"(?<=[.;]) +", text)
    return " ".join(p.rstrip(".;") + "." for p in parts if pattern.search(p)).rstrip(".")


def keyed_lines(text):
    """Yields (line number, key path, value) of every `key: value` of a YAML of this catalogue."""
    stack = []  # (indent, key)
    item = ""   # what a list item is, from its first words
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        indent = len(line) - len(line.lstrip())
        body = line.strip()
        if body.startswith("- "):
            words = re.findall(r"\b(?:name|kind|kernel|algorithm|pass|gpus|head_dim): ([\w.-]+)",
                               body)
            item = " ".join(words)
        match = re.match(r"(?:- )?([A-Za-z_][\w.-]*):(?: (.*))?$", body)
        if match and not body.startswith("- {"):
            while stack and stack[-1][0] >= indent:
                stack.pop()
            key, value = match.group(1), match.group(2) or ""
            path = ".".join([k for _, k in stack] + [key])
            if not value:
                stack.append((indent, key))
            if item and line.startswith("    ") and body.startswith("source:"):
                path = ".".join([k for _, k in stack]) + (f" ({item})" if item else "")
            yield number, path, value.strip().strip('"}').strip('"')
        else:
            path = ".".join(k for _, k in stack)
            value = re.search(r'source: "([^"]*)"', body)
            if value:
                yield number, f"{path} ({item})", value.group(1)
        if not body.startswith("- ") and indent <= 2 and not body.startswith("source"):
            item = ""


def remarks_of_yaml(file, text):
    for number, path, value in keyed_lines(text):
        path = re.sub(r"^sources\.|\.source$|^source$", "", path) or "the whole file"
        if path.endswith("borrowed"):
            if value not in ("", "[]"):
                yield "assumed", Remark(file, number, path, "borrowed from its nearest kin: " + value)
        elif ASSUMED.search(value) and "not assumed" not in value:
            yield "assumed", Remark(file, number, path, clauses(value, ASSUMED))
        elif WEAK.search(value):
            yield "weak", Remark(file, number, path, clauses(value, WEAK))


def remarks_of_csv(file, text):
    rows = [line for line in text.splitlines()[1:] if not line.startswith("#")]
    for kind, pattern in (("assumed", ASSUMED), ("weak", WEAK)):
        hits = [line for line in rows if pattern.search(line)]
        if hits:
            yield kind, Remark(file, 1, "", f"{len(hits)} of {len(rows)} rows say so")


def table(remarks, head):
    lines = [f"| {head} | value | what is said of it |", "|---|---|---|"]
    for r in remarks:
        text = r.text.replace("|", "\\|")
        lines.append(f"| {r.place()} | {r.key} | {text} |")
    return lines


def weak_table(remarks):
    by_file = {}
    for r in remarks:
        by_file.setdefault(r.file, []).append(r)
    lines = ["| file | values |", "|---|---|"]
    for file, mine in sorted(by_file.items()):
        keys = ", ".join(r.key or r.text for r in mine)
        lines.append(f"| [{file}](../{file}) | {keys} |")
    return lines


def generate(root):
    code = []
    for folder in ("src", "apps"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cpp", ".inc"):
                code += assumes_of_source(path.relative_to(root).as_posix(), path.read_text())
    data = {"assumed": [], "weak": []}
    for path in sorted((root / "data").rglob("*")):
        file = path.relative_to(root).as_posix()
        if path.suffix == ".yaml":
            found = remarks_of_yaml(file, path.read_text())
        elif path.suffix == ".csv":
            found = remarks_of_csv(file, path.read_text())
        else:
            continue
        for kind, remark in found:
            data[kind].append(remark)
    lines = [MARK, "", "## Assumptions in the code", "",
             f"Gathered by `scripts/assumptions.py` from {len(code)} `Assumes:` comments.", ""]
    for r in code:
        lines.append(f"- {r.place()}: {r.text}")
    lines += ["", "## Assumed or estimated values in the data", ""]
    lines += table(data["assumed"], "place")
    lines += ["", "## Values whose source was not read again, or that have none", ""]
    lines += weak_table(data["weak"])
    return "\n".join(lines) + "\n", len(code), len(data["assumed"])


def without_lines(text):
    return re.sub(r"#L\d+", "", re.sub(r":\d+\]", "]", text))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    page = root / PAGE
    old = page.read_text()
    if MARK not in old:
        sys.exit(f"{PAGE}: the line `{MARK}` is missing")
    head = old[:old.index(MARK)]
    body, code, assumed = generate(root)
    new = head + body
    if arguments.check:
        if without_lines(new) != without_lines(old):
            sys.stdout.writelines(difflib.unified_diff(
                old.splitlines(True), new.splitlines(True), PAGE, "as the sources say now"))
            sys.exit(f"{PAGE} is stale: run scripts/assumptions.py and commit the page")
    else:
        page.write_text(new)
    print(f"assumptions: {code} in the code, {assumed} in the data")


if __name__ == "__main__":
    main()
