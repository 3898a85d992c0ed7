"""The model's fingerprint: another for any change of a source or of the compiler, the same wherever the
checkout lies."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(os.environ["ERATOS_SOURCE_DIR"]) / "cmake" / "model_fingerprint.cmake"


def fingerprint(files, built="gcc 12 -O2", order=1):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "src"
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        listed = pathlib.Path(folder) / "list.txt"
        listed.write_text("".join(f"{root / name}\n" for name in sorted(files)[::order]))
        out = pathlib.Path(folder) / "out.cpp"
        subprocess.run(["cmake", f"-DROOT={root}", f"-DLIST={listed}", f"-DBUILT={built}", f"-DOUTPUT={out}",
                        "-P", SCRIPT], check=True)
        return re.search(r'return "([0-9a-f]{64})"', out.read_text()).group(1)


class Fingerprint(unittest.TestCase):
    FILES = {"kernel/gemm.cpp": "a; b", "memory/walk.h": "c"}

    def test_it_is_the_same_in_another_place_and_order(self):
        self.assertEqual(fingerprint(self.FILES), fingerprint(self.FILES))
        self.assertEqual(fingerprint(self.FILES), fingerprint(self.FILES, order=-1))

    def test_it_changes_with_a_source_a_name_and_the_compiler(self):
        all_of_them = [fingerprint(self.FILES), fingerprint(self.FILES, built="gcc 13 -O2"),
                       fingerprint({**self.FILES, "memory/walk.h": "d"}),
                       fingerprint({**self.FILES, "memory/new.h": ""}),
                       fingerprint({"kernel/gemm.cpp": "a; b", "memory/walks.h": "c"}),
                       fingerprint({"kernel/gemm.cpp": "c", "memory/walk.h": "a; b"})]
        self.assertEqual(len(set(all_of_them)), len(all_of_them))


if __name__ == "__main__":
    unittest.main()
