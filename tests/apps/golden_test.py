#!/usr/bin/env python3
"""Runs the commands of tests/apps/*.golden and compares what they print.

    golden_test.py [--update] [NAME...]     NAME is a .golden file without its extension

A golden file is read top to bottom:

    ## a remark
    $ COMMAND         run by bash in tests/apps, with `eratos` on the path
    text              what it prints on standard output
    ! text            what it prints on standard error
    ? 3               its exit status, when that is not 0

--update writes what the commands print now; read the difference before you commit it. $TMP is an
empty folder of the file's own; its name is printed as $TMP.
"""

import difflib
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BINARY = os.environ.get("ERATOS_BINARY") or str(HERE.parents[1] / "build" / "eratos")
TIMEOUT_S = 60


def answer(command, folder):
    environment = {
        "PATH": f"{pathlib.Path(BINARY).parent}:/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
        "TMP": folder,
        "NO_COLOR": "",
    }
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=HERE, env=environment,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S,
                          check=False)
    out = done.stdout.decode().replace(folder, "$TMP").splitlines()
    err = done.stderr.decode().replace(folder, "$TMP").splitlines()
    lines = [f"$ {command}", *out, *(f"! {line}".rstrip() for line in err)]
    if done.returncode != 0:
        lines.append(f"? {done.returncode}")
    return lines


def run(path):
    """The file as it is, and as it would be if every command printed what it prints now."""
    wanted = path.read_text().splitlines()
    got = []
    with tempfile.TemporaryDirectory() as folder:
        for line in wanted:
            if line.startswith("$ "):
                got.extend(answer(line[2:], folder))
            elif line.startswith("## "):
                if got and not got[-1].startswith("## "):
                    got.append("")
                got.append(line)
    return wanted, got


def main():
    arguments = sys.argv[1:]
    update = "--update" in arguments
    names = [a for a in arguments if a != "--update"]
    paths = sorted(HERE.glob("*.golden"))
    if names:
        paths = [p for p in paths if p.stem in names]
    if not paths:
        sys.exit("no golden file of that name")
    if not os.access(BINARY, os.X_OK):
        sys.exit(f"{BINARY} is not there; name the program with ERATOS_BINARY")
    failed = False
    for path in paths:
        wanted, got = run(path)
        if wanted == got:
            continue
        if update:
            path.write_text("\n".join(got) + "\n")
            print(f"updated {path.name}")
            continue
        failed = True
        print("\n".join(difflib.unified_diff(wanted, got, f"{path.name} (golden)",
                                             f"{path.name} (now)", lineterm="")))
    if failed:
        print("\nif the new text is right: ERATOS_BINARY=build/eratos "
              "python3 tests/apps/golden_test.py --update")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
