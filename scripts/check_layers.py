#!/usr/bin/env python3
"""Fails on an include that climbs, and on a word the pure core may not say.

    scripts/check_layers.py [--root CHECKOUT]

The table of rooms is cmake/rooms.txt. Two things are checked in src/eratos:

* every `#include "eratos/<room>/..."` stands in a room that may include <room>;
* a core room names no I/O, clock, environment, thread, exception, or part of the standard library
  that an older one lacks or that differs between them.

apps, tests and bench may include anything. Prints `file:line: rule` for each fault; exit 1 when
there is one.
"""

import argparse
import pathlib
import re
import sys

SOURCES = (".h", ".cpp", ".inc")

# Headers beside the rooms; only the shell may know the version and the embedded catalogue.
SHELL_HEADERS = ("eratos/version.h", "eratos/catalogue_data.h")

# Headers a core room may not include, and why.
BANNED_HEADERS = {
    "I/O": "iostream fstream istream ostream streambuf syncstream filesystem iomanip print "
           "fcntl.h unistd.h sys/stat.h sys/mman.h dirent.h",
    "a clock": "chrono ctime time.h sys/time.h",
    "threads": "thread mutex shared_mutex future condition_variable atomic execution pthread.h "
               "stop_token semaphore latch barrier",
    "exceptions": "exception stdexcept",
    "the locale": "locale clocale locale.h",
    "a random sequence that differs between standard libraries (use eratos/base/rng.h)": "random",
    "missing from older standard libraries": "ranges format print expected mdspan generator "
                                             "flat_map stacktrace",
}

# Third-party headers a core room may include.
CORE_THIRD_PARTY = ("tl/expected.hpp", "fmt/")

# Words a core room may not use, and why. Comments and literals are taken out first.
BANNED_WORDS = [
    (r"\b(?:secure_)?getenv\s*\(", "the environment"),
    (r"\b(?:setenv|putenv|setlocale)\s*\(", "the environment"),
    (r"\bthrow\b", "an exception"),
    (r"\btry\s*\{", "an exception"),
    (r"\bcatch\s*\(", "an exception"),
    (r"\bstd::(?:cout|cerr|clog|cin)\b", "I/O"),
    (r"\b(?:fopen|freopen|fread|fwrite|fputs|puts|putchar|printf|fprintf|scanf|fscanf|fgets)\s*\(",
     "I/O"),
    (r"\bfmt::print\s*\(", "I/O"),
    (r"\b(?:system|popen|exit|_Exit|quick_exit)\s*\(", "control of the process"),
    (r"\b(?:abort|terminate)\s*\(", "control of the process (use ERATOS_CHECK)"),
    (r"\bassert\s*\(", "a check that Release drops (use ERATOS_CHECK)"),
    (r"\b(?:clock|clock_gettime|gettimeofday)\s*\(|\bstd::time\s*\(|\btime\s*\(\s*(?:NULL|nullptr|0)\s*\)",
     "a clock"),
    (r"\bstd::chrono\b", "a clock"),
    (r"\bstd::(?:thread|jthread|async|mutex|atomic)\b|\bthread_local\b", "threads"),
    (r"\bs?rand\s*\(|\bstd::random_device\b", "a random sequence nobody seeded"),
    (r"\bstd::(?:views|ranges|format|expected)\b", "missing from older standard libraries"),
    (r"\bdynamic_cast\b|\btypeid\b", "run-time type information"),
]

# The one place that may print and stop: the check for programmer errors.
WORD_EXCEPTIONS = {"eratos/base/check.h": ("fprintf", "abort")}


class Room:
    def __init__(self, level, kind, name, allowed):
        self.level = level
        self.kind = kind
        self.name = name
        self.allowed = allowed


def read_rooms(path):
    rooms = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        match = re.fullmatch(r"(\d+)\s+(core|shell)\s+([a-z_]+)\s*:\s*([a-z_ ]*)", line)
        if not match:
            sys.exit(f"{path}:{number}: cannot read {line!r}")
        level, kind, name, allowed = match.groups()
        rooms[name] = Room(int(level), kind, name, allowed.split())
    return rooms


def table_faults(path, rooms):
    """The table itself may not let an arrow climb. Only `text` serves rooms of its own level."""
    for room in rooms.values():
        for name in room.allowed:
            if name not in rooms:
                yield f"{path}: room `{room.name}` names an unknown room `{name}`"
            elif rooms[name].level >= room.level and not (
                    name == "text" and room.kind == "shell" and room.name != "text"):
                yield f"{path}: `{room.name}` (level {room.level}) may not include " \
                      f"`{name}` (level {rooms[name].level}): an arrow only goes down"


def blank(text, keep_literals):
    """`text` with comments (and literals) turned into spaces, line by line the same."""
    pattern = re.compile(
        r'R"(?P<d>[^()\\\s]{0,16})\(.*?\)(?P=d)"'  # raw string
        r'|//[^\n]*|/\*.*?\*/'
        r'|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'", re.S)  # the look-behind spares 1'000'000

    def replace(match):
        token = match.group(0)
        if keep_literals and not token.startswith(("//", "/*")):
            return token
        return re.sub(r"[^\n]", " ", token)

    return pattern.sub(replace, text)


def include_fault(room, rooms, header):
    if header in SHELL_HEADERS:
        if room.kind == "core":
            return f"`{room.name}` is core and may not include {header}, which is for the shell"
        return None
    parts = header.split("/")
    if len(parts) < 3:
        return f"unknown header {header}: a header of ours is eratos/<room>/<file>"
    name = parts[1]
    if name not in rooms:
        return f"include of the unknown room `{name}`; rooms are listed in cmake/rooms.txt"
    if name == room.name or name in room.allowed:
        return None
    other = rooms[name]
    rule = f"`{room.name}` (level {room.level}) may not include `{name}` (level {other.level})"
    if room.level == other.level:
        rule += ": siblings never include one another"
    elif other.level > room.level:
        rule += ": an include only goes down"
    allowed = ", ".join(room.allowed) if room.allowed else "nothing of ours"
    return f"{rule}; it may include {allowed}"


def core_header_fault(room, header):
    for reason, headers in BANNED_HEADERS.items():
        if header in headers.split():
            return f"`{room.name}` is core and may not include <{header}>: {reason}"
    third_party = "/" in header or header.endswith(".hpp")
    if third_party and not header.startswith(CORE_THIRD_PARTY):
        return f"`{room.name}` is core and may not include <{header}>: not one of " + \
               ", ".join(CORE_THIRD_PARTY)
    return None


def file_faults(path, relative, room, rooms):
    """Yields (line, rule) for one source; `relative` is its path as an include would say it."""
    text = path.read_text(errors="replace")
    for number, line in enumerate(blank(text, keep_literals=True).splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        quote, header = match.groups()
        if header.startswith("eratos/"):
            fault = include_fault(room, rooms, header)
        elif quote == '"':
            fault = f'include "{header}" must be written from the root: "eratos/<room>/<file>"'
        else:
            fault = core_header_fault(room, header) if room.kind == "core" else None
        if fault:
            yield number, fault
    if room.kind != "core":
        return
    spared = WORD_EXCEPTIONS.get(relative, ())
    for number, line in enumerate(blank(text, keep_literals=False).splitlines(), 1):
        if re.match(r"\s*#\s*include\b", line):
            continue
        for pattern, reason in BANNED_WORDS:
            match = re.search(pattern, line)
            if match and not match.group(0).startswith(spared):
                yield number, f"`{room.name}` is core and may not use `{match.group(0).strip()}`" \
                              f": {reason}"


def check(root):
    table = root / "cmake" / "rooms.txt"
    rooms = read_rooms(table)
    faults = list(table_faults(table.relative_to(root), rooms))
    source = root / "src"
    count = 0
    for path in sorted(source.rglob("*")):
        if path.suffix not in SOURCES or not path.is_file():
            continue
        relative = path.relative_to(source).as_posix()
        where = path.relative_to(root).as_posix()
        count += 1
        if relative in SHELL_HEADERS:
            continue
        parts = relative.split("/")
        if len(parts) < 3 or parts[0] != "eratos":
            faults.append(f"{where}:1: a source of ours is src/eratos/<room>/<file>")
            continue
        if parts[1] not in rooms:
            faults.append(f"{where}:1: unknown room `{parts[1]}`; "
                          "rooms are listed in cmake/rooms.txt")
            continue
        for line, rule in file_faults(path, relative, rooms[parts[1]], rooms):
            faults.append(f"{where}:{line}: {rule}")
    return count, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    count, faults = check(root)
    for fault in faults:
        print(fault, file=sys.stderr)
    if count == 0:
        sys.exit(f"{root}/src: no sources found")
    print(f"layers: {count} files, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
