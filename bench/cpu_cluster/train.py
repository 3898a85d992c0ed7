#!/usr/bin/env python3
"""Trains a small model over gloo ranks of this machine, each of one thread on one core, and says how long
a step took and what autograd held.

    train.py JOB.yaml --steps 8            as many ranks as the job's cluster has
    train.py JOB.yaml --gradients FILE     the first step's gradients, whole, for comparison

Prints one JSON object. Exit: 0 answered, 2 usage, 3 a job that the trainer cannot run, 4 PyTorch or gloo is
missing or a rank died.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MISSING = 4
# Freed memory stays with the process, as it does with an accelerator's caching allocator; otherwise
# every large tensor would be made of pages that the kernel clears anew.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(1 << 40), "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
             "MALLOC_TOP_PAD_": str(1 << 26)}


def pin(rank):
    """Before torch is loaded, so that its threads and gloo's stay on the same core."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def batch_of(job, step, dp_rank, index):
    """Ids and labels of one micro-batch: each token is followed by its image under one permutation."""
    import torch
    seed = torch.Generator().manual_seed(1000 * step + 7)
    ids = torch.randint(job.vocab, (job.global_batch, job.sequence), generator=seed)
    image = torch.randperm(job.vocab, generator=torch.Generator().manual_seed(3))
    first = (dp_rank * job.micro_batches + index) * job.micro
    mine = ids[first:first + job.micro]
    return mine, image[mine]


class Held:
    """What the graph holds, a storage once, without weights, their gradients and constants."""

    def __init__(self, known):
        self.known = {t.storage()._cdata for t in known}  # ZeRO-3 moves what a storage holds
        self.alive, self.now, self.high = {}, 0, 0

    def pack(self, tensor):
        return Ticket(self, tensor)

    def mark(self):
        self.high = max(self.high, self.now)


class Ticket:
    def __init__(self, book, tensor):
        self.book, self.tensor = book, tensor
        storage = tensor.storage()
        self.key = storage._cdata
        if self.key in book.known or storage.nbytes() == 0 or tensor.dim() == 0:
            self.key = None
            return
        count, size = book.alive.get(self.key, (0, storage.nbytes()))
        if count == 0:
            book.now += size
        book.alive[self.key] = (count + 1, size)

    def __del__(self):
        if self.key is None:
            return
        count, size = self.book.alive[self.key]
        if count > 1:
            self.book.alive[self.key] = (count - 1, size)
        else:
            del self.book.alive[self.key]
            self.book.now -= size


class Run:
    """One rank: its stage, its step."""

    def __init__(self, job):
        import links
        import state
        import layers
        self.job, self.layers = job, layers
        self.groups = links.axis_groups(job)
        self.units = state.units_of(job, self.groups)
        kind = state.Sharded if job.sharding == "zero3" else state.Whole
        self.state = kind(job, self.groups, self.units)
        self.tables = layers.Tables(job)
        pp = self.groups["pp"]
        self.stage = pp.rank if pp.size > 1 else 0
        self.first, self.last = self.stage == 0, self.stage == job.pp - 1
        self.held = None
        self.phases = {}

    def phase(self, name, since):
        self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - since

    def unit(self, unit, run, *inputs):
        return self.state.wrap(unit, run, *inputs)

    def forward(self, x, ids, labels):
        """Of one micro-batch through this stage: [B, S, h], or the loss."""
        from torch.utils.checkpoint import checkpoint
        since = time.perf_counter()
        job, layers, groups = self.job, self.layers, self.groups
        for unit in self.units:
            if unit.name == "embedding":
                x = self.unit(unit, lambda i, w=unit.w: layers.embedding(job, groups, w, i), ids)
            elif unit.name == "head":
                weight = 1.0 / (job.global_batch * job.sequence)
                x = self.unit(unit, lambda y, w=unit.w: layers.head(job, groups, w, y, labels, weight), x)
            else:
                def run(y, w=unit.w):
                    return layers.layer(job, groups, self.tables, w, y)
                if job.recompute:
                    x = self.unit(unit, lambda y, r=run: checkpoint(r, y, preserve_rng_state=False), x)
                else:
                    x = self.unit(unit, run, x)
        self.phase("forward", since)
        if self.held:
            self.held.mark()
        return x

    def backward(self, out, x, grad):
        since = time.perf_counter()
        out.backward(grad)
        self.state.end_micro_batch()
        self.phase("backward", since)
        return None if x is None else x.grad

    def step(self, number):
        """Forward and backward of every micro-batch in 1F1B order, then the update. Returns the rank's
        share of the loss."""
        self.state.begin()
        loss = self.one_f_one_b(number)
        since = time.perf_counter()
        self.norm = self.state.finish()
        self.phase("update", since)
        return loss

    def one_f_one_b(self, number):
        job, pp = self.job, self.groups["pp"]
        m, warm = job.micro_batches, min(job.pp - self.stage - 1, job.micro_batches)
        waiting, losses = [], []
        dp_rank = self.groups["dp"].rank

        def buffer():
            import torch
            tokens = job.sequence // (job.tp if job.sequence_parallel else 1)
            return torch.empty(job.micro, tokens, job.hidden)

        def run_forward(i, x):
            ids, labels = batch_of(job, number, dp_rank, i)
            if x is not None:
                x.requires_grad_()
            out = self.forward(x, ids, labels)
            waiting.append((out, x))
            if self.last:
                losses.append(float(out.detach()))
            return out.detach()

        def run_backward(grad):
            out, x = waiting.pop(0)
            return self.backward(out, x, grad)

        def receive_forward():
            return None if self.first else pp.exchange(receive=buffer(), source=self.stage - 1)

        for i in range(warm):
            x = receive_forward()
            out = run_forward(i, x)
            pp.exchange(send=out, to=self.stage + 1)
        x = receive_forward() if m > warm else None
        for i in range(warm, m):
            out = run_forward(i, x)
            grad = None
            if not self.last:
                grad = pp.exchange(out, self.stage + 1, buffer(), self.stage + 1)
            dx = run_backward(grad)
            x = None
            if not self.first:
                if i + 1 < m:
                    x = pp.exchange(dx, self.stage - 1, buffer(), self.stage - 1)
                else:
                    pp.exchange(send=dx, to=self.stage - 1)
        for _ in range(warm):
            grad = None if self.last else pp.exchange(receive=buffer(), source=self.stage + 1)
            dx = run_backward(grad)
            if not self.first:
                pp.exchange(send=dx, to=self.stage - 1)
        return sum(losses)


def rank_main(args):
    pin(args.rank)
    sys.path.insert(0, HERE)
    import torch
    import torch.distributed as dist
    import job as jobs
    import links
    torch.set_num_threads(1)
    job = jobs.load_or_exit(args.job)
    if job.world > 1:
        dist.init_process_group("gloo", init_method="file://" + args.store, rank=args.rank,
                                world_size=job.world)
    run = Run(job)
    result = {"steps_s": [], "loss": [], "phases_s": [], "links": []}
    if args.held:
        book = run.held = Held(run.state.storages() + run.tables.all())
        with torch.autograd.graph.saved_tensors_hooks(book.pack, lambda ticket: ticket.tensor):
            run.step(0)
        result["held_bytes"] = book.high
        run.held = None
    if args.gradients:
        run.state.watch = lambda norm: save_gradients(run, args, norm)
    for number in range(args.steps):
        run.phases = {}
        links.reset()
        since, cpu = time.perf_counter(), time.process_time()
        loss = run.step(number)
        result["steps_s"].append(time.perf_counter() - since)
        result.setdefault("cpu_s", []).append(time.process_time() - cpu)
        result["phases_s"].append(dict(run.phases))
        result["links"].append({"%s %s" % key: value for key, value in links.SPENT.items()})
        share = torch.tensor([float(loss)])
        for axis in ("dp", "pp"):
            run.groups[axis].all_reduce(share)
        result["loss"].append(float(share))
        run.state.watch = None
    result["norm"] = run.norm
    print(json.dumps(result))
    sys.stdout.flush()
    if job.world > 1:
        # gloo's threads outlive the interpreter's own order of things: wait for the others and go.
        dist.barrier()
        os._exit(0)


def save_gradients(run, args, norm):
    """Those of the first step, as this rank has them; whoever compares puts slices together."""
    import torch
    rows = [(unit, weight.name, weight.cut, grad.clone())
            for unit, weight, _, grad in run.state.named_gradients()]
    torch.save({"tp": run.groups["tp"].rank, "rows": rows, "norm": norm},
               "%s.%d" % (args.gradients, args.rank))


def launch(job_path, steps, held=False, gradients=None, limit=600):
    """Results of every rank, or SystemExit with what a dead rank said."""
    sys.path.insert(0, HERE)
    import job as jobs
    world = jobs.load_or_exit(job_path).world
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, os.path.abspath(__file__), job_path, "--steps", str(steps), "--store",
                   os.path.join(folder, "store")]
        command += ["--held"] if held else []
        command += ["--gradients", gradients] if gradients else []
        ranks = [subprocess.Popen(command + ["--rank", str(r)], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env=dict(os.environ, **ALLOCATOR))
                 for r in range(world)]
        return collect(ranks, time.monotonic() + limit)


def collect(ranks, deadline):
    """A rank that dies takes the others along; nothing waits for it for ever."""
    while any(p.poll() is None for p in ranks):
        bad = [p for p in ranks if p.poll() not in (None, 0)]
        if bad or time.monotonic() > deadline:
            for p in ranks:
                p.kill()
            said = bad[0].communicate()[1] if bad else "ran past its time\n"
            sys.stderr.write("train: a rank died:\n" + said)
            sys.exit(MISSING)
        time.sleep(0.02)
    out = [p.communicate() for p in ranks]
    for p, (_, said) in zip(ranks, out):
        if p.returncode:
            sys.stderr.write("train: a rank died:\n" + said)
            sys.exit(p.returncode if p.returncode == 3 else MISSING)
    return [json.loads(text.splitlines()[-1]) for text, _ in out]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--held", action="store_true", help="also what autograd holds")
    parser.add_argument("--gradients", help="file for the first step's gradients, a suffix a rank")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank is not None:
        return rank_main(args)
    print(json.dumps(launch(args.job, args.steps, args.held, args.gradients)))


if __name__ == "__main__":
    try:
        main()
    except ImportError as missing:
        sys.stderr.write("train: PyTorch or PyYAML is missing (Debian: python3-torch, python3-yaml): %s\n"
                         % missing)
        sys.exit(MISSING)
