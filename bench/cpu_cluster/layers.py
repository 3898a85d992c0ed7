"""A Llama or Mixtral layer, the embedding and the head in plain eager PyTorch, at one rank's shapes.

Nothing is fused: every operation is a kernel of its own, which is what data/frameworks/cpu-cluster.yaml
says of it. Letters: B sequences, S tokens of each, T = B S, h hidden, D head dim, V vocabulary, E experts,
k of them a token visits, t tensor-parallel ranks.
"""

import math

import torch
import torch.distributed as dist
import torch.nn.functional as F

import links

EPSILON = 1e-5
ROTARY_BASE = 10000.0


def rms_norm(x, weight):
    inverse = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON)
    return x * inverse * weight


class Tables:
    """Constants that every layer reads: rotary tables and the causal mask."""

    def __init__(self, job):
        frequency = ROTARY_BASE ** (-torch.arange(0, job.head_dim, 2).float() / job.head_dim)
        angle = torch.arange(job.sequence).float()[:, None] * frequency[None, :]
        angle = torch.cat((angle, angle), dim=-1)
        self.cos, self.sin = angle.cos(), angle.sin()
        lowest = torch.finfo(torch.float32).min
        self.mask = torch.full((job.sequence, job.sequence), lowest).triu(1)
        self.favour = None
        if job.experts:
            # Token t chooses experts t k .. t k + k - 1 (mod E), so every expert gets T k / E rows.
            token = torch.arange(job.tokens)
            self.favour = torch.zeros(job.tokens, job.experts)
            for j in range(job.top_k):
                self.favour[token, (token * job.top_k + j) % job.experts] = 8.0

    def all(self):
        return [t for t in (self.cos, self.sin, self.mask, self.favour) if t is not None]


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def repeat_heads(x, times):
    if times == 1:
        return x
    batch, groups, seq, dim = x.shape
    return x[:, :, None].expand(batch, groups, times, seq, dim).reshape(batch, groups * times, seq, dim)


def split_heads(x, dim):
    return x.view(x.shape[0], x.shape[1], -1, dim).transpose(1, 2)


def attention(job, tables, w, y):
    """Context of [B, S, h], before the output projection."""
    q = rotate(split_heads(F.linear(y, w["q"]), job.head_dim), tables.cos, tables.sin)
    k = rotate(split_heads(F.linear(y, w["k"]), job.head_dim), tables.cos, tables.sin)
    v = split_heads(F.linear(y, w["v"]), job.head_dim)
    times = job.heads // job.kv_heads
    k, v = repeat_heads(k, times), repeat_heads(v, times)
    scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(job.head_dim) + tables.mask
    context = torch.matmul(F.softmax(scores, dim=-1), v)
    return context.transpose(1, 2).contiguous().view(y.shape[0], y.shape[1], -1)


def swiglu(y, gate, up, down):
    return F.linear(F.silu(F.linear(y, gate)) * F.linear(y, up), down)


def experts_of(job, groups, tables, w, y):
    """Mixtral's layer: softmax over all experts, top k, renormalise, run, add back. Rows travel to the
    ranks of their experts and back."""
    group, local = groups["ep"], job.experts // job.ep
    x = y.reshape(-1, job.hidden)
    logits = F.linear(x, w["router"]) + tables.favour
    chance, expert = torch.topk(F.softmax(logits, dim=-1), job.top_k, dim=-1)
    scale = chance / chance.sum(dim=-1, keepdim=True)
    order = torch.argsort(expert.flatten(), stable=True)
    token = torch.div(order, job.top_k, rounding_mode="floor")
    rows = x.index_select(0, token)
    row_scale = scale.flatten().index_select(0, order)
    counts = torch.bincount(expert.flatten(), minlength=job.experts)
    if group.size > 1:
        # counts[j, e]: rows of rank j for the e-th expert here.
        theirs = group.all_to_all(counts, [local] * group.size, [local] * group.size)
        theirs = theirs.view(group.size, local)
        sent = counts.view(group.size, local).sum(1).tolist()
        rows = links.TradeRows.apply(rows, group, sent, theirs.sum(1).tolist())
        forth, back = by_expert(theirs)
        if local > 1:
            rows = rows.index_select(0, forth)
        each = theirs.sum(0).tolist()
    else:
        each = counts.tolist()
    results, at = [], 0
    for e in range(local):
        mine = rows[at:at + each[e]]
        results.append(swiglu(mine, w["gate%d" % e], w["up%d" % e], w["down%d" % e]))
        at += each[e]
    out = torch.cat(results)
    if group.size > 1:
        if local > 1:
            out = out.index_select(0, back)
        out = links.TradeRows.apply(out, group, theirs.sum(1).tolist(), sent)
    total = torch.zeros_like(x)
    total.index_add_(0, token, out * row_scale[:, None])
    return total.view_as(y)


def by_expert(counts):
    """Order that takes rows from (rank, expert) to (expert, rank), and its inverse."""
    starts = (counts.flatten().cumsum(0) - counts.flatten()).view_as(counts)
    pieces = [torch.arange(int(starts[j, e]), int(starts[j, e] + counts[j, e]))
              for e in range(counts.shape[1]) for j in range(counts.shape[0])]
    forth = torch.cat(pieces)
    back = torch.empty_like(forth)
    back[forth] = torch.arange(len(forth))
    return forth, back


def layer(job, groups, tables, w, x):
    tp = groups["tp"]
    enter, leave = crossing(job, tp)
    y = enter(rms_norm(x, w["norm1"]))
    x = x + leave(F.linear(attention(job, tables, w, y), w["out"]))
    y = rms_norm(x, w["norm2"])
    if job.experts:
        return x + experts_of(job, groups, tables, w, y)
    return x + leave(swiglu(enter(y), w["gate"], w["up"], w["down"]))


def crossing(job, tp):
    """What stands before column-parallel products, and behind row-parallel ones."""
    if tp.size == 1:
        return (lambda x: x), (lambda x: x)
    if job.sequence_parallel:
        return (lambda x: links.GatherTokens.apply(x, tp)), (lambda x: links.ScatterTokens.apply(x, tp))
    return (lambda x: links.CopyIn.apply(x, tp)), (lambda x: links.SumOut.apply(x, tp))


def embedding(job, groups, w, ids):
    """Rows of the table; with tensor parallelism each rank has V/t of them and adds zeros for others."""
    tp = groups["tp"]
    if tp.size == 1:
        return F.embedding(ids, w["table"])
    own = job.vocab // tp.size
    local = ids - tp.rank * own
    outside = (local < 0) | (local >= own)
    rows = F.embedding(local.masked_fill_(outside, 0), w["table"])
    rows = rows.masked_fill(outside[..., None], 0.0)
    return crossing(job, tp)[1](rows)


def head(job, groups, w, x, labels, weight):
    """Sum over tokens of the loss, times `weight`."""
    tp = groups["tp"]
    y = rms_norm(x, w["norm"])
    logits = F.linear(crossing(job, tp)[0](y), w["head"]).view(-1, job.vocab // tp.size)
    if tp.size == 1:
        return F.cross_entropy(logits, labels.flatten(), reduction="sum") * weight
    return CutLoss.apply(logits, labels.flatten(), tp) * weight


class CutLoss(torch.autograd.Function):
    """Cross-entropy over a vocabulary that is cut over tensor-parallel ranks: maximum, sum and the
    target's logit of each token go round."""

    @staticmethod
    def forward(ctx, logits, labels, tp):
        own = logits.shape[1]
        local = labels - tp.rank * own
        outside = (local < 0) | (local >= own)
        local = local.masked_fill(outside, 0)
        peak = tp.all_reduce(logits.max(dim=1).values, op=dist.ReduceOp.MAX)
        shifted = logits - peak[:, None]
        target = shifted.gather(1, local[:, None]).squeeze(1).masked_fill_(outside, 0.0)
        chance = shifted.exp_()
        both = tp.all_reduce(torch.stack((chance.sum(1), target)))
        chance /= both[0][:, None]
        ctx.save_for_backward(chance)
        ctx.local, ctx.outside = local, outside
        return (both[0].log() - both[1]).sum()

    @staticmethod
    def backward(ctx, grad):
        chance, = ctx.saved_tensors
        one = (~ctx.outside).float() * grad
        out = chance * grad
        out.scatter_add_(1, ctx.local[:, None], -one[:, None])
        return out, None, None
