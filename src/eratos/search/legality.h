// Which candidates may be run, and who says so? One rule, one function, with its reason and source.
//
// A rule says which axes it reads, so that a walk asks it as soon as those are set. Three grounds:
//   job        what job::check() and the schedule's own refusal() say. No rule of this ground
//   refuses
//              a job that those accept, and what no rule refuses they accept (tests/search).
//   framework  what the framework refuses or never does though the job could be projected. A rule
//   that
//              the user's own job breaks is left out: that user's framework does it.
//   repeat     the candidate is the same job as another one, which stands for it: a switch of
//   traffic
//              that does not exist. Only where the first value of its axis is another.
//
// Worked example: tp 3 on 8 accelerators is refused by `world-size`; sequence_parallel true at tp 1
// by `sp-needs-tp` as the repeat of false.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/job/job.h"
#include "eratos/search/space.h"

namespace eratos::search {

using AxisSet = std::uint32_t;
constexpr AxisSet axis_bit(AxisId a) { return AxisSet{1} << static_cast<unsigned>(a); }
constexpr AxisSet axes(std::initializer_list<AxisId> list) {
  AxisSet out = 0;
  for (const AxisId a : list) out |= axis_bit(a);
  return out;
}

// A candidate whose first axes are set, as a rule sees it.
struct Partial {
  const Space& space;
  const Candidate& at;
  const job::JobSpec& job;
  job::CheckedJob& scratch;  // for rules that place layers
};

enum class Ground : std::uint8_t { job, framework, repeat };
std::string_view name_of(Ground g);

struct Rule {
  std::string_view name;
  Ground ground = Ground::job;
  AxisSet reads = 0;
  bool (*refuses)(const Partial&) = nullptr;
  std::string_view reason;  // what is asked for, in the letters of docs/NOTATION.md
  std::string_view source;
};

// All of them, in the order in which they are asked where several can be.
std::span<const Rule> rules();

// Those that hold for this space: without the framework's that its own job breaks.
std::vector<const Rule*> rules_of(const Space& space);

// What is wrong with the job whatever the axes say: the model, the cluster, the numbers around
// them.
Diagnostics fixed_faults(const job::JobSpec& base);

}  // namespace eratos::search
