// What the tools of a language model work on: one session, and what the shell adds to it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "eratos/agent/session.h"
#include "eratos/text/tree.h"

namespace eratos::agent {

struct Finish {
  int trial = 0;
  std::string rationale;
  std::vector<int> cites;
};

struct Desk {
  Session& session;
  std::string stage = "investigation";  // of the trials that tools make
  // The normalised job as a tree; the reader's, which this room may not name.
  std::function<text::Node(const job::JobSpec&)> write_job;
  // The user's answer; nothing where nobody sits there.
  std::function<std::optional<std::string>(const std::string& question)> ask_user;
  // A search is refused beyond so many candidates.
  std::uint64_t most_candidates = 50'000'000'000;

  std::optional<Finish> finish;  // once `finish` was accepted
  int wasted = 0;                // proposals that were refused or repeated
};

}  // namespace eratos::agent
