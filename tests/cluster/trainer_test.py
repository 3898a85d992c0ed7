#!/usr/bin/env python3
"""The trainer of bench/cpu_cluster trains: under every cut the gradients are those of one process, and the
loss falls; a file it cannot run is refused. Two ranks, seconds. Skipped (77) without PyTorch or gloo."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.environ.setdefault("ERATOS_SOURCE_DIR", os.path.dirname(os.path.dirname(HERE)))
BENCH = os.path.join(SOURCE, "bench", "cpu_cluster")
sys.path.insert(0, BENCH)

try:
    import torch.distributed
    import yaml
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    print("skipped: PyTorch without gloo")
    sys.exit(77)


def run_ranks():
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, os.path.join(HERE, "layouts.py")]
        ranks = [subprocess.Popen(command + [str(r), os.path.join(folder, "store")], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) for r in range(2)]
        out = [p.communicate(timeout=120) for p in ranks]
    for process, (_, said) in zip(ranks, out):
        if process.returncode:
            raise AssertionError(said)
    return [json.loads(text) for text, _ in out]


class Trainer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ranks = run_ranks()
        cls.long = [rank.pop("long") for rank in cls.ranks][0]

    def test_gradients_are_those_of_one_process(self):
        for rank in self.ranks:
            for cut, found in rank.items():
                self.assertGreater(found["tensors"], 3, cut)
                self.assertLess(found["error"], 1e-5, cut)

    def test_losses_are_those_of_one_process(self):
        for cut, found in self.ranks[0].items():
            for mine, alone in zip(found["losses"], found["alone"]):
                self.assertAlmostEqual(mine, alone, places=4, msg=cut)

    def test_loss_falls(self):
        self.assertLess(self.long[-1], self.long[0] - 0.05)

    def test_recompute_holds_less(self):
        for cut in ("dp2", "zero3", "tp2", "pp2"):
            self.assertLess(self.ranks[0][cut + " recompute"]["held"], 0.5 * self.ranks[0][cut]["held"], cut)

    def test_first_pipeline_rank_holds_two_micro_batches(self):
        # No more bytes than twice one layer's; the last rank has the head but one micro-batch.
        self.assertGreater(self.ranks[0]["pp2"]["held"], self.ranks[1]["pp2"]["held"])


class Jobs(unittest.TestCase):
    def test_every_config_can_be_run(self):
        import job
        names = os.listdir(os.path.join(BENCH, "configs"))
        self.assertGreaterEqual(len(names), 16)
        for name in names:
            found = job.read(os.path.join(BENCH, "configs", name))
            self.assertEqual(found.name + ".yaml", name)

    def test_what_the_trainer_lacks_is_refused_all_at_once(self):
        with open(os.path.join(BENCH, "configs", "mid-tp2.yaml"), encoding="utf-8") as file:
            tree = yaml.safe_load(file)
        tree["precision"]["recipe"] = "bf16"
        tree["model"]["kv_heads"] = 3
        tree["batch"]["packed_length"] = 64
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(tree, file)
            file.flush()
            run = subprocess.run([sys.executable, os.path.join(BENCH, "train.py"), file.name],
                                 capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 3)
        for word in ("precision.recipe must be fp32", "tp does not divide the heads", "batch.packed_length"):
            self.assertIn(word, run.stderr)


if __name__ == "__main__":
    unittest.main()
