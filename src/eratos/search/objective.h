// What is a search after? One of six figures of a configuration, limits on any of them, and fronts
// of two or three.
//
// Methods know none of this: they minimise a Tell's `figure` and take nothing that a limit is
// against. judge() puts both into what the model answered. Of a screen it makes bounds: seconds and
// busy seconds are bounds from below there and bytes exact, every figure grows with each of them,
// so no figure promises less than the simulation will find, and a limit that refuses the bound
// refuses the candidate.
//
// Letters: W accelerators, f seconds of a step for each token of its batch, N tokens to train on,
// u the useful share of the time (goodput.h).
//
// Worked example: W 64, f 12 us, price 2 an hour: 1 / (12e-6 * 64) = 1302 tokens/s/GPU; 1e12 tokens
// take 12e6 s = 138.9 days and cost 2 * 64 * 12e-6 / 3600 = 4.27e-7 a token, 426,667 in all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/hardware/cluster.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/goodput.h"
#include "eratos/search/method.h"
#include "eratos/search/space.h"

namespace eratos::search {

enum class Objective : std::uint8_t { throughput, step_time, train_time, cost, energy, headroom };
inline constexpr std::size_t kObjectives = 6;

struct ObjectiveFacts {
  Objective id;
  std::string_view key;    // as users write it
  std::string_view alias;  // other spellings, between blanks
  std::string_view json;   // its key in answers; the unit is the last word
  bool more_is_better;
  std::string_view what;
};
inline constexpr ObjectiveFacts kObjectiveFacts[kObjectives] = {
    {Objective::throughput, "tokens/s/GPU", " throughput tokens_per_s_per_gpu ",
     "tokens_per_s_per_gpu", true, "tokens a second and accelerator"},
    {Objective::step_time, "step_time", " step step_s ", "step_s", false, "seconds of one step"},
    {Objective::train_time, "train_time", " days time train_s ", "train_s", false,
     "time to train on --tokens, failures included where --mtbf is said"},
    {Objective::cost, "cost", " cost_per_token ", "cost_per_token", false,
     "price of one token: accelerators, time, --price"},
    {Objective::energy, "energy", " energy_per_token energy_j_per_token ", "energy_j_per_token",
     false, "joules of one token"},
    {Objective::headroom, "headroom", " memory headroom_bytes ", "headroom_bytes", true,
     "bytes that stay free on the fullest accelerator, beyond the margin"},
};
constexpr const ObjectiveFacts& facts_of(Objective objective) {
  return kObjectiveFacts[static_cast<std::size_t>(objective)];
}
// Errors: unknown, with the nearest known.
Result<Objective> objective_of(std::string_view word);

// Watts of one accelerator, its share of the host and of the building included.
// Source: form of the model: computing at one power and waiting at another, arXiv 2312.06902
// (Perseus), section 3; arXiv 2508.14318: GPUs of training jobs draw power near their limit while
// they compute and near idle while they wait for communication.
struct Power {
  double load_w = 0;  // 0: not known
  double idle_w = 0;
};
// What the cluster's owner says, else the part's board power under load.
// Assumes: an accelerator that computes draws its board power.
// Assumes: an accelerator that waits with its memory in use draws a fifth of its board power.
// Source: of the fifth: wilicc/gpu-burn issue 114, eight H100 with 71 GiB in use and 0 to 4 %
// utilisation at 140 to 145 W of 700 W; without a process public printouts have 68 to 74 W.
inline constexpr double kIdleShare = 0.2;
Power power_of(const hardware::ClusterSpec& cluster);

// What turns seconds, busy seconds and bytes into figures: of one cluster.
struct Terms {
  int gpus = 1;
  Bytes capacity;                 // of an accelerator, less the margin
  double tokens = 0;              // to train on; 0: not said
  double price_per_gpu_hour = 0;  // 0: not said
  Power power;
  Goodput goodput;
};

// One candidate; of a screen bounds from below, and bytes that are exact.
struct Measures {
  double per_token = 0;  // f
  double busy = 0;       // seconds that an accelerator computes, a token of the batch
  double batch = 0;      // tokens of a step
  Bytes device_peak;
};

// The figure in SI units, as answers print it: tokens/s, s, s, price, J, bytes.
double value_of(Objective objective, const Terms& terms, const Measures& m);
// What a method minimises: the figure, or where more is better what falls as it rises: seconds a
// token for throughput, bytes held for headroom.
double figure_of(Objective objective, const Terms& terms, const Measures& m);
// "" when the figure can be worked out; else what is missing and where to say it.
std::string missing_for(Objective objective, const Terms& terms, const std::string& part);

// A limit on one figure, "headroom>=8GiB": from below where more is better, else from above.
struct Limit {
  Objective objective = Objective::throughput;
  double value = 0;  // SI
  std::string text;  // as the user wrote it
};
// Is a value beyond it?
bool refuses(const Limit& limit, double value);

struct Aim {
  Objective objective = Objective::throughput;
  std::vector<Limit> limits;
  // Two or three, or none. Bytes count in whole GiB there, so that neighbours that differ by a
  // megabyte do not crowd it.
  std::vector<Objective> front;
  Terms terms;
};

Measures measures_of(const Space& space, const Candidate& at, const Tell& tell);
Measures measures_of(const Space& space, const Found& found);
// Puts the aim's figures into what the model answered. Of a bound the axes that are open may be
// anything: its step is one of the smallest batch.
void judge(const Aim& aim, const Space& space, const Ask& ask, Tell& tell);

}  // namespace eratos::search
