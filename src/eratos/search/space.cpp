#include "eratos/search/space.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

#include "eratos/parallel/schedules.h"

namespace eratos::search {

namespace {

// A sharding's number holds its stage and its group.
constexpr int kStages = 8;

// Innermost first, as Megatron-LM lays ranks out where nothing is said.
constexpr RankOrder kUsualOrder{Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp};

void apply_split(const Space& space, int number, job::JobSpec& job) {
  if (number == 0) {
    job.layout = space.base.layout;
    return;
  }
  job.layout = job::LayoutSpec{};
  if (number == 2) job.layout.stages = balanced_stages(job, job.parallel.pp * job.parallel.vpp);
}

}  // namespace

std::uint64_t Space::raw() const {
  std::uint64_t product = 1;
  for (const std::vector<Value>& values : axes) product *= values.size();
  return product;
}

std::vector<job::StageLayout> balanced_stages(const job::JobSpec& job, int stages) {
  const int layers = job.model.layers();
  const int extra = layers % stages;
  const int begin = (stages - extra) / 2;
  job::StageLayout fewer;
  fewer.layers = layers / stages;
  std::vector<job::StageLayout> out(static_cast<std::size_t>(stages), fewer);
  for (int i = begin; i < begin + extra; ++i) ++out[static_cast<std::size_t>(i)].layers;
  out.front().embedding = true;
  out.back().output = true;
  if (job.mtp) out.back().mtp = job.model.mtp_layers;
  return out;
}

// The factorial number system: of the axes that are left, how many stand before the next one.
int number_of(const RankOrder& order) {
  RankOrder left = kUsualOrder;
  int number = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto begin = left.begin() + static_cast<std::ptrdiff_t>(i);
    const auto next = std::find(begin, left.end(), order[i]);
    number = number * static_cast<int>(order.size() - i) + static_cast<int>(next - begin);
    std::rotate(begin, next, next + 1);
  }
  return number;
}

RankOrder order_of(int number) {
  std::array<int, std::tuple_size_v<RankOrder>> digits{};
  for (std::size_t i = digits.size(); i-- > 0;) {
    const int radix = static_cast<int>(digits.size() - i);
    digits[i] = number % radix;
    number /= radix;
  }
  RankOrder out = kUsualOrder;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto begin = out.begin() + static_cast<std::ptrdiff_t>(i);
    std::rotate(begin, begin + digits[i], begin + digits[i] + 1);
  }
  return out;
}

void apply(const Space& space, AxisId axis, std::size_t at, job::JobSpec& job) {
  const int n = space.values(axis)[at].number;
  switch (axis) {
    case AxisId::precision:
      job.precision = static_cast<job::Recipe>(n);
      return;
    case AxisId::tp:
      job.parallel.tp = n;
      return;
    case AxisId::cp:
      job.parallel.cp = n;
      return;
    case AxisId::cp_kind:
      job.parallel.cp_kind = static_cast<parallel::CpKind>(n);
      return;
    case AxisId::ep:
      job.parallel.ep = n;
      return;
    case AxisId::etp:
      job.parallel.etp = n;
      return;
    case AxisId::sequence_parallel:
      // Frameworks turn it off at tp 1.
      job.parallel.sequence_parallel = n != 0 && job.parallel.tp > 1;
      return;
    case AxisId::micro:
      job.batch.micro = n;
      return;
    case AxisId::dispatcher:
      job.routing.dispatcher = static_cast<job::Dispatcher>(n);
      return;
    case AxisId::fused_loss:
      job.loss_fused = n != 0;
      return;
    case AxisId::recompute:
      job.recompute = space.recomputes[static_cast<std::size_t>(n)];
      return;
    case AxisId::pp:
      job.parallel.pp = n;
      return;
    case AxisId::vpp:
      job.parallel.vpp = n;
      return;
    case AxisId::split:
      apply_split(space, n, job);
      return;
    case AxisId::schedule:
      job.schedule.algorithm = n < 0 ? std::string_view("auto") : parallel::kScheduleFacts[n].name;
      return;
    case AxisId::order:
      job.parallel.order = order_of(n);
      return;
    case AxisId::sharding:
      job.parallel.sharding = static_cast<parallel::Sharding>(n % kStages);
      job.parallel.hsdp_group = n / kStages;
      return;
    case AxisId::global:
      job.batch.global = n;
      return;
    case AxisId::offload:
      job.offload.optimizer = n / 100.0;
      return;
    case AxisId::overlap_tp:
      job.overlap.tp = n != 0;
      return;
    case AxisId::overlap_moe:
      job.overlap.moe_a2a = n != 0;
      return;
    case AxisId::overlap_p2p:
      job.overlap.p2p = n != 0;
      return;
    case AxisId::overlap_reduce:
      job.overlap.grad_reduce = n != 0;
      return;
    case AxisId::overlap_gather:
      job.overlap.param_gather = n != 0;
      return;
    case AxisId::count_:
      return;
  }
}

void apply(const Space& space, const Candidate& candidate, job::JobSpec& job) {
  for (std::size_t i = 0; i < kAxes; ++i) {
    apply(space, static_cast<AxisId>(i), candidate.at[i], job);
  }
}

std::uint64_t index_of(const Space& space, const Candidate& candidate) {
  std::uint64_t index = 0;
  for (std::size_t i = 0; i < kAxes; ++i) index = index * space.axes[i].size() + candidate.at[i];
  return index;
}

Candidate candidate_at(const Space& space, std::uint64_t index) {
  Candidate out;
  for (std::size_t i = kAxes; i-- > 0;) {
    out.at[i] = static_cast<std::uint8_t>(index % space.axes[i].size());
    index /= space.axes[i].size();
  }
  return out;
}

}  // namespace eratos::search
