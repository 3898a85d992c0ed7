#include "eratos/parallel/parallel.h"

#include <algorithm>

namespace eratos::parallel {

namespace {

// Ranks inside `axis` in the dense layout: the product of the dense axes that stand before it.
int dense_stride(const ParallelSpec& spec, Axis axis) {
  int stride = 1;
  for (const Axis a : spec.order) {
    if (a == axis) return stride;
    if (a == Axis::tp) stride *= spec.tp;
    if (a == Axis::cp) stride *= spec.cp;
    if (a == Axis::dp) stride *= spec.dp;
    if (a == Axis::pp) stride *= spec.pp;
  }
  return stride;
}

// The same for the expert layout, where tp is etp, cp is absent and dp is edp.
int expert_stride(const ParallelSpec& spec, Axis axis) {
  int stride = 1;
  for (const Axis a : spec.order) {
    if (a == Axis::tp) {
      if (axis == Axis::etp) return stride;
      stride *= spec.etp;
    }
    if (a == Axis::ep) {
      if (axis == Axis::ep) return stride;
      stride *= spec.ep;
    }
    if (a == Axis::dp) {
      if (axis == Axis::edp) return stride;
      stride *= spec.edp();
    }
    if (a == Axis::pp) stride *= spec.pp;
  }
  return stride;
}

}  // namespace

std::string_view name_of(OutputLayer o) {
  switch (o) {
    case OutputLayer::last_stage:
      return "last-stage";
    case OutputLayer::two_barriers:
      return "two-barriers";
    case OutputLayer::one_barrier:
      return "one-barrier";
    case OutputLayer::interlaced:
      return "interlaced";
  }
  return "?";
}

Group group_of(const ParallelSpec& spec, Axis axis) {
  switch (axis) {
    case Axis::tp:
      return {spec.tp, dense_stride(spec, Axis::tp)};
    case Axis::cp:
      return {spec.cp, dense_stride(spec, Axis::cp)};
    case Axis::dp:
      return {spec.dp, dense_stride(spec, Axis::dp)};
    case Axis::pp:
      return {spec.pp, dense_stride(spec, Axis::pp)};
    case Axis::ep:
      return {spec.ep, expert_stride(spec, Axis::ep)};
    case Axis::etp:
      return {spec.etp, expert_stride(spec, Axis::etp)};
    case Axis::edp:
      return {spec.edp(), expert_stride(spec, Axis::edp)};
    case Axis::tp_cp:
      return {spec.tp * spec.cp,
              std::min(dense_stride(spec, Axis::tp), dense_stride(spec, Axis::cp))};
    case Axis::dp_cp:
      return {spec.dp * spec.cp,
              spec.cp > 1 ? std::min(dense_stride(spec, Axis::dp), dense_stride(spec, Axis::cp))
                          : dense_stride(spec, Axis::dp)};
    case Axis::hsdp_shard: {
      const Group whole = group_of(spec, Axis::dp_cp);
      return {spec.hsdp_group > 0 ? std::min(spec.hsdp_group, whole.size) : whole.size,
              whole.stride};
    }
    case Axis::hsdp_replica: {
      const Group whole = group_of(spec, Axis::dp_cp);
      const Group shard = group_of(spec, Axis::hsdp_shard);
      return {whole.size / shard.size, whole.stride * shard.size};
    }
  }
  return {};
}

int members_in_domain(Group group, int domain) {
  return std::clamp(domain / std::max(1, group.stride), 1, group.size);
}

}  // namespace eratos::parallel
