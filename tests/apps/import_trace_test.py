#!/usr/bin/env python3
"""`eratos import-trace`: hand-made traces of a toy job on H100 and MI300X in Kineto's form, two real ones,
and files that are none. What a report says adds up to the step to the nanosecond."""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("ERATOS_SOURCE_DIR",
                                   pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("ERATOS_BINARY") or str(ROOT / "build" / "eratos")
TRACES = ROOT / "tests" / "apps" / "traces"
JOB = str(TRACES / "job.yaml")

# The toy at tp 2: T 2048 tokens, h 1024, 4 local heads of 128, local ffn 2048, vocabulary 16000.
T, H, QKV, PROJ, IN, OUT, V = 2048, 1024, 1536, 512, 4096, 2048, 16000
LAYERS, MICRO_BATCHES = 2, 2
# (name, in, out) of each linear layer of a layer, in order.
LINEARS = [("qkv", H, QKV), ("proj", PROJ, H), ("fc1", H, IN), ("fc2", OUT, H)]
NAMES = {
    "h100": {"device": "NVIDIA H100 80GB HBM3", "launch": "cudaLaunchKernelExC",
             "gemm": "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NTN",
             "fwd": "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>",
             "bwd": "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<128>",
             "comm": "ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"},
    "mi300x": {"device": "AMD Instinct MI300X", "launch": "hipExtModuleLaunchKernel",
               "gemm": "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1",
               "fwd": "_ZN7ck_tile6kentryILi256ELi2ENS_13FmhaFwdKernelE", "comm": "ncclDevKernel_Generic_4",
               "bwd": "_ZN7ck_tile6kentryILi256ELi1ENS_21FmhaBwdDQDKDVKernelE"},
}


class Trace:
    """Writes events; the device runs each kernel as soon as it is launched and the stream is free."""

    def __init__(self, part, shapes=True):
        self.names = NAMES[part]
        self.shapes = shapes
        self.events = []
        self.now = 0.0  # of the host
        self.free = {7: 0.0, 20: 0.0}  # of each stream
        self.id = 0
        self.runs = []  # (begin, end, is communication), in us

    def add(self, cat, name, start, length, tid, pid=100, **args):
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid,
                            "ts": round(start, 3), "dur": round(length, 3), "args": args})

    def op(self, name, kernel, length, dims=(), backward=False, stream=7, **args):
        self.id += 1
        tid = 2 if backward else 1
        if backward:
            self.add("cpu_op", "autograd::engine::evaluate_function: XBackward0", self.now, 4, tid)
        shapes = {"Input Dims": list(dims), "Input type": ["c10::BFloat16"] * len(dims)}
        self.add("cpu_op", name, self.now + 0.5, 3, tid, **{"External id": self.id}, **args,
                 **(shapes if self.shapes and dims else {}))
        call = self.now + 1
        self.add("cuda_runtime", self.names["launch"], call, 1.5, tid, correlation=self.id)
        # A gather begins beside the last 10 us of the kernel before, and what follows waits for it.
        wait = self.free[7] - (10 if stream == 20 else 0)
        begin = round(max(call + 3.25, self.free[stream], wait), 3)
        self.add("kernel", kernel, begin, length, stream, pid=0, device=0, stream=stream,
                 correlation=self.id)
        self.free[stream] = begin + length
        self.free[7] = max(self.free[7], begin + length)
        self.runs.append((begin, round(begin + length, 3), stream == 20))
        self.now += 5

    def mm(self, m, n, k, length, backward=False):
        self.op("aten::mm", self.names["gemm"], length, [[m, k], [k, n]], backward)

    def gather(self, backward=False):
        self.op("record_param_comms", self.names["comm"], 21, [], backward, 20,
                **{"Collective name": "_allgather_base", "In msg nelems": T * H // 2,
                   "Out msg nelems": T * H, "Group size": 2, "dtype": "BFloat16"})

    def step(self, number):
        begin = self.now
        for _ in range(MICRO_BATCHES):
            for _ in range(LAYERS):
                for name, inner, outer in LINEARS:
                    if name in ("qkv", "fc1"):
                        self.gather()
                    self.mm(T, outer, inner, 30)
                    if name == "qkv":
                        self.op("aten::_scaled_dot_product_flash_attention", self.names["fwd"], 62,
                                [[1, 4, T, 128]] * 3)
            self.mm(T, V, H, 115)
            self.mm(T, H, V, 104, backward=True)
            self.mm(V, H, T, 110, backward=True)
            for _ in range(LAYERS):
                for name, inner, outer in reversed(LINEARS):
                    if name == "qkv":
                        self.op("aten::_scaled_dot_product_flash_attention_backward",
                                self.names["bwd"], 57, [[1, 4, T, 128]] * 4, backward=True)
                    self.mm(T, inner, outer, 29, backward=True)
                    self.mm(outer, inner, T, 28.5, backward=True)
        self.op("aten::_foreach_add_", "void at::native::multi_tensor_apply_kernel<4>", 50)
        self.now += 40
        self.add("user_annotation", f"ProfilerStep#{number}", begin, self.now - begin, 1)
        self.now += 2

    def text(self):
        return json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": 1, "world_size": 2},
                           "deviceProperties": [{"id": 0, "name": self.names["device"]}],
                           "traceEvents": self.events}, indent=0)


def run(*arguments, code=0, memory_kib=None):
    command = [BINARY, "import-trace", *map(str, arguments)]
    if memory_kib:
        command = ["bash", "-c", f'ulimit -v {memory_kib}; exec "$@"', "eratos", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, (done.returncode, done.stderr, arguments)
    return done


def covered(spans):
    """Length of the union, in ns."""
    total, end = 0, -1
    for a, b in sorted((round(a * 1000), round(b * 1000)) for a, b in spans):
        total += max(0, b - max(a, end))
        end = max(end, b)
    return total


class ImportTrace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def answer(self, path, *arguments, cluster="h100-sxm-1x2", memory_kib=None):
        return json.loads(run(path, JOB, "--cluster", cluster, "--format", "json", *arguments,
                              memory_kib=memory_kib).stdout)

    def adds_up(self, answer):
        self.assertEqual(sum(part["ns"] for part in answer["account"]), answer["step_ns"])
        self.assertEqual(sum(answer["attribution"].values()), answer["step_ns"])
        shown = sum(row["step_ns"] for row in answer["ops"]) + sum(u["ns"] for u in answer["unmatched"])
        self.assertEqual(shown + answer["attribution"]["idle_ns"], answer["step_ns"])

    def test_every_product_is_found_on_both_makers(self):
        for part, cluster in (("h100", "h100-sxm-1x2"), ("mi300x", "mi300x-1x2")):
            trace = Trace(part)
            for number in (1, 2, 3):
                trace.step(number)
            path = self.write(part + ".json", trace.text())
            answer = self.answer(path, cluster=cluster)
            self.adds_up(answer)
            self.assertEqual(answer["trace"]["window"], "device")
            self.assertEqual(answer["trace"]["device"], NAMES[part]["device"])
            products = [r for r in answer["ops"] if r["op"].startswith("gemm")]
            self.assertEqual(len(products), 15)
            for row in products:
                self.assertEqual((row["matched_by"], row["found"]), ("shape", row["expected"]), row)
            at = {(r["op"].rsplit(" ", 1)[0], r["pass"]): r for r in answer["ops"]}
            self.assertAlmostEqual(at["gemm m2048 n1536 k1024", "forward"]["measured_median_s"], 30e-6)
            self.assertAlmostEqual(at["gemm m2048 n1024 k1536", "dgrad"]["measured_median_s"], 29e-6)
            self.assertAlmostEqual(at["gemm m1536 n1024 k2048", "wgrad"]["measured_median_s"], 28.5e-6)
            attention = [r for r in answer["ops"] if r["op"].startswith("attention b1")]
            self.assertEqual([r["found"] for r in attention], [4, 4])
            gathers = [r for r in answer["ops"] if r["op"].startswith("all_gather 4194304 B")
                       and r["pass"] == "forward"]
            self.assertEqual((gathers[0]["found"], gathers[0]["matched_by"]), (8, "shape"))
            # Exposed and hidden communication by an independent sum over the window.
            step = answer["step_ns"] / 1000
            begin = next(a for a, _, c in trace.runs if not c)
            inside = [(max(a, begin), min(b, begin + step), c) for a, b, c in trace.runs
                      if a < begin + step and b > begin]
            compute = covered((a, b) for a, b, c in inside if not c)
            both = covered((a, b) for a, b, _ in inside)
            communication = covered((a, b) for a, b, c in inside if c)
            exposed = next(p["ns"] for p in answer["account"] if p["class"] == "exposed_communication")
            self.assertEqual(exposed, both - compute)
            self.assertEqual(answer["hidden_communication_ns"], communication - exposed)
            self.assertEqual(answer["hidden_communication_ns"], 8 * 10_000)

    def test_without_sizes_the_order_tells(self):
        trace = Trace("h100", shapes=False)
        trace.step(1)
        trace.step(2)
        answer = self.answer(self.write("t.json", trace.text()))
        self.adds_up(answer)
        self.assertFalse(answer["trace"]["shapes"])
        products = [r for r in answer["ops"] if r["op"].startswith("gemm")]
        self.assertEqual({r["matched_by"] for r in products}, {"order"})
        at = {(r["op"].rsplit(" ", 1)[0], r["pass"]): r for r in answer["ops"]}
        self.assertAlmostEqual(at["gemm m2048 n16000 k1024", "forward"]["measured_median_s"], 115e-6)
        self.assertAlmostEqual(at["gemm m16000 n1024 k2048", "wgrad"]["measured_median_s"], 110e-6)

    def test_measurements_are_written_once(self):
        trace = Trace("h100")
        trace.step(1)
        trace.step(2)
        path = self.write("t.json", trace.text())
        out = self.folder / "MEASURED.json"
        run(path, JOB, "--cluster", "h100-sxm-1x2", "-o", out)
        measured = json.loads(out.read_text())
        self.assertEqual(measured["eratos_measured"], 1)
        self.assertEqual(measured["provenance"]["source"], "import-trace")
        pieces = {p["id"]: p for p in measured["pieces"]}
        qkv = pieces["gemm/forward/m2048/n1536/k1024/bf16"]
        self.assertEqual(len(qkv["samples_s"]), 4)
        self.assertAlmostEqual(qkv["median_s"], 30e-6)
        # A product of ATen adds into no buffer, though this job's weight gradients would.
        self.assertIn("gemm/wgrad/m1536/n1024/k2048/bf16", pieces)
        self.assertIn("collective/all_gather/n2/b4194304/fp32", pieces)
        before = out.read_bytes()
        # Two nodes of one: messages over a network are no measurement of one host.
        apart = self.folder / "apart.json"
        run(path, JOB, "--cluster", "h100-sxm-2x1", "-o", apart)
        kinds = {p["kind"] for p in json.loads(apart.read_text())["pieces"]}
        self.assertEqual(kinds, {"gemm", "attention"})
        run(path, JOB, "--cluster", "h100-sxm-1x2", "-o", out, code=2)
        self.assertEqual(out.read_bytes(), before)
        run(path, JOB, "--cluster", "h100-sxm-1x2", "-o", out, "--force")
        blind = Trace("h100", shapes=False)
        blind.step(1)
        done = run(self.write("blind.json", json.dumps([e for e in blind.events if e["cat"] != "cpu_op"])),
                   JOB, "--cluster", "h100-sxm-1x2", "-o", self.folder / "none.json", code=3)
        self.assertIn("record_shapes=True", done.stderr)
        self.assertFalse((self.folder / "none.json").exists())

    def test_archives_are_the_same_and_damaged_ones_say_so(self):
        trace = Trace("h100")
        trace.step(1)
        trace.step(2)
        text = trace.text().encode()
        packed = gzip.compress(text)
        plain = self.answer(self.write("t.json", text))
        for data in (packed, gzip.compress(text[:9000]) + gzip.compress(text[9000:])):
            answer = self.answer(self.write("t.json.gz", data))
            answer["trace"]["file"] = plain["trace"]["file"]
            self.assertEqual(answer, plain)
        for n in range(1, len(packed), len(packed) // 12):
            done = run(self.write("cut.gz", packed[:n]), JOB, "--cluster", "h100-sxm-1x2", code=3)
            self.assertRegex(done.stderr, r"cut\.gz(:\d+:\d+)?: error: "
                             r"(the archive ends before its end|not JSON|ends after)")
        broken = bytearray(packed)
        broken[len(broken) // 2] ^= 0x55
        done = run(self.write("broken.gz", bytes(broken)), JOB, "--cluster", "h100-sxm-1x2", code=3)
        self.assertIn("broken.gz:", done.stderr)

    def test_bombs_and_long_traces_need_little_memory(self):
        bombs = {
            "deep.gz": (b"[" * 200_000_000, "nested deeper than 64 levels"),
            "long.gz": (b'{"traceEvents": [{"name": "' + b"x" * 200_000_000, "a value of more than"),
            "space.gz": (b" " * 200_000_000, "a value of more than"),
        }
        for name, (data, message) in bombs.items():
            path = self.write(name, gzip.compress(data, 1))
            del data
            done = run(path, JOB, "--cluster", "h100-sxm-1x2", code=3, memory_kib=400_000)
            self.assertIn(message, done.stderr)
        trace = Trace("h100")
        trace.step(1)
        events = json.dumps(trace.events)[1:-1]
        with gzip.open(self.folder / "many.json.gz", "wt", compresslevel=1) as out:
            out.write('{"traceEvents": [' + events)
            filler = {"ph": "X", "cat": "cpu_op", "name": "aten::far", "pid": 9, "tid": 9, "dur": 1,
                      "args": {"Input Dims": [[1, 2], [3, 4]]}}
            for i in range(150_000):
                filler["ts"] = 1e9 + i
                out.write(",\n" + json.dumps(filler))
            out.write("]}")
        self.adds_up(self.answer(self.folder / "many.json.gz", memory_kib=400_000))

    def test_foreign_files(self):
        for name, data, message in (
                ("empty.json", "", "empty.json: error: is empty"),
                ("job.json", '{"model": "llama"}', "it has no `traceEvents`"),
                ("log.txt", "step 1 loss 3.2\n", "log.txt:1:2: error: not JSON at byte 1"),
                ("cpu.json", '[{"name": "aten::mm", "ph": "X", "ts": 1, "dur": 2, "tid": 1, '
                             '"pid": "CPU functions", "args": {}}]', "no kernel of a device"),
                ("cut.json", Trace("h100").text()[:-2], "ends after")):
            done = run(self.write(name, data), JOB, "--cluster", "h100-sxm-1x2", code=3)
            self.assertIn(message, done.stderr)
        done = run(self.folder / "nowhere.json", JOB, "--cluster", "h100-sxm-1x2", code=3)
        self.assertIn("no such file", done.stderr)
        done = run(self.folder, JOB, "--cluster", "h100-sxm-1x2", code=3)
        self.assertIn("is a folder", done.stderr)

    def test_real_traces_add_up(self):
        mi250 = self.answer(TRACES / "mi250_minitoy_train_ROCm6_2_kineto.json.gz")
        self.adds_up(mi250)
        # ProfilerStep#1 is 9288.291 us of the host, and its last kernel ends before it does.
        self.assertEqual((mi250["trace"]["window"], mi250["step_ns"]), ("host", 9288291))
        account = {p["class"]: p for p in mi250["account"]}
        self.assertEqual((account["gemm"]["kernels"], account["gemm"]["ns"]), (2, 30240))
        self.assertEqual(account["copy"]["ns"], 22441 + 15720)
        sizes = {u["sizes"] for u in mi250["unmatched"] if "sizes" in u}
        self.assertEqual(sizes, {"m5 n128 k128", "m128 n128 k5"})
        a100 = self.answer(TRACES / "benchmark_result_2869224_1695835535_trace.json.gz")
        self.adds_up(a100)
        self.assertEqual(a100["trace"]["window"], "whole")
        self.assertEqual(sum(p["kernels"] for p in a100["account"]), 79 + 16 + 3)

    def test_reports_and_usage(self):
        path = TRACES / "mi250_minitoy_train_ROCm6_2_kineto.json.gz"
        cluster = ("--cluster", "h100-sxm-1x2")
        self.assertIn("where the step went", run(path, JOB, *cluster).stdout)
        self.assertIn("| copies |", run(path, JOB, *cluster, "--format", "markdown").stdout)
        self.assertIn("<html", run(path, JOB, *cluster, "--format", "html").stdout)
        self.assertIn("its steps are 1, 2", run(path, JOB, *cluster, "--step", "7", code=3).stderr)
        self.assertIn("no kernel ran during step 2", run(path, JOB, *cluster, "--step", "2", code=3).stderr)
        self.assertIn("of device 2", run(path, JOB, *cluster, "--device", "0", code=3).stderr)
        self.assertIn("1 pipeline ranks", run(path, JOB, *cluster, "--stage", "1", code=2).stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
