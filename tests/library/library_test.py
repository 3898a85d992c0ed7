"""An installed eratos serves a project of its own: docs/LIBRARY.md says what it prints.

    ERATOS_BUILD_DIR=build tests/library/library_test.py --update    renew what the page shows
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("ERATOS_SOURCE_DIR",
                                   pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("ERATOS_BUILD_DIR", ROOT / "build"))
PAGE = ROOT / "docs" / "LIBRARY.md"
EXAMPLES = ROOT / "examples" / "library"


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n"
                             f"{done.stdout}{done.stderr}")
    return done.stdout


def cached(name):
    """The value of a variable of the build that is installed, "" when it is not set."""
    found = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found.group(1) if found else ""


def built_example(folder):
    """Installs the library below `folder`, builds the example with nothing but what lies there."""
    run("cmake", "--install", BUILD, "--prefix", folder / "prefix", "--component", "library")
    sanitize = cached("ERATOS_SANITIZE")
    run("cmake", "-S", EXAMPLES, "-B", folder / "build", "-G", "Ninja",
        f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}",
        f"-DCMAKE_CXX_COMPILER={cached('CMAKE_CXX_COMPILER')}",
        f"-DCMAKE_CXX_FLAGS={'-fsanitize=' + sanitize if sanitize else ''}")
    run("cmake", "--build", folder / "build")
    return folder / "build"


def shown(language):
    """The one block of the page that is fenced with this language, and the page around it."""
    text = PAGE.read_text()
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        raise AssertionError(f"{PAGE}: {len(found)} blocks of {language}, expected 1")
    return found[0]


class LibraryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.build = built_example(pathlib.Path(cls.folder.name))

    def test_the_page_shows_the_program(self):
        self.assertEqual(shown("cpp"), (EXAMPLES / "project_llama.cpp").read_text())
        self.assertEqual(shown("cmake"), (EXAMPLES / "CMakeLists.txt").read_text())

    def test_the_program_prints_what_the_page_shows(self):
        self.assertEqual(run(self.build / "project_llama"), shown("text"))

    def test_the_core_alone_links_and_answers(self):
        self.assertRegex(run(self.build / "core_alone"), r"(?m)^time\.step_s [0-9.]+$")

    def test_another_minor_version_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            project = pathlib.Path(folder)
            (project / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES CXX)\n"
                "find_package(eratos 99.0 REQUIRED)\n")
            with self.assertRaises(AssertionError) as refused:
                run("cmake", "-S", project, "-B", project / "b", "-G", "Ninja",
                    f"-DCMAKE_PREFIX_PATH={pathlib.Path(self.folder.name) / 'prefix'}")
            self.assertIn("eratos", str(refused.exception))


def update():
    with tempfile.TemporaryDirectory() as folder:
        prints = run(built_example(pathlib.Path(folder)) / "project_llama")
    text = PAGE.read_text()
    for language, content in (("cpp", (EXAMPLES / "project_llama.cpp").read_text()),
                              ("cmake", (EXAMPLES / "CMakeLists.txt").read_text()),
                              ("text", prints)):
        text = text.replace(f"```{language}\n{shown(language)}```", f"```{language}\n{content}```")
    PAGE.write_text(text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        unittest.main()
