#!/usr/bin/env python3
"""`eratos schedule`: JSON against docs/schema/schedule.json, its sums, formats, files and faults."""

import csv
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ET

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BINARY = os.environ.get("ERATOS_BINARY") or str(ROOT / "build" / "eratos")

sys.path.insert(0, str(HERE))
from formats_test import Balanced  # noqa: E402
from schema_test import faults_of  # noqa: E402

STAGES = ["--times", str(ROOT / "examples" / "schedule" / "stages.yaml")]
ASKED = [
    ["--algorithm", "all", "--pp", "4", "--micro-batches", "8"],
    ["--algorithm", "all", "--pp", "2", "--micro-batches", "3"],
    ["--algorithm", "all", "--pp", "4", "--micro-batches", "8", *STAGES],
    ["--algorithm", "all", "--pp", "4", "--micro-batches", "10", "--vpp", "2", *STAGES,
     "--memory-limit", "16GiB", "--sends", "blocking"],
    ["--pp", "4", "--vpp", "3", "--micro-batches", "8", "--order"],
    ["--pp", "4", "--micro-batches", "6", "--output-layer", "two-barriers", "--output-work", "0.3"],
    ["--pp", "4", "--micro-batches", "6", "--output-layer", "one-barrier", "--output-work", "0.3",
     "--held", "2GiB", "--output-held", "3GiB"],
    ["--algorithm", "zb-auto", "--pp", "4", "--micro-batches", "8", "--memory-limit", "5.5"],
    ["--algorithm", "zbv", "--pp", "4", "--micro-batches", "8", "--forward", "10ms", "--send",
     "100us", "--held", "2GiB", "--kept", "1GiB"],
]


def run(*arguments):
    return subprocess.run([BINARY, "schedule", *arguments], capture_output=True, text=True,
                          check=False, timeout=120)


def answer(*arguments):
    done = run(*arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def unit(node, name):
    """The value of `name`, whatever its unit: exactly one may be there."""
    found = [v for k, v in node.items()
             if k in (f"{name}_s", f"{name}_units", f"{name}_bytes", f"{name}_stage_micro_batches")]
    assert len(found) == 1, (name, node)
    return found[0]


class JsonTest(unittest.TestCase):
    def test_it_is_as_the_schema_says(self):
        schema = json.loads((ROOT / "docs" / "schema" / "schedule.json").read_text())
        for asked in ASKED:
            with self.subTest(" ".join(asked)):
                self.assertEqual(list(faults_of(answer(*asked), schema, "answer")), [])

    def test_times_add_up_and_bounds_hold(self):
        for asked in ASKED:
            for s in answer(*asked)["schedules"]:
                with self.subTest(" ".join(asked), schedule=s["schedule"]):
                    makespan = unit(s, "makespan")
                    self.assertLessEqual(unit(s, "lower_bound"), makespan * (1 + 1e-12))
                    self.assertGreaterEqual(unit(s, "upper_bound"), makespan * (1 - 1e-12))
                    self.assertLessEqual(unit(s, "step_to_step"), makespan * (1 + 1e-12))
                    for r in s["ranks"]:
                        parts = sum(unit(r, p) for p in ("busy", "transfer", "idle"))
                        self.assertAlmostEqual(parts, makespan, 9)
                    critical = s["ranks"][s["critical_rank"]]
                    self.assertEqual(unit(s, "bubble"), unit(critical, "idle"))
                    self.assertAlmostEqual(s["bubble_ratio"], unit(s, "bubble") / makespan, 12)
                    peaks = [unit(r, "peak") for r in s["ranks"]]
                    self.assertEqual(unit(s, "peak"), max(peaks))
                    self.assertEqual(s["peak_rank"], peaks.index(max(peaks)))

    def test_every_schedule_is_answered_or_refused_with_a_reason(self):
        listed = subprocess.run([BINARY, "list", "schedules", "--format", "json"],
                                capture_output=True, check=True, timeout=60)
        known = set(json.loads(listed.stdout)["schedules"])
        for asked in ASKED[:4]:
            got = answer(*asked)
            names = [s["schedule"] for s in got["schedules"]] + [r["schedule"]
                                                                 for r in got["refused"]]
            self.assertEqual(len(names), len(set(names)))
            self.assertEqual(set(names) - {"optimal"}, known)
            makespans = [unit(s, "makespan") for s in got["schedules"]]
            self.assertEqual(makespans, sorted(makespans))
            self.assertLessEqual(sum(s["auto"] for s in got["schedules"]), 1)

    def test_numbers_of_the_comparison_are_those_of_the_schedule_alone(self):
        shape = ["--pp", "4", "--micro-batches", "24", *STAGES]
        for s in answer("--algorithm", "all", *shape)["schedules"]:
            if s["schedule"] == "optimal":
                continue
            alone = answer("--algorithm", s["schedule"], "--vpp", str(s["vpp"]), *shape)
            one = alone["schedules"][0]
            for key in s:
                if key not in ("ranks", "auto"):
                    self.assertEqual(one[key], s[key], (s["schedule"], key))
            self.assertEqual([unit(r, "peak") for r in one["ranks"]],
                             [unit(r, "peak") for r in s["ranks"]], s["schedule"])

    def test_a_small_shape_has_its_optimum_and_nothing_of_its_kind_is_better(self):
        got = answer("--algorithm", "all", "--pp", "2", "--micro-batches", "3")
        of = {s["schedule"]: s for s in got["schedules"]}
        self.assertTrue(of["optimal"]["proven"])
        for name in ("1f1b", "gpipe", "zb-h1", "zb-h2", "zb-auto"):
            self.assertGreaterEqual(unit(of[name], "makespan"), unit(of["optimal"], "makespan"))

    def test_the_optimum_under_a_limit_is_searched_when_asked_for(self):
        got = answer("--algorithm", "optimal", "--pp", "2", "--micro-batches", "2",
                     "--memory-limit", "1", "--time-limit", "20s")
        one = got["schedules"][0]
        # One micro-batch at a time down and up, and at the end rank 0's last W.
        self.assertLessEqual(unit(one, "peak"), 1)
        self.assertTrue(one["proven"])
        self.assertEqual(unit(one, "makespan"), unit(one, "lower_bound"))

    def test_published_numbers_of_the_comparison(self):
        got = answer("--algorithm", "all", "--pp", "8", "--micro-batches", "32")
        of = {s["schedule"]: s for s in got["schedules"]}
        # arXiv 2401.10241 table 2, arXiv 2405.15362 section 3, with F = B = W = 1.
        self.assertEqual(of["1f1b"]["bubble_units"], 7 * 3)
        self.assertEqual(of["interleaved-1f1b"]["bubble_units"], 7 * 3 / 2)
        self.assertEqual(of["zb-h1"]["bubble_units"], 7)
        self.assertEqual(of["1f1b"]["peak_stage_micro_batches"], 8)
        self.assertEqual(of["interleaved-1f1b"]["peak_stage_micro_batches"], 8 + 7 / 2)
        self.assertEqual(of["gpipe"]["peak_stage_micro_batches"], 32)
        self.assertEqual(of["zb-h2"]["peak_stage_micro_batches"], 15)


class FormatsTest(unittest.TestCase):
    def test_csv_has_a_line_a_schedule_or_a_rank(self):
        shape = ["--pp", "4", "--micro-batches", "8"]
        got = answer("--algorithm", "all", *shape)
        rows = list(csv.DictReader(io.StringIO(run("--algorithm", "all", *shape, "--format",
                                                   "csv").stdout)))
        self.assertEqual([r["schedule"] for r in rows if r["status"] == "ok"],
                         [s["schedule"] for s in got["schedules"]])
        self.assertEqual([float(r["makespan_units"]) for r in rows if r["status"] == "ok"],
                         [s["makespan_units"] for s in got["schedules"]])
        self.assertEqual([r["schedule"] for r in rows if r["status"] == "refused"],
                         [r["schedule"] for r in got["refused"]])
        ranks = list(csv.DictReader(io.StringIO(run(*shape, "--format", "csv").stdout)))
        self.assertEqual([float(r["peak_stage_micro_batches"]) for r in ranks], [4, 3, 2, 1])

    def test_html_stands_alone(self):
        for asked in (ASKED[0], ASKED[4]):
            done = run(*asked, "--format", "html")
            self.assertEqual(done.returncode, 0, done.stderr)
            page = Balanced()
            page.VOID = {"meta", "br"}  # the drawing's rectangles have titles inside
            page.feed(done.stdout)
            self.assertEqual(page.open, [])
            for tag, attributes in page.seen:
                self.assertNotIn(tag, ("script", "link", "img", "iframe"))
                self.assertFalse({"src", "onload"} & set(attributes))

    def test_markdown_has_its_tables(self):
        done = run(*ASKED[0], "--format", "markdown")
        self.assertIn("| 1f1b (auto) | 1 | 33 |", done.stdout)
        self.assertIn("```\nrank 0", run(*ASKED[4], "--format", "markdown").stdout)

    def test_pictures_are_what_they_say(self):
        with tempfile.TemporaryDirectory() as folder:
            files = {name: str(pathlib.Path(folder) / f"x.{name}")
                     for name in ("trace", "svg", "html")}
            flags = [word for name, path in files.items() for word in (f"--{name}", path)]
            done = run(*ASKED[8], *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            trace = json.loads(pathlib.Path(files["trace"]).read_text())
            self.assertGreater(len(trace["traceEvents"]), 4 * 8 * 3 * 2)
            root = ET.fromstring(pathlib.Path(files["svg"]).read_text())
            self.assertTrue(root.tag.endswith("svg"), root.tag)
            self.assertIn("<html", pathlib.Path(files["html"]).read_text())
            svg = run(*ASKED[8], "--format", "svg")
            self.assertEqual(svg.stdout, pathlib.Path(files["svg"]).read_text())
            again = run(*ASKED[8], "--svg", files["svg"])
            self.assertEqual(again.returncode, 2)
            self.assertEqual(again.stdout, "")

    def test_equal_questions_have_equal_answers(self):
        for asked in ASKED:
            self.assertEqual(run(*asked).stdout, run(*asked).stdout)

    def test_the_picture_is_as_wide_as_asked(self):
        for width in (40, 96, 200):
            text = run(*ASKED[4], "--width", str(width)).stdout
            lines = [line for line in text.splitlines() if line.startswith("rank 0")]
            self.assertTrue(lines)
            self.assertLessEqual(max(map(len, lines)), width)
            self.assertGreater(max(map(len, lines)), width * 0.8)


    def test_a_part_of_the_picture_shows_that_part(self):
        part = ["--algorithm", "1f1b", "--pp", "4", "--micro-batches", "8", "--ranks", "1-2",
                "--from", "10", "--to", "20"]
        self.assertIn("from 10 to 20 of 33 units, ranks 1 to 2 of 4", run(*part).stdout)
        svg = run(*part, "--format", "svg").stdout
        self.assertIn("rank 1", svg)
        self.assertNotIn("rank 3", svg)
        few = run(*part, "--format", "svg", "--actions", "3").stdout
        self.assertIn("too many to show one by one (at most 3)", few)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.trace"
            self.assertEqual(run(*part, "--trace", str(path)).returncode, 0)
            events = json.loads(path.read_text())["traceEvents"]
        units = 1000  # microseconds: a unit is drawn as 1 ms
        slices = [e for e in events if e["ph"] == "X"]
        self.assertTrue(slices)
        for e in slices:
            self.assertLess(e["ts"], 20 * units)
            self.assertGreater(e["ts"] + e["dur"], 10 * units)
        self.assertEqual({e["pid"] for e in slices}, {2, 3})


class OptimalTest(unittest.TestCase):
    def test_an_interrupted_search_answers_with_the_best_so_far(self):
        # 8 x 24 with room for half of the ranks' number of nearly equal stages: a proof takes minutes.
        with tempfile.TemporaryDirectory() as folder:
            times = pathlib.Path(folder) / "stages.csv"
            rows = [f"{100 + 7 * i % 11}us,{103 + 5 * i % 13}us,{98 + 3 * i % 17}us"
                    for i in range(8)]
            times.write_text("forward,input_gradient,weight_gradient\n" + "\n".join(rows) + "\n")
            asked = [BINARY, "schedule", "--algorithm", "optimal", "--micro-batches", "24",
                     "--times", str(times), "--memory-limit", "4", "--time-limit", "100s",
                     "--format", "json"]
            for seconds in (1, 2):
                began = time.monotonic()
                with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True) as search:
                    time.sleep(seconds)
                    search.send_signal(signal.SIGINT)
                    out, err = search.communicate(timeout=60)
                self.assertEqual(search.returncode, 0, err)
                self.assertEqual(err, "")
                self.assertLess(time.monotonic() - began, 50)
                one = json.loads(out)["schedules"][0]
                self.assertFalse(one["proven"])
                self.assertGreaterEqual(unit(one, "makespan"), unit(one, "lower_bound"))
                self.assertIn("interrupted after", one["search"])


class OutputLayerTest(unittest.TestCase):
    def test_what_it_holds_is_where_it_runs(self):
        # Two micro-batches of 1 GiB a rank; the logits of one are 4 GiB, 2 GiB a rank when cut.
        asked = ["--algorithm", "1f1b", "--pp", "2", "--micro-batches", "8", "--held", "1GiB",
                 "--output-work", "0.2", "--output-held", "4GiB"]
        gib = 2**30
        uncut = answer(*asked)["schedules"][0]["ranks"]
        self.assertEqual([r["peak_bytes"] for r in uncut], [2 * gib, (1 + 4) * gib])
        # arXiv 2411.05288: one barrier holds one micro-batch more, p - r + 1.
        cut = answer(*asked, "--output-layer", "one-barrier")["schedules"][0]["ranks"]
        self.assertEqual([r["peak_bytes"] for r in cut], [(3 + 2) * gib, (2 + 2) * gib])
        note = "what the cut output layer holds between S and T is not counted"
        self.assertIn(note, run(*asked[:-2], "--output-layer", "one-barrier").stdout)
        self.assertNotIn(note, run(*asked, "--output-layer", "one-barrier").stdout)


class GroupsTest(unittest.TestCase):
    def test_what_megatron_refuses_is_said(self):
        for asked, said in ((["--micro-batches", "6"], True), (["--micro-batches", "8"], False),
                            (["--micro-batches", "3"], True),
                            (["--micro-batches", "11", "--group-size", "6"], False),
                            (["--micro-batches", "9", "--group-size", "6"], True)):
            text = run("--pp", "4", "--vpp", "2", *asked).stdout
            self.assertEqual("Megatron-LM refuses" in text, said, asked)


class TimesTest(unittest.TestCase):
    def test_the_example_of_the_page_is_read_as_the_page_says(self):
        page = (ROOT / "docs" / "USING.md").read_text()
        example = page.split("### Times of your own")[1].split("```yaml\n")[1].split("```")[0]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "stages.yaml"
            path.write_text(example)
            got = answer("--times", str(path), "--micro-batches", "1")
        self.assertEqual(got["pp"], 2)
        one = got["schedules"][0]
        # 12.4 + 0.3 + 16.8 + 30.6 + 0.3 + (12.6 + 11.4) ms
        self.assertAlmostEqual(one["makespan_s"], 84.4e-3, 12)
        self.assertEqual([r["peak_bytes"] for r in one["ranks"]],
                         [round(1.6 * 2**30), round(2.4 * 2**30)])

    def test_finer_stages_are_joined(self):
        whole = answer("--pp", "4", "--micro-batches", "8", "--algorithm", "1f1b", *STAGES)
        self.assertEqual(whole["schedules"][0]["vpp"], 1)
        # Rank 0 has the first two of eight: 8 micro-batches of F, B and W of both.
        busy = 8 * (13.2 + 12.9 + 11.8 + 12.4 + 12.6 + 11.4) * 1e-3
        self.assertAlmostEqual(whole["schedules"][0]["ranks"][0]["busy_s"], busy, 12)


class FaultsTest(unittest.TestCase):
    def test_words_that_are_no_numbers(self):
        for flags in (["--forward", "1 week"], ["--forward", "-1ms"], ["--forward", "nan"],
                      ["--forward", "1e9s"], ["--forward", "1e-300"], ["--forward", "0.1ps"], ["--send", "infms"], ["--held", "1 furlong"],
                      ["--memory-limit", "lots"], ["--memory-limit", "0.5"],
                      ["--output-layer", "middle"],
                      ["--sends", "never"], ["--hideable", "2"], ["--time-limit", "0s"],
                      ["--barrier", "1"], ["--pp", "0"], ["--micro-batches", "-1"]):
            shape = {"--pp": "2", "--micro-batches": "2"} | dict(zip(flags[::2], flags[1::2]))
            done = run(*(word for pair in shape.items() for word in pair))
            self.assertEqual(done.returncode, 2, (flags, done.stderr))
            self.assertEqual(done.stdout, "")
            self.assertIn(flags[0], done.stderr)

    def test_flags_that_would_do_nothing_or_overwrite_one_another(self):
        shape = ["--pp", "4", "--micro-batches", "8"]
        with tempfile.TemporaryDirectory() as folder:
            file = str(pathlib.Path(folder) / "x")
            for flags, said in (
                    (["--group-size", "5"], "interleaved"),
                    (["--algorithm", "zbv", "--group-size", "5"], "zbv"),
                    (["--time-limit", "5s"], "optimal"),
                    (["--algorithm", "all", "--ranks", "1"], "--ranks"),
                    (["--format", "json", "--from", "1"], "--from"),
                    (["--format", "csv", "--order"], "--order"),
                    (["--format", "json", "--width", "50"], "--width"),
                    (["--from", "33"], "ends at 33 units"), (["--from", "1ms"], "units"),
                    (["--forward", "1ms", "--to", "5"], "ms"), (["--from", "5", "--to", "5"], "--to"),
                    (["--ranks", "4"], "0 to 3"), (["--ranks", "2-1"], "2-5"),
                    (["--ranks", "-1"], "--ranks"), (["--actions", "0"], "--actions"),
                    (["--svg", ""], "empty"), (["-o", ""], "empty"),
                    (["--svg", file, "-o", folder + "/./x"], "same file"),
                    (["--svg", file, "--trace", file, "--force"], "same file")):
                done = run(*shape, *flags)
                self.assertEqual(done.returncode, 2, (flags, done.stderr))
                self.assertEqual(done.stdout, "")
                self.assertIn(said, done.stderr)
            self.assertEqual(os.listdir(folder), [])

    def test_a_limit_below_one_micro_batch_is_refused_with_the_rank(self):
        shape = ["--pp", "2", "--micro-batches", "4", "--held", "2GiB", "--memory-limit", "1GiB"]
        for algorithm in ("zb-auto", "zbv-greedy", "optimal"):
            done = run("--algorithm", algorithm, *shape)
            self.assertEqual(done.returncode, 3, (algorithm, done.stdout))
            self.assertIn("rank", done.stderr)

    def test_huge_shapes_are_refused_at_once(self):
        for shape in (["--pp", "2147483647", "--micro-batches", "2147483647"],
                      ["--pp", "60000", "--micro-batches", "1000"],
                      ["--pp", "2", "--vpp", "2147483647", "--micro-batches", "1"]):
            for algorithm in ("all", "auto", "optimal"):
                done = run("--algorithm", algorithm, *shape)
                self.assertIn(done.returncode, (2, 3), done.stderr)

    def test_sums_that_no_longer_fit_are_refused(self):
        done = run("--pp", "4", "--micro-batches", "1000", "--forward", "1e6s")
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("64 bits", done.stderr)


if __name__ == "__main__":
    unittest.main()
