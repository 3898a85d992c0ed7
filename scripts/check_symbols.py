#!/usr/bin/env python3
"""Fails when the compiled core needs a symbol of I/O, a clock, the environment or exceptions.

    scripts/check_symbols.py ROOM=LIBRARY.a ...

What check_layers.py reads in the sources, seen from the other end: a macro or an inlined header
cannot hide a call from the linker. Rooms that cmake/rooms.txt calls shell are passed over.
"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_layers  # noqa: E402

# ERATOS_CHECK prints to stderr and aborts, so fprintf, fwrite and abort stay allowed.
BANNED = re.compile(
    r"(secure_)?getenv|setenv|putenv|setlocale|"
    r"f?open(64|at)?|fopen64|creat|socket|connect|printf|puts|putchar|"
    r"system|popen|exit|_exit|_Exit|"
    r"clock|clock_gettime|gettimeofday|time|usleep|nanosleep|"
    r"s?rand(om)?|pthread_(create|mutex_lock)|"
    r"__cxa_(throw|allocate_exception|begin_catch|rethrow)|"
    r"_ZSt(4cout|4cerr|4clog|3cin)|_ZNSt6chrono.*|_ZNSt6thread.*|_ZNSt13random_device.*|"
    r"_ZNSt8ios_base4InitC1Ev")


def undefined_symbols(library):
    listing = subprocess.run(["nm", "--undefined-only", library], check=True,
                             capture_output=True, text=True).stdout
    member = ""
    for line in listing.splitlines():
        if line.endswith(":"):
            member = line[:-1]
        elif " U " in line:
            yield member, line.split(" U ")[1].split("@")[0].strip()


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    rooms = check_layers.read_rooms(root / "cmake" / "rooms.txt")
    count = 0
    faults = 0
    for argument in sys.argv[1:]:
        name, library = argument.split("=", 1)
        if rooms[name].kind != "core":
            continue
        count += 1
        for member, symbol in undefined_symbols(library):
            if BANNED.fullmatch(symbol):
                print(f"{name}: {member} needs `{symbol}`, which the core may not use",
                      file=sys.stderr)
                faults += 1
    if count == 0:
        sys.exit("no core library given")
    print(f"symbols: {count} core libraries, {faults} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
