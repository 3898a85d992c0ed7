#!/usr/bin/env python3
"""Checks the judge: what autograd holds must equal a closed sum of named tensors, byte for byte.

The sums below were derived by hand from what each backward formula reads; README.md has them as a
table. They are compared with the measurement for several sizes, so a tensor that this file does not
know, or knows at the wrong size, fails. Letters as in saved_bytes.py.

Run: test_saved_bytes.py        exit 0 when every test passed
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import saved_bytes  # noqa: E402  exits 4, not silently, when PyTorch is missing

SIZES = [
    {},  # the defaults
    {"batch": 1, "seq": 64, "hidden": 96, "heads": 6, "kv_heads": 6, "ffn": 200, "experts": 8,
     "top_k": 1, "vocab": 77, "capacity_percent": 50, "q_rank": 40, "kv_rank": 28, "nope_dim": 10,
     "rope_dim": 8, "v_dim": 14},
    {"batch": 3, "seq": 40, "hidden": 160, "heads": 5, "kv_heads": 1, "head_dim": 16, "ffn": 99,
     "experts": 6, "top_k": 3, "vocab": 513},
    {"batch": 2, "seq": 96, "hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 48, "ffn": 320,
     "experts": 3, "top_k": 2, "vocab": 2048},
]


def rms_norm(n, e, square):
    """What the norm makes: bf16 input's fp32 copy, squares if held, 1/rms, two results."""
    wide_copy = 0 if e == 4 else 4 * n["T"] * n["h"]
    held = wide_copy + (4 * n["T"] * n["h"] if square else 0) + 4 * n["T"]
    return held + 2 * e * n["T"] * n["h"]  # before the weight, and after it


def attention(n, e):
    """q, repeated k, repeated v and the context, at H heads each; probabilities in fp32."""
    narrow_probabilities = 0 if e == 4 else e * n["B"] * n["H"] * n["S"] ** 2
    return (4 * e * n["T"] * n["H"] * n["D"]
            + 4 * n["B"] * n["H"] * n["S"] ** 2 + narrow_probabilities)


def residual_stream(n, e):
    """The sum after attention: RMSNorm reads it in fp32, so in bf16 only its fp32 copy is held."""
    return 4 * n["T"] * n["h"] if e == 4 else 0


def llama(n, e, square):
    return (2 * rms_norm(n, e, square) + attention(n, e) + residual_stream(n, e)
            + 4 * e * n["T"] * n["F"])


def moe(n, e, square):
    rows = n["T"] * n["k"]
    router = 4 * n["T"] * n["E"] + (8 + 4) * rows + 4 * n["T"]
    permute = 2 * 8 * rows + e * rows + e * rows * n["h"]
    experts = 4 * e * rows * n["F"] + e * rows * n["h"]
    unpermute = e * rows * n["h"]
    return (2 * rms_norm(n, e, square) + attention(n, e) + residual_stream(n, e)
            + router + permute + experts + unpermute)


def gpt(n, e, square):
    statistics = 2 * 2 * e * n["T"]  # mean and 1/std of two norms; on a GPU they are fp32 always
    return (statistics + 2 * e * n["T"] * n["h"] + attention(n, e) + e * n["T"] * n["h"]
            + 2 * e * n["T"] * n["F"])


def head(n, e, square):
    return rms_norm(n, e, square) + 4 * n["T"] * n["V"] + 4


def lora(n, e, square):
    """Frozen norms hold no normalised input; each adapter holds its A x, [T, r]."""
    return llama(n, e, square) - 2 * e * n["T"] * n["h"] + 7 * e * n["T"] * n["r"]


def full(n, e, square):
    return 0  # the layer's input alone


def selective(n, e, square):
    """q, the unrepeated k and v, and the context; nothing of S * S."""
    kept = e * n["T"] * n["D"] * (2 * n["H"] + 2 * n["G"])
    return llama(n, e, square) - attention(n, e) + kept


def mla(n, e, square):
    """Two norms of latents, whose bf16 copies hold the latent's columns alone; q and k joined, v cut
    out of the up projection's result (it holds T*H*dv once packed), and the context."""
    dense = llama(n, e, square) - attention(n, e)
    latents = 0
    for width in (n["rq"], n["rkv"]):
        # In fp32 the norm reads the projection's result itself: whole, with the rotary part.
        wide = 4 * n["T"] * width
        if e == 4 and width == n["rkv"]:
            wide = 4 * n["T"] * (width + n["dr"])
        latents += wide + (4 * n["T"] * width if square else 0) + 4 * n["T"] + 2 * e * n["T"] * width
    # One sequence's heads lie one stride apart: the product reads v where it is, and holds it all.
    values = n["dv"] if n["B"] > 1 else n["dn"] + n["dv"]
    heads = e * n["T"] * n["H"] * (2 * (n["dn"] + n["dr"]) + n["dv"] + values)
    narrow = 0 if e == 4 else e * n["B"] * n["H"] * n["S"] ** 2
    return dense + latents + heads + 4 * n["B"] * n["H"] * n["S"] ** 2 + narrow


def capacity(n, e, square):
    """moe with C rows an expert; the router still chooses T*k."""
    rows = n["E"] * -(-n["T"] * n["k"] * n["c"] // (100 * n["E"]))
    chosen = n["T"] * n["k"]
    of_rows = 16 + e + 3 * e * n["h"] + 4 * e * n["F"]
    return moe(n, e, square) + (rows - chosen) * of_rows


CLOSED = {"mla": mla, "window": llama, "capacity": capacity, "llama": llama, "moe": moe, "gpt": gpt, "head": head, "lora": lora, "full": full,
          "selective": selective}


def letters(sizes):
    return {"B": sizes["batch"], "S": sizes["seq"], "T": sizes["batch"] * sizes["seq"],
            "h": sizes["hidden"], "H": sizes["heads"], "D": sizes["head_dim"], "F": sizes["ffn"],
            "E": sizes["experts"], "k": sizes["top_k"], "V": sizes["vocab"],
            "G": sizes["kv_heads"], "r": sizes["rank"], "rq": sizes["q_rank"], "rkv": sizes["kv_rank"],
            "dn": sizes["nope_dim"], "dr": sizes["rope_dim"], "dv": sizes["v_dim"],
            "c": sizes["capacity_percent"]}


class SavedBytes(unittest.TestCase):
    def measurements(self):
        for overrides in SIZES:
            for case in saved_bytes.CASES:
                for dtype in saved_bytes.DTYPES:
                    sizes = {**saved_bytes.DEFAULT_SIZES, **overrides}
                    yield saved_bytes.measure(case, dtype, sizes)

    def test_measurement_equals_closed_sum(self):
        # mean() holds its input, the squares, in PyTorch 1.x; 2.x keeps only the shape.
        square = saved_bytes.torch.__version__.startswith("1.")
        compared = 0
        for report in self.measurements():
            n, e = letters(report["sizes"]), 4 if report["dtype"] == "fp32" else 2
            with self.subTest(case=report["case"], dtype=report["dtype"], sizes=report["sizes"]):
                self.assertEqual(report["saved_bytes"], CLOSED[report["case"]](n, e, square))
                norms = {"llama": 2, "moe": 2, "gpt": 0, "head": 1, "lora": 2, "full": 0,
                         "selective": 2, "mla": 2, "window": 2, "capacity": 2}[report["case"]]
                columns = norms * n["h"] + (n["rq"] + n["rkv"] if report["case"] == "mla" else 0)
                self.assertEqual(report["sole_holder"].get("MeanBackward1", 0),
                                 4 * n["T"] * columns if square else 0)
                reads_input = report["dtype"] == "fp32" or report["case"] in ("gpt", "full")
                self.assertEqual(report["input_bytes"], e * n["T"] * n["h"] if reads_input else 0)
                self.assertEqual(report["saved_bytes"], sum(t["bytes"] for t in report["tensors"]))
                self.assertEqual(report["saved_bytes"], sum(report["by_part"].values()))
            compared += 1
        self.assertEqual(compared, len(SIZES) * len(CLOSED) * 2)

    def test_hand_worked_swiglu(self):
        # T 256, F 704, fp32: gate, silu(gate), up, their product = 4 * 256 * 704 * 4 = 2,883,584.
        report = saved_bytes.measure("llama", "fp32", saved_bytes.DEFAULT_SIZES)
        self.assertEqual(report["by_part"]["mlp"], 2883584)

    def test_one_input_for_three_projections(self):
        # q, k and v read one normalised tensor [T, h]; it must be counted once.
        report = saved_bytes.measure("llama", "bf16", saved_bytes.DEFAULT_SIZES)
        shared = [t for t in report["tensors"] if t["where"] == "norm1" and
                  "MmBackward0" in t["saved_by"]]
        self.assertEqual([t["bytes"] for t in shared], [2 * 256 * 256])

    def test_every_tensor_has_a_producer(self):
        for report in self.measurements():
            for tensor in report["tensors"]:
                self.assertTrue(tensor["op"] and tensor["where"] and tensor["saved_by"], tensor)


class CommandLine(unittest.TestCase):
    def run_main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = saved_bytes.main(list(arguments))
        return status, out.getvalue(), err.getvalue()

    def test_one_case(self):
        status, out, _ = self.run_main("--case", "head", "--dtype", "bf16", "--vocab", "50")
        self.assertEqual(status, 0)
        self.assertEqual(json.loads(out)["sizes"]["vocab"], 50)

    def test_jobs_match_single_runs(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as jobs:
            json.dump([{"case": "moe", "dtype": "bf16", "seq": 32}, {"case": "gpt"}], jobs)
            jobs.flush()
            status, out, _ = self.run_main("--jobs", jobs.name)
        self.assertEqual(status, 0)
        single = json.loads(self.run_main("--case", "moe", "--dtype", "bf16", "--seq", "32")[1])
        self.assertEqual(json.loads(out)[0], single)

    def test_impossible_sizes_are_refused(self):
        for arguments in (("--heads", "7"), ("--kv-heads", "3"), ("--head-dim", "15"),
                          ("--experts", "7"), ("--top-k", "9")):
            status, out, err = self.run_main("--case", "moe", *arguments)
            self.assertEqual((status, out), (3, ""), arguments)
            self.assertIn("saved_bytes: ", err)

    def test_unknown_job_key_is_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as jobs:
            json.dump([{"case": "moe", "layers": 3}], jobs)
            jobs.flush()
            self.assertEqual(self.run_main("--jobs", jobs.name)[0], 3)


if __name__ == "__main__":
    unittest.main()
