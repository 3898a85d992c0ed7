#!/usr/bin/env python3
"""Bytes that PyTorch's autograd really holds for one layer, measured, not modelled.

Question answered: after the forward pass of one layer in plain eager PyTorch (no fused kernel,
no flash attention, no recompute), which tensors wait for the backward pass, and how many bytes are
they?

The layers are written here from the architectures' papers with ordinary PyTorch calls, and
autograd itself says what it kept. Nothing in this file knows a formula for activation memory, and
nothing is shared with the projection, so an agreement between the two is evidence.

Letters: B batch, S sequence, T = B*S tokens, h hidden, H heads, G key/value heads, D head dim,
F feed-forward width, E experts, k experts a token visits, V vocabulary.

How it is measured, twice:
  1. `torch.autograd.graph.saved_tensors_hooks` sees every tensor as it is saved;
  2. afterwards the graph is walked from the output and every node is asked for what it holds.
Both must name the same storages. A storage counts once, whole, however many views are saved.

What is counted where:
  saved_bytes      activations made inside the layer
  input_bytes      the layer's own input (the previous layer's output), when something saves it
  constant_bytes   buffers without gradient: cos/sin tables, labels, wrapped Python scalars
  parameter_bytes  weights, which are held anyway
  by_part          saved_bytes by the part of the layer that made the tensor
  sole_holder      the share of saved_bytes that only one kind of node asks for, by that kind

Run: saved_bytes.py --case llama --dtype bf16   one JSON object
     saved_bytes.py --all                       a JSON list: every case in every dtype
     saved_bytes.py --jobs FILE                 the same for a JSON list of {"case", "dtype",
                                                sizes...}; - is standard input
Exit: 0 answered, 2 usage, 3 sizes that do not fit together, 4 PyTorch is not installed.
"""

import argparse
import contextlib
import json
import math
import sys

try:
    import torch
    import torch.nn.functional as F
    from torch.utils.checkpoint import checkpoint
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError as missing:
    sys.stderr.write("saved_bytes: PyTorch is missing (Debian: python3-torch): %s\n" % missing)
    sys.exit(4)

CASES = ("llama", "moe", "gpt", "head", "lora", "full", "selective", "mla", "window", "capacity")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
DTYPE_NAMES = {
    torch.float32: "fp32", torch.bfloat16: "bf16", torch.float64: "fp64",
    torch.int64: "int64", torch.bool: "bool",
}
# Small enough for a CPU, and no two of them equal, so that a wrong factor cannot hide.
DEFAULT_SIZES = {
    "batch": 2, "seq": 128, "hidden": 256, "heads": 8, "kv_heads": 2, "head_dim": None,
    "ffn": 704, "experts": 4, "top_k": 2, "vocab": 1000,
    "rank": 8,
    "q_rank": 96, "kv_rank": 80, "nope_dim": 24, "rope_dim": 16, "v_dim": 20,  # latent attention
    "window": 24, "capacity_percent": 125,
}
NORM_EPSILON = 1e-5
ROTARY_BASE = 10000.0


class BadSizes(Exception):
    """Sizes that no layer can have; the message says which and why."""


def check_sizes(case, sizes):
    """Fills head_dim and refuses what the architecture does not allow."""
    sizes = dict(sizes)
    if sizes["head_dim"] is None:
        if sizes["hidden"] % sizes["heads"]:
            raise BadSizes("hidden %(hidden)d is not a multiple of heads %(heads)d" % sizes)
        sizes["head_dim"] = sizes["hidden"] // sizes["heads"]
    if sizes["heads"] % sizes["kv_heads"]:
        raise BadSizes("heads %(heads)d is not a multiple of kv_heads %(kv_heads)d" % sizes)
    if sizes["head_dim"] % 2:
        raise BadSizes("rotary positions need an even head_dim, not %(head_dim)d" % sizes)
    if case in ("moe", "capacity"):
        if sizes["top_k"] > sizes["experts"]:
            raise BadSizes("top_k %(top_k)d exceeds experts %(experts)d" % sizes)
        if sizes["batch"] * sizes["seq"] * sizes["top_k"] % sizes["experts"]:
            raise BadSizes("batch*seq*top_k does not divide by experts %(experts)d" % sizes)
    return sizes


class ProducerLog(TorchDispatchMode):
    """Remembers which kernel filled each storage, and in which part of the layer.

    A storage that dies and whose address is used again is simply overwritten; the storages that
    autograd saved stay alive until the report is written, so their entries are the true ones.
    """

    def __init__(self):
        super().__init__()
        self.producer = {}
        self.where = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        taken = {t.storage().data_ptr() for t in _tensors_in(args)}
        for tensor in _tensors_in((result,)):
            address = tensor.storage().data_ptr()
            if address not in taken:
                name = func.__name__.split(".")[0]
                self.producer[address] = (name, ".".join(self.where), list(tensor.shape))
        return result

    @contextlib.contextmanager
    def part(self, name):
        """`with part("attention"):` names the part of the layer for the kernels inside."""
        self.where.append(name)
        yield
        self.where.pop()


def _tensors_in(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors_in(value)


class Weights:
    """Makes the layer's parameters and constant buffers and knows their storages."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.parameters = []
        self.buffers = []  # frozen weights
        self.constants = {}

    def parameter(self, *shape):
        weight = (torch.randn(*shape) * 0.02).to(self.dtype).requires_grad_()
        self.parameters.append(weight)
        return weight

    def frozen(self, *shape):
        weight = (torch.randn(*shape) * 0.02).to(self.dtype)
        self.buffers.append(weight)
        return weight

    def constant(self, name, tensor):
        # Kept alive: a buffer that died could lend its address to an activation.
        self.constants[tensor.storage().data_ptr()] = (name, tensor)
        return tensor


class Replay:
    """Weights that hands out the same parameters and buffers each time the layer is run."""

    def __init__(self, weights, made):
        self.weights, self.made, self.at = weights, made, 0

    @property
    def dtype(self):
        return self.weights.dtype

    def rewind(self):
        self.at = 0

    def take(self, make):
        if self.at == len(self.made):
            self.made.append(make())
        self.at += 1
        return self.made[self.at - 1]

    def parameter(self, *shape):
        return self.take(lambda: self.weights.parameter(*shape))

    def constant(self, name, tensor):
        return self.take(lambda: self.weights.constant(name, tensor))


# ---- the parts of a layer, in eager PyTorch -----------------------------------------------------


def rms_norm(x, weight):
    """2019, Zhang and Sennrich, eq. 4, computed in fp32 as every eager implementation does."""
    wide = x.float()
    inverse = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + NORM_EPSILON)
    return (wide * inverse).to(x.dtype) * weight


def rotary_tables(weights, seq, head_dim):
    """cos and sin of RoFormer (2104.09864), [S, D], both halves of the head alike."""
    frequency = ROTARY_BASE ** (-torch.arange(0, head_dim, 2).float() / head_dim)
    angle = torch.arange(seq).float()[:, None] * frequency[None, :]
    angle = torch.cat((angle, angle), dim=-1)
    return (weights.constant("cos", angle.cos().to(weights.dtype)),
            weights.constant("sin", angle.sin().to(weights.dtype)))


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def rotate(x, cos, sin):
    return x * cos + rotate_half(x) * sin


def repeat_heads(x, times):
    """[B, G, S, D] to [B, H, S, D]: each key/value head copied for the queries that share it."""
    if times == 1:
        return x
    batch, groups, seq, dim = x.shape
    copies = x[:, :, None].expand(batch, groups, times, seq, dim)
    return copies.reshape(batch, groups * times, seq, dim)


def causal_mask(weights, seq, window=0):
    """-inf on keys behind the query and, with a window, on those window or more before it."""
    lowest = torch.finfo(weights.dtype).min
    mask = torch.full((seq, seq), lowest, dtype=weights.dtype).triu(1)
    if window:
        mask = mask + torch.full((seq, seq), lowest, dtype=weights.dtype).tril(-window)
    return weights.constant("mask", mask)


def unfused_attention(part, q, k, v, mask):
    """[B, H, S, D] each, softmax in fp32; returns [B, S, H*D]."""
    batch, heads, seq, dim = q.shape
    with part("scores"):
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(dim) + mask
    with part("softmax"):
        probabilities = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    with part("values"):
        context = torch.matmul(probabilities, v)
        return context.transpose(1, 2).contiguous().view(batch, seq, -1)


def plain_attention(part, times, q, k, v, mask):
    with part("repeat_kv"):
        k, v = repeat_heads(k, times), repeat_heads(v, times)
    return unfused_attention(part, q, k, v, mask)


def checkpointed_attention(part, times, q, k, v, mask):
    return checkpoint(lambda *qkv: plain_attention(part, times, *qkv, mask), q, k, v)


ATTENTION = plain_attention


def split_heads(x, heads, dim):
    return x.view(x.shape[0], x.shape[1], heads, dim).transpose(1, 2)


def rotary_attention_block(part, weights, sizes, x, window=0):
    """x + o(attention(norm(x))): the half that the llama and moe cases share."""
    h, heads, groups, dim = sizes["hidden"], sizes["heads"], sizes["kv_heads"], sizes["head_dim"]
    gamma = weights.parameter(h)
    wq, wk = weights.parameter(heads * dim, h), weights.parameter(groups * dim, h)
    wv, wo = weights.parameter(groups * dim, h), weights.parameter(h, heads * dim)
    cos, sin = rotary_tables(weights, sizes["seq"], dim)
    mask = causal_mask(weights, sizes["seq"], window)
    with part("norm1"):
        y = rms_norm(x, gamma)
    with part("attention"):
        with part("qkv"):
            q = split_heads(F.linear(y, wq), heads, dim)
            k = split_heads(F.linear(y, wk), groups, dim)
            v = split_heads(F.linear(y, wv), groups, dim)
        with part("rotary"):
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        context = ATTENTION(part, heads // groups, q, k, v, mask)
        with part("output"):
            return x + F.linear(context, wo)


def swiglu(part, y, w_gate, w_up, w_down):
    """2002.05202: down(silu(gate(y)) * up(y))."""
    with part("gate"):
        gate = F.linear(y, w_gate)
    with part("up"):
        up = F.linear(y, w_up)
    with part("act"):
        product = F.silu(gate) * up
    with part("down"):
        return F.linear(product, w_down)


# ---- the cases ----------------------------------------------------------------------------------


def llama_layer(part, weights, sizes, x, window=0):
    return dense_half(part, weights, sizes, rotary_attention_block(part, weights, sizes, x, window))


def window_layer(part, weights, sizes, x):
    """A local layer of Gemma or gpt-oss: the mask has a band, written-out scores are as many."""
    return llama_layer(part, weights, sizes, x, sizes["window"])


def dense_half(part, weights, sizes, x):
    """x + down(silu(gate(norm(x))) * up(norm(x)))."""
    h, f = sizes["hidden"], sizes["ffn"]
    gamma = weights.parameter(h)
    w_gate, w_up, w_down = weights.parameter(f, h), weights.parameter(f, h), weights.parameter(h, f)
    with part("norm2"):
        y = rms_norm(x, gamma)
    with part("mlp"):
        return x + swiglu(part, y, w_gate, w_up, w_down)


def capacity_layer(part, weights, sizes, x):
    """moe_layer whose experts each compute C = ceil(percent/100 * T*k/E) rows (GShard, 2006.16668):
    further tokens are dropped, missing ones are rows of the first token with weight zero."""
    share = sizes["capacity_percent"] / 100
    tokens = x.shape[0] * x.shape[1]
    capacity = math.ceil(tokens * sizes["top_k"] * share / sizes["experts"])
    return moe_layer(part, weights, sizes, x, capacity)


def at_capacity(weights, order, experts, rows, capacity):
    """Rows of each expert cut or filled to `capacity`, and 1 for each that counts."""
    order = order.view(experts, rows)[:, :capacity]
    fill = torch.zeros(experts, capacity - order.shape[1], dtype=order.dtype)
    counts = torch.cat((torch.ones_like(order), fill), dim=1).flatten().to(weights.dtype)
    return torch.cat((order, fill), dim=1).flatten(), weights.constant("counts", counts)


def moe_layer(part, weights, sizes, x, capacity=None):
    """Mixtral's layer (2401.04088): softmax over all experts, top-k, renormalise, run, add back."""
    h, f, experts, top_k = sizes["hidden"], sizes["ffn"], sizes["experts"], sizes["top_k"]
    x = rotary_attention_block(part, weights, sizes, x)
    gamma, w_router = weights.parameter(h), weights.parameter(experts, h)
    expert_weights = [
        (weights.parameter(f, h), weights.parameter(f, h), weights.parameter(h, f))
        for _ in range(experts)
    ]
    tokens = x.shape[0] * x.shape[1]
    rows = tokens * top_k // experts
    # A constant added to the logits makes token t choose experts t*k .. t*k+k-1 (mod E), so every
    # expert gets exactly T*k/E rows. Autograd keeps nothing for an addition.
    favour = torch.zeros(tokens, experts, dtype=weights.dtype)
    for j in range(top_k):
        favour[torch.arange(tokens), (torch.arange(tokens) * top_k + j) % experts] = 8.0
    weights.constant("routing", favour)
    with part("norm2"):
        y = rms_norm(x, gamma).view(tokens, h)
    with part("router"):
        logits = F.linear(y, w_router) + favour
        chance, expert = torch.topk(F.softmax(logits, dim=-1, dtype=torch.float32), top_k, dim=-1)
        scale = (chance / chance.sum(dim=-1, keepdim=True)).to(y.dtype)
    with part("permute"):
        order = torch.argsort(expert.flatten(), stable=True)
        counts = torch.bincount(expert.flatten(), minlength=experts).tolist()
        if counts != [rows] * experts:
            raise BadSizes("routing came out unbalanced: %s" % counts)
        if capacity is not None:
            order, filled = at_capacity(weights, order, experts, rows, capacity)
            rows = capacity
        token = torch.div(order, top_k, rounding_mode="floor")
        gathered = y.index_select(0, token)
        row_scale = scale.flatten().index_select(0, order)
        if capacity is not None:
            row_scale = row_scale * filled
    result = torch.zeros_like(y)
    for e in range(experts):
        mine = slice(e * rows, (e + 1) * rows)
        with part("experts"):
            out = swiglu(part, gathered[mine], *expert_weights[e])
        with part("unpermute"):
            result.index_add_(0, token[mine], out * row_scale[mine, None])
    with part("residual"):
        return x + result.view_as(x)


def mla_layer(part, weights, sizes, x):
    """DeepSeek-V2's attention (2405.04434, section 2.1) and a dense feed-forward.

    Queries and keys are joined from a part without and a part with rotary positions; the latter is
    one vector a token for all heads of the keys, and comes from the projection that makes the latent.
    """
    h, heads = sizes["hidden"], sizes["heads"]
    nope, rope, v_dim = sizes["nope_dim"], sizes["rope_dim"], sizes["v_dim"]
    q_rank, kv_rank = sizes["q_rank"], sizes["kv_rank"]
    gamma, gamma_q, gamma_kv = (weights.parameter(n) for n in (h, q_rank, kv_rank))
    w_q_down = weights.parameter(q_rank, h)
    w_q_up = weights.parameter(heads * (nope + rope), q_rank)
    w_kv_down = weights.parameter(kv_rank + rope, h)
    w_kv_up = weights.parameter(heads * (nope + v_dim), kv_rank)
    w_out = weights.parameter(h, heads * v_dim)
    cos, sin = rotary_tables(weights, sizes["seq"], rope)
    mask = causal_mask(weights, sizes["seq"])
    with part("norm1"):
        y = rms_norm(x, gamma)
    with part("attention"):
        with part("latent"):
            latent_q = rms_norm(F.linear(y, w_q_down), gamma_q)
            joint, shared = F.linear(y, w_kv_down).split((kv_rank, rope), dim=-1)
            latent_kv = rms_norm(joint, gamma_kv)
        with part("up"):
            q = split_heads(F.linear(latent_q, w_q_up), heads, nope + rope)
            kv = split_heads(F.linear(latent_kv, w_kv_up), heads, nope + v_dim)
        with part("rotary"):
            q_nope, q_rope = q.split((nope, rope), dim=-1)
            k_nope, v = kv.split((nope, v_dim), dim=-1)
            k_rope = rotate(shared[:, None], cos, sin).expand(-1, heads, -1, -1)
            q = torch.cat((q_nope, rotate(q_rope, cos, sin)), dim=-1)
            k = torch.cat((k_nope, k_rope), dim=-1)
        context = unfused_attention(part, q, k, v, mask)
        with part("output"):
            x = x + F.linear(context, w_out)
    return dense_half(part, weights, sizes, x)


def gpt_layer(part, weights, sizes, x):
    """GPT-2's pre-norm layer: LayerNorm, one qkv projection, tanh GELU, biases, no dropout."""
    h, f, heads, dim = sizes["hidden"], sizes["ffn"], sizes["heads"], sizes["head_dim"]
    width = heads * dim
    gamma1, beta1, gamma2, beta2 = (weights.parameter(h) for _ in range(4))
    w_qkv, b_qkv = weights.parameter(3 * width, h), weights.parameter(3 * width)
    w_out, b_out = weights.parameter(h, width), weights.parameter(h)
    w_up, b_up = weights.parameter(f, h), weights.parameter(f)
    w_down, b_down = weights.parameter(h, f), weights.parameter(h)
    mask = causal_mask(weights, sizes["seq"])
    with part("norm1"):
        y = F.layer_norm(x, (h,), gamma1, beta1, NORM_EPSILON)
    with part("attention"):
        with part("qkv"):
            qkv = F.linear(y, w_qkv, b_qkv)
            q, k, v = (split_heads(t, heads, dim) for t in qkv.split(width, dim=2))
        context = unfused_attention(part, q, k, v, mask)
        with part("output"):
            x = x + F.linear(context, w_out, b_out)
    with part("norm2"):
        y = F.layer_norm(x, (h,), gamma2, beta2, NORM_EPSILON)
    with part("mlp"):
        with part("up"):
            up = F.linear(y, w_up, b_up)
        with part("act"):
            act = F.gelu(up, approximate="tanh")
        with part("down"):
            return x + F.linear(act, w_down, b_down)


def head(part, weights, sizes, x):
    """Final RMSNorm, output projection, logits to fp32, mean cross-entropy over all T tokens."""
    h, vocab = sizes["hidden"], sizes["vocab"]
    gamma, w_head = weights.parameter(h), weights.parameter(vocab, h)
    labels = weights.constant("labels", torch.arange(x.shape[0] * x.shape[1]) % vocab)
    with part("norm"):
        y = rms_norm(x, gamma)
    with part("logits"):
        logits = F.linear(y, w_head).float()
    with part("loss"):
        return F.cross_entropy(logits.view(-1, vocab), labels)


def lora_layer(part, weights, sizes, x):
    """llama_layer with every weight frozen and adapters (2106.09685) beside all seven linears."""
    h, f, rank = sizes["hidden"], sizes["ffn"], sizes["rank"]
    heads, groups, dim = sizes["heads"], sizes["kv_heads"], sizes["head_dim"]

    def adapted(width_out, width_in):
        weight = weights.frozen(width_out, width_in)
        down, up = weights.parameter(rank, width_in), weights.parameter(width_out, rank)
        return lambda y: F.linear(y, weight) + F.linear(F.linear(y, down), up) * 2.0

    gamma1, gamma2 = weights.frozen(h), weights.frozen(h)
    to_q, to_k = adapted(heads * dim, h), adapted(groups * dim, h)
    to_v, to_out = adapted(groups * dim, h), adapted(h, heads * dim)
    gate, up, down = adapted(f, h), adapted(f, h), adapted(h, f)
    cos, sin = rotary_tables(weights, sizes["seq"], dim)
    mask = causal_mask(weights, sizes["seq"])
    with part("norm1"):
        y = rms_norm(x, gamma1)
    with part("attention"):
        q, k, v = (split_heads(t, n, dim) for t, n in
                   ((to_q(y), heads), (to_k(y), groups), (to_v(y), groups)))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = repeat_heads(k, heads // groups), repeat_heads(v, heads // groups)
        x = x + to_out(unfused_attention(part, q, k, v, mask))
    with part("norm2"):
        y = rms_norm(x, gamma2)
    with part("mlp"):
        return x + down(F.silu(gate(y)) * up(y))


def full_layer(part, weights, sizes, x):
    """llama_layer made again in backward: torch.utils.checkpoint around all of it."""
    made = []  # the second run must find the first run's weights
    keep, source = Replay(weights, made), x

    def run(y):
        keep.rewind()
        return llama_layer(part, keep, sizes, y)

    return checkpoint(run, source)


def selective_layer(part, weights, sizes, x):
    """llama_layer with its attention core (repeated heads, scores, softmax, values) made again."""
    global ATTENTION
    ATTENTION = checkpointed_attention
    try:
        return llama_layer(part, weights, sizes, x)
    finally:
        ATTENTION = plain_attention


LAYERS = {"mla": mla_layer, "window": window_layer, "capacity": capacity_layer,
          "lora": lora_layer, "full": full_layer, "selective": selective_layer,
          "llama": llama_layer, "moe": moe_layer, "gpt": gpt_layer, "head": head}


# ---- the measurement ----------------------------------------------------------------------------


class Saved:
    """Every tensor autograd packs, kept alive, and every node that later asks for it."""

    def __init__(self):
        self.tensors = []
        self.asked = None

    def pack(self, tensor):
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def unpack(self, index):
        if self.asked is not None:
            self.asked.append(index)
        return self.tensors[index]


def walk(saved, output):
    """Asks each node of the graph for what it holds: {index of the packed tensor: [node, ...]}."""
    holders = {}
    seen, todo = {output.grad_fn}, [output.grad_fn]
    while todo:
        node = todo.pop()
        saved.asked = []
        for name in dir(node):
            # A function written in Python (a checkpoint) has one attribute for all it holds.
            if name.startswith("_saved_") or name == "saved_tensors":
                getattr(node, name)
        for index in saved.asked:
            holders.setdefault(index, []).append(node.name())
        for parent, _ in node.next_functions:
            if parent is not None and parent not in seen:
                seen.add(parent)
                todo.append(parent)
    saved.asked = None
    return holders


def measure(case, dtype_name, sizes):
    """Runs one layer forward and returns the report described at the top of this file."""
    sizes = check_sizes(case, sizes)
    torch.manual_seed(1)
    dtype = DTYPES[dtype_name]
    weights, log, saved = Weights(dtype), ProducerLog(), Saved()
    x = torch.randn(sizes["batch"], sizes["seq"], sizes["hidden"]).to(dtype).requires_grad_()
    with log, torch.autograd.graph.saved_tensors_hooks(saved.pack, saved.unpack):
        output = LAYERS[case](log.part, weights, sizes, x)
    holders = walk(saved, output)
    packed = {t.storage().data_ptr() for t in saved.tensors}
    held = {saved.tensors[i].storage().data_ptr() for i in holders}
    if packed != held:
        raise RuntimeError("%d storages saved, %d in the graph" % (len(packed), len(held)))

    parameters = {p.storage().data_ptr() for p in weights.parameters + weights.buffers}
    groups = {"activation": {}, "input": {}, "constant": {}, "parameter": {}}
    for index in sorted(holders):
        tensor = saved.tensors[index]
        address = tensor.storage().data_ptr()
        op, where, shape = log.producer.get(address, ("", "", list(tensor.shape)))
        if address in parameters:
            role = "parameter"
        elif address == x.storage().data_ptr():
            role, op = "input", "input"
        elif address in weights.constants:
            role, op = "constant", weights.constants[address][0]
        elif tensor.dim() == 0 and tensor.dtype == torch.float64:
            role, op = "constant", "scalar"  # a Python number autograd wrapped; never on the device
        else:
            role = "activation"
        entry = groups[role].setdefault(address, {
            "op": op, "where": where, "shape": shape, "dtype": DTYPE_NAMES[tensor.dtype],
            "bytes": tensor.storage().nbytes(), "saved_by": [],
        })
        for node in holders[index]:
            if node not in entry["saved_by"]:
                entry["saved_by"].append(node)

    total = {role: sum(e["bytes"] for e in entries.values()) for role, entries in groups.items()}
    by_part, sole_holder = {}, {}
    for entry in groups["activation"].values():
        name = entry["where"].split(".")[0]
        by_part[name] = by_part.get(name, 0) + entry["bytes"]
        if len(entry["saved_by"]) == 1:
            node = entry["saved_by"][0]
            sole_holder[node] = sole_holder.get(node, 0) + entry["bytes"]
    check_backward(output, x, weights)
    return {
        "case": case, "dtype": dtype_name, "sizes": sizes, "torch": torch.__version__,
        "saved_bytes": total["activation"], "input_bytes": total["input"],
        "constant_bytes": total["constant"], "parameter_bytes": total["parameter"],
        "by_part": by_part, "sole_holder": sole_holder,
        "tensors": list(groups["activation"].values()),
        "constants": list(groups["constant"].values()),
    }


def check_backward(output, x, weights):
    """The layer must train: without a finite gradient everywhere, the graph was not real."""
    (output.float() ** 2).sum().backward()
    for tensor in [x] + weights.parameters:
        if tensor.grad is None or not bool(torch.isfinite(tensor.grad).all()):
            raise RuntimeError("shape %s got no finite gradient" % list(tensor.shape))


def main(arguments):
    parser = argparse.ArgumentParser(description="bytes autograd holds for one layer")
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="fp32")
    parser.add_argument("--all", action="store_true", help="every case in every dtype, as a list")
    parser.add_argument("--jobs", metavar="FILE",
                        help='JSON list of {"case", "dtype", sizes...}; - is standard input')
    for name, default in DEFAULT_SIZES.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    chosen = parser.parse_args(arguments)
    if sum((chosen.case is not None, chosen.all, chosen.jobs is not None)) != 1:
        parser.error("give exactly one of --case, --all and --jobs")
    torch.set_num_threads(1)
    sizes = {name: getattr(chosen, name) for name in DEFAULT_SIZES}
    try:
        if chosen.case:
            answer = measure(chosen.case, chosen.dtype, sizes)
        elif chosen.all:
            answer = [measure(case, dtype, sizes) for case in CASES for dtype in DTYPES]
        else:
            answer = [run_job(job, sizes) for job in read_jobs(chosen.jobs)]
    except BadSizes as wrong:
        sys.stderr.write("saved_bytes: %s\n" % wrong)
        return 3
    json.dump(answer, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0


def read_jobs(path):
    with (sys.stdin if path == "-" else open(path)) as stream:
        return json.load(stream)


def run_job(job, sizes):
    unknown = set(job) - set(sizes) - {"case", "dtype"}
    if unknown or job.get("case") not in CASES or job.get("dtype", "fp32") not in DTYPES:
        raise BadSizes("a job is not understood: %s" % json.dumps(job))
    overrides = {name: value for name, value in job.items() if name in sizes}
    return measure(job["case"], job.get("dtype", "fp32"), {**sizes, **overrides})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
