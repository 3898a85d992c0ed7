"""docs/JOB.md lists exactly the keys that a normalised job has, and its example is a legal job."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pages import ROOT, blocks  # noqa: E402

BINARY = os.environ.get("ERATOS_BINARY") or str(ROOT / "build" / "eratos")
# A name or a mapping whose keys other pages list.
WHOLE = ("name", "model", "framework", "cluster", "lora")


def documented(text):
    keys = set()
    prefix = ""
    for line in text.splitlines():
        if not line.startswith("|"):
            prefix = None
            continue
        first = line.strip("|").split("|")[0].strip()
        if prefix is None:
            group = re.fullmatch(r"`(\w+\.)`", first)
            prefix = group.group(1) if group else ""
            continue
        keys.update(prefix + key for key in re.findall(r"`([\w.]+)`", first))
    return keys


def leaves(tree, path=""):
    for key, value in tree.items():
        here = f"{path}.{key}" if path else key
        if isinstance(value, dict) and here not in WHOLE:
            yield from leaves(value, here)
        else:
            yield here


class JobKeysTest(unittest.TestCase):
    def test_the_page_lists_every_key_and_no_other(self):
        done = subprocess.run([BINARY, "import", "llama3.1-8b", "--format", "json"], cwd=ROOT,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(documented((ROOT / "docs" / "JOB.md").read_text()),
                         set(leaves(json.loads(done.stdout)["job"])))

    def test_the_example_is_a_legal_job(self):
        examples = list(blocks(ROOT / "docs" / "JOB.md", "yaml"))
        self.assertEqual(len(examples), 1)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("\n".join(examples[0].lines) + "\n")
            file.flush()
            done = subprocess.run([BINARY, "check", file.name], cwd=ROOT, capture_output=True,
                                  text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
