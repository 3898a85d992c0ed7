"""The errors that README shows are those of docs/ACCURACY.md."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pages import ROOT  # noqa: E402


def rows(text):
    """The cells of every row of every table, by section, heads left out."""
    section, before = "", None
    for line in text.splitlines():
        if line.startswith("#"):
            section = line.strip("# ").lower()
        cells = [c.strip() for c in line.strip().strip("|").split("|")] if line.startswith("|") else None
        if cells and before and not set("".join(cells)) <= set("-:"):
            yield section, cells
        before = cells


class AccuracyFiguresTest(unittest.TestCase):
    def test_each_row_stands_in_the_generated_page(self):
        page = [cells[:4] for _, cells in rows((ROOT / "docs" / "ACCURACY.md").read_text())]
        shown = [cells for section, cells in rows((ROOT / "README.md").read_text())
                 if section == "how far to trust it"]
        self.assertGreater(len(shown), 3)
        for cells in shown:
            with self.subTest(cells[0]):
                label = cells[0].removesuffix(", throughput").removesuffix(", memory")
                self.assertTrue(any(row[1:] == cells[1:4] and row[0] in (cells[0], label)
                                    for row in page), f"README shows {cells}")


if __name__ == "__main__":
    unittest.main()
