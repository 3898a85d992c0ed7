"""Collectives between the ranks, each timed, and the same as operations that autograd knows.

gloo of PyTorch 1.13 has no reduce-scatter: it is composed, an all-reduce of everything of which each rank
keeps its part. That is what `kernel.reduce_scatter_by_all_reduce` of data/frameworks/cpu-cluster.yaml says.

Letters: n ranks of a group; bytes as docs/model/collectives.md counts them, the larger of one rank's two
buffers.
"""

import time

import torch
import torch.distributed as dist

# Seconds, calls and bytes by (axis, kind), since the last reset.
SPENT = {}


def reset():
    SPENT.clear()


def note(axis, kind, nbytes, since):
    seconds, calls, total = SPENT.get((axis, kind), (0.0, 0, 0))
    SPENT[(axis, kind)] = (seconds + time.perf_counter() - since, calls + 1, total + nbytes)


def size_of(tensor):
    return tensor.numel() * tensor.element_size()


class Group:
    """Ranks that exchange over one axis; of one rank every call is free."""

    def __init__(self, axis, ranks, handle):
        self.axis, self.ranks, self.handle = axis, ranks, handle
        self.size = len(ranks)

    @property
    def rank(self):
        return self.ranks.index(dist.get_rank()) if self.size > 1 else 0

    def all_reduce(self, tensor, op=None, kind="all_reduce"):
        if self.size > 1:
            since = time.perf_counter()
            dist.all_reduce(tensor, op=op or dist.ReduceOp.SUM, group=self.handle)
            note(self.axis, kind, size_of(tensor), since)
        return tensor

    def all_gather(self, whole, part):
        """`whole`, flat, becomes every rank's `part` in order."""
        if self.size == 1:
            whole.copy_(part)
            return whole
        since = time.perf_counter()
        dist.all_gather(list(whole.chunk(self.size)), part, group=self.handle)
        note(self.axis, "all_gather", size_of(whole), since)
        return whole

    def reduce_scatter(self, whole):
        """This rank's part of the sum; `whole`, flat, is overwritten."""
        self.all_reduce(whole, kind="reduce_scatter")
        return whole.chunk(self.size)[self.rank]

    def all_to_all(self, rows, sent, received):
        """Rows to each rank, `sent` of them by rank, and what comes back."""
        if self.size == 1:
            return rows
        since = time.perf_counter()
        out = rows.new_empty((sum(received),) + tuple(rows.shape[1:]))
        dist.all_to_all_single(out, rows.contiguous(), received, sent, group=self.handle)
        note(self.axis, "all_to_all", max(size_of(out), size_of(rows)), since)
        return out

    def exchange(self, send=None, to=None, receive=None, source=None):
        """Sends one tensor and receives another, at once; either may be missing."""
        since = time.perf_counter()
        works = []
        if send is not None:
            works.append(dist.isend(send, self.ranks[to], group=self.handle))
        if receive is not None:
            works.append(dist.irecv(receive, self.ranks[source], group=self.handle))
        for work in works:
            work.wait()
        note(self.axis, "send_recv", size_of(send if send is not None else receive), since)
        return receive


ALONE = Group("none", [0], None)


def axis_groups(job):
    """Groups of this rank by axis. Order, innermost first: tp, dp, pp; experts lie on dp."""
    rank, groups = (dist.get_rank() if job.world > 1 else 0), {}
    for axis, size, stride in (("tp", job.tp, 1), ("dp", job.dp, job.tp), ("pp", job.pp, job.tp * job.dp)):
        for first in range(job.world):
            if first // stride % size:
                continue
            ranks = [first + i * stride for i in range(size)]
            handle = dist.new_group(ranks) if size > 1 else None
            if rank in ranks:
                groups[axis] = Group(axis, ranks, handle) if size > 1 else ALONE
    groups["ep"] = ALONE
    if job.ep > 1:
        groups["ep"] = Group("ep", groups["dp"].ranks, groups["dp"].handle)
    groups["edp"] = ALONE if job.ep > 1 else groups["dp"]
    return groups


class CopyIn(torch.autograd.Function):
    """Into a column-parallel product: its input's gradient is summed over the ranks."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.group.all_reduce(grad.contiguous()), None


class SumOut(torch.autograd.Function):
    """Out of a row-parallel product: summed in place."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.mark_dirty(x)
        return group.all_reduce(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class GatherTokens(torch.autograd.Function):
    """Every rank's tokens, under sequence parallelism; [1, S/n, h] to [1, S, h]."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        whole = x.new_empty((x.shape[1] * group.size, x.shape[2]))
        return group.all_gather(whole, x.contiguous().view(x.shape[1], x.shape[2])).unsqueeze(0)

    @staticmethod
    def backward(ctx, grad):
        whole = grad.contiguous().view(grad.shape[1], grad.shape[2])
        return ctx.group.reduce_scatter(whole).clone().unsqueeze(0), None


class ScatterTokens(torch.autograd.Function):
    """The sum over ranks, of which each keeps its tokens."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return group.reduce_scatter(x.reshape(x.shape[1], x.shape[2])).clone().unsqueeze(0)

    @staticmethod
    def backward(ctx, grad):
        whole = grad.new_empty((grad.shape[1] * ctx.group.size, grad.shape[2]))
        ctx.group.all_gather(whole, grad.contiguous().view(grad.shape[1], grad.shape[2]))
        return whole.unsqueeze(0), None


class TradeRows(torch.autograd.Function):
    """Rows to the ranks of their experts; backward takes the way back."""

    @staticmethod
    def forward(ctx, rows, group, sent, received):
        ctx.group, ctx.sent, ctx.received = group, sent, received
        return group.all_to_all(rows, sent, received)

    @staticmethod
    def backward(ctx, grad):
        return ctx.group.all_to_all(grad, ctx.received, ctx.sent), None, None, None
