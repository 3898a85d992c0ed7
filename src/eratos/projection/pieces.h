// Which pieces of work a job is made of: from an op to the piece that a device can run, and back.
//
// Answers "which measurement is this op's?". An op names what it does by module and class, a piece
// by what a device program has to run; whoever writes a plan and whoever reads measurements asks
// here, so that both mean the same.
//
// A streaming kernel that is a whole op of a network (an activation in one kernel, a residual add)
// is that op; any other is a copy of as many bytes. Worked example: forward product of Llama 3.1
// 8B's gate and up at tp 2, 8192 tokens:
//   gemm/forward/m8192/n14336/k4096/bf16.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eratos/calibration/piece.h"
#include "eratos/job/job.h"
#include "eratos/lower/program_set.h"
#include "eratos/ops/ops.h"

namespace eratos::projection {

// Of ops of `program`, or once-a-step ops where it is null. `members`: ranks of the group of a
// collective. Nothing for what is not run alone: views, copies to the host, tokens that go once to
// each node, and kernels that no device program has.
std::optional<calibration::Piece> piece_of(const ops::Op& op, const ops::Program* program,
                                           const job::CheckedJob& job, int members,
                                           double owned_parameters = 0);

// The op that a kernel or collective piece is, for the model's price of it; nothing for blocks and
// memory. Of a collective the axis is tp.
std::optional<ops::Op> op_of(const calibration::Piece& piece);

// A whole module of a program, forward and backward.
struct BlockPieces {
  calibration::Piece forward;
  calibration::Piece backward;
  // The module's ops: [begin, end) of the program's lists.
  std::size_t forward_begin = 0;
  std::size_t forward_end = 0;
  std::size_t backward_begin = 0;
  std::size_t backward_end = 0;
};

// The blocks of a program, the whole first. `why`: what keeps it from being one, where it is none.
std::vector<BlockPieces> blocks_of(const ops::Program& program, const lower::ProgramId& id,
                                   const job::CheckedJob& job, std::string& why);

}  // namespace eratos::projection
