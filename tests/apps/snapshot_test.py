#!/usr/bin/env python3
"""The file of `eratos memory --snapshot`: PyTorch's own tools read it, the memory viewer's reader
knows every opcode in it, and replaying its events gives its peak, without overlap.

Where torch is missing, what needs it is skipped and says so.
"""

import json
import os
import pathlib
import pickle
import pickletools
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from schema_test import faults_of  # noqa: E402

ROOT = pathlib.Path(os.environ.get("ERATOS_SOURCE_DIR",
                                   pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("ERATOS_BINARY") or str(ROOT / "build" / "eratos")
JOB = str(ROOT / "tests" / "apps" / "jobs" / "dense.yaml")
JOBS = {
    "dense": [JOB, "--cluster", "h100-sxm-2x8"],
    "rank 0": [JOB, "--cluster", "h100-sxm-2x8", "--rank", "0"],
    "moe": [str(ROOT / "tests" / "apps" / "jobs" / "moe.yaml")],
    "many": ["llama3.1-8b", "--cluster", "h100-sxm-1x8", "--set", "parallel.tp=8",
             "--set", "batch.global=4096"],
}

# What unpickle() of pytorch/pytorch torch/utils/viz/MemoryViz.js handles.
VIEWER = set("""APPENDS BINGET BININT BININT1 BININT2 EMPTY_DICT EMPTY_LIST FRAME LONG1 LONG_BINGET
MARK MEMOIZE PROTO SETITEMS SHORT_BINUNICODE STOP TUPLE2 APPEND NEWFALSE BINPUT BINUNICODE EMPTY_TUPLE
NEWTRUE NONE BINFLOAT TUPLE TUPLE1 TUPLE3 LONG_BINPUT LIST DICT SETITEM""".split())

LARGEST = 40e6  # bytes of a file


def run(*arguments):
    return subprocess.run([BINARY, "memory", *arguments], capture_output=True, text=True,
                          timeout=120)


class Snapshots(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.bytes = {}
        cls.answers = {}
        for name, arguments in JOBS.items():
            path = pathlib.Path(cls.folder.name) / f"{name}.pickle"
            done = run(*arguments, "--snapshot", str(path), "--format", "json")
            assert done.returncode == 0, done.stderr
            cls.bytes[name] = path.read_bytes()
            cls.answers[name] = json.loads(done.stdout)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def snapshots(self):
        for name, data in self.bytes.items():
            with self.subTest(name):
                yield name, pickle.loads(data)

    def test_viewer_knows_every_opcode(self):
        for name, data in self.bytes.items():
            with self.subTest(name):
                used = {op.name for op, _, _ in pickletools.genops(data)}
                self.assertFalse(used - VIEWER)
                self.assertLess(len(data), LARGEST)

    def test_replay_gives_the_peak(self):
        for name, snapshot in self.snapshots():
            events = snapshot["device_traces"][0]
            segments, live, level, peak, last = {}, {}, 0, 0, 0
            for e in events:
                self.assertGreaterEqual(e["time_us"], last)
                last = e["time_us"]
                if e["action"] == "segment_alloc":
                    segments[e["addr"]] = e["size"]
                elif e["action"] == "alloc":
                    self.assertNotIn(e["addr"], live)
                    live[e["addr"]] = e
                    level += e["size"]
                    peak = max(peak, level)
                elif e["action"] == "free_requested":
                    self.assertEqual(live[e["addr"]]["size"], e["size"])
                else:
                    self.assertEqual(e["action"], "free_completed")
                    level -= live.pop(e["addr"])["size"]
            self.assertEqual(peak, snapshot["eratos"]["peak_bytes"])
            timeline = self.answers[name]["memory"]["timeline"]
            self.assertEqual(peak, max(p["allocated_bytes"] for p in timeline["phases"]))
            self.assertEqual(timeline["stage"], snapshot["eratos"]["pipeline_rank"])
            # The model's own figure: state tensors are rounded up to a byte here.
            model = self.answers[name]["memory"]["stages"][timeline["stage"]]["peak_bytes"]
            self.assertLess(abs(peak - model), 5000)
            # What is left is what the segments hold, and blocks cover segments.
            sizes = {s["address"]: s["total_size"] for s in snapshot["segments"]}
            self.assertEqual(sizes, segments)
            held = {}
            for s in snapshot["segments"]:
                self.assertEqual(sum(b["size"] for b in s["blocks"]), s["total_size"])
                for b in s["blocks"]:
                    if b["state"] == "active_allocated":
                        held[b["address"]] = b["requested_size"]
            self.assertEqual(held, {a: e["size"] for a, e in live.items()})

    def test_the_timeline_keeps_its_schema(self):
        schema = json.loads((ROOT / "docs" / "schema" / "memory.json").read_text())
        for name, answer in self.answers.items():
            with self.subTest(name):
                timeline = answer["memory"]["timeline"]
                self.assertEqual(list(faults_of(timeline, schema, "timeline")), [])
                self.assertTrue(timeline["top_tensors"])
                del timeline["phases"][0]["time_s"]
                self.assertTrue(list(faults_of(timeline, schema, "timeline")))

    def test_stacks_name_what_is_held(self):
        for _, snapshot in self.snapshots():
            events = [e for e in snapshot["device_traces"][0] if e["action"] == "alloc"]
            for e in events:
                self.assertTrue(e["frames"])
                for frame in e["frames"]:
                    self.assertEqual(set(frame), {"filename", "line", "name"})
            outer = {(e["frames"][-1]["filename"], e["frames"][-1]["line"]) for e in events}
            traced = snapshot["eratos"]["micro_batches_traced"]
            self.assertEqual({n for f, n in outer if f == "forward"}, set(range(traced)))

    def test_many_micro_batches_are_cut(self):
        about = pickle.loads(self.bytes["many"])["eratos"]
        self.assertEqual(about["micro_batches"], 4096)
        self.assertLess(about["micro_batches_traced"], 4096)

    def test_equal_jobs_give_equal_bytes(self):
        path = pathlib.Path(self.folder.name) / "again.pickle"
        self.assertEqual(run(*JOBS["dense"], "--snapshot", str(path)).returncode, 0)
        self.assertEqual(path.read_bytes(), self.bytes["dense"])
        refused = run(*JOBS["dense"], "--snapshot", str(path))
        self.assertEqual(refused.returncode, 2)  # never over a file without --force
        self.assertEqual(path.read_bytes(), self.bytes["dense"])

    def test_a_rank_that_is_not_there(self):
        done = run(*JOBS["dense"], "--rank", "99")
        self.assertEqual(done.returncode, 3)
        self.assertIn("there is no pipeline rank 99", done.stderr)

    def test_torch_reads_it(self):
        try:
            from torch.cuda import _memory_viz as viz
        except ImportError as missing:
            self.skipTest(f"torch's memory tools are not there: {missing}")
        for _, snapshot in self.snapshots():
            if hasattr(viz, "trace"):  # 2.0 and later
                self.assertIn("entries", viz.trace(snapshot))
                self.assertIn("total_allocated", viz.segsum(snapshot))
                self.assertIn("snapshot.pickle", viz.trace_plot(snapshot))
                given = snapshot
            else:  # 1.13: the list of segments is the snapshot
                given = snapshot["segments"]
                stats = viz.stats(given)
                held = sum(s["allocated_size"] for s in given)
                self.assertEqual(stats["active_allocated"].value, held)
            flames = viz.memory(given, format_flamegraph=lambda lines: lines)
            self.assertIn("active_allocated", flames)
            self.assertTrue(viz.segments(given, format_flamegraph=lambda lines: lines))


if __name__ == "__main__":
    unittest.main()
