// Which configurations are there? A job, and for each axis of the search the values it may take.
//
// An axis is pinned (one value), listed, or left to its default: every value that could be legal
// for this model on this cluster. A candidate is one value of every axis. The axes stand in the
// order in which a search walks them: those that change what a layer costs (degrees that cut it,
// micro-batch, formats, recomputation) outermost, so that what was worked out for one shape serves
// every pipeline, sharding and overlap around it.
//
// Letters: W accelerators, L layers, p = pp, v = vpp.
// Worked example: `tp=1,2,4 pp=2,4 rest=job` on a job is 3 * 2 = 6 candidates; `tp=1..8` is 1, 2,
// 4, 8.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/job/job.h"

namespace eratos::search {

enum class AxisId : std::uint8_t {
  precision,
  tp,
  cp,
  cp_kind,
  ep,
  etp,
  sequence_parallel,
  micro,
  dispatcher,
  fused_loss,
  recompute,
  pp,
  vpp,
  split,
  schedule,
  order,
  sharding,
  global,
  offload,
  // From here on no axis changes what screen() sees: a screen serves all of their values.
  overlap_tp,
  overlap_moe,
  overlap_p2p,
  overlap_reduce,
  overlap_gather,
  count_,
};
inline constexpr std::size_t kAxes = static_cast<std::size_t>(AxisId::count_);
inline constexpr std::size_t kScreenedAxes = static_cast<std::size_t>(AxisId::overlap_tp);

struct AxisFacts {
  AxisId id;
  std::string_view name;   // as users write it
  std::string_view alias;  // the field's other usual name; "" for none
  std::string_view what;
};

inline constexpr AxisFacts kAxisFacts[] = {
    {AxisId::precision, "precision", "", "recipe of matrix products; the job's unless it is named"},
    {AxisId::tp, "tp", "", "tensor parallel degree"},
    {AxisId::cp, "cp", "", "context parallel degree"},
    {AxisId::cp_kind, "cp_kind", "", "p2p, all_gather or a2a; the job's unless it is named"},
    {AxisId::ep, "ep", "", "expert parallel degree"},
    {AxisId::etp, "etp", "", "tensor parallel degree of experts"},
    {AxisId::sequence_parallel, "sequence_parallel", "sp", "Megatron's sequence parallelism"},
    {AxisId::micro, "micro", "mbs", "sequences a micro-batch"},
    {AxisId::dispatcher, "dispatcher", "", "how tokens reach their experts"},
    {AxisId::fused_loss, "fused_loss", "", "cross-entropy in one kernel"},
    {AxisId::recompute, "recompute", "",
     "none, selective[:module+...], full, full:K (first K layers of a virtual stage), uniform:N"},
    {AxisId::pp, "pp", "", "pipeline parallel degree"},
    {AxisId::vpp, "vpp", "", "chunks of the model a pipeline rank"},
    {AxisId::split, "split", "",
     "layers over stages: even (the framework's rule), balanced (extras in the middle), given"},
    {AxisId::schedule, "schedule", "", "order of the pipeline, auto or one the framework runs"},
    {AxisId::order, "order", "",
     "of the ranks, innermost first: tp-cp-ep-dp-pp, ...; the job's unless it is named"},
    {AxisId::sharding, "sharding", "", "none, zero1, zero2, zero3, hsdp:GROUP"},
    {AxisId::global, "global", "gbs", "sequences a step; the job's unless it is named"},
    {AxisId::offload, "offload", "", "percent of the optimizer's state on the host"},
    {AxisId::overlap_tp, "overlap.tp", "", "tensor-parallel traffic beside products"},
    {AxisId::overlap_moe, "overlap.moe_a2a", "", "expert traffic beside another micro-batch"},
    {AxisId::overlap_p2p, "overlap.p2p", "",
     "pipeline sends beside compute; the job's unless it is named"},
    {AxisId::overlap_reduce, "overlap.grad_reduce", "", "gradient reduction beside backward"},
    {AxisId::overlap_gather, "overlap.param_gather", "", "parameter gather beside forward"},
};

constexpr const AxisFacts& facts_of(AxisId axis) {
  return kAxisFacts[static_cast<std::size_t>(axis)];
}

struct Value {
  int number = 0;    // what apply() understands: a degree, an enumerator, a place in a list
  std::string word;  // as users write it
};

// Which value of each axis, by its place in the axis's list.
struct Candidate {
  std::array<std::uint8_t, kAxes> at{};

  std::uint8_t operator[](AxisId axis) const { return at[static_cast<std::size_t>(axis)]; }
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

struct Space {
  job::JobSpec base;
  std::array<std::vector<Value>, kAxes> axes;
  std::vector<job::RecomputeSpec> recomputes;  // by the number of a value; 0: the job's own
  std::array<bool, kAxes> named{};             // values, by the user: taken as they are
  struct LeftOut {
    AxisId axis;
    std::string word;
  };
  std::vector<LeftOut> left_out;  // default values that whoever made the space has dropped
  // What no file of the job's framework says, of several axes at once (reader/sayable.h).
  struct FileLimits {
    bool expert_tensor_all_or_none = false;  // etp is 1 or tp
    bool sharding_spans_cp = false;          // cp's ranks share what is sharded
  };
  FileLimits file;

  const std::vector<Value>& values(AxisId axis) const {
    return axes[static_cast<std::size_t>(axis)];
  }
  // Candidates, legal or not.
  std::uint64_t raw() const;
};

// Every axis as `words` say, the rest as they are by default. Words: `axis=a,b,...`, `axis=a..b` (a
// and its doublings up to b), `axis!=a,b` (the default without these), `axis=job` (what the job
// says), `axis=all` (the default), `axis=every` (each value of the default and those that are
// rarely worth their number: every set of recomputed modules, both orders of ranks, every HSDP
// group), `rest=job` (axes that are not named are pinned to the job). Errors, all at once: unknown
// axes and values with the nearest known, an axis said twice, an axis without a value left, more
// than 255 values, more than 1e18 candidates.
Result<Space> space_of(const job::JobSpec& base, std::span<const std::string> words);

// Puts a value into a job. `split` looks at the job's pp and vpp, `sequence_parallel` at its tp,
// which are to be there before it.
void apply(const Space& space, AxisId axis, std::size_t at, job::JobSpec& job);
// All of them.
void apply(const Space& space, const Candidate& candidate, job::JobSpec& job);

// The number of what the job itself says on an axis.
int own_number(const Space& space, AxisId axis);

// The place of the candidate in the walk, from 0 to raw() - 1, and back.
std::uint64_t index_of(const Space& space, const Candidate& candidate);
Candidate candidate_at(const Space& space, std::uint64_t index);

// Stages of equal layers, or of one more; those with more stand in the middle, so that the stages
// of the embedding and of the loss are spared. Worked example: 61 layers on 4 stages: 15, 16,
// 15, 15.
std::vector<job::StageLayout> balanced_stages(const job::JobSpec& job, int stages);

// "none", "selective:core_attention+norm", "full:4", ...; "job" for what no word says.
std::string word_of(const job::RecomputeSpec& recompute);

// An order of ranks as the number of a value, and back. Worked example: tp-cp-ep-dp-pp is the first
// of all 120, so 0; tp-cp-ep-pp-dp is 1.
using RankOrder = std::array<Axis, 5>;
int number_of(const RankOrder& order);
RankOrder order_of(int number);

}  // namespace eratos::search
