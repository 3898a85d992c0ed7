"""`eratos search`: the same bytes for any number of threads, a proof that adds up, and exit codes."""

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

ERATOS = os.environ["ERATOS_BINARY"]
JOB = ["llama3.1-70b", "--cluster", "h100-sxm-8x8", "--set", "batch.global=256"]
AXES = ["tp=1..8", "pp=1..8", "vpp=1,2,4", "mbs=1,2", "cp=1,2", "recompute=none,selective,full",
        "sharding=zero1,zero3", "offload=0", "rest=job", "sp=true,false"]


def search(*arguments, code=0):
    done = subprocess.run([ERATOS, "search", *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (done.returncode, done.stderr)
    return done.stdout


class Search(unittest.TestCase):
    def test_threads_do_not_change_a_byte(self):
        answers = {search(*JOB, "--axes", *AXES, "--format", "json", "--threads", str(n))
                   for n in (1, 2, 3)}
        self.assertEqual(len(answers), 1)

    def test_threads_beyond_the_processors_say_nothing(self):
        done = subprocess.run([ERATOS, "search", *JOB, "--axes", "tp=8", "pp=2", "sp=true", "rest=job",
                               "--threads", "100000"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_what_cannot_be_met_is_said_before_any_work(self):
        def refused(code, words, *arguments):
            done = subprocess.run([ERATOS, "search", *JOB, *arguments], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (code, ""), arguments)
            self.assertIn(words, done.stderr)
        folder = tempfile.mkdtemp()
        there = os.path.join(folder, "there")
        open(there, "w").close()
        new = os.path.join(folder, "new")
        refused(2, "name the same file", "--best", new, "-o", new)
        refused(2, "name the same file", "--store", new, "--best", os.path.join(folder, ".", "new"))
        refused(2, "exists already", "-o", there)
        refused(2, "is a folder", "--best", folder, "--force")
        refused(4, "its folder does not exist", "--best", os.path.join(new, "best.yaml"))
        refused(2, "only counts", "--explain-space", "--best", new)
        refused(2, "only counts", "--explain-space", "--objective", "cost")
        refused(2, "is after the shortest step", "--method", "layers", "--price", "2")
        refused(3, "every part has two prices", "--price", "2", "--price", "3")
        refused(3, "h100-sxm has two prices", "--price", "h100-sxm=2", "--price", "h100-sxm=2")
        refused(3, "is no number above 0", "--tokens", "0")
        refused(3, "without `--checkpoint-write`", "--checkpoint-every", "60s")
        refused(3, "no work between two checkpoints", "--checkpoint-every", "0s", "--checkpoint-write", "9s")
        refused(3, "before a restart", "--mtbf", "1h", "--restart", "10min", "--checkpoint-write", "60s")
        refused(3, "give percent", "--axes", "offload=101")
        refused(3, "two or three figures, not 1", "--pareto", "step_time")
        refused(3, "give 1 to 80, as many layers as the model has", "--axes", "recompute=full:81")
        refused(3, "give 1 to 80, as many layers as the model has", "--axes", "recompute=uniform:999")
        refused(3, "known: tokens/s/GPU, step_time, train_time (days), cost, energy, headroom (memory)",
                "--objective", "wombat")
        # More than 11 days of work: nothing is answered that has no time.
        done = subprocess.run([ERATOS, "search", "llama3.1-8b", "--cluster", "h100-sxm-1x8", "--set",
                               "batch.global=39000000", "--axes", "tp=1,2", "recompute=none,full",
                               "offload=0,100", "rest=job"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("would take more than 11 days", done.stderr)
        self.assertEqual(os.listdir(folder), ["there"])

    def test_layers_name_the_rule_where_nothing_is_legal(self):
        answer = json.loads(search(*JOB, "--method", "layers", "--axes", "gbs=127", "--format", "json", code=1))
        self.assertEqual(answer["deciding_rules"], ["global-batch"])
        self.assertIn("global-batch", search(*JOB, "--method", "layers", "--axes", "gbs=127", code=1))

    def test_parts_without_bf16_are_searched(self):
        for cluster, recipe in (("v100-32g-2x8", "fp16"), ("cpu-core-avx512-1x8", "fp32")):
            said = search("llama3.2-1b", "--cluster", cluster, "--set", f"precision.recipe={recipe}",
                          "--axes", "rest=job", "tp=1,2", "recompute=none,full")
            self.assertIn(recipe, said)
            self.assertIn("4 candidates = ", said)

    def test_annealing_is_its_seeds(self):
        def anneal(*more, code=0):
            return search(*JOB, "--axes", *AXES, "--method", "anneal", "--budget", "800", "--format", "json",
                          *more, code=code)
        one = anneal("--seed", "3", "--threads", "1")
        self.assertEqual(one, anneal("--seed", "3", "--threads", "3"))
        self.assertNotEqual(one, anneal("--seed", "4"))
        answer = json.loads(one)
        self.assertEqual(answer["method"], "anneal")
        self.assertFalse(answer["proof"]["proven"])
        self.assertLessEqual(answer["proof"]["simulated"] + answer["proof"]["too_big"], 800)
        self.assertTrue(answer["best"]["memory"]["fits"])
        for flag in ("--seed", "--budget"):
            search(*JOB, "--axes", *AXES, flag, "3", code=2)
        nothing = json.loads(search(*JOB, "--axes", "tp=3", "rest=job", "--method", "anneal", "--format",
                                    "json", code=1))
        self.assertTrue(nothing["proof"]["proven"])

    def test_the_proof_adds_up_and_the_best_projects_alike(self):
        answer = json.loads(search(*JOB, "--axes", *AXES, "--format", "json", "--top", "3"))
        proof = answer["proof"]
        self.assertTrue(proof["proven"])
        self.assertEqual(proof["raw"], proof["illegal"] + proof["too_big"] + proof["cut_by_bound"] +
                         proof["simulated"])
        self.assertEqual(proof["illegal"], sum(proof["illegal_by_rule"].values()))
        self.assertEqual(answer["best"], answer["top"][0])
        self.assertEqual(len(answer["top"]), 3)
        rates = [one["throughput"]["tokens_per_s_per_gpu"] for one in answer["top"]]
        self.assertEqual(rates, sorted(rates, reverse=True))
        self.assertTrue(all(one["memory"]["fits"] for one in answer["top"]))
        degrees = {tuple(one["axes"][a] for a in ("tp", "cp", "pp", "ep", "etp")) for one in answer["top"]}
        self.assertEqual(len(degrees), 3)
        # The job in the answer, projected by itself, is the same.
        path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"eratos_search_{os.getpid()}.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(answer["best"]["job"], file)
        try:
            done = subprocess.run([ERATOS, "project", path, "--format", "json"], capture_output=True,
                                  text=True, check=True)
        finally:
            os.remove(path)
        self.assertEqual(json.loads(done.stdout)["time"], answer["best"]["time"])

    def test_what_separates_the_best_from_the_job_and_the_runner_up(self):
        answer = json.loads(search(*JOB, "--axes", *AXES, "--format", "json", "--set", "parallel.tp=8",
                                   "--set", "parallel.pp=4"))
        best = answer["best"]["throughput"]["tokens_per_s_per_gpu"]
        for key, rate in (("difference_from_job", answer["baseline"]["tokens_per_s_per_gpu"]),
                          ("difference_from_runner_up",
                           answer["top"][1]["throughput"]["tokens_per_s_per_gpu"])):
            whole = 1
            for one in answer[key]:
                self.assertTrue(one["changes"])
                whole *= 1 + one["gain"]
            self.assertAlmostEqual(whole, best / rate, places=9, msg=key)
            self.assertAlmostEqual(answer[key][-1]["tokens_per_s_per_gpu"], best, places=6)
        basin = answer["basin"]
        self.assertIn(basin["verdict"], ("alone", "sharp peak", "ridge", "broad basin"))
        legal = [s for s in answer["sensitivity"] if s["legal"] and s["fits"]]
        self.assertEqual(basin["steps_that_fit"], len(legal))
        rivals = sum(one["within_error_band"] for one in answer["top"][1:])
        self.assertEqual(basin["rivals_listed"], rivals)
        self.assertEqual(min(basin["least_loss_by_axis"].values()),
                         min(max(s["gain"] for s in legal if s["axis"] == axis)
                             for axis in {s["axis"] for s in legal}))
        losses = answer["best"]["losses"]
        self.assertEqual(list(losses.values()), sorted(losses.values(), reverse=True))
        self.assertLess(sum(losses.values()), 1.1)
        text = search(*JOB, "--axes", *AXES, "--set", "parallel.tp=8", "--set", "parallel.pp=4")
        for words in ("its step is", "would help most", "around it", "the job as it came", "the runner-up"):
            self.assertIn(words, text)

    def test_the_winner_is_written_and_reads_back(self):
        folder = tempfile.mkdtemp()
        for target in ("megatron", "eratos"):
            path = os.path.join(folder, target + ".yaml")
            to = [] if target == "eratos" else ["--to", target]
            answer = json.loads(search(*JOB, "--axes", *AXES, "--format", "json", "--best", path, *to))
            done = subprocess.run([ERATOS, "import", path, "--cluster", "h100-sxm-8x8", "--format", "json"],
                                  capture_output=True, text=True, check=True)
            again = json.loads(done.stdout)["job"]
            for part in ("parallel", "batch", "sharding", "recompute", "overlap"):
                self.assertEqual(again[part], answer["best"]["job"][part], part)
            search(*JOB, "--axes", *AXES, "--best", path, code=2)  # is kept

    def test_the_front_falls_in_memory_and_speed(self):
        answer = json.loads(search(*JOB, "--axes", *AXES, "--format", "json", "--pareto"))
        front = answer["pareto"]
        self.assertGreater(len(front), 2)
        for a, b in zip(front, front[1:]):
            self.assertLess(a["device_peak_bytes"], b["device_peak_bytes"])
            self.assertLess(a["tokens_per_s_per_gpu"], b["tokens_per_s_per_gpu"])
        self.assertAlmostEqual(front[-1]["tokens_per_s_per_gpu"],
                               answer["best"]["throughput"]["tokens_per_s_per_gpu"], places=6)

    def test_axes_in_quotes_or_one_by_one(self):
        apart = search(*JOB, "--axes", *AXES, "--format", "json")
        self.assertEqual(apart, search("--axes", " ".join(AXES), *JOB, "--format", "json"))

    def test_nothing_legal_names_the_rule(self):
        out = search(*JOB, "--axes", "tp=3", "rest=job", code=1)
        self.assertIn("nothing is legal", out)
        self.assertIn("tp-mixers", out)

    def test_nothing_fits_names_the_bytes_and_a_cure(self):
        out = search("llama3.1-70b", "--cluster", "h100-sxm-1x8", "--axes", "tp=1,2", "offload=0", "rest=job",
                     code=1)
        self.assertIn("nothing fits: the least holds", out)
        answer = json.loads(search("llama3.1-70b", "--cluster", "h100-sxm-1x8", "--axes", "tp=1,2",
                                   "rest=job", "--format", "json", code=1))
        self.assertGreater(answer["closest"]["missing_bytes"], 0)
        self.assertIsNone(answer["best"])
        self.assertTrue(answer["proof"]["proven"])

    def test_bad_axes_are_bad_input(self):
        search(*JOB, "--axes", "tpp=2", code=3)
        search("--axes", "tp=2", code=2)
        search(*JOB, "more", code=2)

    def test_an_interrupted_search_answers_with_the_best_so_far(self):
        process = subprocess.Popen([ERATOS, "search", "deepseek-v3", "--cluster", "h100-sxm-128x8",
                                    "--axes", "offload=every", "recompute=every", "--format", "json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130)
        self.assertIn("search: ", err)
        answer = json.loads(out)
        self.assertTrue(answer["interrupted"])
        proof = answer["proof"]
        self.assertFalse(proof["proven"])
        self.assertGreater(proof["raw"], proof["illegal"] + proof["too_big"] + proof["cut_by_bound"] +
                           proof["simulated"])

    def test_sizes_are_searched_one_by_one(self):
        axes = ["--axes", "tp=1..8", "pp=1..4", "mbs=1,2", "recompute=none,full", "sp=true,false",
                "sharding=zero1", "rest=job"]
        job = ["llama3.1-8b", "--cluster", "h100-sxm-1x8", "--set", "batch.global=64"]
        scaling = json.loads(search(*job, *axes, "--nodes", "1..4", "--format", "json"))["scaling"]
        self.assertEqual([one["nodes"] for one in scaling], [1, 2, 4])
        self.assertEqual(scaling[0]["efficiency"], 1)
        self.assertTrue(all(one["proof"]["proven"] for one in scaling))
        alone = json.loads(search(*job, *axes, "--nodes", "2", "--top", "1", "--format", "json"))
        self.assertEqual(alone["best"]["time"], scaling[1]["best"]["time"])
        search(*job, "--nodes", "x..4", code=2)
        search(*job, "--nodes", "1..4", "--pareto", code=2)

    def test_objectives_limits_and_what_they_stand_on(self):
        axes = ["--axes", "tp=1..8", "pp=1..4", "mbs=1,2", "recompute=none,full", "sp=true,false",
                "sharding=zero1", "rest=job"]
        job = ["llama3.1-8b", "--cluster", "h100-sxm-2x8", "--set", "batch.global=64", *axes]
        terms = ["--price", "2", "--tokens", "1T"]
        plain = json.loads(search(*job, *terms, "--format", "json"))
        figures = plain["best"]["figures"]
        rate = figures["tokens_per_s_per_gpu"]
        self.assertAlmostEqual(figures["cost_per_token"], 2 / 3600 / rate, delta=1e-6 * figures["cost_per_token"])
        self.assertAlmostEqual(figures["train_s"], 1e12 / rate / 16, delta=1e-6 * figures["train_s"])
        cheapest = json.loads(search(*job, *terms, "--objective", "cost", "--format", "json"))
        self.assertEqual(cheapest["objective"], "cost_per_token")
        self.assertEqual(cheapest["best"]["axes"], plain["best"]["axes"])
        free = json.loads(search(*job, "--objective", "headroom", "--format", "json"))
        self.assertGreater(free["best"]["figures"]["headroom_bytes"], figures["headroom_bytes"])
        self.assertLess(free["best"]["figures"]["tokens_per_s_per_gpu"], rate)
        most = free["best"]["figures"]["headroom_bytes"] / 2**30
        limited = json.loads(search(*job, "--require", f"headroom>={most - 5}GiB", "--format", "json"))
        self.assertGreaterEqual(limited["best"]["figures"]["headroom_bytes"], (most - 5) * 2**30)
        self.assertTrue(limited["proof"]["proven"])
        self.assertGreater(limited["requirements"][0]["refused"], 0)
        # What is missing is said; nothing is assumed.
        for flags, word in ((["--objective", "cost"], "--price"), (["--objective", "train_time"], "--tokens"),
                            (["--require", "headroom>=8"], "unit"), (["--objective", "costs"], "cost"),
                            (["--mtbf", "1000h"], "--checkpoint-write"), (["--within", "3d"], "--tokens"),
                            (["--price", "0"], "price")):
            done = subprocess.run([ERATOS, "search", *job, *flags], capture_output=True, text=True)
            self.assertEqual(done.returncode, 3, flags)
            self.assertIn(word, done.stderr)

    def test_the_impossible_is_told_with_what_would_help(self):
        axes = ["--axes", "tp=1..8", "pp=1..4", "mbs=1,2", "recompute=none,full", "sp=true,false",
                "sharding=zero1", "rest=job"]
        job = ["llama3.1-8b", "--cluster", "h100-sxm-2x8", "--set", "batch.global=64", *axes]
        both = ["--require", "tokens/s/GPU>=1e6", "--require", "headroom>=20GiB"]
        answer = json.loads(search(*job, *both, "--format", "json", code=1))
        self.assertIsNone(answer["best"])
        fast, free = answer["requirements"]
        reach = fast["reachable_alone"]
        self.assertNotIn("reachable_alone", free)  # no headroom makes it that fast
        just = json.loads(search(*job, "--require", f"tokens/s/GPU>={reach * 0.999}", *both[2:],
                                 "--format", "json"))
        self.assertAlmostEqual(just["best"]["figures"]["tokens_per_s_per_gpu"], reach, delta=1e-6 * reach)
        search(*job, "--require", f"tokens/s/GPU>={reach * 1.001}", *both[2:], code=1)
        text = search(*job, *both, code=1)
        self.assertIn("nothing that fits keeps the limits", text)
        self.assertIn("tokens/s/GPU>=", text)

    def test_fronts_of_three_figures(self):
        axes = ["--axes", "tp=1..8", "pp=1..4", "mbs=1,2", "recompute=none,full", "sp=true,false",
                "sharding=zero1", "gbs=64,128", "rest=job"]
        job = ["llama3.1-8b", "--cluster", "h100-sxm-2x8", *axes, "--format", "json"]
        answer = json.loads(search(*job, "--pareto", "step_time,memory,energy"))
        self.assertEqual(answer["pareto_figures"], ["step_s", "headroom_bytes", "energy_j_per_token"])
        points = [(p["figures"]["step_s"], -(p["figures"]["headroom_bytes"] // 2**30),
                   p["figures"]["energy_j_per_token"]) for p in answer["pareto"]]
        self.assertGreater(len(points), 2)
        self.assertEqual(points, sorted(points))
        plain = json.loads(search(*job, "--pareto"))
        self.assertEqual(plain["pareto_figures"], ["headroom_bytes", "tokens_per_s_per_gpu"])
        for flags in (["--pareto", "step_time,costt"], ["step_time,cost"],
                      ["--pareto", "step_time,cost,energy,memory"]):
            search(*job, *flags, code=3)

    def test_a_price_of_a_part_that_is_not_there_is_said(self):
        pinned = [*JOB, "--axes", "tp=8", "pp=4", "sp=true", "rest=job"]
        done = subprocess.run([ERATOS, "search", *pinned, "--price", "mi300x=2", "--price", "h100-sxm=3"],
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "search: `--price mi300x=2` is used nowhere: no cluster here is of it\n")
        both = [*pinned[:2], "h100-sxm-8x8,mi300x-8x8", *pinned[3:], "--price", "mi300x=2", "--price",
                "a100-80g=1"]
        sizes = subprocess.run([ERATOS, "search", *both], capture_output=True, text=True, check=True)
        self.assertIn("`--price a100-80g=1` is used nowhere", sizes.stderr)
        self.assertNotIn("mi300x", sizes.stderr)

    def test_a_pinned_job_has_no_steps_around_it(self):
        text = " ".join(search(*JOB, "--axes", "tp=8", "pp=4", "sp=true", "rest=job").split())
        self.assertIn("alone: no single step is legal and fits; 0 of 0 others listed, are within", text)
        more = " ".join(search(*JOB, "--axes", "tp=8", "pp=4,8", "sp=true", "rest=job").split())
        self.assertIn("1 of 1 single steps that fit, and 1 of 1 others listed, are within", more)

    def test_time_left_is_told_of_screens_alone(self):
        def first_line(words, *arguments):
            """The first line of progress that has the words; the search is interrupted then."""
            with subprocess.Popen([ERATOS, "search", *arguments], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True) as process:
                line = ""
                for line in process.stderr:
                    if words in line:
                        break
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=60)
                self.assertEqual(process.returncode, 130, line)
                return line
        # Which share of its steps is done is known, and not how long the rest will take.
        self.assertNotIn(" left", first_line("simulations (", *JOB, "--method", "anneal", "--budget",
                                             "100000000"))
        self.assertRegex(first_line(" left", "deepseek-v3", "--cluster", "h100-sxm-128x8", "--axes",
                                    "offload=every", "recompute=every"),
                         r"[1-9][\d,]* screens .* about [1-9]\d* s of screens left")

    def test_several_clusters_and_a_date(self):
        axes = ["--axes", "tp=1..8", "pp=1..2", "mbs=1,2", "recompute=none,full", "sp=true,false",
                "sharding=zero1", "rest=job"]
        job = ["llama3.1-8b", "--set", "batch.global=256", "--set", "batch.sequence=8192", *axes]
        job += ["--cluster", "h100-sxm-1x8,mi300x-1x8", "--nodes", "1..4", "--tokens", "100B"]
        prices = ["--price", "h100-sxm=2", "--price", "mi300x=1.8"]
        answer = json.loads(search(*job, *prices, "--format", "json"))
        rows = answer["scaling"]
        self.assertEqual([r["cluster"] for r in rows],
                         [f"{part}-{n}x8" for part in ("h100-sxm", "mi300x") for n in (1, 2, 4)])
        self.assertEqual([r["efficiency"] for r in rows if r["nodes"] == 1], [1, 1])
        cost = {r["cluster"]: r["best"]["figures"]["cost_per_token"] for r in rows}
        self.assertEqual(answer["cheapest"], min(cost, key=cost.get))
        days = {r["cluster"]: r["best"]["figures"]["train_s"] / 86400 for r in rows}
        self.assertEqual(answer["soonest"], min(days, key=days.get))
        self.assertTrue(all(r["global_batch"] == 256 for r in rows))
        # By a date: only some sizes make it, and the cheapest of them is another one.
        limit = sorted(days.values())[1] * 1.001
        timely = json.loads(search(*job, *prices, "--within", f"{limit}d", "--objective", "cost",
                                   "--format", "json"))
        answered = [r["cluster"] for r in timely["scaling"] if r["best"] is not None]
        self.assertEqual(len(answered), 2)
        self.assertEqual(timely["cheapest"], min(answered, key=cost.get))
        late = [r for r in timely["scaling"] if r["best"] is None][0]
        self.assertAlmostEqual(late["requirements"][0]["reachable_alone"] / 86400, days[late["cluster"]], places=6)
        # Failures take more of the larger sizes.
        failing = json.loads(search(*job, *prices, "--mtbf", "50h", "--checkpoint-write", "60s", "--restart",
                                    "10min", "--format", "json"))
        useful = [r["goodput"]["useful"] for r in failing["scaling"]][:3]
        self.assertEqual(useful, sorted(useful, reverse=True))
        row = failing["scaling"][2]
        self.assertAlmostEqual(row["best"]["figures"]["train_s"] * useful[2] / 86400, days[row["cluster"]], places=6)
        grown = json.loads(search(*job, "--scale-batch", "--format", "json"))
        self.assertEqual([r["global_batch"] for r in grown["scaling"]], [256, 512, 1024] * 2)
        self.assertIn("the batch is 256 sequences on every size", search(*job))

    def test_the_space_is_counted(self):
        space = json.loads(search(*JOB, "--axes", *AXES, "--explain-space", "--format", "json"))["space"]
        self.assertEqual(space["raw"], space["legal"] + sum(r["removed"] for r in space["rules"]))
        self.assertEqual(space["axes"][-1]["left"], space["legal"])
        self.assertTrue(all(r["reason"] and r["source"] for r in space["rules"]))


if __name__ == "__main__":
    unittest.main()
