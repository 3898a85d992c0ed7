#!/usr/bin/env bash
# Projects every published run of a folder and writes docs/ACCURACY.md and
# docs/accuracy_ablation.md from the errors.
#
#   scripts/accuracy.sh [--check] [FOLDER]     or: ./dev accuracy [--check] [FOLDER]
#
# --check writes nothing and fails where a figure got worse than the page's (docs/HACKING.md).
# FOLDER holds CSVs of measured runs and architecture files models_*.yaml (docs/USING.md, validate);
# without it ERATOS_RUNS names the folder. ERATOS_POINTS names the folder of measured kernels and
# collectives; without it, `reference` beside FOLDER. ERATOS_BINARY is the program, build/eratos by
# default.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
check=()
if [[ ${1:-} == --check ]]; then
  check=(--check)
  shift
fi
runs=${1:-${ERATOS_RUNS:-}}
binary=${ERATOS_BINARY:-$root/build/eratos}

if [[ -z $runs ]]; then
  echo "usage: scripts/accuracy.sh [--check] FOLDER (or set ERATOS_RUNS); the measured runs are not" \
       "part of the checkout" >&2
  exit 2
fi
if [[ ! -d $runs ]]; then
  echo "error: $runs: no such folder" >&2
  exit 3
fi
points=()
if [[ -n ${ERATOS_POINTS:-} ]]; then
  points=(--points "$ERATOS_POINTS")
fi
exec python3 -B "$root/scripts/accuracy.py" --binary "$binary" --runs "$runs" \
  --output "$root/docs/ACCURACY.md" "${check[@]}" "${points[@]}"
