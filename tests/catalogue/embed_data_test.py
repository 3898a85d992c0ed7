"""embed_data.cmake must carry any text into C++ unchanged, longer than 64 KiB included."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(os.environ["ERATOS_SOURCE_DIR"])

PRINT = r"""
#include <cstdio>
#include "eratos/catalogue_data.h"
int main() {
  for (const eratos::DataFile& f : eratos::data_files()) {
    std::printf("%.*s|%.*s|%zu\n", int(f.folder.size()), f.folder.data(), int(f.name.size()),
                f.name.data(), f.text.size());
    std::fwrite(f.text.data(), 1, f.text.size(), stdout);
  }
}
"""


class EmbedDataTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)

    def embed(self, files):
        """Writes, embeds in the order given, compiles and runs; returns what the program holds."""
        paths = []
        for name, data in files:
            path = self.root / "data" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            paths.append(path)
        listed = self.root / "list.txt"
        listed.write_text("".join(f"{p}\n" for p in paths))
        subprocess.run(["cmake", f"-DROOT={self.root}/data", f"-DLIST={listed}",
                        f"-DOUTPUT={self.root}/out.cpp", "-P", ROOT / "cmake/embed_data.cmake"],
                       check=True, capture_output=True)
        (self.root / "main.cpp").write_text(PRINT)
        subprocess.run(["c++", "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                        f"-I{ROOT}/src", "-o", self.root / "a.out", self.root / "main.cpp",
                        self.root / "out.cpp"], check=True)
        return subprocess.run([self.root / "a.out"], check=True, capture_output=True).stdout

    def test_any_text_survives(self):
        awkward = ('a: "q" # \\n ${X} @Y@ $ENV{HOME} [x]; [[y]] )" %d \u00b5s\n\n\ttab\n'
                   "last line has no end").encode()
        long = b"".join(b"%d: [1, 2; 3] # \xc3\xa9\n" % i for i in range(9000))
        self.assertGreater(len(long), 2 * 65536)
        out = self.embed([("models/b.1.yaml", awkward), ("z.csv", b""),
                          ("models/a.yaml", long), ("accelerators/c.yaml", b"x\n")])
        expected = b""
        for key, text in (("|z", b""), ("accelerators|c", b"x\n"), ("models|a", long),
                          ("models|b.1", awkward)):
            expected += f"{key}|{len(text)}\n".encode() + text
        self.assertEqual(out, expected)

    def test_no_files(self):
        self.assertEqual(self.embed([]), b"")


if __name__ == "__main__":
    unittest.main()
