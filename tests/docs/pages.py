"""The project's own Markdown pages and their fenced blocks, for the tests of this folder."""

import os
import pathlib
import re

ROOT = pathlib.Path(os.environ.get("ERATOS_SOURCE_DIR",
                                   pathlib.Path(__file__).resolve().parents[2]))


def pages():
    """README and its like, docs/, and the pages beside code, data and our own examples; the other
    folders of examples/ belong to other projects."""
    found = sorted(ROOT.glob("*.md"))
    for folder in ("docs", "src", "data", "bench", "tests", "examples/hardware"):
        found += sorted((ROOT / folder).rglob("*.md"))
    return found


class Block:
    """A fenced block: its language, its lines, and the index of its first line in the page."""

    def __init__(self, page, language, first, lines):
        self.page = page
        self.language = language
        self.first = first
        self.lines = lines

    def place(self, line=0):
        return f"{self.page.relative_to(ROOT)}:{self.first + line + 1}"


def blocks(page, language):
    inside = None
    for number, line in enumerate(page.read_text().splitlines()):
        fence = re.match(r"```(\w*)\s*$", line)
        if inside is None:
            if fence:
                inside = Block(page, fence.group(1), number + 1, [])
        elif line.strip() == "```":
            if inside.language == language:
                yield inside
            inside = None
        else:
            inside.lines.append(line)
