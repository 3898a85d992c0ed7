"""Every command that a page shows with its output is run, and its output compared.

A block fenced as ```console holds commands after `$ ` and below each what it prints, standard
output and error as a terminal would mix them. A line `...` alone stands for any lines left out.
`build/eratos` and `eratos` are the program under test; the folder is the checkout. A block is one
shell session. Figures that change from run to run (times, paths of this machine) have no place in
one: commands that print such go into a block fenced as ```sh, which is only shown.

    tests/docs/console_blocks_test.py --update    rewrite the outputs in the pages; a block that ends
                                                  in `...` keeps its number of lines
"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pages import ROOT, blocks, pages  # noqa: E402

BINARY = os.environ.get("ERATOS_BINARY") or str(ROOT / "build" / "eratos")
END = "--- end of the output of one command ---"


def split(block):
    """[(index of the command's line, command, expected lines)]"""
    commands = []
    for number, line in enumerate(block.lines):
        if line.startswith("$ "):
            commands.append((number, line[2:], []))
        elif commands:
            commands[-1][2].append(line)
        else:
            raise AssertionError(f"{block.place(number)}: output before the first command")
    return commands


def run(commands):
    """What each of the commands of one session prints."""
    script = ""
    for _, command, _ in commands:
        command = re.sub(r"(?<![\w./])build/eratos\b", BINARY, command)
        script += f"{command}\ns=$?; printf '%s\\n' '{END}'; (exit $s)\n"
    environment = {"PATH": os.path.dirname(BINARY) + os.pathsep + os.environ.get("PATH", ""),
                   "HOME": os.environ.get("HOME", "/"), "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, env=environment, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=300)
    return [part.strip("\n").splitlines() for part in done.stdout.split(END + "\n")][:-1]


def matches(expected, actual):
    """True when `actual` is `expected`, where a line `...` stands for any lines."""
    pattern = "".join("(?:.*\n)*?" if line.strip() == "..." else re.escape(line.rstrip()) + "\n"
                      for line in expected)
    return re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in actual)) is not None


def without_blank_end(lines):
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


class ConsoleBlocksTest(unittest.TestCase):
    def test_there_are_blocks(self):
        self.assertTrue(any(True for page in pages() for _ in blocks(page, "console")),
                        "no page shows a command with its output")

    def test_outputs_are_what_the_commands_print(self):
        self.assertTrue(os.access(BINARY, os.X_OK), f"{BINARY} is not there to be run")
        for page in pages():
            for block in blocks(page, "console"):
                commands = split(block)
                for (number, command, expected), actual in zip(commands, run(commands),
                                                               strict=True):
                    with self.subTest(f"{block.place(number)}: {command}"):
                        expected = without_blank_end(expected)
                        self.assertTrue(matches(expected, actual),
                                        f"{block.place(number)} shows\n" + "\n".join(expected) +
                                        "\nbut the command prints\n" + "\n".join(actual))
                        self.assertNotIn(str(ROOT), "\n".join(actual), "a path of this machine")

    def test_the_comparison_can_fail(self):
        self.assertTrue(matches(["a", "...", "d"], ["a", "b", "c", "d"]))
        self.assertTrue(matches(["a", "..."], ["a"]))
        self.assertFalse(matches(["a", "...", "e"], ["a", "b", "c", "d"]))
        self.assertFalse(matches(["1.5 s"], ["1x5 s"]))
        self.assertFalse(matches([], ["a"]))


def renewed(old, actual):
    """What to show: `old` where it still matches; its first lines only where it showed only those."""
    if old and matches(old, actual):
        return old
    if old and old[-1] == "..." and old.count("...") == 1:
        return actual[:len(old) - 1] + ["..."]
    return actual


def update():
    for page in pages():
        lines = page.read_text().splitlines()
        for block in reversed(list(blocks(page, "console"))):
            fresh = []
            commands = split(block)
            for (_, command, expected), actual in zip(commands, run(commands), strict=True):
                fresh += ["$ " + command] + renewed(without_blank_end(expected), actual)
            lines[block.first:block.first + len(block.lines)] = fresh
        if "\n".join(lines) + "\n" != page.read_text():
            page.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if "--update" in sys.argv:
        update()
    else:
        unittest.main()
