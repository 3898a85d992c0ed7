"""The table of rooms in docs/ARCHITECTURE.md is the one that the build obeys (cmake/rooms.txt)."""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pages import ROOT  # noqa: E402

sys.path.insert(0, str(ROOT / "scripts"))
import check_layers  # noqa: E402


def rows(text):
    """(level, rooms, what the last column says) of each row whose first cell is a level."""
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) == 4 and cells[0].isdigit():
            yield int(cells[0]), re.findall(r"`(\w+)`", cells[1]), cells[3]


class RoomsTableTest(unittest.TestCase):
    def test_same_rooms_levels_and_arrows(self):
        rooms = check_layers.read_rooms(ROOT / "cmake" / "rooms.txt")
        page = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
        told = {}
        for level, names, arrows in rows(page):
            for name in names:
                told[name] = (level, arrows)
        outside = {"apps", "python", "web", "tests", "bench"}
        self.assertEqual(set(told) - outside, set(rooms))
        for name, room in rooms.items():
            level, arrows = told[name]
            with self.subTest(name):
                self.assertEqual(level, room.level)
                listed = set(re.findall(r"`(\w+)`", arrows))
                below = re.search(r"everything below level (\d+)", arrows)
                if below:
                    listed |= {r.name for r in rooms.values() if r.level < int(below.group(1))}
                if name == "text":
                    listed.discard("text")
                self.assertEqual(listed, set(room.allowed))


if __name__ == "__main__":
    unittest.main()
