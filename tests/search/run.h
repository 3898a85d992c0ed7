// What the tests of searches share: a method run to its end, spaces drawn at random, and every
// candidate of a space by itself.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "eratos/base/rng.h"
#include "eratos/job/job.h"
#include "eratos/model/architecture.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/legality.h"
#include "eratos/search/method.h"
#include "eratos/search/objective.h"
#include "eratos/search/space.h"

namespace eratos::search {

// Sees each batch before the method is told.
using Look = std::function<void(std::span<const Ask>, std::span<Tell>)>;

// Ask i goes to the i-th of the evaluators in turn, the last ask first. In two batches of three the
// method works ahead.
inline Outcome run(Method& method, std::span<Evaluator* const> evaluators, const Look& look = {}) {
  std::vector<Tell> tells;
  for (int batch = 0;; ++batch) {
    const std::span<const Ask> asks = method.ask();
    if (asks.empty()) return method.outcome();
    tells.assign(asks.size(), {});
    if (batch % 3 != 0) method.prepare();
    for (std::size_t i = asks.size(); i-- > 0;) {
      tells[i] = evaluators[i % evaluators.size()]->answer(asks[i]);
    }
    if (look) look(asks, tells);
    method.tell(tells);
  }
}

inline Outcome run(Method& method, Evaluator& evaluator, const Look& look = {}) {
  Evaluator* one = &evaluator;
  return run(method, {&one, 1}, look);
}

inline Outcome run(Method& method, const Space& space, const Aim& aim, Evaluator& evaluator) {
  return run(method, evaluator, [&](std::span<const Ask> asks, std::span<Tell> tells) {
    for (std::size_t i = 0; i < asks.size(); ++i) judge(aim, space, asks[i], tells[i]);
  });
}

// A few values of a few axes around a random legal job, of `least` candidates or more.
inline std::vector<std::string> few_axes(const job::JobSpec& s, Rng& rng, std::uint64_t least) {
  const char* choices[] = {"tp=1,2,4",
                           "pp=1,2,4",
                           "cp=1,2",
                           "vpp=1,2,3",
                           "mbs=1,2,4",
                           "sharding=none,zero1,zero3",
                           "recompute=none,selective,full,full:2",
                           "split=even,balanced",
                           "sp=true,false",
                           "offload=0,100",
                           "overlap.tp=true,false",
                           "overlap.grad_reduce=true,false",
                           "overlap.param_gather=true,false",
                           "schedule=auto,gpipe,zb-h1",
                           "gbs=job,64,128"};
  std::vector<std::string> out{"rest=job"};
  std::uint64_t product = 1;
  if (model::is_moe(s.model) && rng.below(2) == 0) out.emplace_back("ep=1,2,8");
  while (product < least) {
    const std::string word = choices[rng.below(std::size(choices))];
    const bool there = std::any_of(out.begin(), out.end(), [&](const std::string& w) {
      return w.substr(0, w.find('=')) == word.substr(0, word.find('='));
    });
    if (there) continue;
    product *= static_cast<std::uint64_t>(std::count(word.begin(), word.end(), ',')) + 1;
    out.push_back(word);
  }
  return out;
}

// Every candidate that no rule refuses.
template <class Visit>
void for_each_legal(const Space& space, Visit visit) {
  const std::vector<const Rule*> asked = rules_of(space);
  const auto scratch = std::make_unique<job::CheckedJob>();
  for (std::uint64_t i = 0; i < space.raw(); ++i) {
    const Candidate at = candidate_at(space, i);
    job::JobSpec job = space.base;
    apply(space, at, job);
    const bool refused = std::any_of(asked.begin(), asked.end(), [&](const Rule* r) {
      return r->refuses({space, at, job, *scratch});
    });
    if (!refused) visit(at);
  }
}

}  // namespace eratos::search
