// The plan: which pieces of work to measure, as `eratos measure JOB --plan` writes it.
//
//   eratos-plan 1
//   job llama-tiny 1a2b3c4d
//   piece gemm id=gemm/forward/m128/n64/k32/fp32 dtype=fp32 count=4 m=128 n=64 k=32 pass=forward
//
// A line a piece, `key=value` without blanks; blank lines and lines that begin with # say nothing.
// measure/README.md lists the kinds and their keys. A kind this program does not know, a key that
// is missing and a number that is none are faults, all of them told at once with their lines.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace eratos::device {

struct Piece {
  std::string kind;  // gemm attention elementwise block collective memory
  std::string id;
  int line = 0;
  std::vector<std::pair<std::string, std::string>> fields;  // in the order of the line, id too

  bool has(const std::string& key) const;
  // "" where the key is missing.
  std::string text(const std::string& key) const;
  // Whole numbers, as checked by read_plan(); `otherwise` where the key is missing.
  std::int64_t number(const std::string& key, std::int64_t otherwise = 0) const;
  bool yes(const std::string& key) const { return number(key) != 0; }
  // A number for each comma: `rows=40,24`.
  std::vector<std::int64_t> numbers(const std::string& key) const;
};

struct Plan {
  std::string job;
  std::string job_digest;
  std::string digest;  // of the pieces' lines: two plans with one digest ask for the same work
  std::vector<Piece> pieces;
  // Pieces that one run measures: forward and backward of one block, the phases of one reduced job.
  // Indices into `pieces`; every piece is in exactly one group.
  std::vector<std::vector<std::size_t>> groups;
};

// Errors: Fault kBadInput (every fault, a line each), kEnvironment where the file cannot be read.
Plan read_plan(const std::string& path);

}  // namespace eratos::device
