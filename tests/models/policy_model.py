"""A "model" made of rules: it reads the results of tools from the messages it is sent, and decides.

It knows nothing that the messages do not hold. Its rules are those of somebody who tunes by hand:

  1  look at the axes and at the job as it came;
  2  if it does not fit: smaller micro-batch, recomputation, more pipeline, more tensor parallelism,
     until something does;
  3  ask what stands one step around the best, and take the best single change, until none helps;
  4  then free the axes that only make sense together, block after block, and search each with the
     rest pinned to the best; from the top again while a round gains more than half a percent;
  5  finish, citing what it rests on.

`python3 tests/models/policy_model.py` serves it until it is ended, and prints its address.
"""

import json
import re
import sys
import time

BLOCKS = [
    ["tp", "pp", "vpp", "ep", "etp", "sequence_parallel", "micro", "sharding"],
    ["cp", "tp", "pp", "vpp", "micro", "recompute", "sharding"],
    ["pp", "vpp", "schedule", "split", "micro", "recompute"],
    ["ep", "micro", "recompute", "offload", "sharding", "overlap.moe_a2a"],
    ["overlap.tp", "overlap.moe_a2a", "overlap.p2p", "overlap.grad_reduce", "overlap.param_gather",
     "dispatcher", "fused_loss"],
]


def data_of(text):
    match = re.search(r"<data from=\"[^\"]*\">\n(.*)\n</data>", text, re.S)
    if not match:
        return None
    try:
        return json.loads(match.group(1))
    except ValueError:
        return None


class Seen:
    """The talk so far, from the messages alone: (tool, arguments, result) in order."""

    def __init__(self, messages):
        self.calls = []
        named = {}
        for message in messages:
            for call in message.get("tool_calls") or []:
                named[call["id"]] = (call["function"]["name"],
                                     json.loads(call["function"]["arguments"]))
            if message["role"] == "tool":
                name, arguments = named[message["tool_call_id"]]
                self.calls.append((name, arguments, data_of(message["content"])))

    def last(self, tool):
        return next((c for c in reversed(self.calls) if c[0] == tool), None)

    def count(self, tool):
        return sum(1 for c in self.calls if c[0] == tool)

    def trials(self):
        """By number; of those that were told."""
        out = {}

        def take(node):
            if isinstance(node, dict):
                if "trial" in node and "verdict" in node:
                    out[node["trial"]] = node
                for value in node.values():
                    take(value)
            elif isinstance(node, list):
                for value in node:
                    take(value)

        for _, _, result in self.calls:
            take(result)
        return out

    def best(self):
        fit = [t for t in self.trials().values()
               if t["verdict"] == "fits" and "tokens_per_s_per_gpu" in t]
        return max(fit, key=lambda t: t["tokens_per_s_per_gpu"]["value"], default=None)


def speed(trial):
    return trial["tokens_per_s_per_gpu"]["value"]


def call(name, **arguments):
    return {"calls": [(name, arguments)]}


def shrink(seen, axes):
    """Something that fits, from less memory to least."""
    tried = [c[1]["change"] for c in seen.calls if c[0] in ("project", "memory")]

    def most(axis):
        return axes[axis]["values"][-1] if axis in axes else None

    ladder = []
    change = {}
    if "micro" in axes:
        change["micro"] = axes["micro"]["values"][0]
        ladder.append(dict(change))
    if "recompute" in axes and "full" in axes["recompute"]["values"]:
        change["recompute"] = "full"
        ladder.append(dict(change))
    for axis in ("pp", "tp", "ep"):
        for value in axes.get(axis, {}).get("values", []):
            if int(value) > int(axes[axis]["own"]):
                more = dict(change, **{axis: value})
                if axis == "tp" and "sequence_parallel" in axes:
                    more["sequence_parallel"] = "true"
                ladder.append(more)
        if most(axis) and axis == "pp" and len(axes["pp"]["values"]) > 1:
            change["pp"] = axes["pp"]["values"][len(axes["pp"]["values"]) // 2]
    for step in ladder:
        if step not in tried:
            return call("project", change=step, reason="nothing fits yet: less memory")
    if not seen.count("search"):
        return call("search", axes={a: "all" for a in ("tp", "pp", "ep", "micro", "recompute",
                                                       "sequence_parallel") if a in axes}, top=1,
                    reason="nothing fits yet")
    return {"text": "nothing fits"}


def decide(body):
    seen = Seen(body["messages"])
    if not seen.calls:
        return {"calls": [("list_axes", {}), ("best", {}), ("trials", {"limit": 20})]}
    listed = seen.last("list_axes")
    if listed is None:  # it has been left out of a context that was full
        return call("list_axes")
    axes = listed[2]["axes"]
    best = seen.best()
    if best is None:
        return shrink(seen, axes)

    # One step around the best, until none helps.
    last_name, last_arguments, last = seen.calls[-1]
    around = seen.last("sensitivity")
    if not seen.count("search"):
        if around is None or around[1]["trial"] != best["trial"]:
            if around is None or last_name != "sensitivity":
                return call("sensitivity", trial=best["trial"])
        steps = [s for s in around[2]["steps"] if s["fits"] and s["speed_against_trial"] > 0.002]
        tried = [(c[1].get("from"), c[1]["change"]) for c in seen.calls if c[0] == "project"]
        for step in steps[:2]:
            change = {step["axis"]: step["to"]}
            if around[1]["trial"] == best["trial"] and (best["trial"], change) not in tried:
                return call("project", **{"from": best["trial"]}, change=change,
                            reason=f"one step: {step['speed_against_trial']:+.1%}")

    # Blocks of axes that only make sense together, from the top while a round still gains.
    searches = [c for c in seen.calls if c[0] == "search"]
    done = len(searches) % len(BLOCKS)
    if searches and done == 0:
        before = seen_best_at(seen, len(searches) - len(BLOCKS))
        if before is not None and speed(best) < before * 1.005:
            return finish(seen, best)
    for i in range(done, len(BLOCKS)):
        block = {a: "all" for a in BLOCKS[i] if a in axes}
        return call("search", axes=block or {"micro": "all"}, rest=best["trial"], top=1,
                    reason="axes that only make sense together: " + ", ".join(block))
    return finish(seen, best)


def seen_best_at(seen, searches):
    """The best speed when so many searches had been made."""
    earlier = Seen([])
    count = 0
    for c in seen.calls:
        if c[0] == "search":
            if count == searches:
                break
            count += 1
        earlier.calls.append(c)
    best = earlier.best()
    return None if best is None else speed(best)


def finish(seen, best):
    trials = seen.trials()
    cites = sorted(trials)[:1] + [best["trial"]]
    return call("finish", trial=best["trial"], cites=sorted(set(cites)),
                rationale=f"Trial {best['trial']} is the fastest of {len(trials)} that were looked at; "
                          "no single step and no block of axes around it gains more.")


def main():
    from model_server import ModelServer
    with ModelServer(decide) as server:
        print(server.url, flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            return 0


if __name__ == "__main__":
    sys.exit(main())
