"""Links between the pages lead somewhere, and pages that sources name exist."""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pages import ROOT, pages  # noqa: E402

LINK = re.compile(r"\]\((?!https?://|mailto:)([^)\s]*)\)")
NAMED = re.compile(r"(?<![\w/])docs/[\w/.-]*\w\.(?:md|json)\b")
FOREIGN = re.compile(r"[\w.-]+/[\w.@-]+ $")  # `owner/name docs/...` is another repository's page


def prose(page):
    """The text without fenced blocks and code spans, line by line the same."""
    text = re.sub(r"```.*?```", lambda m: re.sub(r"[^\n]", " ", m.group(0)), page.read_text(),
                  flags=re.S)
    return re.sub(r"`[^`\n]*`", "", text)


def anchor_of(heading):
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", lambda m: m.group(1) or "", heading).strip()
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def anchors(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    return {anchor_of(h) for h in re.findall(r"^#+ +(.*)$", text, re.M)}


def link_fault(page, target):
    path, _, anchor = target.partition("#")
    there = (page.parent / path).resolve() if path else page
    if not there.exists():
        return f"leads to {path}, which is not there"
    if anchor and there.suffix == ".md" and anchor not in anchors(there):
        return f"leads to #{anchor}, which is no heading of {there.name}"
    return None


class LinksTest(unittest.TestCase):
    def test_links(self):
        for page in pages():
            for number, line in enumerate(prose(page).splitlines(), 1):
                for target in LINK.findall(line):
                    with self.subTest(f"{page.relative_to(ROOT)}:{number}"):
                        self.assertIsNone(link_fault(page, target),
                                          f"{page.relative_to(ROOT)}:{number}: {target}")

    def test_pages_that_sources_name(self):
        for folder in ("src", "apps", "data", "scripts", "cmake", "tests", "bench"):
            for path in sorted((ROOT / folder).rglob("*")):
                if path.suffix not in (".h", ".cpp", ".yaml", ".csv", ".py", ".txt", ".cmake",
                                       ".sh", ".md"):
                    continue
                for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                    for named in NAMED.finditer(line):
                        if FOREIGN.search(line[:named.start()]):
                            continue
                        where = f"{path.relative_to(ROOT)}:{number}"
                        with self.subTest(where):
                            self.assertTrue((ROOT / named.group()).exists(),
                                            f"{where} names {named.group()}")

    def test_anchors(self):
        self.assertEqual(anchor_of("Memory, by `lifetime`"), "memory-by-lifetime")
        self.assertEqual(anchor_of("1F1B and interleaved 1F1B"), "1f1b-and-interleaved-1f1b")


if __name__ == "__main__":
    unittest.main()
