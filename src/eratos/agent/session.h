// The state of one tuning run, and the only door to its oracles.
//
// Whoever proposes configurations (the seed planner, the scripted policy, refinement, a language
// model behind tools) calls evaluate() and reads trials; nothing else makes one. Each call
//   1. reads the patch as a job and checks it: an illegal one is a trial of its own, with the
//      diagnostics, and counts as a proposal spent;
//   2. answers from the records, free, where the same job was asked for at the same fidelity (or
//      measured, where a lower one is asked: it says that as well);
//   3. asks the exact memory filter: what cannot fit goes no further, whatever was asked;
//   4. looks at the budget of the fidelity, then asks the oracle and writes the trial down.
// A memory-only trial never blocks a later simulate or measure of the same job.
//
// Worked example: budget 8 measurements; evaluate(p, measure) costs one, evaluate(p, measure) again
// none, evaluate(p, simulate) none and no simulation either, evaluate(q, measure) of a q that does
// not fit none: its trial has fidelity memory and verdict too-big.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "eratos/agent/records.h"
#include "eratos/agent/trial.h"
#include "eratos/agent/workshop.h"
#include "eratos/base/diagnostic.h"
#include "eratos/projection/projection.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/space.h"

namespace eratos::agent {

inline constexpr int kNoLimit = -1;

struct Budget {
  int most = kNoLimit;  // 0: the fidelity is off
  int spent = 0;

  bool off() const { return most == 0; }
  bool left() const { return most == kNoLimit || spent < most; }
};

// How a call of evaluate() was answered.
enum class Answered : std::uint8_t {
  paid,         // by the oracle; the budget is charged
  filtered,     // illegal, or too big for the memory: nothing dearer was asked
  repeated,     // from the records
  no_budget,    // nothing was done: the fidelity is off or its budget spent
  no_oracle,    // nothing was done: there is nothing to measure or run with
  interrupted,  // a measurement was ended by the user; nothing was charged
  waits,        // for the log of a run that the user makes; nothing was charged
};

struct Evaluation {
  Answered how = Answered::paid;
  const Trial* trial = nullptr;  // null for the last four; stays where it is
  std::string message;           // of the last four: what is missing
};

class Session {
 public:
  // `base` is legal or not; everything else of it comes from the workshop. `records` may hold the
  // trials of a run that ended early: those are taken from it and nothing is paid twice.
  Session(Workshop& workshop, search::Space space, std::array<Budget, kFidelities> budgets,
          Records& records);

  Evaluation evaluate(const Patch& patch, Fidelity fidelity, const std::string& stage,
                      const std::string& reason);
  // A candidate of a space over the base job.
  Evaluation evaluate(const search::Space& space, const search::Candidate& at, Fidelity fidelity,
                      const std::string& stage, const std::string& reason);
  Patch patch_of(const search::Space& space, const search::Candidate& at) const;

  // Of a fidelity: how many are left, spent, allowed. Proposals: calls whose patch was illegal.
  const Budget& budget(Fidelity f) const { return budgets_[static_cast<std::size_t>(f)]; }
  int illegal_proposals() const { return illegal_; }
  int repeated_proposals() const { return repeated_; }

  const std::vector<std::unique_ptr<Trial>>& trials() const { return trials_; }
  const Trial* trial(int number) const;  // null where there is none
  // The fastest that fits: by what was measured where it was, else as projected; measured ones and
  // projected ones are not mixed: `measured` asks for the first kind. Null where there is none.
  const Trial* best(bool measured = false) const;
  const Trial* baseline() const;  // the base job as it came; null until it was asked for
  // The last trial that knows most of a job: measured before projected. Null: never tried.
  const Trial* known(const std::string& digest) const;
  TunedJobPtr job_of(const Trial& trial);  // null where it is illegal
  projection::Projection project(const TunedJob& job);

  void note(const std::string& text);
  const std::vector<std::string>& notes() const { return notes_; }

  const search::Space& space() const { return space_; }
  Workshop& workshop() { return workshop_; }
  Records& records() { return records_; }

 private:
  Evaluation keep(Trial trial, Answered how);
  const Trial* answered(const std::string& digest, Fidelity fidelity) const;
  Trial projected(const TunedJob& job, Trial trial);

  Workshop& workshop_;
  search::Space space_;
  std::array<Budget, kFidelities> budgets_;
  Records& records_;
  projection::WorkspacePtr workspace_;
  std::vector<std::unique_ptr<Trial>> trials_;
  std::unordered_map<std::string, std::vector<const Trial*>> by_digest_;
  std::vector<std::string> notes_;
  int illegal_ = 0;
  int repeated_ = 0;
};

}  // namespace eratos::agent
