"""Parameters, gradients and Adam in flat buffers, whole or in shards.

Question answered: where does each weight lie, and what does a step do once its gradients are there?

A stage is a list of units: the embedding, each layer, the head. Without ZeRO-3 the parameters of all units
are views into one flat buffer (experts into another, because other ranks hold their copies), and so are the
gradients. Under ZeRO-3 each unit has a flat buffer that exists only while the unit runs.
"""

import math
import zlib

import torch

INITIAL = 0.02
LEARNING_RATE, BETA1, BETA2, ADAM_EPSILON, CLIP = 3e-4, 0.9, 0.95, 1e-8, 1.0


class Weight:
    """One matrix or vector: its whole shape, and which slice of it this rank holds."""

    def __init__(self, name, shape, cut=None, replicated=False):
        self.name, self.shape, self.cut, self.replicated = name, shape, cut, replicated

    def local_shape(self, ranks):
        shape = list(self.shape)
        if self.cut is not None:
            shape[self.cut] //= ranks
        return shape

    def make(self, unit, rank, ranks):
        """The same values however the model is cut: seeded by the weight's own name."""
        if len(self.shape) == 1:
            return torch.ones(self.shape)
        seed = torch.Generator().manual_seed(zlib.crc32(("%s/%s" % (unit, self.name)).encode()))
        whole = torch.randn(self.shape, generator=seed) * INITIAL
        return whole if self.cut is None else whole.chunk(ranks, self.cut)[rank].contiguous()


def layer_weights(job):
    h, q, kv = job.hidden, job.heads * job.head_dim, job.kv_heads * job.head_dim
    dense = [Weight("norm1", [h]), Weight("q", [q, h], 0), Weight("k", [kv, h], 0), Weight("v", [kv, h], 0),
             Weight("out", [h, q], 1), Weight("norm2", [h])]
    if not job.experts:
        f = job.ffn
        return dense + [Weight("gate", [f, h], 0), Weight("up", [f, h], 0), Weight("down", [h, f], 1)], []
    dense.append(Weight("router", [job.experts, h]))
    return dense, ["gate", "up", "down"]


def expert_weights(job, names, first):
    h, f = job.hidden, job.expert_ffn
    shapes = {"gate": [f, h], "up": [f, h], "down": [h, f]}
    # The name within the rank counts from 0; the seed's from the first expert of all.
    return [(Weight("%s%d" % (name, first + e), shapes[name]), "%s%d" % (name, e))
            for e in range(job.experts // job.ep) for name in names]


class Unit:
    def __init__(self, name, dense, experts):
        self.name, self.dense, self.experts = name, dense, experts
        self.w = {}

    def all(self):
        return [(d, d.name) for d in self.dense] + self.experts


def units_of(job, groups):
    """The units of this rank's stage."""
    stage, per = groups["pp"].rank if groups["pp"].size > 1 else 0, job.layers // job.pp
    units = []
    if stage == 0:
        units.append(Unit("embedding", [Weight("table", [job.vocab, job.hidden], 0)], []))
    first_expert = groups["ep"].rank * (job.experts // job.ep) if job.experts else 0
    for i in range(stage * per, (stage + 1) * per):
        dense, names = layer_weights(job)
        units.append(Unit("layer%d" % i, dense, expert_weights(job, names, first_expert) if names else []))
    if stage == job.pp - 1:
        units.append(Unit("head", [Weight("norm", [job.hidden]),
                                   Weight("head", [job.vocab, job.hidden], 0)], []))
    return units


class Flat:
    """Weights of some units side by side, and what Adam keeps of them.

    `group`: ranks that hold copies, whose gradients are added. `shards`: of how many ranks' updates this
    rank does one part.
    """

    def __init__(self, pieces, tp, group, sharded):
        self.group, self.tp = group, tp
        self.shards = group.size if sharded else 1
        self.pieces = pieces  # (unit, weight, name, offset, shape)
        self.elements = 0
        for i, (unit, weight, name) in enumerate(pieces):
            shape = weight.local_shape(tp.size)
            self.pieces[i] = (unit, weight, name, self.elements, shape)
            self.elements += math.prod(shape)
        self.padded = -(-self.elements // self.shards) * self.shards

    def initial(self):
        flat = torch.zeros(self.padded)
        for unit, weight, _, at, shape in self.pieces:
            made = weight.make(unit.name, self.tp.rank, self.tp.size)
            flat[at:at + math.prod(shape)].copy_(made.flatten())
        return flat

    def part(self, flat):
        return flat.chunk(self.shards)[self.group.rank if self.shards > 1 else 0]

    def give_views(self, flat, gradient=None):
        """Hands every unit its weights as leaves of autograd."""
        for unit, _, name, at, shape in self.pieces:
            end = at + math.prod(shape)
            leaf = flat[at:end].view(shape).detach().requires_grad_()
            if gradient is not None:
                leaf.grad = gradient[at:end].view(shape)
            unit.w[name] = leaf

    def squares(self, gradient, first_rank):
        """Sum of squares of a part of the gradient; of what every tensor-parallel rank holds whole, once."""
        if self.tp.size == 1:
            return gradient.dot(gradient)
        total = torch.zeros(())
        for _, weight, _, at, shape in self.pieces:
            if weight.cut is None and not first_rank:
                continue
            piece = gradient[at:at + math.prod(shape)]
            total += piece.dot(piece)
        return total


class Adam:
    """Adam over one flat part, written out in torch operations."""

    def __init__(self, parameters):
        self.p = parameters
        self.m, self.v = torch.zeros_like(parameters), torch.zeros_like(parameters)
        self.step = 0

    def update(self, gradient, scale):
        self.step += 1
        if scale < 1:
            gradient.mul_(scale)
        self.m.mul_(BETA1).add_(gradient, alpha=1 - BETA1)
        self.v.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        correction = math.sqrt(1 - BETA2 ** self.step)
        root = self.v.sqrt().div_(correction).add_(ADAM_EPSILON)
        self.p.addcdiv_(self.m, root, value=-LEARNING_RATE / (1 - BETA1 ** self.step))


class Whole:
    """Parameters and gradients whole on every rank; ZeRO-1 cuts the update alone."""

    watch = None  # called with the norm once gradients are whole, before they are clipped

    def __init__(self, job, groups, units):
        self.units, self.groups, self.job = units, groups, job
        dense = [(u, w, w.name) for u in units for w in u.dense]
        experts = [(u, w, name) for u in units for w, name in u.experts]
        sharded = job.sharding == "zero1"
        self.flats = [Flat(dense, groups["tp"], groups["dp"], sharded)]
        if experts:
            self.flats.append(Flat(experts, groups["tp"], groups["edp"], sharded))
        self.parameters = [f.initial() for f in self.flats]
        self.gradients = [torch.zeros_like(p) for p in self.parameters]
        for f, p, g in zip(self.flats, self.parameters, self.gradients):
            f.give_views(p, g)
        self.adams = [Adam(f.part(p)) for f, p in zip(self.flats, self.parameters)]

    def storages(self):
        return self.parameters + self.gradients

    def begin(self):
        for g in self.gradients:
            g.zero_()

    def wrap(self, unit, run, *inputs):
        return run(*inputs)

    def end_micro_batch(self):
        pass

    def finish(self):
        """Reduce, clip, update, gather; the gradient's norm."""
        tp = self.groups["tp"]
        if self.job.sequence_parallel and tp.size > 1:
            self.sum_replicated(tp)
        parts = []
        for f, g in zip(self.flats, self.gradients):
            f.group.all_reduce(g)
            parts.append(f.part(g))
        return clip_and_update(self, parts)

    def sum_replicated(self, tp):
        flat = self.flats[0]
        pieces = [self.gradients[0][at:at + math.prod(shape)] for _, w, _, at, shape in flat.pieces
                  if w.cut is None]
        joined = tp.all_reduce(torch.cat(pieces))
        for piece, summed in zip(pieces, joined.split([len(p) for p in pieces])):
            piece.copy_(summed)

    def gather(self):
        for f, p in zip(self.flats, self.parameters):
            if f.shards > 1:
                f.group.all_gather(p, f.part(p).clone())

    def named_gradients(self):
        for f, g in zip(self.flats, self.gradients):
            for unit, weight, name, at, shape in f.pieces:
                yield unit.name, weight, name, g[at:at + math.prod(shape)].view(shape)


def clip_and_update(state, parts):
    """Adam over this rank's parts, the gradients scaled to a norm of at most CLIP."""
    groups, total = state.groups, torch.zeros(1)
    for f, part in zip(state.flats, parts):
        own = f.squares(part, groups["tp"].rank == 0)
        # Copies on data-parallel ranks count once.
        total += own / (f.group.size // f.shards)
    for axis in ("tp", "dp", "pp"):
        groups[axis].all_reduce(total, kind="norm")
    norm = float(total.sqrt())
    if state.watch:
        state.watch(norm)
    for adam, part in zip(state.adams, parts):
        adam.update(part, CLIP / (norm + 1e-6))
    state.gather()
    return norm


class Sharded:
    """ZeRO-3: a rank keeps its shard of every unit; weights are gathered before each pass of the unit and
    given back behind it, gradients are scattered behind the unit's backward."""

    watch = None

    def __init__(self, job, groups, units):
        self.units, self.groups, self.job = units, groups, job
        self.flats, self.shards, self.gradients, self.adams, self.full = [], [], [], [], []
        for unit in units:
            pieces = [(unit, w, name) for w, name in unit.all()]
            flat = Flat(pieces, groups["tp"], groups["dp"], True)
            shard = flat.part(flat.initial()).clone()
            self.flats.append(flat)
            self.shards.append(shard)
            self.gradients.append(torch.zeros_like(shard))
            self.adams.append(Adam(shard))
            # The storage is given back and taken again; what autograd saved points to it throughout.
            whole = torch.zeros(flat.padded)
            flat.give_views(whole)
            self.full.append(whole)
            self.release(len(self.full) - 1)

    def storages(self):
        return self.full + self.shards + self.gradients

    def release(self, i):
        self.full[i].storage().resize_(0)

    def gathered(self, i):
        whole = self.full[i]
        if whole.storage().size() == 0:
            whole.storage().resize_(self.flats[i].padded)
            self.flats[i].group.all_gather(whole.data, self.shards[i])

    def begin(self):
        for g in self.gradients:
            g.zero_()

    def wrap(self, unit, run, *inputs):
        i = self.units.index(unit)
        with torch.no_grad():
            self.gathered(i)
        inputs = [Behind.apply(x, self, i) if x.is_floating_point() and x.requires_grad else x
                  for x in inputs]
        out = run(*inputs)
        self.release(i)
        return Before.apply(out, self, i)

    def scatter(self, i):
        """The unit's backward is done: its gradients to their owners."""
        flat = self.flats[i]
        whole = torch.zeros(flat.padded)
        for unit, _, name, at, shape in flat.pieces:
            leaf = unit.w[name]
            whole[at:at + math.prod(shape)].copy_(leaf.grad.flatten())
            leaf.grad = None
        self.gradients[i].add_(flat.group.reduce_scatter(whole))
        self.release(i)

    def end_micro_batch(self):
        if self.units[0].name == "embedding":
            self.scatter(0)

    def finish(self):
        return clip_and_update(self, self.gradients)

    def gather(self):
        pass

    def named_gradients(self):
        for f, g in zip(self.flats, self.gradients):
            whole = f.group.all_gather(torch.empty(f.padded), g.clone())
            for unit, weight, name, at, shape in f.pieces:
                yield unit.name, weight, name, whole[at:at + math.prod(shape)].view(shape)


class Before(torch.autograd.Function):
    """On a unit's output: its backward is about to run, so its weights have to be there."""

    @staticmethod
    def forward(ctx, x, state, i):
        ctx.state, ctx.i = state, i
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        ctx.state.gathered(ctx.i)
        return grad, None, None


class Behind(torch.autograd.Function):
    """On a unit's input: its backward has run."""

    @staticmethod
    def forward(ctx, x, state, i):
        ctx.state, ctx.i = state, i
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        ctx.state.scatter(ctx.i)
        return grad, None, None
