"""How the pages of accuracy are written, and how the program is asked for what stands in them."""

import json
import subprocess
import sys


def asked(command):
    """The JSON that a command of the program answers; its words and an end where it fails."""
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr.decode()}")
    return json.loads(done.stdout)


def percent(value, sign=False):
    return f"{100 * value:{'+' if sign else ''}.1f}%"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"
