// Spellings of links and topologies, for reading and writing alike.
#pragma once

#include "eratos/hardware/cluster.h"
#include "eratos/reader/fields.h"

namespace eratos::reader {

inline constexpr Name<hardware::LinkKind> kLinks[] = {
    {"nvlink", hardware::LinkKind::nvlink},       {"xgmi", hardware::LinkKind::xgmi},
    {"pcie", hardware::LinkKind::pcie},           {"infiniband", hardware::LinkKind::infiniband},
    {"roce", hardware::LinkKind::roce},           {"efa", hardware::LinkKind::efa},
    {"slingshot", hardware::LinkKind::slingshot}, {"ethernet", hardware::LinkKind::ethernet},
    {"torus", hardware::LinkKind::torus},         {"other", hardware::LinkKind::other},
};
inline constexpr Name<hardware::Topology> kTopologies[] = {
    {"switch", hardware::Topology::fabric_switch},
    {"mesh", hardware::Topology::mesh},
    {"pcie", hardware::Topology::pcie},
    {"torus", hardware::Topology::torus},
};

template <class E, std::size_t N>
std::string name_in(E value, const Name<E> (&names)[N]) {
  for (const auto& [name, each] : names) {
    if (each == value) return std::string(name);
  }
  return "?";
}

}  // namespace eratos::reader
