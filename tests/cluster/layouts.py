"""One of two ranks: trains tiny models under every cut, and compares each with one process.

Run by trainer_test.py. Both ranks also work out the whole model by themselves; what they hold of its
gradients must be the same slice. Prints one JSON object: the largest relative error of each cut, the losses
and the bytes held.
"""

import dataclasses
import json
import os
import sys

sys.path.insert(0, os.path.join(os.environ["ERATOS_SOURCE_DIR"], "bench", "cpu_cluster"))
import train  # noqa: E402

STEPS = 3
LONG = 60  # steps of one cut, to see its loss fall
BASE = dict(name="tiny", layers=2, hidden=32, ffn=48, heads=4, kv_heads=2, head_dim=8, vocab=64, experts=0,
            top_k=0, expert_ffn=0, tp=1, pp=1, ep=1, sequence_parallel=False, micro=1, global_batch=4,
            sequence=16, sharding="none", recompute=False, world=2)
MOE = dict(experts=4, top_k=2, expert_ffn=24)
CUTS = {
    "dp2": {}, "dp2 recompute": dict(recompute=True), "zero1": dict(sharding="zero1"),
    "zero3": dict(sharding="zero3"), "zero3 recompute": dict(sharding="zero3", recompute=True),
    "tp2": dict(tp=2), "tp2 recompute": dict(tp=2, recompute=True),
    "tp2 sp": dict(tp=2, sequence_parallel=True),
    "pp2": dict(pp=2), "pp2 recompute": dict(pp=2, recompute=True), "moe dp2": MOE,
    "moe ep2": dict(MOE, ep=2), "moe ep2 zero1 recompute": dict(MOE, ep=2, sharding="zero1", recompute=True),
    "moe zero3": dict(MOE, sharding="zero3"), "moe pp2": dict(MOE, pp=2),
}


def gradients(job, torch, steps=STEPS):
    """Of the first step by (unit, weight), the losses of all steps, and what was held at most."""
    run, found = train.Run(job), {}

    def keep(norm):
        for unit, weight, name, grad in run.state.named_gradients():
            found[(unit, weight.name)] = (weight.cut, grad.clone())
        run.state.watch = None
    run.state.watch = keep
    losses = []
    book = run.held = train.Held(run.state.storages() + run.tables.all())
    for step in range(steps):
        if step == 0:
            with torch.autograd.graph.saved_tensors_hooks(book.pack, lambda ticket: ticket.tensor):
                share = torch.tensor([float(run.step(step))])
            run.held = None
        else:
            share = torch.tensor([float(run.step(step))])
        for axis in ("dp", "pp"):
            run.groups[axis].all_reduce(share)
        losses.append(float(share))
    return found, losses, book.high, run.groups["tp"].rank


def main():
    rank, store = int(sys.argv[1]), sys.argv[2]
    train.pin(rank)
    import torch
    import torch.distributed as dist
    import job as jobs
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
    alone, out = {}, {}
    for name, changes in CUTS.items():
        job = jobs.Job(**dict(BASE, **changes))
        assert not jobs.faults_of(job), jobs.faults_of(job)
        if job.experts not in alone:
            whole = dataclasses.replace(job, tp=1, pp=1, ep=1, sequence_parallel=False, sharding="none",
                                        recompute=False, world=1)
            alone[job.experts] = gradients(whole, torch)
        reference, loss, _, _ = alone[job.experts]
        mine, losses, held, part = gradients(job, torch)
        worst = 0.0
        for key, (cut, grad) in mine.items():
            expected = reference[key][1]
            if cut is not None and job.tp > 1:
                expected = expected.chunk(job.tp, cut)[part]
            worst = max(worst, float((grad - expected).norm() / expected.norm()))
        out[name] = {"error": worst, "tensors": len(mine), "losses": losses, "alone": loss, "held": held}
    out["long"] = gradients(jobs.Job(**dict(BASE, tp=2)), torch, LONG)[1]
    print(json.dumps(out))
    sys.stdout.flush()
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
