#!/usr/bin/env bash
# The core as WebAssembly: every source of levels 0 to 8 is compiled by em++ into a library, a
# program that projects one job (examples/library/core_alone.cpp) is linked with it and run by node.
#
#   scripts/check_wasm.sh FOLDER [NATIVE]
#
# FOLDER keeps what was built, so only changed files are compiled again. NATIVE is the same program
# built natively: each number of the two must agree to 1e-12 relative. Needs em++ (Debian package
# emscripten), node, cmake, ninja. ERATOS_JOBS chooses the number of compilers (2).
set -euo pipefail

folder=${1:?usage: scripts/check_wasm.sh FOLDER [NATIVE]}
native=${2:-}
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

# Where Debian keeps the packages of node that em++ links with; another node does not look there.
export NODE_PATH=/usr/share/nodejs${NODE_PATH:+:$NODE_PATH}
if command -v ccache >/dev/null; then
  export EM_COMPILER_WRAPPER=ccache  # em++ calls its clang through it
fi

mkdir -p "$folder"
emscripten=$(em-config EMSCRIPTEN_ROOT)
cmake -S "$root/scripts/wasm" -B "$folder" -G Ninja \
  -DCMAKE_TOOLCHAIN_FILE="$emscripten/cmake/Modules/Platform/Emscripten.cmake" \
  >"$folder/configure.log" 2>&1 || { cat "$folder/configure.log" >&2; exit 1; }
cmake --build "$folder" -j "${ERATOS_JOBS:-2}" >"$folder/build.log" 2>&1 ||
  { cat "$folder/build.log" >&2; exit 1; }
node "$folder/core_alone.js" >"$folder/answer.txt"
if [[ -z $native ]]; then
  cat "$folder/answer.txt"
  exit
fi

"$native" >"$folder/native.txt"
paste -d ' ' "$folder/native.txt" "$folder/answer.txt" | awk '
  NF != 4 || $1 != $3 { print "not the same lines: " $0; bad = 1; next }
  {
    size = $2 < 0 ? -$2 : $2
    apart = $2 < $4 ? $4 - $2 : $2 - $4
    if (!(apart <= 1e-12 * size)) { print $1 ": " $2 " natively, " $4 " as WebAssembly"; bad = 1 }
    ++lines
  }
  END {
    if (lines == 0) { print "no answer"; bad = 1 }
    if (!bad) print "wasm: " lines " numbers of one projection agree with the native program"
    exit bad
  }'
