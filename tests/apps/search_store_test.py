"""`eratos search --store`: killed and resumed, it prints the bytes of a search that nobody disturbed;
nothing of another model, calibration or cluster is served; a file that is not as it should be costs no
answer."""

import functools
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest

ERATOS = os.environ["ERATOS_BINARY"]
# A second of one core, the sweeps before it included; some seconds: answers are written once a second.
LONG = ["gpt3-175b", "--cluster", "a100-80g-8x8"]
LONGER = ["deepseek-v3", "--cluster", "h100-sxm-32x8", "--axes", "mbs=1,2"]
MIDDLE = [*LONG, "--axes", "offload=0", "fused_loss=true", "vpp=1,2,4"]
SMALL = ["llama3.1-8b", "--cluster", "h100-sxm-2x8", "--set", "batch.global=64", "--axes", "tp=1..8",
         "mbs=1,2", "recompute=none,full", "sp=true,false", "pp=1,2", "rest=job"]
NONE_THERE = "no search to resume"


def command(*arguments):
    return [ERATOS, "search", *arguments, "--format", "json"]


def search(*arguments, code=0, **options):
    """(standard output, standard error)."""
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == code, (done.returncode, done.stderr)
    return done.stdout, done.stderr


def read(path):
    with open(path, "rb") as file:
        return file.read()


@functools.cache
def undisturbed_in():
    """What the long search prints, and the seconds that it took."""
    began = time.monotonic()
    out = search(*LONG)[0]
    return out, time.monotonic() - began


def count(path, *tables):
    """Rows of these tables of a store; 0 while it is not one yet."""
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            return sum(db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables)
    except sqlite3.Error:
        return 0


def answers_in(path):
    return count(path, "screens", "projections")


def built_with_sqlite():
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command(*SMALL, "--store", os.path.join(folder, "a.db")),
                              capture_output=True, text=True)
        return "built without SQLite" not in done.stderr


@unittest.skipUnless(built_with_sqlite(), "eratos was built without SQLite")
class Store(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.file = os.path.join(self.folder, "a.db")

    def killed(self, seconds, *arguments):
        """Kills a search after so many seconds, or lets it end; its return code and outputs."""
        process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def test_killed_at_random_moments_and_resumed_it_prints_the_same(self):
        alone, long = undisturbed_in()
        random.seed(6)
        kills = 0
        process = subprocess.Popen(command(*LONG, "--store", self.file), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        while not count(self.file, "search"):
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        process.kill()
        process.wait()
        for _ in range(40):
            code, out, err = self.killed(long * random.uniform(0.05, 0.4), *LONG, "--store", self.file, "--resume")
            if code == 0:
                break
            self.assertEqual(code, -signal.SIGKILL, err)
            kills += 1
        else:
            code, out, err = self.killed(300, *LONG, "--store", self.file, "--resume")
        self.assertEqual(out, alone)
        self.assertGreater(kills, 0)
        self.assertIn("answers were in", err)

    def begun(self, *arguments):
        """A search that has been entered into the file, and has written answers there."""
        process = subprocess.Popen(command(*arguments, "--store", self.file), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        while not answers_in(self.file):
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        return process

    def test_no_more_than_a_few_seconds_are_lost(self):
        process = self.begun(*LONGER, "--threads", "1")
        time.sleep(1)
        process.kill()
        process.communicate()
        ages = [time.time() - os.stat(self.file + end).st_mtime for end in ("", "-wal")
                if os.path.exists(self.file + end)]
        self.assertLess(min(ages), 8)
        self.assertGreater(answers_in(self.file), 0)
        self.assertEqual(process.returncode, -signal.SIGKILL)
        _, err = search(*LONGER, "--store", self.file, "--resume")
        self.assertIn("answers were in", err)

    def test_ctrl_c_says_how_to_go_on(self):
        alone, _ = search(*LONGER)
        process = self.begun(*LONGER, "--threads", "1")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn("the same command with --resume goes on", err)
        self.assertIn('"interrupted": true', out)
        again, err = search(*LONGER, "--store", self.file, "--resume")
        self.assertEqual(again, alone)
        self.assertIn("answers were in", err)

    def test_a_second_search_asks_the_model_nothing(self):
        alone, _ = search(*SMALL)
        first, err = search(*SMALL, "--store", self.file)
        self.assertNotIn("answers were in", err)
        second, err = search(*SMALL, "--store", self.file)
        self.assertEqual({first, second}, {alone})
        self.assertRegex(err, r"search: ([\d,]+) of \1 answers were in")
        # Nothing is left beside the file.
        self.assertEqual(os.listdir(self.folder), ["a.db"])

    def test_sizes_and_sweeps_are_kept_as_well(self):
        for more in (["--method", "sweep"], ["--nodes", "1..4"]):
            alone, _ = search(*SMALL, *more)
            kept, _ = search(*SMALL, *more, "--store", self.file)
            again, err = search(*SMALL, *more, "--store", self.file, "--resume")
            self.assertEqual({kept, again}, {alone})
            self.assertRegex(err, r"search: ([\d,]+) of \1 answers were in")

    def test_nothing_stale_is_served(self):
        search(*SMALL, "--store", self.file)
        slower = os.path.join(self.folder, "slower.yaml")
        with open(slower, "w", encoding="utf-8") as file:
            file.write("parts: {h100-sxm: {network: {share: 0.6}}}\n")
        for changed, name in ((["--memory-margin", "0.2"], "memory margin"),
                              (["--set", "schedule.group_size=4"], "job"),
                              (["--calibration", slower], "calibration"),
                              (["--nodes", "1"], "cluster")):
            alone, _ = search(*SMALL, *changed)
            _, err = search(*SMALL, *changed, "--store", self.file, "--resume", code=3)
            self.assertIn(NONE_THERE, err)
            self.assertIn(name, err)
            kept, err = search(*SMALL, *changed, "--store", self.file)
            self.assertEqual(kept, alone)
            self.assertNotIn("answers were in", err)

    def test_a_store_of_another_build_is_not_served(self):
        search(*SMALL, "--store", self.file)
        with sqlite3.connect(self.file) as db:  # as if another model had asked
            identity = bytearray(db.execute("SELECT identity FROM search").fetchone()[0])
            identity[0] ^= 1
            db.execute("UPDATE search SET identity = ?", (bytes(identity),))
        _, err = search(*SMALL, "--store", self.file, "--resume", code=3)
        self.assertIn("eratos itself (another build)", err)

    def test_a_file_that_is_no_store_is_left_alone(self):
        with open(self.file, "w", encoding="utf-8") as file:
            file.write("a user's own notes, which are longer than a header\n" * 9)
        before = read(self.file)
        _, err = search(*SMALL, "--store", self.file, code=3)
        self.assertIn("is no store of eratos", err)
        self.assertEqual(read(self.file), before)
        foreign = os.path.join(self.folder, "b.db")
        with sqlite3.connect(foreign) as db:
            db.execute("CREATE TABLE mine(a)")
        _, err = search(*SMALL, "--store", foreign, code=3)
        self.assertIn("of another program", err)
        newer = os.path.join(self.folder, "c.db")
        search(*SMALL, "--store", newer)
        with sqlite3.connect(newer) as db:
            db.execute("PRAGMA user_version = 99")
        _, err = search(*SMALL, "--store", newer, code=3)
        self.assertIn("newer eratos", err)

    def test_damaged_answers_are_made_again(self):
        alone, _ = search(*SMALL, "--store", self.file)
        with sqlite3.connect(self.file) as db:
            db.execute("UPDATE screens SET answers = x'00' || answers")
            db.execute("UPDATE projections SET answer = zeroblob(33)")
        again, err = search(*SMALL, "--store", self.file)
        self.assertEqual(again, alone)
        self.assertIn("were damaged and have been made again", err)
        again, err = search(*SMALL, "--store", self.file)
        self.assertEqual(again, alone)
        self.assertNotIn("damaged", err)

    def test_junk_in_the_file_never_changes_an_answer(self):
        alone, _ = search(*SMALL, "--store", self.file)
        whole = read(self.file)
        random.seed(7)
        for _ in range(30):
            bad = bytearray(whole)
            at = random.randrange(len(bad) - 64)
            bad[at:at + 64] = random.randbytes(64)
            with open(self.file, "wb") as file:
                file.write(bad)
            done = subprocess.run(command(*SMALL, "--store", self.file), capture_output=True, text=True,
                                  timeout=60)
            self.assertIn(done.returncode, (0, 3), done.stderr)
            self.assertIn(done.stdout, (alone, ""))
            if done.returncode == 0:
                self.assertEqual(done.stdout, alone)
            else:
                self.assertIn("error: ", done.stderr)

    def test_a_full_disk_costs_the_file_and_not_the_answer(self):
        alone, _ = search(*MIDDLE)
        limit = 200 * 1024

        def small_disk():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        # Standard output is a pipe, which has no such limit.
        out, err = search(*MIDDLE, "--store", self.file, code=4, preexec_fn=small_disk,
                          restore_signals=False)
        self.assertEqual(out, alone)
        self.assertIn("goes on without --store", err)
        self.assertIn("cannot be read and written as a store", err)
        again, _ = search(*MIDDLE, "--store", self.file)  # what was written is good
        self.assertEqual(again, alone)

    def test_where_nothing_can_be_written_it_says_so_at_once(self):
        for path in (os.path.join(self.folder, "no", "a.db"), "/dev/full"):
            out, err = search(*SMALL, "--store", path, code=4)
            self.assertIn(path + ": error: ", err)
            self.assertEqual(out, "")
        search(*SMALL, "--store", self.folder, code=2)
        if os.geteuid() != 0:  # root may write anywhere
            os.chmod(self.folder, 0o500)
            self.addCleanup(os.chmod, self.folder, 0o700)
            search(*SMALL, "--store", self.file, code=4)

    def test_a_locked_file_is_not_waited_for_for_ever(self):
        search(*SMALL, "--store", self.file)
        with sqlite3.connect(self.file) as db:
            db.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
            out, err = search(*SMALL, "--store", self.file, code=4)
            self.assertLess(time.monotonic() - began, 30)
            self.assertIn("keeps it locked", err)
            self.assertEqual(out, "")

    def test_two_searches_share_a_file(self):
        alone, _ = search(*MIDDLE)
        both = [subprocess.Popen(command(*MIDDLE, "--store", self.file), stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True) for _ in range(2)]
        for process in both:
            out, err = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, err)
            self.assertEqual(out, alone)
        with sqlite3.connect(self.file) as db:
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchone()[0], "ok")

    def test_many_begin_one_file_at_once(self):
        alone, _ = search(*SMALL)
        for i in range(5):
            path = os.path.join(self.folder, f"{i}.db")
            all_of_them = [subprocess.Popen(command(*SMALL, "--store", path), stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, text=True) for _ in range(6)]
            for process in all_of_them:
                out, err = process.communicate(timeout=120)
                self.assertEqual(process.returncode, 0, err)
                self.assertEqual(out, alone)

    def test_usage(self):
        search(*SMALL, "--resume", code=2)
        search(*SMALL, "--store", self.file, "--explain-space", code=2)
        _, err = search(*SMALL, "--store", self.file, "--resume", code=3)
        self.assertIn("nothing to resume", err)
        self.assertEqual(os.listdir(self.folder), [])
        search("no-such-model", "--store", self.file, code=3)  # a job that is none makes no file
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
