#!/usr/bin/env python3
"""Every kind of piece: measured, right against its reference, and written down whole."""

import math
import tempfile

from device import expect, gemm, need_program, pieces, read, run, write_plan

LAYER = ("tokens=96 sequence=48 hidden=64 heads=4 kv_heads=2 head_dim=16 ffn=96 dtype=fp32 "
         "norm=rmsnorm activation=silu position=rotary")
MOE = ("tokens=96 sequence=48 hidden=64 ffn=32 experts=4 all_experts=8 top_k=2 expert_rows=96 "
       "dtype=fp32 norm=layernorm")

PLAN = [
    f"block id=layer/f what=layer pass=forward {LAYER}",
    f"block id=layer/b what=layer pass=backward {LAYER}",
    f"block id=again/b what=layer pass=backward recompute=full shard_tokens=48 qk_norm=1 "
    f"qkv_bias=1 window=16 {LAYER}",
    f"block id=moe/f what=moe pass=forward shared_ffn=32 {MOE}",
    f"block id=moe/b what=moe pass=backward shared_ffn=32 {MOE}",
    "block id=mlp/b what=mlp pass=backward tokens=64 hidden=64 ffn=96 gated=0 "
    "activation=squared_relu dtype=bf16",
    "block id=table/b what=embedding pass=backward tokens=64 hidden=32 vocab=100 dtype=fp32",
    "block id=head/f what=head pass=forward tokens=64 hidden=32 vocab=100 dtype=fp32",
    gemm("gemm/f"),
    gemm("gemm/d", **{"pass": "dgrad"}),
    gemm("gemm/w", **{"pass": "wgrad"}, accumulate=1),
    gemm("gemm/uneven", groups=3, experts=1, rows="40,0,24"),
    gemm("gemm/strided", groups=4, experts=1, strided=1),
    gemm("gemm/experts/w", **{"pass": "wgrad"}, groups=4, experts=1),
    "attention id=attention/f dtype=fp32 batch=2 seq_q=48 seq_kv=48 heads=4 kv_heads=2 head_dim=16 "
    "causal=1 pass=forward",
    "attention id=attention/b dtype=fp32 batch=1 seq_q=48 seq_kv=96 heads=4 kv_heads=4 head_dim=16 "
    "v_head_dim=8 causal=1 window=20 pass=backward",
    *[f"elementwise id={what}/{way} what={what} pass={way} bytes=65536 rows=96 width=64 dtype=fp32"
      for what in ("norm", "swiglu", "gelu", "rotary", "residual", "router", "permute",
                   "cross_entropy", "copy") for way in ("forward", "dgrad")],
    "elementwise id=adam what=optimizer pass=step bytes=1 rows=4096 width=1 dtype=fp32",
    "elementwise id=scan what=other pass=forward bytes=1 rows=1 width=1 dtype=fp32",
    gemm("gemm/fp8", dtype="fp8"),
    "collective id=alone what=all_reduce ranks=2 bytes=1024 dtype=fp32",
    *[f"memory id=memory/{phase} phase={phase} layers=2 micro_batches=1 vocab=100 {LAYER}"
      for phase in ("parameters", "forward", "backward", "optimizer")],
]


def test_every_kind(folder):
    output = f"{folder}/all.json"
    done = run(write_plan(folder, PLAN), output, "--commit", "abc", budget="3s")
    expect(done.returncode == 0, done.stderr)
    file = read(output)
    expect(file["eratos_measured"] == 1 and file["job"]["name"] == "test", file)
    found = pieces(output)
    missing = {u["id"]: u["why"] for u in file["unmeasured"]}
    expect(set(missing) == {"scan", "gemm/fp8", "alone"}, (missing, done.stderr))
    expect("--ranks 2" in missing["alone"], missing)
    for name, piece in found.items():
        if piece["kind"] == "memory":
            continue
        samples = piece["samples_s"]
        expect(len(samples) >= 3 and all(s > 0 for s in samples), piece)
        expect(min(samples) <= piece["median_s"] <= max(samples), piece)
        expect(math.isclose(piece["minimum_s"], min(samples)), piece)
        expect(piece["warmup"] >= 1, piece)
        loosest = 0.2 if piece["dtype"] == "bf16" else 1e-4
        expect(0 <= piece["checked"] < loosest, (name, piece["checked"]))
    expect(found["gemm/uneven"]["rows"] == "40,0,24" and found["gemm/f"]["m"] == 64, found)
    where = file["provenance"]
    expect(where["source"] == "eratos-device" and where["device_kind"] == "cpu", where)
    expect(where["threads"] == 1 and where["ranks"] == 1 and where["commit"] == "abc", where)
    expect(where["device"] and where["libtorch"] and where["compiler"] and where["host"], where)


def test_memory(folder):
    """Bytes counted by hand, for h 64, f 96, 4 and 2 heads of 16, a vocabulary of 100."""
    found = pieces(f"{folder}/all.json")
    h, f, qkv, out, vocab = 64, 96, (4 + 2 * 2) * 16, 4 * 16, 100
    layer = 2 * h + h * qkv + out * h + 2 * f * h + f * h
    weights = 4 * (vocab * h + 2 * layer + vocab * h + h)
    # Beside weights: two layers' angles (48 positions, 8 frequencies), the head's 96 targets.
    wanted = weights + 2 * 4 * 48 * 8 + 8 * 96
    expect(found["memory/parameters"]["bytes_live"] == wanted,
           (found["memory/parameters"], wanted))
    # After backward every weight has a gradient, and nothing of the forward is left but that.
    expect(found["memory/backward"]["bytes_live"] == wanted + weights,
           (found["memory/backward"], wanted + weights))
    # Adam's two moments in fp32.
    expect(found["memory/optimizer"]["bytes_live"] == wanted + 3 * weights,
           found["memory/optimizer"])
    expect(found["memory/forward"]["bytes_peak"] >= found["memory/forward"]["bytes_live"] > wanted,
           found["memory/forward"])


def test_wrong_results_are_errors(folder):
    """Nothing in fp32 is right to 1e-12: each such piece is left out, what is exact stays."""
    plan = write_plan(folder, [gemm("gemm/f"), "elementwise id=copy what=copy pass=forward "
                               "bytes=65536 dtype=fp32"], "wrong")
    output = f"{folder}/wrong.json"
    done = run(plan, output, "--tolerance", "1e-12", budget="1s")
    expect(done.returncode == 4 and "wrong" in done.stderr, (done.returncode, done.stderr))
    expect(set(pieces(output)) == {"copy"}, read(output))
    expect("is wrong" in read(output)["unmeasured"][0]["why"], read(output))


def test_bad_plans(folder):
    for lines, said in [
            ("", "it is empty"),
            ("hello\n", "its first line is not"),
            ("eratos-plan 1\n", "has no piece"),
            ("eratos-plan 1\npiece gem id=x\n", ":2:1: error: unknown kind of piece `gem`"),
            ("eratos-plan 1\npiece gemm id=x m=2 k=-1 n=1.5 pass=forward\n", "`k=-1` is no whole"),
            ("eratos-plan 1\npiece gemm id=x m=2 k=1 n=1.5 pass=forward\n", "`n=1.5` is no whole"),
            ("eratos-plan 1\npiece gemm id=x m=2 k=2 pass=forward\n", "has no `n`"),
            ("eratos-plan 1\npiece gemm id=x m=2 m=2 n=2 k=2 pass=forward\n", "given twice"),
            ("eratos-plan 1\npiece gemm\n", "has no `id`"),
    ]:
        path = f"{folder}/bad.plan"
        with open(path, "w", encoding="utf-8") as file:
            file.write(lines)
        done = run(path, f"{folder}/bad.json")
        expect(done.returncode == 3 and said in done.stderr, (said, done.returncode, done.stderr))
    done = run(f"{folder}/none", f"{folder}/bad.json")
    expect(done.returncode == 4 and "cannot be read" in done.stderr, done.stderr)


if __name__ == "__main__":
    need_program()
    with tempfile.TemporaryDirectory() as folder:
        test_every_kind(folder)
        test_memory(folder)
        test_wrong_results_are_errors(folder)
        test_bad_plans(folder)
