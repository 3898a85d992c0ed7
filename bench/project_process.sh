#!/usr/bin/env bash
# Wall time of a whole `eratos project` process: start, read the Primus example of Mixtral 8x22B with
# its presets, project it on 8 nodes of MI355X, print, end. Prints one line of JSON.
#
#   bench/project_process.sh BINARY [BAR_MS]
#
# Exit 1 when the median of 21 runs is above BAR_MS (60).
set -euo pipefail

binary=${1:?usage: bench/project_process.sh BINARY [BAR_MS]}
bar_ms=${2:-60}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
job=$root/examples/primus/examples/megatron/configs/MI355X/mixtral_8x22B_v0.1-BF16-pretrain.yaml
runs=21

export LC_ALL=C  # EPOCHREALTIME with a decimal point
project() { "$binary" project "$job" --cluster mi355x-8x8 > /dev/null; }

project  # the first reads the program from disk
times=()
for ((i = 0; i < runs; ++i)); do
  start=${EPOCHREALTIME/./}
  project
  times+=($((${EPOCHREALTIME/./} - start)))
done
mapfile -t sorted < <(printf '%s\n' "${times[@]}" | sort -n)
median_us=${sorted[runs / 2]}
printf '{"runs": %d, "min_ms": %d.%03d, "median_ms": %d.%03d, "bar_ms": %d}\n' "$runs" \
  $((sorted[0] / 1000)) $((sorted[0] % 1000)) $((median_us / 1000)) $((median_us % 1000)) "$bar_ms"
((median_us <= bar_ms * 1000))
