#!/usr/bin/env python3
"""Reports in every format: HTML that stands alone, CSV that parses, JSON whose parts add up."""

import csv
import html.parser
import io
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("ERATOS_SOURCE_DIR",
                                   pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("ERATOS_BINARY") or str(ROOT / "build" / "eratos")
JOB = str(ROOT / "tests" / "apps" / "jobs" / "moe.yaml")
VARY = "parallel.vpp=1"
PART = str(ROOT / "examples" / "hardware" / "h100-next.yaml")


def run(*arguments):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Balanced(html.parser.HTMLParser):
    """Every tag that is opened is closed, in order; remembers attributes and text."""
    VOID = {"meta", "rect", "br"}

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> inside {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        self.text += data


class HtmlTest(unittest.TestCase):
    PAGES = (("project", JOB), ("memory", JOB), ("compare", JOB, "--vary", VARY))

    def test_the_file_is_whole_and_loads_nothing(self):
        for command in self.PAGES:
            with self.subTest(command[0]):
                page = run(*command, "--format", "html")
                parser = Balanced()
                parser.feed(page)
                self.assertEqual(parser.open, [])
                for tag, attributes in parser.seen:
                    self.assertNotIn(tag, ("script", "link", "img", "iframe"))
                    self.assertFalse({"src", "href", "onload"} & set(attributes))
                for word in ("http:", "https:", "@import", "url("):
                    self.assertNotIn(word, page)
                self.assertIn("width=device-width", page)
                self.assertIn("prefers-color-scheme: dark", page)
                self.assertGreater(sum(tag == "rect" for tag, _ in parser.seen), 5)

    def test_it_says_what_the_text_says(self):
        page = Balanced()
        page.feed(run("project", JOB, "--format", "html"))
        answer = json.loads(run("project", JOB, "--format", "json"))
        self.assertIn(f"MFU {answer['throughput']['mfu']:.1%}", page.text)
        self.assertIn(f"{answer['throughput']['tokens_per_s_per_gpu']:,.0f} tokens/s/GPU", page.text)

    def test_words_of_the_user_are_escaped(self):
        page = run("project", JOB, "--set", "model.name=<script>&\"", "--format", "html")
        self.assertNotIn("<script", page)
        self.assertIn("&lt;script&gt;&amp;", page)


class ManyJobsTest(unittest.TestCase):
    """More jobs than columns: a line each, which a terminal has room for."""

    def test_every_schedule_is_a_line(self):
        text = run("project", JOB, "--schedule", "all")
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        rows = list(csv.DictReader(io.StringIO(run("project", JOB, "--schedule", "all",
                                                   "--format", "csv"))))
        self.assertGreater(len(rows), 5)
        figures = text.split("what each costs")[1].split("\n\n")[0].splitlines()[2:]
        self.assertEqual(len(figures), len(rows))
        for line, row in zip(figures, rows):
            self.assertTrue(line.strip().startswith(row["label"] + " "), line)
            cells = line.strip()[len(row["label"]):].split()
            self.assertEqual(cells[0], row["vpp"])
            self.assertEqual(cells[3], f"{float(row['step_ratio']):.3f}")
            self.assertEqual(cells[4], f"{float(row['tokens_per_s_per_gpu']):,.0f}")
            share = float(row["bubble_s"]) / float(row["step_s"])
            self.assertAlmostEqual(float(cells[6].rstrip("%")), 100 * share, delta=0.051)
            self.assertEqual(cells[8], "yes" if row["fits"] == "true" else "no")
        self.assertEqual(len({row["label"] for row in rows}), len(rows))

    def test_a_field_is_told_by_its_values(self):
        text = run("compare", JOB, "--vary", "batch.micro=1,2", "--vary", "overlap.p2p=true,false",
                   "--vary", "recompute.granularity=none,full")
        self.assertIn("what differs", text)
        self.assertIn("  recompute.granularity: none (the others), full (", text)


class CsvTest(unittest.TestCase):
    PARTS = ("compute_s", "bubble_s", "tp_s", "cp_s", "ep_s", "pp_s", "dp_s", "host_s",
             "optimizer_s", "launch_s")

    def test_parts_sum_to_the_step(self):
        for extra in ((), ("--set", "offload.layers=4")):
            for command in (("project", JOB), ("compare", JOB, "--vary", VARY)):
                text = run(*command, *extra, "--format", "csv")
                for row in csv.DictReader(io.StringIO(text)):
                    total = sum(float(row[part]) for part in self.PARTS)
                    self.assertAlmostEqual(total / float(row["step_s"]), 1, places=9)
                    self.assertEqual(float(row["host_s"]) > 0, bool(extra))

    def test_rows_are_the_answers(self):
        rows = list(csv.DictReader(io.StringIO(run("compare", JOB, "--vary", VARY,
                                                   "--format", "csv"))))
        answer = json.loads(run("project", JOB, "--set", VARY, "--format", "json"))
        self.assertEqual([row["label"] for row in rows], ["as it is", VARY])
        self.assertEqual(float(rows[1]["step_s"]), answer["time"]["step_s"])
        self.assertEqual(float(rows[0]["step_ratio"]), 1)

    def test_memory_has_a_row_a_stage(self):
        rows = list(csv.DictReader(io.StringIO(run("memory", JOB, "--format", "csv"))))
        stages = json.loads(run("memory", JOB, "--format", "json"))["memory"]["stages"]
        self.assertEqual([float(r["device_bytes"]) for r in rows],
                         [s["device_bytes"] for s in stages])


class CompareJsonTest(unittest.TestCase):
    def test_parts_explain_the_whole_difference(self):
        answer = json.loads(run("compare", JOB, "--vary", VARY, "--format", "json"))
        first, second = answer["jobs"]
        against = second["against_first"]
        delta = second["time"]["step_s"] - first["time"]["step_s"]
        self.assertAlmostEqual(against["step_s"]["delta"], delta, 12)
        self.assertAlmostEqual(sum(p["delta"] for p in against["parts"].values()), delta, 9)
        self.assertAlmostEqual(sum(p["share_of_difference"] for p in against["parts"].values()), 1,
                               6)
        for key in ("compute_s", "bubble_s", "optimizer_s", "launch_s"):
            self.assertAlmostEqual(against["parts"][key]["delta"],
                                   second["time"][key] - first["time"][key], 12, key)
        self.assertIn(VARY.split("=")[0], [d["path"] for d in answer["differences"]])
        self.assertEqual(answer["schema"], 1)


class DescribedPartTest(unittest.TestCase):
    """A part with twice the memory bandwidth, 1.2 times the matrix rate and a domain of 16, beside
    its parent: what memory bounds takes half the time, what products bound 1/1.2 of it at best, a
    group that crossed nodes stays inside, and bytes stay what they were."""

    JOBS = {
        "llama3.1-8b": ("--set", "parallel.tp=4", "--set", "batch.global=128", "--nodes", "2"),
        "llama3.1-70b": ("--set", "parallel.tp=8", "--set", "parallel.pp=2", "--set",
                         "parallel.sequence_parallel=true", "--nodes", "8"),
        "mixtral-8x7b": ("--set", "parallel.tp=1", "--set", "parallel.etp=1", "--set",
                         "parallel.ep=8", "--set", "parallel.pp=4", "--nodes", "8"),
    }

    def compared(self, model):
        return json.loads(run("compare", model, *self.JOBS[model], "--cluster", "h100-sxm",
                              "--cluster", PART, "--format", "json"))

    def test_the_difference_explains_itself(self):
        for model in self.JOBS:
            with self.subTest(model):
                answer = self.compared(model)
                parent, child = answer["jobs"]
                paths = {d["path"]: d["values"] for d in answer["differences"]}
                self.assertEqual(paths["hardware.memory.bandwidth_bytes_per_s"],
                                 [3.35e12, 6.7e12])
                self.assertEqual(paths["hardware.scale_up.domain_gpus"], [8, 16])
                self.assertFalse([p for p in paths if p.startswith(("model", "parallel", "batch"))])
                against = child["against_first"]
                self.assertLess(against["step_s"]["ratio"], 1)
                self.assertGreater(against["step_s"]["ratio"], 0.5)
                norm = against["by_module_s"]["norm"]["ratio"]
                self.assertGreater(norm, 0.49)
                self.assertLess(norm, 0.60)  # its launch does not shrink
                product = "expert_in" if "expert_in" in against["by_module_s"] else "mlp_in"
                compute = against["by_module_s"][product]["ratio"]
                self.assertGreater(compute, 1 / 1.2 - 1e-6 if product == "mlp_in" else 0.5)
                self.assertLess(compute, 1)
                self.assertEqual(against["device_peak_bytes"]["delta"], 0)

    def test_less_is_claimed_and_said(self):
        parent, child = self.compared("llama3.1-8b")["jobs"]

        def width(job):
            low, high = job["confidence"]["step_s"]
            return high / low

        self.assertGreater(width(child), width(parent) * 1.2)
        codes = {w["code"] for w in child["warnings"]}
        self.assertLessEqual({"hardware-described", "hardware-borrowed", "calibration-borrowed"},
                             codes)
        self.assertFalse({"hardware-described"} & {w["code"] for w in parent["warnings"]})
        text = " ".join(w["message"] for w in child["warnings"])
        self.assertIn("nic_bytes_per_s", text)

    def test_what_each_figure_would_buy(self):
        def ratio(vary, cluster="h100-sxm-2x8"):
            answer = json.loads(run("compare", "llama3.1-8b", "--set", "parallel.tp=4", "--set",
                                    "batch.global=128", "--cluster", cluster, "--vary", vary,
                                    "--format", "json"))
            return answer["jobs"][1]["against_first"]

        self.assertLess(ratio("hardware.compute=x2")["step_s"]["ratio"], 0.8)
        self.assertLess(ratio("hardware.bandwidth=x2")["step_s"]["ratio"], 1)
        faster = ratio("hardware.scale_up=x2")
        self.assertGreater(faster["parts"]["tp_s"]["share_of_difference"], 0.9)
        network = ratio("hardware.network=x2", "eos-2x8")
        self.assertGreater(network["parts"]["dp_s"]["share_of_difference"], 0.9)
        self.assertLess(network["parts"]["dp_s"]["ratio"], 0.8)
        room = ratio("hardware.capacity=x2")
        self.assertEqual(room["step_s"]["delta"], 0)
        self.assertGreater(ratio("hardware.bandwidth=x0.5")["step_s"]["ratio"], 1)

    def test_a_cluster_file_takes_a_part_file_beside_it(self):
        lab = str(ROOT / "examples" / "hardware" / "lab.yaml")
        answer = json.loads(run("project", "llama3.1-70b", "--cluster", lab, "--set",
                                "parallel.tp=8", "--set", "parallel.pp=2", "--format", "json"))
        cluster = answer["job"]["cluster"]
        self.assertEqual(cluster["accelerator"]["kin"], "h100-sxm")
        self.assertEqual([level["gpus"] for level in cluster["levels"]], [16, 64])

    def test_the_written_job_is_the_same_job(self):
        first = json.loads(run("import", "llama3.1-8b", "--cluster", PART, "--format", "json"))
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(first["job"], file)
            file.flush()
            again = json.loads(run("import", file.name, "--format", "json"))
        self.assertEqual(again["job"], first["job"])


if __name__ == "__main__":
    unittest.main()
