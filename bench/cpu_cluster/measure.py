#!/usr/bin/env python3
"""Measures the pieces of a plan with the trainer's own modules, on one process or on two.

    measure.py PLAN ... -o MEASURED.json           blocks, and what is done once a step: by one process, the
                                                   same work on the other core beside it (--alone: none)
    measure.py PLAN ... --links -o MEASURED.json   collectives between two ranks

Pieces that MEASURED.json.partial has are kept: a run that was stopped is taken up again.

A plan is what `eratos measure JOB --plan --format plan` writes; the file is what `eratos project --measured` reads
(pieces of several plans are one file, each once). Blocks run at the shapes of one rank of the target: where
the target has tensor or expert parallelism, the groups are stand-ins of that size that exchange nothing.

Why not `eratos-device`, which measures the same pieces? A framework is what it launches: this trainer's
layers are Python's, with a norm written out and three products for Q, K and V. Its modules are measured as
they are.

What a block's time is: K copies of it stand in a chain, all forward and then all backward, so that what
backward reads has left the caches as it has in a step.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import train  # noqa: E402

CHAIN = 3          # copies of a block
WARM, REPEAT = 1, 3
MOST_TRIES = 10    # to get so many samples in which the process had its core to itself
BUSY = 0.98        # share of a sample's time that it must have run
LEAST_S = 0.02     # of one sample of something small


class Faulty(Exception):
    pass


class Rows(dict):
    """Measured rows by id; each is on disk as soon as it is there, so that a run can be taken up again."""

    def __init__(self, path, writes):
        super().__init__()
        self.path, self.writes = path, writes
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    row = json.loads(line)
                    super().__setitem__(row["id"], row)

    def __setitem__(self, key, row):
        super().__setitem__(key, row)
        if not self.writes:
            return
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())


def value_of(text):
    try:
        number = float(text)
        return int(number) if number == int(number) else number
    except ValueError:
        return text


def read_plan(path):
    """Pieces as mappings, in the plan's order."""
    pieces = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.split()
            if number == 1 and words != ["eratos-plan", "1"]:
                raise Faulty("%s:1: not a plan of version 1" % path)
            if not words or words[0] != "piece":
                continue
            piece = {"kind": words[1]}
            for word in words[2:]:
                key, _, text = word.partition("=")
                piece[key] = text if key == "id" else value_of(text)
            if "id" not in piece:
                raise Faulty("%s:%d: a piece without id" % (path, number))
            pieces.append(piece)
    return pieces


def row_of(piece, samples, **more):
    row = {key: value for key, value in piece.items() if key != "count"}
    ordered = sorted(samples)
    quartiles = statistics.quantiles(ordered, n=4) if len(ordered) > 1 else [ordered[0]] * 3
    row.update(median_s=statistics.median(ordered), minimum_s=ordered[0], samples_s=samples, warmup=WARM,
               spread=(quartiles[2] - quartiles[0]) / statistics.median(ordered), checked=None, **more)
    return row


# ---- blocks ------------------------------------------------------------------------------------


def stand_in(axis, size):
    """A group whose exchanges cost nothing but what the module does itself."""
    import links

    class StandIn(links.Group):
        rank = 0

        def all_reduce(self, tensor, op=None, kind="all_reduce"):
            return tensor

        def all_gather(self, whole, part):
            for piece in whole.chunk(self.size):
                piece.copy_(part)
            return whole

        def reduce_scatter(self, whole):
            return whole.chunk(self.size)[0]

        def all_to_all(self, rows, sent, received):
            return rows

    return StandIn(axis, list(range(size)), None)


def job_of(piece):
    import job as jobs
    tp, ep = int(piece.get("tp", 1)), int(piece.get("ep", 1))
    experts = piece.get("experts", 0)
    sharded = piece.get("shard_tokens", 0) not in (0, piece["tokens"])
    return jobs.Job(
        name="piece", layers=1, hidden=piece["hidden"], ffn=0 if experts else piece.get("ffn", 0) * tp,
        heads=piece.get("heads", 0) * tp, kv_heads=piece.get("kv_heads", 0) * tp,
        head_dim=piece.get("head_dim", 0) or 2, vocab=piece.get("vocab", 0) * tp or 64,
        experts=int(piece.get("all_experts", 0) or experts), top_k=int(piece.get("top_k", 0)),
        expert_ffn=piece.get("ffn", 0) if experts else 0, tp=tp, pp=1, ep=ep, sequence_parallel=sharded,
        micro=piece["tokens"] // piece["sequence"], global_batch=piece["tokens"] // piece["sequence"],
        sequence=piece["sequence"], sharding="none", recompute=piece.get("recompute") == "full", world=tp)


class Block:
    """CHAIN copies of a module with weights and gradients of their own."""

    def __init__(self, piece):
        import torch
        import layers
        import links
        import state
        self.piece, self.job, self.layers, self.torch = piece, job_of(piece), layers, torch
        job = self.job
        groups = {axis: links.ALONE for axis in ("tp", "dp", "pp", "ep", "edp")}
        if job.tp > 1:
            groups["tp"] = stand_in("tp", job.tp)
        if job.ep > 1:
            groups["ep"] = stand_in("ep", job.ep)
        self.groups = groups
        self.tables = layers.Tables(job)
        units = []
        for i in range(CHAIN):
            if piece["what"] == "layer":
                dense, names = state.layer_weights(job)
                unit = state.Unit("layer%d" % i, dense, state.expert_weights(job, names, 0) if names else [])
            elif piece["what"] == "embedding":
                unit = state.Unit("embedding%d" % i, [state.Weight("table", [job.vocab, job.hidden], 0)], [])
            else:
                unit = state.Unit("head%d" % i, [state.Weight("norm", [job.hidden]),
                                                 state.Weight("head", [job.vocab, job.hidden], 0)], [])
            units.append(unit)
        self.units, self.state = units, state.Whole(job, groups, units)
        self.ids, self.labels = train.batch_of(job, 0, 0, 0)

    def input(self):
        job = self.job
        tokens = job.sequence // (job.tp if job.sequence_parallel else 1)
        x = self.torch.randn(job.micro, tokens, job.hidden)
        return x.requires_grad_()

    def run(self, unit, x):
        from torch.utils.checkpoint import checkpoint
        job, layers, w = self.job, self.layers, unit.w
        if self.piece["what"] == "embedding":
            return layers.embedding(job, self.groups, w, self.ids)
        if self.piece["what"] == "head":
            return layers.head(job, self.groups, w, x, self.labels, 1.0 / job.tokens)

        def layer(y):
            return layers.layer(job, self.groups, self.tables, w, y)
        return checkpoint(layer, x, preserve_rng_state=False) if job.recompute else layer(x)

    def once(self):
        """Seconds of one forward and one backward, means over the chain."""
        xs = [self.input() for _ in self.units]
        outs, since = [], time.perf_counter()
        for unit, x in zip(self.units, xs):
            outs.append(self.run(unit, x))
        forward = time.perf_counter() - since
        grads = [None if o.dim() == 0 else self.torch.randn_like(o) for o in outs]
        since = time.perf_counter()
        while outs:
            outs.pop().backward(grads.pop())
        return forward / CHAIN, (time.perf_counter() - since) / CHAIN


def undisturbed(call):
    """Results of REPEAT calls in which nothing else took the core, behind a first that warms up; of fewer
    where the machine is never quiet, which is then said. Returns (results, noisy)."""
    call()
    clean, rest = [], []
    while len(clean) < REPEAT and len(clean) + len(rest) < MOST_TRIES:
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        busy = (time.process_time() - cpu) / (time.perf_counter() - wall)
        (clean if busy >= BUSY else rest).append((busy, result))
    rest.sort(key=lambda pair: -pair[0])
    kept = (clean + rest)[:max(1, REPEAT)]
    return [result for _, result in kept], len(clean) < REPEAT


def measure_blocks(pieces, rows):
    """Forward and backward of one shape are two pieces of one run."""
    shapes = {}
    for piece in pieces:
        key = tuple(sorted((k, v) for k, v in piece.items() if k not in ("id", "pass", "count")))
        shapes.setdefault(key, []).append(piece)
    for _, group in sorted(shapes.items(), key=str):
        block = Block(group[0])
        samples, noisy = undisturbed(block.once)
        sys.stderr.write("%s %.4f s\n" % (group[0]["id"], sum(samples[0])))
        for piece in group:
            rows[piece["id"]] = row_of(piece, [s[piece["pass"] == "backward"] for s in samples],
                                       noisy=noisy)


# ---- what is done once a step -------------------------------------------------------------------


def repeated(call):
    """Seconds of one call, each sample long enough to be told from the clock's own noise."""
    call()
    since = time.perf_counter()
    call()
    times = max(1, int(LEAST_S / max(1e-7, time.perf_counter() - since)))

    def sample():
        start = time.perf_counter()
        for _ in range(times):
            call()
        return (time.perf_counter() - start) / times
    return undisturbed(sample)


def measure_step(piece, rows):
    """Adam over one flat buffer with the clearing of its gradients; or a copy of so many bytes."""
    import torch
    import state
    if piece["what"] == "optimizer":
        n = int(piece["rows"] * piece.get("width", 1))
        adam, gradient = state.Adam(torch.randn(n)), torch.randn(n)

        def call():
            adam.update(gradient, 0.9)
            gradient.zero_()
    else:
        n = max(1, int(piece["bytes"] / 8))
        source, target = torch.randn(n), torch.empty(n)

        def call():
            target.copy_(source)
    samples, noisy = repeated(call)
    rows[piece["id"]] = row_of(piece, samples, noisy=noisy)


# ---- links --------------------------------------------------------------------------------------


def link_call(piece, group):
    import torch
    n = max(2, int(piece["bytes"] / 4))
    whole, half = torch.zeros(n), torch.zeros(n // 2)  # sums of sums would overflow
    what = piece["what"]
    if what == "all_reduce":
        return lambda: group.all_reduce(whole)
    if what == "reduce_scatter":
        return lambda: group.reduce_scatter(whole)
    if what == "all_gather":
        return lambda: group.all_gather(whole[:n // 2 * 2], half)
    if what == "all_to_all":
        rows = whole[:n // 2 * 2].view(-1, 1)
        return lambda: group.all_to_all(rows, [n // 2, n // 2], [n // 2, n // 2])
    # There and back: half of it is one way.
    mine = group.rank

    def there_and_back():
        if mine == 0:
            group.exchange(send=whole, to=1)
            group.exchange(receive=torch.empty(n), source=1)
        else:
            group.exchange(receive=torch.empty(n), source=0)
            group.exchange(send=whole, to=0)
    return there_and_back


def measure_links(pieces, rows):
    """Each exchange follows some milliseconds of compute, as in a step: both ranks come to it at about the
    same time, gloo's threads have to be woken on a core that was busy, and caches hold something else. A
    wake-up takes now a little and now a scheduler's turn, so a sample is a mean over many. Both ranks run
    every piece as often: the counts are fixed by its bytes."""
    import torch
    import links
    group = links.Group("dp", [0, 1], None)
    a, big = torch.randn(384, 384), torch.randn(1 << 20)
    for piece in pieces:
        call = link_call(piece, group)
        times = max(3, min(20, int(1e8 / piece["bytes"])))
        samples = []
        for _ in range(1 + REPEAT):
            total = 0.0
            for _ in range(times):
                for _ in range(4):
                    a @ a
                    big.mul_(1.0)
                since = time.perf_counter()
                call()
                total += time.perf_counter() - since
            samples.append(total / times / (2 if piece["what"] == "send_recv" else 1))
        rows[piece["id"]] = row_of(piece, samples[1:])


# ---- processes ----------------------------------------------------------------------------------


def can(piece):
    """What this program knows of; the rest is said to be unmeasured."""
    if piece["kind"] == "block":
        return piece["what"] in ("layer", "embedding", "head")
    return piece["kind"] == "elementwise" and piece["pass"] == "step"


def rank_main(args):
    train.pin(args.rank)
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    torch.manual_seed(args.rank)
    rows = Rows(args.output + ".partial", args.rank == 0)
    pieces = [piece for piece in wanted(args) if piece["id"] not in rows]
    if args.links or args.beside:
        dist.init_process_group("gloo", init_method="file://" + args.store, rank=args.rank, world_size=2)
    if args.links:
        measure_links([p for p in pieces if p["kind"] == "collective" and p["ranks"] == 2], rows)
    else:
        measure_blocks([p for p in pieces if p["kind"] == "block" and can(p)], rows)
        for piece in pieces:
            if piece["kind"] == "elementwise" and can(piece):
                measure_step(piece, rows)
    if args.links or args.beside:
        dist.barrier()
    os._exit(0)


def wanted(args):
    seen, out = set(), []
    for plan in args.plans:
        for piece in read_plan(plan):
            if piece["id"] not in seen:
                seen.add(piece["id"])
                out.append(piece)
    return out


def launch(args, beside):
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, os.path.abspath(__file__)] + args.plans
        command += ["-o", args.output, "--store", os.path.join(folder, "store")]
        command += ["--links"] if args.links else []
        command += ["--beside"] if beside else []
        environment = dict(os.environ, **train.ALLOCATOR)
        both = args.links or beside
        ranks = [subprocess.Popen(command + ["--rank", str(r)],
                                  stderr=None if r == 0 else subprocess.DEVNULL, env=environment)
                 for r in range(2 if both else 1)]
        for process in ranks:
            process.wait()
    if any(process.returncode for process in ranks):
        sys.stderr.write("measure: a process died\n")
        sys.exit(train.MISSING)
    rows = Rows(args.output + ".partial", False)
    os.remove(args.output + ".partial")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plans", nargs="+")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--links", action="store_true", help="collectives between two ranks")
    parser.add_argument("--alone", action="store_true", help="no neighbour at work on the other core")
    parser.add_argument("--beside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank is not None:
        return rank_main(args)
    import steps
    rows = launch(args, not args.alone and not args.links)
    pieces = wanted(args)
    # Kernels and halves of layers are not asked for: their layer is measured as a whole.
    missing = [{"id": p["id"], "why": "needs more ranks than two"} for p in pieces
               if args.links and p["kind"] == "collective" and p["id"] not in rows]
    made = dict(steps.provenance(), driver="", compiler="", host="", ranks=2 if args.links else 1,
                clock={}, load_1min=os.getloadavg()[0], source="bench/cpu_cluster/measure.py",
                noisy=any(row.get("noisy") for row in rows.values()), notes=[note_of(args)])
    result = {"eratos_measured": 1, "provenance": made, "job": {"name": "cpu_cluster", "digest": ""},
              "pieces": list(rows.values()), "unmeasured": missing}
    write(result, args.output)


def write(value, path):
    """A row a line, so that two versions can be compared."""
    text = ",\n".join("%s: %s" % (json.dumps(key), lines(part)) for key, part in value.items())
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write("{%s}\n" % text)
    os.replace(path + ".new", path)


def lines(part):
    if isinstance(part, list) and part:
        return "[\n" + ",\n".join(json.dumps(row) for row in part) + "]"
    return json.dumps(part)


def note_of(args):
    if args.links:
        return "two ranks of gloo, each pinned to a core"
    if args.alone:
        return "one process, the other core idle"
    return "one process, the same work on the other core beside it"


if __name__ == "__main__":
    try:
        main()
    except Faulty as fault:
        sys.stderr.write("measure: %s\n" % fault)
        sys.exit(3)
