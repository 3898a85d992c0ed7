"""The pictures of docs/ACCURACY.md, and the rules by which `accuracy.py --check` compares two pages. The
comparison itself needs the measured runs, which are not in the checkout: `./dev test` makes it where
ERATOS_RUNS names their folder.
"""

import pathlib
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pages import ROOT  # noqa: E402

sys.path.insert(0, str(ROOT / "scripts"))
import accuracy_check  # noqa: E402
import accuracy_plot  # noqa: E402

PAGE = """# Accuracy

## Throughput by family

| family | runs | median abs error | 90th percentile | mean error | within 10% |
|---|--:|--:|--:|--:|--:|
| file: toys | 1,200 | {median}% | {p90}% | +0.7% | 94.4% |
| file: others | {runs} | 5.0% | 9.0% | +0.0% | 60.0% |

## Ranking

| layouts of one job | groups | runs | regret, median group | regret, 90% of groups |
|---|--:|--:|--:|--:|
| file: toys | 3 | 20 | 1.0% | {regret}% |

## Picks

| 3 groups, 60 layouts, 9 out of memory | figure | bar | |
|---|--:|--:|--:|
| picks that ran out of memory | {picks}% | 0.0% | met |

### Picks, group by group

| group | measured | out of memory | measured, said not to fit | regret | pick ran out |
|---|--:|--:|--:|--:|--:|
| toys: toy on 8 | 20 | 9 | 0 | 1.0% | no |
"""


def page(median=4.0, p90=12.0, runs=7, regret=5.0, picks=0.0):
    return PAGE.format(median=median, p90=p90, runs=runs, regret=regret, picks=picks)


def sentences(before, after):
    return [sentence for _, _, sentence in accuracy_check.worse(before, after)]


class Check(unittest.TestCase):
    def test_tables_are_read(self):
        tables = accuracy_check.tables(page())
        self.assertEqual(tables["Throughput by family"]["file: toys"]["90th percentile"], "12.0%")
        self.assertEqual(tables["Ranking"]["file: toys"]["groups"], "3")

    def test_as_good_or_better_passes(self):
        self.assertEqual(sentences(page(), page()), [])
        self.assertEqual(sentences(page(), page(median=3.0, p90=2.0, runs=9, regret=0.0)), [])

    def test_within_the_tolerance_passes(self):
        self.assertEqual(sentences(page(), page(median=4.2, p90=12.5, regret=6.0)), [])

    def test_worse_fails_and_says_what(self):
        self.assertEqual(sentences(page(), page(median=4.3)),
                         ["Throughput by family, file: toys: median abs error 4.0% -> 4.3%, more "
                          "than 0.2 points worse"])
        self.assertEqual(sentences(page(), page(p90=12.6)),
                         ["Throughput by family, file: toys: 90th percentile 12.0% -> 12.6%, more "
                          "than 0.5 points worse"])
        self.assertEqual(len(sentences(page(), page(regret=6.1))), 1)
        self.assertEqual(sentences(page(), page(picks=33.3)),
                         ["Picks, picks that ran out of memory: figure 0.0% -> 33.3%, more than 0.5 "
                          "points worse"])

    def test_fewer_runs_fail(self):
        self.assertEqual(sentences(page(), page(runs=6)),
                         ["Throughput by family, file: others: runs 7 -> 6, fewer"])

    def test_a_family_that_is_gone_fails_once(self):
        gone = "\n".join(line for line in page().splitlines() if "others" not in line)
        self.assertEqual(sentences(page(), gone),
                         ["Throughput by family, file: others: no longer there"])

    def test_the_worst_rows_are_named(self):
        row = {"family": "toys", "error": {"throughput": 0.1}}
        rows = [{**row, "id": "a"}, {**row, "id": "b", "error": {"throughput": -0.3}},
                {**row, "id": "c", "family": "others", "error": {"throughput": 2.0}},
                {**row, "id": "d", "suspect": "stall", "error": {"throughput": 3.0}},
                {**row, "id": "e", "error": {"memory": 1.0}}]
        self.assertEqual(accuracy_check.worst_rows({"file": {"rows": rows}}, "Throughput by family",
                                                   "file: toys"), ["b: -30.0%", "a: +10.0%"])

    def test_every_column_that_is_judged_stands_in_the_page(self):
        tables = accuracy_check.tables((ROOT / "docs" / "ACCURACY.md").read_text())
        for heading, column, *_ in accuracy_check.TOLERANCES + accuracy_check.COUNTS:
            with self.subTest(f"{heading}, {column}"):
                self.assertTrue(all(column in cells for cells in tables[heading].values()))


class Plot(unittest.TestCase):
    # 1 to 100 on a side of 450: 10 lies half way, so at 74 + 225 across and 46 + 225 down.
    def test_a_mark_by_hand(self):
        picture = accuracy_plot.scatter("toys", "GiB", [("a", 10, 10), ("a", 1, 100), ("b", 1, 1)])
        self.assertIn('d="M74.0 46.0h0M299.0 271.0h0"', picture)
        root = xml.etree.ElementTree.fromstring(picture)
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")

    def test_axes_end_at_round_numbers(self):
        low, high = accuracy_plot.limits([("a", 0.7, 3), ("a", 30, 120)])
        self.assertAlmostEqual(10 ** low, 0.5)
        self.assertAlmostEqual(10 ** high, 200)

    def test_small_families_share_a_style(self):
        points = [(f"f{i}", 1, 2) for i in range(12)] + [("f11", 1, 3)]
        styles = accuracy_plot.styles(points)
        self.assertEqual(styles[0][0], "f11")
        self.assertEqual(styles[-1][0], "3 others")
        self.assertEqual(len({(shape, colour) for _, shape, colour, _ in styles}), len(styles))

    # The counts of the legend are those of the page: the pictures were drawn from the same runs.
    def test_pictures_belong_to_the_page(self):
        tables = accuracy_check.tables((ROOT / "docs" / "ACCURACY.md").read_text())
        for name, heading in (("throughput", "Throughput by family"), ("memory", "Memory by family")):
            runs = {}
            for label, cells in tables[heading].items():
                file, _, family = label.partition(": ")
                runs.setdefault(family, int(cells["runs"]))  # one family may stand in two files
            root = xml.etree.ElementTree.parse(ROOT / f"docs/pictures/accuracy_{name}.svg").getroot()
            texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
            legend = {f: int(texts[texts.index(f) + 1].replace(",", "")) for f in runs if f in texts}
            with self.subTest(name):
                self.assertGreater(len(legend), 3)
                self.assertEqual(legend, {f: n for f, n in runs.items() if f in legend})


if __name__ == "__main__":
    unittest.main()
