// Stage 4: which few configurations are worth a measurement, and which one to run after them.
//
// The pool of candidates is what would be best if the model were wrong in one of several likely
// ways: a sweep of the space as it stands, one with each knob turned (search/knobs.h), one with
// more or less memory. After each measurement the posterior of the knobs makes new worlds, and what
// is best in those joins the pool; every candidate is projected again where the posterior stands.
// What to measure next and what to choose is search/refine.h's.
//
// Worked example: the model's optimum has 30 % of its step in traffic between nodes. Measured, it
// is 25 % slower; so is nothing else that sends little. The network's knob moves, a sweep with that
// knob finds another optimum with a wider tp and less traffic, and that is measured next.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "eratos/agent/session.h"
#include "eratos/search/refine.h"

namespace eratos::agent {

// What a run learned about a machine, for the next one.
struct Learned {
  search::Knobs mean{};
  search::Knobs sd = search::default_sds();
  double buffer_mean = 0;  // bytes that the framework holds and the model does not know, as a share
  double buffer_sd = 0;    // of the capacity; 0: nothing is known
  int measurements = 0;
};

struct NextMeasurement {
  Patch patch;
  double gain = 0;  // expected, as a share of the step
};

struct Refined {
  // Null where nothing was measured, or nothing is known to fit and nothing is safe.
  const Trial* pick = nullptr;
  std::string stopped;  // why it ended
  Learned learned;
  std::optional<NextMeasurement> next;
  int measured = 0;
  // What the model as it came, and as it was corrected, expects of the pick: seconds a step.
  double expected_step_s = 0;
  double expected_sd = 0;  // of its log
};

class Refinement {
 public:
  // `start`: candidates of the session's space from earlier stages.
  Refinement(Session& session, std::vector<search::Candidate> start, const Learned& prior = {});

  // A candidate of another space over the base job: what an investigation found.
  void add(std::shared_ptr<const search::Space> space, const search::Candidate& at);

  // The pool before anything was measured; made by run() where it was not before.
  void make_pool();
  std::vector<search::Candidate> pool() const;  // of the session's space

  // Measures until the budget of `fidelity` ends or nothing is worth it; with a budget of 0 it only
  // says what it would measure.
  Refined run(Fidelity fidelity = Fidelity::measure);

 private:
  struct Member {
    std::size_t space = 0;  // in spaces_
    search::Candidate at;
    std::string job;  // its patch: the same job may stand in two spaces
  };
  void join(std::size_t space, const search::Candidate& at);
  const search::Space& space_of(const Member& m) const { return *spaces_[m.space]; }
  job::JobSpec spec_of(const Member& m) const;
  void drop_too_big(std::size_t from);
  void search_world(const search::Knobs& theta, Bytes buffer);
  void search_likely_worlds(int round);
  void linearise();
  bool tell(const Trial& trial, std::size_t prospect);
  double tokens_of(const Member& m) const;  // of a step

  Session& session_;
  const search::Space& space_;
  std::vector<std::shared_ptr<const search::Space>> spaces_;  // the session's first
  Learned prior_;
  search::Refine refine_;
  std::vector<Member> pool_;
  bool made_ = false;
};

// Logs of the degrees to base 2, and what else makes two configurations alike.
std::vector<double> place_of(const job::JobSpec& spec);

}  // namespace eratos::agent
