#!/usr/bin/env python3
"""`eratos mcp` over its standard input and output, message by message.

    ERATOS_BINARY=build/eratos python3 tests/serve/mcp_stdio_test.py
"""

import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

BINARY = os.path.abspath(os.environ["ERATOS_BINARY"])
JOB = ["--set", "batch.global=64"]


class Server:
    def __init__(self, *arguments, folder=None):
        self.process = subprocess.Popen([BINARY, "mcp", *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        cwd=folder)
        self.number = 0

    def send(self, message):
        self.process.stdin.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
        self.process.stdin.flush()

    def receive(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, method, params=None, version="2.0"):
        self.number += 1
        message = {"jsonrpc": version, "id": self.number, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        answer = self.receive()
        assert answer["id"] == self.number, answer
        return answer

    def begin(self, version="2025-11-25"):
        answer = self.ask("initialize", {"protocolVersion": version, "capabilities": {},
                                         "clientInfo": {"name": "test", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]

    def call(self, tool, **arguments):
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]

    def data(self, tool, **arguments):
        result = self.call(tool, **arguments)
        assert not result["isError"], result
        return json.loads(result["content"][0]["text"])

    def end(self):
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err


class Stdio(unittest.TestCase):
    def test_axes_are_words_as_a_search_has_them(self):
        for words in (["--axes", "rest=job tp=1,2"], ["--axes", "rest=job", "--axes", "tp=1,2"]):
            s = Server("llama3.1-8b", "--cluster", "h100-sxm-2x8", *JOB, *words)
            s.begin()
            axes = s.data("list_axes")["axes"]
            self.assertEqual({name: axis["values"] for name, axis in axes.items()}, {"tp": ["1", "2"]})
            self.assertEqual(s.end()[0], 0)

    def test_a_plan_from_start_to_end(self):
        s = Server("llama3.1-8b", "--cluster", "h100-sxm-1x8", *JOB)
        self.assertEqual(s.begin("2025-06-18")["protocolVersion"], "2025-06-18")
        tools = s.ask("tools/list")["result"]["tools"]
        names = [t["name"] for t in tools]
        self.assertIn("project", names)
        self.assertNotIn("finish", names)  # of a talk that eratos leads
        for t in tools:
            self.assertEqual(t["inputSchema"]["type"], "object")
            self.assertNotIn("job", t["inputSchema"]["properties"])
        axes = s.data("list_axes")["axes"]
        self.assertIn("tp", axes)
        trial = s.data("project", change={"tp": 2, "sequence_parallel": True})
        self.assertEqual(trial["verdict"], "fits")
        self.assertEqual(s.data("best")["projected"]["trial"], trial["best_so_far"])
        self.assertGreater(len(s.data("explain", trial=trial["trial"])["losses_share_of_step"]), 2)
        found = s.data("search", axes={"tp": "all", "micro": [1, 2, 4]}, top=1)
        self.assertTrue(found["proven"])
        refused = s.call("project", change={"tp": 3})
        self.assertTrue(refused["isError"])
        self.assertIn("it may be 1, 2, 4, 8", refused["content"][0]["text"])
        measure = s.call("measure", change={"tp": 2})
        self.assertTrue(measure["isError"])
        code, out, err = s.end()
        self.assertEqual((code, out, err), (0, "", ""))

    def test_a_job_a_call(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "below").mkdir()
            (root / "below" / "job.yaml").write_text(
                "model: llama3.1-8b\nbatch: {global: 64, sequence: 4096}\ncluster: h100-sxm-1x8\n")
            (root / "secret.yaml").write_text("password: hunter2\n")
            # A link leads out of the folder, and what is hidden is no job of anybody's.
            (root / "below" / "link.yaml").symlink_to(root / "secret.yaml")
            (root / "below" / "out").symlink_to(root)
            (root / "below" / ".netrc").write_text("hunter2\n")
            (root / "below" / ".aws").mkdir()
            (root / "below" / ".aws" / "credentials").write_text("hunter2\n")
            s = Server(folder=root / "below")
            s.begin()
            tools = s.ask("tools/list")["result"]["tools"]
            for t in tools:
                self.assertIn("job", t["inputSchema"]["required"])
            self.assertIn("llama3.1-8b", json.dumps(s.data("describe_job", job="job.yaml")))
            first = s.data("project", job="llama3.1-8b", cluster="h100-sxm-1x8", change={"tp": 2})
            again = s.data("best", job="llama3.1-8b", cluster="h100-sxm-1x8")
            self.assertEqual(again["projected"]["trial"], first["best_so_far"])
            for outside in ("../secret.yaml", str(root / "secret.yaml"), "x/../../secret.yaml",
                            "~/x", "link.yaml", "out/secret.yaml", ".netrc", "./.netrc",
                            ".aws/credentials"):
                refused = s.call("describe_job", job=outside)
                self.assertTrue(refused["isError"])
                self.assertNotIn("hunter2", json.dumps(refused))
                refused = s.call("describe_job", job="job.yaml", cluster=outside)
                self.assertTrue(refused["isError"])
                self.assertNotIn("hunter2", json.dumps(refused))
            self.assertTrue(s.call("describe_job")["isError"])
            self.assertIn("did you mean", json.dumps(s.call("describe_job", job="lama3.1-8b")))
            self.assertEqual(s.end()[0], 0)

    def test_protocol_faults(self):
        s = Server("llama3.1-8b", "--cluster", "h100-sxm-1x8")
        self.assertEqual(s.ask("tools/list")["error"]["code"], -32600)
        self.assertEqual(s.ask("ping")["result"], {})
        self.assertEqual(s.begin("1999-01-01")["protocolVersion"], "2025-11-25")
        s.send("{broken")
        self.assertEqual(s.receive()["error"]["code"], -32700)
        s.send("x" * 1_100_000)
        self.assertEqual(s.receive()["error"]["code"], -32700)
        self.assertEqual(s.ask("no/such")["error"]["code"], -32601)
        self.assertEqual(s.ask("tools/call", {"name": "shell"})["error"]["code"], -32602)
        self.assertEqual(s.ask("ping", version="1.0")["error"]["code"], -32600)
        s.send({"jsonrpc": "2.0", "method": "notifications/nobody"})
        self.assertEqual(s.ask("ping")["result"], {})
        # The last line counts without its end.
        s.process.stdin.write('{"jsonrpc":"2.0","id":"last","method":"ping"}')
        code, out, err = s.end()
        self.assertEqual(code, 0)
        self.assertEqual(json.loads(out)["id"], "last")
        self.assertEqual(err, "")

    def test_a_long_call_is_cancelled_and_pings_are_answered_meanwhile(self):
        s = Server("deepseek-v3", "--cluster", "h100-sxm-128x8", "--set", "batch.global=4096")
        s.begin()
        began = time.monotonic()
        s.send({"jsonrpc": "2.0", "id": "long", "method": "tools/call",
                "params": {"name": "search", "arguments": {"axes": {}, "rest": "all"}}})
        s.send({"jsonrpc": "2.0", "id": "p", "method": "ping"})
        self.assertEqual(s.receive()["id"], "p")
        s.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "long"}})
        self.assertIn("axes", s.data("list_axes"))
        self.assertLess(time.monotonic() - began, 10)  # the whole search takes longer
        code, out, _ = s.end()
        self.assertEqual((code, out), (0, ""))

    def test_what_cannot_be_read_is_said_before_the_protocol(self):
        done = subprocess.run([BINARY, "mcp", "no-such-model", "--cluster", "h100-sxm-1x8"],
                              input="", capture_output=True, text=True)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
