"""Where node and the packages of package.json are, or why a test that needs them is skipped.

The packages are looked for in $ERATOS_NODE_PACKAGES, a folder that holds node_modules, and in node/ of
the build folder, where `./dev test` puts them. Nothing is downloaded here.
"""

import os
import pathlib
import shutil
import subprocess
import sys

SKIPPED = 77


def packages():
    """The folder with node_modules; ends the test as skipped where something is missing."""
    if shutil.which("node") is None:
        print("skipped: node is not installed")
        sys.exit(SKIPPED)
    folders = [os.environ.get("ERATOS_NODE_PACKAGES"),
               os.path.join(os.environ.get("ERATOS_BUILD_DIR", "build"), "node")]
    for folder in filter(None, folders):
        if os.path.isdir(os.path.join(folder, "node_modules", "openai")):
            return pathlib.Path(folder).resolve()
    print("skipped: the packages of tests/models/package.json are not installed; `./dev test` does it "
          "where npm is")
    sys.exit(SKIPPED)


def run_node(script, *arguments, folder, timeout=60, **options):
    """Runs a script as if it lay beside node_modules: node finds packages by the script's place."""
    place = folder / script.name
    place.write_text(script.read_text())
    return subprocess.run(["node", str(place), *arguments], capture_output=True, text=True,
                          timeout=timeout, cwd=folder, **options)
