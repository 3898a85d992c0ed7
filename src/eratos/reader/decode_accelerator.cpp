#include "eratos/reader/decode.h"
#include "eratos/reader/fields.h"

namespace eratos::reader {

namespace {

constexpr Name<hardware::Topology> kTopologies[] = {
    {"switch", hardware::Topology::fabric_switch},
    {"mesh", hardware::Topology::mesh},
    {"pcie", hardware::Topology::pcie},
    {"torus", hardware::Topology::torus},
};
constexpr Name<int> kKinds[] = {{"gpu", 0}, {"tpu", 1}, {"npu", 2}};
constexpr Name<int> kConfidence[] = {{"high", 0}, {"medium", 1}, {"low", 2}};

}  // namespace

Result<hardware::AcceleratorSpec> decode_accelerator(const text::Node& root) {
  Diagnostics bad;
  hardware::AcceleratorSpec part;
  Fields top(&root, "", bad);
  top.require("name", part.name);
  top.read("aliases", part.aliases);
  top.require("vendor", part.vendor);
  top.require("architecture", part.architecture);
  int ignored = 0;
  if (top.read_name("kind", ignored, kKinds)) top.read("kind", part.kind);
  top.read("compute_units", part.compute_units);
  top.read("clock_hz", part.clock_hz);

  Fields peaks = top.child("peak_flops_per_s");
  for (const DType t :
       {DType::fp32, DType::tf32, DType::fp16, DType::bf16, DType::fp8, DType::fp4}) {
    peaks.read(name_of(t), part.peak[static_cast<std::size_t>(t)]);
  }
  peaks.finish();

  Fields memory = top.child("memory");
  memory.require("nominal_bytes", part.memory_nominal.value);
  memory.require("visible_bytes", part.memory_visible.value);
  memory.require("bandwidth_bytes_per_s", part.memory_bandwidth.value);
  memory.finish();

  Fields cache = top.child("cache");
  cache.read("l2_bytes", part.l2_cache);
  cache.read("last_level_bytes", part.last_level_cache);
  cache.finish();

  Fields links = top.child("scale_up");
  links.require("bandwidth_bytes_per_s", part.scale_up.bandwidth.value);
  links.require("domain_gpus", part.scale_up.domain_gpus);
  links.read_name("topology", part.scale_up.topology, kTopologies);
  links.finish();

  top.read("host_link_bytes_per_s", part.host_link);
  top.read("nic_bytes_per_s", part.nic_per_gpu);
  top.require("gpus_per_node", part.gpus_per_node);
  if (top.read_name("confidence", ignored, kConfidence)) top.read("confidence", part.confidence);
  top.read("borrowed", part.borrowed);

  if (const text::Node* sources = top.need("sources"); sources != nullptr) {
    for (const text::Entry& entry : sources->entries()) {
      if (!part.source.empty()) part.source += "; ";
      part.source += entry.key + ": " + entry.value.raw();
    }
  }
  // Described for people; nothing is computed from them.
  for (const char* key : {"shared_memory_per_unit_bytes", "power_w", "notes"}) top.skip(key);
  top.finish();
  if (!bad.empty()) return faults(std::move(bad));
  return part;
}

}  // namespace eratos::reader
