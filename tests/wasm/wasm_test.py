"""The core compiles to WebAssembly and answers there as it does natively."""

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(os.environ["ERATOS_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["ERATOS_BUILD_DIR"])

if __name__ == "__main__":
    if shutil.which("em++") is None:
        print("skipped: no em++; ./dev test installs it on Debian")
        sys.exit(77)  # ctest counts it as skipped
    sys.exit(subprocess.run([ROOT / "scripts" / "check_wasm.sh", BUILD / "wasm",
                             BUILD / "tests" / "core_alone"]).returncode)
