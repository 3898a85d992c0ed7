"""`eratos validate --calibration` changes what the file names and nothing else: a run's own notes stay
its own. BLOOM's runs wait for every launch, Jean Zay's others of one generation do not."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BINARY = os.environ["ERATOS_BINARY"]
COLUMNS = ("id,source,gpu,num_gpus,gpus_per_node,framework,model,precision,seq_len,mbs,gbs,tp,cp,pp,dp,"
           "sharding,recompute,step_time_s")
RUNS = [
    "others-bloom-x,BigScience,a100-80g,8,8,Megatron-DeepSpeed,gpt3-175b,fp16,2048,1,64,8,1,1,1,none,full,9",
    "others-jz-x,BigScience,a100-80g,8,8,Megatron-DeepSpeed,gpt3-175b,fp16,2048,1,64,8,1,1,1,none,full,9",
]
OVERLAY = """eratos: "0.1.0"
frameworks:
  nanotron@2025.02:
    host:
      per_kernel_s: 2.0e-5
"""


def steps(runs, *flags):
    done = subprocess.run([BINARY, "validate", runs, "--format", "json", *flags], capture_output=True,
                          text=True, timeout=60, check=False)
    if done.returncode != 0:
        sys.exit(f"exit {done.returncode}\n{done.stderr}")
    return {row["id"]: row["projected"]["step_s"] for row in json.loads(done.stdout)["rows"]}


with tempfile.TemporaryDirectory() as folder:
    runs = pathlib.Path(folder, "others.csv")
    runs.write_text("\n".join([COLUMNS, *RUNS]) + "\n", encoding="utf-8")
    overlay = pathlib.Path(folder, "overlay.yaml")
    overlay.write_text(OVERLAY, encoding="utf-8")
    shipped = steps(str(runs))
    if len(set(shipped.values())) != 2:
        sys.exit(f"the two runs should differ: {shipped}")
    changed = steps(str(runs), "--calibration", str(overlay))
    if changed != shipped:
        sys.exit(f"an overlay of another framework moved them: {shipped} {changed}")
print("2 runs hold")
