// Stage 5: what to run, how sure that is, and what it stands on.
//
// The winner is what was measured fastest, or foreseen fastest by what the measurements taught
// (refinement.h); without a measurement it is the best by the model. Its projected figures have the
// bands of runs like it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "eratos/agent/refinement.h"
#include "eratos/agent/scripted.h"
#include "eratos/agent/seeds.h"
#include "eratos/agent/session.h"
#include "eratos/search/around.h"
#include "eratos/search/difference.h"
#include "eratos/text/tree.h"

namespace eratos::agent {

// A stage of the run: what it did, or why it did nothing.
struct Stage {
  std::string name;
  bool on = false;
  std::string what;
  int trials = 0;
};

// Of two trials the share by which the first is faster, and between which ends: most of what the
// model gets wrong of the one it gets wrong of the other (search/refine.h, deviation_between).
struct Ahead {
  const Trial* of = nullptr;
  double gain = 0;
  double low = 0;  // 8 of 10 lie between
  double high = 0;
  bool measured = false;  // both by a device: no band then
};

struct Answer {
  const Session* session = nullptr;
  const Trial* winner = nullptr;           // null: nothing fits
  const Trial* baseline = nullptr;         // the job as it came
  const Trial* best_baseline = nullptr;    // it, or the fastest near it that fits
  std::optional<Ahead> ahead_of_baseline;  // where that could run
  std::optional<Ahead> ahead_of_best_baseline;
  std::vector<Stage> stages;
  Seeds seeds;
  std::optional<Refined> refined;
  // Against the proven optimum of the model: how far the winner's projection is behind; where the
  // space was searched.
  std::optional<double> behind_optimum;
  std::vector<std::string> changes;                 // "parallel.tp: 1 -> 4"
  std::vector<search::Contribution> contributions;  // from the best baseline; empty where unknown
  std::vector<search::StepAway> sensitivity;        // around the winner, the best first
  std::vector<search::Loss> losses;
  bool interrupted = false;
};

// `winner`: of another stage (a language model's own choice that was checked), or null: chosen
// here.
Answer answer_of(Session& session, std::vector<Stage> stages, Seeds seeds,
                 std::optional<Refined> refined, const Trial* winner = nullptr);

// summary.json: equal answers are equal bytes; no clock is in it.
text::Node summary_node(const Answer& answer);

}  // namespace eratos::agent
