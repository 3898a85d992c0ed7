// A framework's vocabulary as data: which key of its files says which field of the normalised job.
//
// One table a framework (keys_NAME.h), read by its reader and by whoever writes such files: a row
// that is not `by_rule` goes both ways as it stands. A key that no row names is unknown, and the
// user is told, with the nearest known one.
//
// Worked example: the row {"training.seq_len", "batch.sequence"} of torchtitan copies a number;
// {"tokens.sequence_length", "batch.sequence"} of nanotron the same field; {"checkpoint.*", "",
// Say::nothing, kCheckpoint} names keys that change nothing here, and why.
#pragma once

#include <span>
#include <string_view>

namespace eratos::reader {

enum class Say : unsigned char {
  copy,     // the value as it stands, or as `words` translates it
  by_rule,  // decides `field`, together with other keys: the reader's code says how
  nothing,  // changes no field; `words` says why
};

struct KeyRow {
  std::string_view key;         // a dotted path; a last `*` stands for any rest
  std::string_view field = {};  // a path in the normalised job
  Say say = Say::copy;
  // copy: "theirs=ours,...", tried in order in any case; "" leaves the value as it is.
  // nothing: the reason.
  std::string_view words = {};
};

using KeyRows = std::span<const KeyRow>;

// Reasons that many frameworks' keys share.
inline constexpr std::string_view kLogging = "logging: not part of a step";
inline constexpr std::string_view kCheckpoint = "checkpoints: not part of a step";
inline constexpr std::string_view kData = "data: assumed to keep up";
inline constexpr std::string_view kLearning = "changes what is learned, not what it costs";
inline constexpr std::string_view kProfiling = "profiling: off in the projected run";
inline constexpr std::string_view kHost = "host housekeeping: not modelled";
inline constexpr std::string_view kKernel = "choice of kernel: covered by the framework profile";
inline constexpr std::string_view kLaunch = "launching: not part of a step";
inline constexpr std::string_view kInit = "initialization: before the first step";

// The row that names `key`: exactly, or by the longest `*`; nullptr when none does.
const KeyRow* find_row(KeyRows rows, std::string_view key);

// Our word for `theirs` by a row's `words` ("" when it has none), and the other way round: the
// first of theirs that means `ours`.
std::string_view our_word(std::string_view words, std::string_view theirs);
std::string_view their_word(std::string_view words, std::string_view ours);

}  // namespace eratos::reader
