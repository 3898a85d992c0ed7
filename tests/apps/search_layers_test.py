"""`eratos search --method layers`: a plan that its framework's file says, a proof, and why not."""

import json
import os
import signal
import subprocess
import tempfile
import unittest

ERATOS = os.environ["ERATOS_BINARY"]
JOB = ["llama3.1-70b", "--cluster", "h100-sxm-8x8", "--set", "batch.global=128", "--set",
       "batch.sequence=8192", "--set", "framework=primus-megatron", "--set", "parallel.tp=4", "--set",
       "parallel.pp=8", "--set", "parallel.sequence_parallel=true"]
TIGHT = ["--memory-margin", "0.35"]


def run(*arguments, code=0):
    done = subprocess.run([ERATOS, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def layers(*arguments, code=0):
    return run("search", *arguments, "--method", "layers", code=code)


class Layers(unittest.TestCase):
    def test_the_plan_is_proven_and_projects_alike(self):
        answer = json.loads(layers(*JOB, *TIGHT, "--format", "json").stdout)
        proof = answer["proof"]
        self.assertTrue(proof["proven"])
        self.assertEqual(proof["candidates"], sum(proof[k] for k in (
            "illegal", "not_by_layers", "too_big", "slower", "planned")))
        best = answer["best"]
        self.assertTrue(best["memory"]["fits"])
        # The first stage recomputes, the last one does not, and every layer stands somewhere.
        plan = best["plan"]
        self.assertGreater(len(plan[0]["recomputed"]), 0)
        self.assertEqual(plan[-1]["recomputed"], [])
        self.assertEqual(sum(stage["layers"] for stage in plan), 80)
        for before, after in zip(plan, plan[1:]):
            self.assertEqual(after["first_layer"], before["first_layer"] + before["layers"])
        alike = answer["all_stages_alike"]
        self.assertTrue(alike["proven"])
        self.assertGreater(best["throughput"]["tokens_per_s_per_gpu"], alike["tokens_per_s_per_gpu"])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "job.yaml")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(best["job"], file)
            projected = json.loads(run("project", path, *TIGHT, "--format", "json").stdout)
        self.assertEqual(projected["time"], best["time"])
        self.assertEqual(projected["memory"], best["memory"])

    def test_text_and_threads(self):
        one = layers(*JOB, *TIGHT, "--threads", "1").stdout
        self.assertEqual(one, layers(*JOB, *TIGHT, "--threads", "2").stdout)
        self.assertIn("no other choice of", " ".join(one.split()))
        self.assertIn("all stages alike:", one)
        self.assertIn("runs as a file of primus", one)

    def test_the_plan_is_written_for_its_framework(self):
        with tempfile.TemporaryDirectory() as folder:
            for target in ("primus", "megatron"):
                path = os.path.join(folder, target + ".yaml")
                done = layers(*JOB, *TIGHT, "--format", "json", "--best", path, "--to", target)
                self.assertNotIn("`recompute.", done.stderr)
                self.assertNotIn("`parallel.layout", done.stderr)
                answer = json.loads(done.stdout)
                self.assertEqual(answer["target"], target)
                read = json.loads(run("import", path, "--cluster", "h100-sxm-8x8", "--format",
                                      "json").stdout)["job"]
                for key in ("recompute", "parallel"):
                    self.assertEqual(read[key], answer["best"]["job"][key], (target, key))
            # Single layers are Primus's own.
            primus = os.path.join(folder, "primus.yaml")
            with open(primus, encoding="utf-8") as file:
                self.assertIn("recompute_layer_ids", file.read())
            with open(os.path.join(folder, "megatron.yaml"), encoding="utf-8") as file:
                self.assertNotIn("recompute_layer_ids", file.read())
            refused = run("export", primus, "--cluster", "h100-sxm-8x8", "--to", "megatron", code=3)
            self.assertIn("recompute.layer_ids", refused.stderr)
            self.assertIn("--to primus", refused.stderr)

    def test_several_candidates_and_what_is_not_by_layers(self):
        answer = json.loads(layers(*JOB, "--axes", "pp=4,8", "vpp=1,2", "--format", "json").stdout)
        self.assertEqual(answer["proof"]["candidates"], 4)
        self.assertEqual(answer["proof"]["not_by_layers"], 2)
        self.assertEqual({one["axes"]["pp"] for one in answer["top"]}, {"4", "8"})
        rates = [one["throughput"]["tokens_per_s_per_gpu"] for one in answer["top"]]
        self.assertEqual(rates, sorted(rates, reverse=True))

    def test_what_cannot_be_asked(self):
        for more, code, word in (
                (["--axes", "recompute=full"], 3, "chooses recompute itself"),
                (["--axes", "split=even"], 3, "chooses split itself"),
                (["--axes", "tb=4"], 3, "did you mean `tp`?"),
                (["--set", "parallel.vpp=2"], 3, "set parallel.vpp: 1"),
                (["--pareto"], 2, "--method exhaustive"),
                (["--nodes", "4..8"], 2, "one --nodes"),
                (["--store", "answers.db"], 2, "asks for none"),
                (["--to", "primus"], 2, "--best")):
            with self.subTest(more):
                self.assertIn(word, layers(*JOB, *more, code=code).stderr)

    def test_nothing_fits(self):
        text = layers(*JOB, "--memory-margin", "0.9", code=1).stdout
        self.assertIn("nothing fits: the least holds", text)
        answer = json.loads(layers(*JOB, "--memory-margin", "0.9", "--format", "json", code=1).stdout)
        self.assertIsNone(answer["best"])
        self.assertGreater(answer["closest"]["missing_bytes"], 0)

    def test_control_c_answers_with_the_best_so_far(self):
        many = ["--axes", "tp=1..8", "pp=1..16", "mbs=1..8", "cp=1..4", "sp=true,false", "--set",
                "batch.global=256"]
        process = subprocess.Popen([ERATOS, "search", *JOB, *many, "--method", "layers", "--format",
                                    "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        # It is at work when it says so, a second after it began.
        for line in process.stderr:
            if line.startswith("layers:"):
                process.send_signal(signal.SIGINT)
                break
        out, _ = process.communicate(timeout=60)
        answer = json.loads(out)
        self.assertIn(process.returncode, (0, 130))
        self.assertEqual(answer["interrupted"], process.returncode == 130)


if __name__ == "__main__":
    unittest.main()
