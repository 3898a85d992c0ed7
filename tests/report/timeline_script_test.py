"""The script of the page that zooms is JavaScript; needs node, skipped without."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ.get("ERATOS_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("ERATOS_BINARY") or str(ROOT / "build" / "eratos")

if shutil.which("node") is None:
    print("node is not here")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    page = pathlib.Path(folder) / "page.html"
    subprocess.run([BINARY, "schedule", "--pp", "2", "--micro-batches", "4", "--algorithm", "1f1b",
                    "--html", str(page)], check=True, stdout=subprocess.DEVNULL)
    scripts = re.findall(r"<script>(.*?)</script>", page.read_text(), re.S)
    if len(scripts) != 1:
        sys.exit(f"{len(scripts)} scripts, not one")
    script = pathlib.Path(folder) / "script.js"
    script.write_text(scripts[0])
    sys.exit(subprocess.run(["node", "--check", str(script)]).returncode)
