#!/usr/bin/env bash
# Writes bench/gpu/plans/*.plan anew: the pieces of a Llama 3.1 8B and of a Mixtral-like layer at
# the local shapes of tp 1, 2, 4 and 8, in bf16. Run it when the format of plans or shapes change.
#   bench/gpu/plans.sh build/eratos
set -euo pipefail
eratos=$(realpath "${1:?usage: bench/gpu/plans.sh ERATOS}")
cd "$(dirname -- "${BASH_SOURCE[0]}")/plans"
for tp in 1 2 4 8; do
  sequence_parallel=$([[ $tp -gt 1 ]] && echo true || echo false)
  shared=(--set parallel.tp=$tp --set parallel.sequence_parallel=$sequence_parallel
          --set batch.micro=1 --plan --format plan --force)
  "$eratos" measure llama3.1-8b --cluster h100-sxm-1x8 --set batch.sequence=8192 \
    --set batch.global=8 "${shared[@]}" -o llama3.1-8b-tp$tp.plan
  "$eratos" measure mixtral-8x7b --cluster h100-sxm-8x8 --set parallel.ep=8 --set parallel.etp=1 \
    --set batch.sequence=4096 --set batch.global=64 "${shared[@]}" -o mixtral-8x7b-tp$tp-ep8.plan
done
# The same in small, for a processor in fp32 and seconds.
"$eratos" measure ../../../examples/measure/llama-block.yaml --cluster h100-sxm-1x1 \
  --set batch.sequence=128 --set model.vocab=1024 --plan --format plan --force -o tiny-llama.plan
"$eratos" measure ../../../examples/measure/moe-block.yaml --cluster h100-sxm-1x1 \
  --set batch.sequence=128 --set model.vocab=1024 --plan --format plan --force -o tiny-moe.plan
