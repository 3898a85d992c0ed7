#!/usr/bin/env bash
# Measures one accelerator for eratos in under 8 minutes, without a network: builds eratos-device,
# measures a Llama 3.1 8B and a Mixtral-like layer, whole and kernel by kernel, in bf16 at the local
# shapes of tp 1, 2, 4 and 8, each result checked against double precision, and writes
# data/measured/DEVICE.json. Inside a container with PyTorch its libtorch is used, else Debian's.
#
#   bench/gpu/run.sh                              the first GPU, 6 minutes of measuring
#   bench/gpu/run.sh --device cpu --tiny          a processor, tiny shapes in fp32, seconds
#
#   --budget TIME           of the measuring (360s; with --tiny 20s)
#   --device-program FILE   an eratos-device that is built already
#   -o FILE                 in place of data/measured/DEVICE.json
#   --threads N, --cache BYTES, --resume, --force   as of eratos-device
#
# Ends with 4 where there is no GPU, no libtorch or no room; what was measured by then is kept, and
# --resume goes on.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
device=cuda budget='' program='' output='' tiny=0 passed=()
fail() {
  printf 'error: %s\n' "$1" >&2
  exit "$2"
}
while [[ $# -gt 0 ]]; do
  case $1 in
    --device | --budget | --device-program | -o | --threads | --cache)
      [[ $# -gt 1 ]] || fail "\`$1\` needs a value" 2
      case $1 in
        --device) device=$2 ;;
        --budget) budget=$2 ;;
        --device-program) program=$2 ;;
        -o) output=$2 ;;
        *) passed+=("$1" "$2") ;;
      esac
      shift 2
      ;;
    --tiny) tiny=1; shift ;;
    --resume | --force) passed+=("$1"); shift ;;
    *) fail "unknown flag \`$1\`" 2 ;;
  esac
done
[[ -n $budget ]] || budget=$([[ $tiny -eq 1 ]] && echo 20s || echo 360s)

# Where PyTorch's package for CMake cannot be used, as nvcc or hipcc are missing, its libraries can
# still be, as they lie.
build_program() {
  local build=$1 log=$1/build.log torch='' prefix='' options=()
  mkdir -p "$build"
  command -v cmake >/dev/null || fail "cmake is missing" 4
  if prefix=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)' 2>/dev/null) &&
     torch=$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))') &&
     [[ -d $torch/include/ATen ]]; then
    options=(-DCMAKE_PREFIX_PATH="$prefix")
    # From 2.10 on libtorch's headers are C++20. Source: pytorch/pytorch, release notes of 2.10.
    if python3 -c 'import sys, torch; v = torch.__version__.split(".")
sys.exit((int(v[0]), int(v[1])) < (2, 10))'; then
      options+=(-DERATOS_DEVICE_CXX_STANDARD=20)
    fi
  fi
  printf '== building eratos-device%s\n' "${torch:+ with the libtorch of $torch}" >&2
  if ! cmake -S "$root/measure" -B "$build" "${options[@]}" >"$log" 2>&1; then
    [[ -d $torch/lib ]] || { tail -n 20 "$log" >&2; fail "eratos-device cannot be configured" 4; }
    rm -f "$build/CMakeCache.txt"
    options+=(-DERATOS_DEVICE_TORCH="$torch")
    cmake -S "$root/measure" -B "$build" "${options[@]}" >"$log" 2>&1 ||
      { tail -n 20 "$log" >&2; fail "eratos-device cannot be configured" 4; }
  fi
  cmake --build "$build" -j "$(nproc)" >>"$log" 2>&1 ||
    { tail -n 30 "$log" >&2; fail "eratos-device cannot be built" 4; }
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ -z $program ]]; then
  build_program "${ERATOS_BUILD_DIR:-$root/build}/device"
  program=${ERATOS_BUILD_DIR:-$root/build}/device/eratos-device
fi
[[ -x $program ]] || fail "$program: is no program that can be run" 4
name=$("$program" --probe --device "$device")

# One plan of all: the first lines of each, then the second ones, so that a budget that ends early
# leaves out what matters least; a piece that several plans ask for stands there once.
plans=("$root"/bench/gpu/plans/$([[ $tiny -eq 1 ]] && echo 'tiny-*' || echo '[lm]*').plan)
{
  echo "eratos-plan 1"
  digest=$(cat "${plans[@]}" | cksum | cut -d' ' -f1)
  echo "job bench-gpu$([[ $tiny -eq 0 ]] || echo -tiny) $digest"
  for plan in "${plans[@]}"; do
    grep '^piece ' "$plan" | awk -v OFS='\t' '{ print NR, $0 }'
  done | sort -s -n -k1,1 | cut -f2- |
    awk '{ for (i = 3; i <= NF; ++i) if ($i ~ /^id=/ && !seen[$i]++) print }'
} >"$work/plan"

if [[ -z $output ]]; then
  slug=$(printf '%s' "$name" | tr '[:upper:] ' '[:lower:]-' | tr -cd 'a-z0-9-')
  mkdir -p "$root/data/measured"
  output=$root/data/measured/$slug.json
fi
commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo 'no checkout')
printf '== measuring %s, %s\n' "$name" "$budget" >&2
"$program" --plan "$work/plan" -o "$output" --device "$device" --budget "$budget" \
  --commit "$commit" --progress "${passed[@]}"
echo "$output"
