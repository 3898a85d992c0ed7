#!/bin/sh
# A program for `eratos tune --measure-command`: the job's kernels and modules on one device at hand, all
# else simulated. One device does for a job of hundreds.
#
#   ERATOS_DEVICE=cuda ERATOS_BUDGET=60s eratos tune JOB --cluster C -o DIR \
#     --budget-measure 8 --measure-command examples/tune/hybrid.sh
#
# ERATOS is the program (eratos), ERATOS_DEVICE cpu or cuda, ERATOS_BUDGET the time for one job.
set -eu

eratos=${ERATOS:-eratos}
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT

began=$(date +%s)
"$eratos" measure "$ERATOS_JOB" --device "${ERATOS_DEVICE:-cuda}" --budget "${ERATOS_BUDGET:-60s}" \
  -o "$folder/measured.json" >&2
"$eratos" project "$ERATOS_JOB" --measured "$folder/measured.json" --format json >"$folder/answer.json"
python3 - "$folder/answer.json" "$(($(date +%s) - began))" <<'PYTHON'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    answer = json.load(file)
print(json.dumps({"step_s": answer["time"]["step_s"], "cost_s": int(sys.argv[2])}))
PYTHON
