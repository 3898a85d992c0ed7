"""docs/ASSUMPTIONS.md says what the sources say, and scripts/assumptions.py finds what is there."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("ERATOS_SOURCE_DIR",
                                   pathlib.Path(__file__).resolve().parents[2]))
SCRIPT = ROOT / "scripts" / "assumptions.py"


def run(*arguments):
    return subprocess.run([sys.executable, "-B", SCRIPT, *arguments], capture_output=True,
                          text=True)


class PageTest(unittest.TestCase):
    def test_the_page_is_not_stale(self):
        done = run("--check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class ScriptTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        self.write("docs/ASSUMPTIONS.md", "# Title\n\nBy hand.\n\n<!-- generated below -->\n")
        self.write("src/eratos/a.h", "// Assumes: the moon is\n// round. Source: eyes.\nint x;\n")
        self.write("data/parts/b.yaml", 'name: b\nsources:\n  power_w: "read; the rest assumed"\n'
                                        'rows:\n  - {kind: ring, gpus: 2,\n'
                                        '     source: "as recalled"}\n')

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def page(self):
        return (self.root / "docs/ASSUMPTIONS.md").read_text()

    def test_finds_comments_and_values_and_keeps_what_is_written_by_hand(self):
        self.assertEqual(run("--root", self.root).returncode, 0)
        self.assertIn("By hand.", self.page())
        self.assertIn("[src/eratos/a.h:1](../src/eratos/a.h#L1): the moon is round.\n",
                      self.page())
        self.assertIn("| power_w | the rest assumed |", self.page())
        self.assertIn("| [data/parts/b.yaml](../data/parts/b.yaml) | rows (ring 2) |",
                      self.page())

    def test_a_new_assumption_makes_the_page_stale_and_a_moved_one_does_not(self):
        run("--root", self.root)
        self.assertEqual(run("--root", self.root, "--check").returncode, 0)
        self.write("src/eratos/a.h", "\n\n// Assumes: the moon is\n// round. Source: eyes.\n")
        self.assertEqual(run("--root", self.root, "--check").returncode, 0)
        self.write("src/eratos/c.h", "// Assumes: cheese.\n")
        stale = run("--root", self.root, "--check")
        self.assertEqual(stale.returncode, 1)
        self.assertIn("cheese", stale.stdout)


if __name__ == "__main__":
    unittest.main()
