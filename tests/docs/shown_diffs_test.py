"""A diff that a page shows is still what its file says.

A block fenced as ```diff holds `+++ path` lines (paths of the checkout) and below each the lines
that were added, after `+`, and lines that were there already, after a space. They stand in the file
as they are shown, in this order and one after the other; a line `...` alone stands for any lines
left out.
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pages import ROOT, blocks, pages  # noqa: E402


def pieces(block):
    """(place, path, lines) of each run of lines that nothing was left out of."""
    path, run, start = None, [], 0
    for number, line in enumerate(block.lines + ["..."]):
        if line == "..." or line.startswith("+++ "):
            if run:
                yield block.place(start), path, run
            run = []
            if line.startswith("+++ "):
                path = line[4:]
        elif path is not None and (line == "" or line[0] in "+ "):
            if not run:
                start = number
            run.append(line[1:])
        else:
            raise AssertionError(f"{block.place(number)}: neither a path, an addition nor context")


def find(lines, run, after):
    for at in range(after, len(lines) - len(run) + 1):
        if lines[at:at + len(run)] == run:
            return at
    return -1


class ShownDiffsTest(unittest.TestCase):
    def test_each_piece_stands_in_its_file(self):
        checked = 0
        for page in pages():
            for block in blocks(page, "diff"):
                current, at = None, 0
                for place, path, run in pieces(block):
                    if path != current:
                        current, at = path, 0
                    lines = (ROOT / path).read_text().splitlines()
                    found = find(lines, run, at)
                    self.assertGreaterEqual(found, 0, f"{place}: not in {path} any more")
                    at = found + len(run)
                    checked += 1
        self.assertGreater(checked, 3)


if __name__ == "__main__":
    unittest.main()
