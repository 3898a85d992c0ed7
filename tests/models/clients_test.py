#!/usr/bin/env python3
"""The npm clients `openai` and `@anthropic-ai/sdk` as outside judges of both ends of a talk.

What `eratos tune` sends is compiled against their types and sent again by them; what
model_server.py answers is read by their own code, streamed and whole.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from model_server import ModelServer  # noqa: E402
from node import packages, run_node  # noqa: E402

NODE = packages()
BINARY = os.path.abspath(os.environ["ERATOS_BINARY"])
CALLS = [{"calls": [("list_axes", {}), ("note", {"text": "a < b"})], "text": "I look."},
         {"calls": [("project", "{broken")]},
         {"text": "hm"},
         {"calls": [("project", {"change": {"tp": 4}})]},
         {"calls": [("finish", {"trial": 2, "cites": [1, 2],
                                "rationale": "trial 2 is faster than trial 1"})]}]


def bodies_of(api):
    """Every request of a talk with all kinds of messages in it."""
    script = [c for c in CALLS if api == "openai" or "{broken" not in json.dumps(c)]
    with ModelServer(list(script)) as server, tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items() if not k.startswith("ERATOS_MODEL")}
        env["ERATOS_MODEL"] = "judged"
        env["ERATOS_MODEL_URL"] = server.url if api == "openai" else server.origin
        done = subprocess.run([BINARY, "tune", "llama3.1-8b", "--cluster", "h100-sxm-1x8", "-o",
                               folder + "/out", "--seed-budget", "0", "--set", "parallel.tp=2",
                               "--axes", "rest=job tp=2,4,8", "--model-api", api],
                              capture_output=True, text=True, env=env, timeout=60)
        if done.returncode != 0 or server.faults or len(server.requests) != len(script):
            sys.exit(f"tune with {api}: exit {done.returncode} {server.faults}\n{done.stderr}")
        return [r["body"] for r in server.requests]


def compile_bodies(bodies):
    kinds = {"openai": ("openai/resources/chat/completions", "ChatCompletionCreateParamsStreaming"),
             "anthropic": ("@anthropic-ai/sdk/resources/messages", "MessageCreateParamsStreaming")}
    lines = []
    for api, (module, kind) in kinds.items():
        lines.append(f'import type {{ {kind} }} from "{module}";')
        for i, body in enumerate(bodies[api]):
            lines.append(f"export const {api}{i}: {kind} = {json.dumps(body)};")
    place = NODE / "bodies.ts"
    tsc = ["node_modules/.bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--types", "",
           "--module", "nodenext", "--moduleResolution", "nodenext", "--target", "es2022",
           "--lib", "es2023,dom", "bodies.ts"]
    place.write_text("\n".join(lines) + "\n")
    done = subprocess.run(tsc, cwd=NODE, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        sys.exit("what eratos sends is not of the clients' types:\n" + done.stdout + done.stderr)
    # A test that cannot fail is none: a wrong type is seen.
    place.write_text("\n".join(lines).replace('"role": "user"', '"role": "nobody"') + "\n")
    if subprocess.run(tsc, cwd=NODE, capture_output=True, timeout=120).returncode == 0:
        sys.exit("the compiler took a message of nobody's")


def main():
    bodies = {api: bodies_of(api) for api in ("openai", "anthropic")}
    compile_bodies(bodies)
    answer = {"text": "I try.", "calls": [("project", {"change": {"tp": 4, "note": "é<&>\n"}}),
                                          ("best", {})]}
    with ModelServer(lambda _: answer) as server, tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "bodies.json"
        file.write_text(json.dumps(bodies))
        done = run_node(HERE / "clients.mjs", server.origin, str(file), folder=NODE)
        print(done.stdout, done.stderr, sep="\n")
        if server.faults:
            sys.exit(f"the server of the tests: {server.faults}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
