"""Every picture of docs/pictures is what the command beside it in a page draws.

A page shows, in a block fenced as ```sh, `eratos schedule ... --svg docs/pictures/NAME.svg`. Those of
docs/ACCURACY.md are drawn with it, from runs that are not in the checkout.

    tests/docs/pictures_test.py --update    draw them anew
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pages import ROOT, blocks, pages  # noqa: E402

BINARY = os.environ.get("ERATOS_BINARY") or str(ROOT / "build" / "eratos")
FOLDER = ROOT / "docs" / "pictures"


def commands():
    """{picture: [words of its command, the file left out]}"""
    found = {}
    for page in pages():
        for block in blocks(page, "sh"):
            for number, line in enumerate(block.lines):
                words = line.split()
                if len(words) < 2 or words[-2] != "--svg":
                    continue
                picture = ROOT / words[-1]
                if picture.parent != FOLDER:
                    continue
                if picture in found:
                    raise AssertionError(f"{block.place(number)}: {words[-1]} is drawn twice")
                found[picture] = words[1:-1]
    return found


def draw(words):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "picture.svg"
        done = subprocess.run([BINARY, *words, str(path)], cwd=ROOT, text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(words)}: exit {done.returncode}: {done.stderr}")
        return path.read_bytes()


class Pictures(unittest.TestCase):
    def test_each_is_what_its_command_draws(self):
        found = commands()
        drawn = {p for p in FOLDER.glob("*") if not p.name.startswith("accuracy_")}
        self.assertEqual(set(found), drawn, "a command for each, and each drawn")
        for picture, words in found.items():
            with self.subTest(picture.name):
                self.assertEqual(draw(words), picture.read_bytes(),
                                 "stale; tests/docs/pictures_test.py --update")

    def test_each_is_a_small_drawing_that_a_page_shows(self):
        text = "".join(page.read_text() for page in pages())
        for picture in FOLDER.glob("*"):
            with self.subTest(picture.name):
                root = xml.etree.ElementTree.parse(picture).getroot()
                self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
                self.assertLess(picture.stat().st_size, 100_000)
                self.assertIn(f"pictures/{picture.name})", text)


if __name__ == "__main__":
    if "--update" in sys.argv:
        FOLDER.mkdir(exist_ok=True)
        for target, arguments in commands().items():
            target.write_bytes(draw(arguments))
    else:
        unittest.main()
