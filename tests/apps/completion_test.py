#!/usr/bin/env python3
"""Completion scripts offer what the tables of commands and flags have; the manual page is renewed."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("ERATOS_SOURCE_DIR",
                                   pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("ERATOS_BINARY") or str(ROOT / "build" / "eratos")


def run(*arguments):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60)


def offered(*words):
    """What bash would offer for the last of `words`."""
    script = run("completion", "bash").stdout
    script += "COMP_WORDS=(" + " ".join(f"'{w}'" for w in words) + ")\n"
    script += f"COMP_CWORD={len(words) - 1}\n_eratos\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    done = subprocess.run(["bash", "-u", "-c", script], capture_output=True, text=True, timeout=60,
                          cwd=ROOT)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split()


def commands():
    lines = run("--help").stdout.splitlines()
    start = lines.index("usage: eratos COMMAND ...") + 2
    return [line.split()[0] for line in lines[start:lines.index("", start)]]


class CompletionTest(unittest.TestCase):
    def test_bash_offers_every_command(self):
        self.assertEqual(set(offered("eratos", "")), set(commands()) | {"--help", "--version"})
        self.assertEqual(offered("eratos", "compl"), ["completion"])

    def test_bash_offers_the_flags_that_help_lists(self):
        for command in commands():
            helped = {word.strip(",") for line in run(command, "--help").stdout.splitlines()
                      for word in line.split()[:2] if word.startswith("--")}
            self.assertEqual(set(offered("eratos", command, "--")), helped | {"--help"}, command)

    def test_bash_offers_values(self):
        self.assertEqual(offered("eratos", "project", "--format", ""),
                         ["text", "json", "csv", "markdown", "html"])
        self.assertEqual(offered("eratos", "check", "--format", ""), ["text", "json"])
        self.assertIn("mi355x", offered("eratos", "project", "--cluster", "mi3"))
        self.assertIn("llama3.1-8b", offered("eratos", "project", "llama3.1"))
        self.assertIn("README.md", offered("eratos", "project", "READ"))
        self.assertEqual(offered("eratos", "completion", ""), ["bash", "zsh", "fish"])

    def test_the_other_shells_take_their_scripts(self):
        for shell in ("zsh", "fish"):
            script = run("completion", shell).stdout
            for command in commands():
                self.assertIn(command, script)
            if shutil.which(shell):
                with tempfile.NamedTemporaryFile("w") as file:
                    file.write(script)
                    file.flush()
                    self.assertEqual(subprocess.run([shell, "-n", file.name]).returncode, 0)

    def test_other_shells_are_refused(self):
        done = run("completion", "tcsh")
        self.assertEqual(done.returncode, 2)
        self.assertIn("known: bash, zsh, fish", done.stderr)


class ManualTest(unittest.TestCase):
    def test_the_page_in_docs_is_what_the_program_prints(self):
        self.assertEqual((ROOT / "docs" / "eratos.1").read_text(), run("man").stdout,
                         "renew it: eratos man -o docs/eratos.1 --force")

    def test_it_names_every_command_flag_and_exit_status(self):
        page = run("man").stdout.replace("\\-", "-")
        for command in commands():
            self.assertIn(f'.SS "{command}', page)
            for line in run(command, "--help").stdout.splitlines():
                if line.startswith("  -"):
                    self.assertIn(line.split()[0].strip(","), page)
        for status in (0, 1, 2, 3, 4, 70, 130):
            self.assertIn(f"\\fB{status}\\fR", page)

    def test_groff_has_nothing_to_say_against_it(self):
        if not shutil.which("groff"):
            self.skipTest("no groff")
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=run("man").stdout,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
