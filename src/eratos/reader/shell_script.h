// What would a launch script's commands be, as words, without running anything?
//
// Understood: comments, line continuations, quotes, `NAME=value`, `NAME+=value`, `NAME=( ... )`,
// `export` and its like, `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME[@]}`, `$((a*b))`, `if`
// with
// `[ ... ]` tests of known words, `for` (its first item), `case`. Nothing is executed: the output
// of
// `$(command)` is not known, loops and undecided branches are skipped and named in `notes`.
// A variable that neither the script nor `environment` sets stays as `${NAME}`, for whoever needs
// the value.
//
// Worked example: TP=8; ARGS=(--tensor-model-parallel-size $TP); torchrun train.py ${ARGS[@]}
// is the command torchrun, train.py, --tensor-model-parallel-size, 8; the last word stands at 1:4.
// Source of the rules: POSIX.1-2017, Shell Command Language, 2.2 to 2.9; bash's manual for arrays.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/reader/environment.h"

namespace eratos::reader {

struct ShellWord {
  std::string text;
  Location at;
};

struct ShellScript {
  std::vector<std::vector<ShellWord>> commands;             // in order, without assignments
  std::map<std::string, std::vector<ShellWord>> variables;  // as the script leaves them
  std::vector<ShellWord> notes;                             // what was skipped, and where
};

// Never fails: what it cannot follow is skipped and noted.
ShellScript read_shell(std::string_view text, const std::string& file,
                       const Environment& environment);

}  // namespace eratos::reader
