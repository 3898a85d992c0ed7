"""check_layers.py must fail on each way to break a wall, and name the line and the rule."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("ERATOS_SOURCE_DIR",
                                   pathlib.Path(__file__).resolve().parents[2]))


class LayersTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        self.write("cmake/rooms.txt", (ROOT / "cmake" / "rooms.txt").read_text())

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def check(self):
        script = ROOT / "scripts" / "check_layers.py"
        done = subprocess.run([sys.executable, "-B", script, "--root", self.root],
                              capture_output=True, text=True)
        return done.returncode, done.stderr

    def expect_fault(self, path, text, line, rule):
        self.write(path, text)
        code, errors = self.check()
        self.assertEqual(code, 1, errors)
        self.assertEqual(len(errors.splitlines()), 1, errors)
        self.assertIn(f"{path}:{line}: ", errors)
        self.assertIn(rule, errors)

    def test_includes_that_go_down_pass(self):
        self.write("src/eratos/lower/a.cpp",
                   '#include "eratos/lower/a.h"\n#include "eratos/layer/mlp.h"\n#include <vector>\n')
        self.write("src/eratos/report/a.cpp",
                   '#include "eratos/text/json.h"\n#include "eratos/version.h"\n#include <chrono>\n')
        code, errors = self.check()
        self.assertEqual(code, 0, errors)

    def test_include_that_climbs(self):
        self.expect_fault("src/eratos/ops/tensor.h",
                          '#pragma once\n\n#include "eratos/lower/lower.h"\n', 3,
                          "`ops` (level 1) may not include `lower` (level 5)")

    def test_siblings(self):
        self.expect_fault("src/eratos/memory/peak.cpp",
                          '#include "eratos/schedule/timeline.h"\n', 1, "siblings never include")
        (self.root / "src/eratos/memory/peak.cpp").unlink()
        self.expect_fault("src/eratos/reader/primus.cpp",
                          '#include "eratos/report/table.h"\n', 1, "siblings never include")

    def test_a_lower_room_that_the_table_leaves_out(self):
        self.expect_fault("src/eratos/calibration/fit.h",
                          '#include "eratos/parallel/groups.h"\n', 1,
                          "it may include base, hardware, ops, framework")

    def test_angle_brackets_do_not_hide_an_include(self):
        self.expect_fault("src/eratos/base/units.h", "#include <eratos/job/job.h>\n", 1,
                          "`base` (level 0) may not include `job`")

    def test_unknown_rooms(self):
        self.expect_fault("src/eratos/base/a.h", '#include "eratos/common/a.h"\n', 1,
                          "unknown room `common`")
        (self.root / "src/eratos/base/a.h").unlink()
        self.expect_fault("src/eratos/helpers/a.h", "#pragma once\n", 1,
                          "unknown room `helpers`")

    def test_include_not_from_the_root(self):
        self.expect_fault("src/eratos/base/a.cpp", '#include "a.h"\n', 1, "from the root")

    def test_shell_headers_in_the_core(self):
        self.expect_fault("src/eratos/model/a.cpp", '#include "eratos/catalogue_data.h"\n', 1,
                          "for the shell")

    def test_core_headers(self):
        for header, rule in (("iostream", "I/O"), ("chrono", "a clock"), ("thread", "threads"),
                             ("ranges", "older standard"), ("random", "differs"),
                             ("yaml-cpp/yaml.h", "not one of")):
            with self.subTest(header):
                self.expect_fault("src/eratos/layer/a.cpp", f"#include <{header}>\n", 1, rule)

    def test_core_words(self):
        for word, rule in (('std::getenv("HOME");', "the environment"),
                           ("throw 1;", "an exception"),
                           ("try {} catch (...) {}", "an exception"),
                           ("std::cerr << 1;", "I/O"),
                           ("std::abort();", "ERATOS_CHECK"),
                           ("auto t = std::chrono::now();", "a clock"),
                           ("int r = rand();", "nobody seeded"),
                           ("for (int i : v | std::views::reverse) {}", "older standard")):
            with self.subTest(word):
                self.write("src/eratos/kernel/a.cpp", f"\nvoid f() {{ {word} }}\n")
                code, errors = self.check()
                self.assertEqual(code, 1)
                self.assertIn("src/eratos/kernel/a.cpp:2: ", errors)
                self.assertIn(rule, errors)

    def test_comments_and_literals_say_what_they_like(self):
        self.write("src/eratos/kernel/a.cpp",
                   "// throw, std::cout and #include <chrono>\n"
                   "/* try {\n#include \"eratos/search/a.h\"\n*/\n"
                   "const char* a = \"throw getenv( std::cerr\";\n"
                   "const char* b = R\"(try { \" } catch (...))\";\n"
                   "int n = 1'000'000; char c = '\"';\n"
                   "double backward_time(int runtime(int));\n")
        code, errors = self.check()
        self.assertEqual(code, 0, errors)

    def test_only_the_check_header_aborts(self):
        self.write("src/eratos/base/check.h", "#define C(x) { std::fprintf(stderr, #x); abort(); }\n")
        code, errors = self.check()
        self.assertEqual(code, 0, errors)
        self.expect_fault("src/eratos/base/other.h", "inline void f() { abort(); }\n", 1, "process")

    def test_table_that_climbs(self):
        table = self.root / "cmake/rooms.txt"
        table.write_text(table.read_text().replace("1 core  ops         : base",
                                                   "1 core  ops         : base lower"))
        self.write("src/eratos/ops/a.h", "#pragma once\n")
        code, errors = self.check()
        self.assertEqual(code, 1)
        self.assertIn("an arrow only goes down", errors)


if __name__ == "__main__":
    unittest.main()
