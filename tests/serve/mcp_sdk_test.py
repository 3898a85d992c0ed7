#!/usr/bin/env python3
"""The client of @modelcontextprotocol/sdk as an outside judge of `eratos mcp`."""

import os
import pathlib
import sys

ROOT = pathlib.Path(os.environ["ERATOS_SOURCE_DIR"]).resolve()
sys.path.insert(0, str(ROOT / "tests" / "models"))

from node import packages, run_node  # noqa: E402

done = run_node(ROOT / "tests" / "serve" / "mcp_client.mjs",
                os.path.abspath(os.environ["ERATOS_BINARY"]), folder=packages())
print(done.stdout, done.stderr, sep="\n")
sys.exit(done.returncode)
