"""`mpirun -n N eratos search`: the bytes of one process, printed once, by any number of ranks."""

import functools
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest

ERATOS = os.environ["ERATOS_BINARY"]
BESIDE = pathlib.Path(ERATOS).parent / "eratos-mpi"
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
# A second of one core, the sweeps before it included; four seconds; minutes.
LONG = ["gpt3-175b", "--cluster", "a100-80g-8x8"]
LONGER = ["deepseek-v3", "--cluster", "h100-sxm-32x8", "--axes", "mbs=1,2"]
LONGEST = ["deepseek-v3", "--cluster", "h100-sxm-128x8", "--axes", "offload=every",
           "recompute=every"]
SMALL = ["llama3.1-8b", "--cluster", "h100-sxm-2x8", "--set", "batch.global=64", "--axes", "tp=1..8",
         "mbs=1,2", "recompute=none,full", "sp=true,false", "pp=1,2", "rest=job"]


def search(ranks, *arguments, code=0, binary=ERATOS):
    """(standard output, standard error); ranks 0: one process without mpirun."""
    words = [*MPIRUN, "-n", str(ranks)] if ranks else []
    done = subprocess.run([*words, binary, "search", *arguments], capture_output=True, timeout=300)
    assert done.returncode == code, (done.returncode, done.stderr.decode())
    return done.stdout, done.stderr.decode()


@functools.cache
def longer_alone():
    return search(0, *LONGER)[0]


def answers_in(path):
    """Rows of answers in a store; 0 while it is not one yet."""
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            return sum(db.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
                       for name in ("screens", "projections"))
    except sqlite3.Error:
        return 0


def process_of_rank(mpirun, rank):
    """The process id of a rank that this mpirun started, once it runs."""
    while mpirun.poll() is None:
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if int((path / "stat").read_text().rsplit(")", 1)[1].split()[1]) != mpirun.pid:
                    continue
                if f"OMPI_COMM_WORLD_RANK={rank}\0" in (path / "environ").read_text() and \
                        (path / "comm").read_text() == "eratos-mpi\n":
                    return int(path.name)
            except (OSError, ValueError):
                pass
        time.sleep(0.05)
    raise AssertionError("mpirun has ended")


@unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
class Alone(unittest.TestCase):
    def test_without_mpi_several_ranks_are_refused_once_with_the_cure(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = shutil.copy(ERATOS, os.path.join(folder, "eratos"))
            out, err = search(4, *SMALL, code=4, binary=alone)
            self.assertEqual(out, b"")
            self.assertEqual(err.count("error: 4 processes of MPI"), 1)
            self.assertIn("-DERATOS_MPI=ON", err)
            out, _ = search(1, *SMALL, binary=alone)
            self.assertEqual(out, search(0, *SMALL)[0])


def wait_for_work(pid, seconds=0.2):
    """Until the process has computed for so long: where no name server answers, ranks take seconds of
    waiting to find one another."""
    while True:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            user = int(stat.read().rpartition(")")[2].split()[11])
        if user >= seconds * os.sysconf("SC_CLK_TCK"):
            return
        time.sleep(0.02)


@unittest.skipUnless(shutil.which("mpirun") and BESIDE.exists(), "eratos-mpi was not built")
class Ranks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.file = os.path.join(self.folder, "a.db")

    def test_any_number_of_ranks_prints_the_same_bytes(self):
        alone, _ = search(0, *LONG, "--format", "json")
        for ranks in (1, 2, 4):
            self.assertEqual(search(ranks, *LONG, "--format", "json")[0], alone, ranks)

    def test_text_sweeps_sizes_and_fronts_too(self):
        for more in ([], ["--method", "sweep"], ["--nodes", "1..4"], ["--pareto", "--threads", "2"]):
            self.assertEqual(search(3, *SMALL, *more)[0], search(0, *SMALL, *more)[0], more)

    def test_rank_0_alone_writes_files(self):
        best = os.path.join(self.folder, "best.yaml")
        out = os.path.join(self.folder, "out.json")
        said, _ = search(3, *SMALL, "--best", best, "--format", "json", "-o", out)
        self.assertEqual(said, b"")
        with open(out, encoding="utf-8") as file:
            self.assertTrue(json.load(file)["proof"]["proven"])
        self.assertTrue(os.path.exists(best))
        search(3, *SMALL, "--best", best, code=2)

    def test_a_store_is_filled_by_one_number_of_ranks_and_read_by_another(self):
        alone, _ = search(0, *SMALL)
        self.assertEqual(search(3, *SMALL, "--store", self.file)[0], alone)
        for ranks in (0, 2):
            out, err = search(ranks, *SMALL, "--store", self.file, "--resume")
            self.assertEqual(out, alone)
            self.assertRegex(err, r"search: ([\d,]+) of \1 answers were in")

    def test_faults_are_said_once_with_their_code(self):
        for arguments, code, said in ((["no-such-model"], 3, "neither a file nor a model"),
                                      ([*SMALL, "more"], 2, "unexpected word"),
                                      ([*SMALL, "--store", "/dev/full"], 4, "/dev/full: error"),
                                      (["llama3.1-8b", "--cluster", "h100-sxm-1x8", "--axes", "tp=3",
                                        "rest=job"], 1, None)):
            out, err = search(3, *arguments, code=code)
            if said is not None:
                self.assertEqual(err.count(said), 1, err)
                self.assertEqual(out, b"")
            else:
                self.assertEqual(out.count(b"nothing is legal"), 1)

    def test_other_commands_answer_once(self):
        command = [ERATOS, "project", "llama3.1-8b", "--cluster", "h100-sxm-1x8"]
        alone = subprocess.run(command, capture_output=True, check=True).stdout
        ranks = subprocess.run([*MPIRUN, "-n", "3", *command], capture_output=True, check=True).stdout
        self.assertEqual(ranks, alone)

    def test_a_rank_that_stands_still_holds_nobody_up(self):
        alone = longer_alone()
        out = os.path.join(self.folder, "out.txt")
        mpirun = subprocess.Popen([*MPIRUN, "-n", "3", ERATOS, "search", *LONGER, "--threads", "1",
                                   "-o", out], stderr=subprocess.DEVNULL)
        slow = process_of_rank(mpirun, 2)
        wait_for_work(slow)
        os.kill(slow, signal.SIGSTOP)
        try:
            for _ in range(600):  # the answer is there while that rank still stands
                if os.path.exists(out):
                    break
                time.sleep(0.1)
            self.assertIsNone(mpirun.poll())
            self.assertTrue(os.path.exists(out))
        finally:
            os.kill(slow, signal.SIGCONT)
        self.assertEqual(mpirun.wait(timeout=60), 0)
        with open(out, "rb") as file:
            self.assertEqual(file.read(), alone)

    def test_killed_and_resumed_by_another_number_of_ranks(self):
        # Answers are written once a second: two threads in all, or it may be over before that.
        alone = longer_alone()
        mpirun = subprocess.Popen([*MPIRUN, "-n", "2", ERATOS, "search", *LONGER, "--threads", "1",
                                   "--store", self.file],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        first, last = process_of_rank(mpirun, 0), process_of_rank(mpirun, 1)
        while not answers_in(self.file):
            self.assertIsNone(mpirun.poll())
            time.sleep(0.05)
        os.kill(first, signal.SIGKILL)
        self.assertNotEqual(mpirun.wait(timeout=60), 0)
        self.assertFalse(os.path.exists(f"/proc/{last}/exe"))
        out, err = search(3, *LONGER, "--store", self.file, "--resume")
        self.assertEqual(out, alone)
        self.assertIn("answers were in", err)

    def test_another_build_among_the_ranks_is_refused(self):
        program = BESIDE.read_bytes()
        fingerprint = re.search(rb"\0([0-9a-f]{64})\0", program).group(1)
        other = pathlib.Path(self.folder) / "eratos-mpi"
        other.write_bytes(program.replace(fingerprint, fingerprint[::-1]))
        other.chmod(0o755)
        words = ["search", *SMALL]
        done = subprocess.run([*MPIRUN, "-n", "2", BESIDE, *words, ":", "-n", "1", other, *words],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 4)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("error: rank 2 on "), 1, done.stderr)

    def test_ctrl_c_ends_all_ranks_with_the_best_so_far(self):
        for to_rank in (True, False):
            out = os.path.join(self.folder, f"{to_rank}.txt")
            mpirun = subprocess.Popen([*MPIRUN, "-n", "4", ERATOS, "search", *LONGEST, "-o", out,
                                       "--store", self.file], stderr=subprocess.PIPE, text=True)
            first, last = process_of_rank(mpirun, 0), process_of_rank(mpirun, 3)
            wait_for_work(last)
            time.sleep(2)
            os.kill(first if to_rank else mpirun.pid, signal.SIGINT)
            _, err = mpirun.communicate(timeout=60)
            # mpirun says 1 of itself when it is interrupted, and what its first process said otherwise.
            self.assertEqual(mpirun.returncode, 130 if to_rank else 1, err)
            with open(out, encoding="utf-8") as file:
                self.assertIn("not looked at", file.read())
            for pid in (first, last):
                self.assertFalse(os.path.exists(f"/proc/{pid}/exe"))


if __name__ == "__main__":
    unittest.main()
