"""The job that the trainer runs, read from the very YAML file that eratos projects.

Question answered: which sizes, cuts and switches does this run have? The file says them in eratos's own
keys (docs/JOB.md). What the trainer cannot do is refused here, so that no file means one thing to the
projection and another to the run.
"""

import dataclasses
import re
import sys

import yaml

REFUSED = 3  # exit code of a file that the trainer cannot run


class BadJob(Exception):
    """Every fault of a job file, one a line."""


@dataclasses.dataclass(frozen=True)
class Job:
    name: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    experts: int      # 0: dense layers
    top_k: int
    expert_ffn: int
    tp: int
    pp: int
    ep: int
    sequence_parallel: bool
    micro: int
    global_batch: int
    sequence: int
    sharding: str     # none, zero1, zero3
    recompute: bool   # every layer made again in backward
    world: int

    @property
    def dp(self):
        return self.world // (self.tp * self.pp)

    @property
    def micro_batches(self):
        return self.global_batch // (self.micro * self.dp)

    @property
    def tokens(self):
        return self.micro * self.sequence


# What every file must say, because the trainer knows nothing else.
FIXED = {
    ("framework",): "cpu-cluster",
    ("precision", "recipe"): "fp32",
    ("attention", "implementation"): "unfused",
    ("optimizer", "kind"): "adam",
    ("overlap", "grad_reduce"): False,
    ("overlap", "param_gather"): False,
    ("overlap", "p2p"): False,
    ("model", "tie_embeddings"): False,
    ("model", "gated_mlp"): True,
    ("model", "activation"): "silu",
    ("model", "bias"): False,
    ("model", "position"): "rotary",
    ("model", "norm"): "rmsnorm",
}
KNOWN = {
    "": {"name", "model", "parallel", "batch", "precision", "sharding", "recompute", "optimizer", "overlap",
         "attention", "framework", "cluster", "schedule"},
    "model": {"name", "layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab", "moe",
              "tie_embeddings", "gated_mlp", "activation", "bias", "position", "norm"},
    "model.moe": {"experts", "top_k", "ffn", "shared_ffn", "dense_layers_first", "every"},
    "parallel": {"tp", "pp", "ep", "sequence_parallel"},
    "batch": {"micro", "global", "sequence"},
    "precision": {"recipe"},
    "sharding": {"stage"},
    "recompute": {"granularity"},
    "optimizer": {"kind"},
    "overlap": {"grad_reduce", "param_gather", "p2p"},
    "attention": {"implementation"},
    "schedule": {"algorithm"},
}


def at(tree, path):
    for key in path:
        tree = tree.get(key, {}) if isinstance(tree, dict) else {}
    return tree


def unknown_keys(tree, prefix=""):
    for key, value in tree.items():
        if prefix in KNOWN and key not in KNOWN[prefix]:
            yield ("%s.%s" % (prefix, key)).lstrip(".")
        if isinstance(value, dict):
            yield from unknown_keys(value, ("%s.%s" % (prefix, key)).lstrip("."))


def ranks_of(cluster):
    """Of PART-NxM: one core a rank."""
    found = re.search(r"-(\d+)x(\d+)$", cluster)
    return int(found[1]) * int(found[2]) if found else 0


def read(path):
    """The job of a file; raises BadJob with every fault."""
    with open(path, encoding="utf-8") as file:
        tree = yaml.safe_load(file)
    faults = ["%s: the trainer does not know this key" % key for key in unknown_keys(tree)]
    for keys, value in FIXED.items():
        if at(tree, keys) != value:
            faults.append("%s must be %s" % (".".join(keys), value))
    model, parallel, batch = tree["model"], tree.get("parallel", {}), tree["batch"]
    moe = model.get("moe", {})
    ranks = ranks_of(tree["cluster"])
    job = Job(
        name=tree["name"], layers=model["layers"], hidden=model["hidden"], ffn=model.get("ffn", 0),
        heads=model["heads"], kv_heads=model["kv_heads"], head_dim=model["head_dim"], vocab=model["vocab"],
        experts=moe.get("experts", 0), top_k=moe.get("top_k", 0), expert_ffn=moe.get("ffn", 0),
        tp=parallel.get("tp", 1), pp=parallel.get("pp", 1), ep=parallel.get("ep", 1),
        sequence_parallel=parallel.get("sequence_parallel", False), micro=batch["micro"],
        global_batch=batch["global"], sequence=batch["sequence"],
        sharding=at(tree, ("sharding", "stage")) or "none",
        recompute=at(tree, ("recompute", "granularity")) == "full", world=ranks)
    faults += faults_of(job)
    if faults:
        raise BadJob("\n".join("%s: %s" % (path, fault) for fault in faults))
    return job


def faults_of(job):
    rules = [
        (job.world > 0, "cluster must be PART-NxM"),
        (job.world and job.world % (job.tp * job.pp) == 0, "tp and pp do not divide the ranks"),
        (job.heads % job.tp == 0 and job.kv_heads % job.tp == 0, "tp does not divide the heads"),
        (job.ffn % job.tp == 0 and job.vocab % job.tp == 0, "tp does not divide ffn or vocabulary"),
        (job.layers % job.pp == 0, "pp does not divide the layers"),
        (job.experts % job.ep == 0 if job.experts else job.ep == 1, "ep does not divide the experts"),
        (job.sharding in ("none", "zero1", "zero3"), "sharding must be none, zero1 or zero3"),
        (job.tp == 1 or not job.experts, "experts with tensor parallelism are not written"),
        (job.ep in (1, job.dp), "ep must be 1 or all data-parallel ranks"),
        (job.sharding != "zero3" or (job.tp == job.pp == job.ep == 1),
         "zero3 goes with data parallelism alone"),
        (not job.sequence_parallel or job.micro == 1,
         "sequence parallelism cuts one sequence: micro must be 1"),
        (not job.experts or job.tokens * job.top_k % job.experts == 0,
         "tokens times top_k must divide by the experts"),
    ]
    return [fault for holds, fault in rules if not holds]


def load_or_exit(path):
    try:
        return read(path)
    except BadJob as fault:
        sys.stderr.write("%s\n" % fault)
        sys.exit(REFUSED)
