#include "eratos/reader/decode.h"
#include "eratos/reader/fields.h"
#include "eratos/reader/hardware_names.h"
#include "eratos/reader/ranges.h"

namespace eratos::reader {

namespace {

using hardware::kMostAccelerators;

constexpr Name<int> kKinds[] = {{"gpu", 0}, {"tpu", 1}, {"npu", 2}, {"cpu", 3}};
constexpr Name<int> kConfidence[] = {{"high", 0}, {"medium", 1}, {"low", 2}};

// Wide: a thousandth of the smallest and a thousand times the largest part of the catalogue, or
// more.
constexpr Range kRanges[] = {
    {"compute_units", 1, 1e6, ""},
    {"clock_hz", 1e6, 1e12, "Hz"},
    {"peak_flops_per_s.*", 1e9, 1e19, "FLOP/s", true},
    {"memory.nominal_bytes", 1e6, 1e15, "bytes"},
    {"memory.visible_bytes", 1e6, 1e15, "bytes"},
    {"memory.bandwidth_bytes_per_s", 1e8, 1e17, "bytes/s"},
    {"cache.l2_bytes", 1e3, 1e13, "bytes", true},
    {"cache.last_level_bytes", 1e3, 1e13, "bytes", true},
    {"shared_memory_per_unit_bytes", 1, 1e12, "bytes", true},
    {"power_w", 1, 1e6, "W"},
    {"scale_up.bandwidth_bytes_per_s", 1e7, 1e16, "bytes/s"},
    {"scale_up.domain_gpus", 1, kMostAccelerators, ""},
    {"host_link_bytes_per_s", 1e7, 1e16, "bytes/s", true},
    {"nic_bytes_per_s", 1e6, 1e16, "bytes/s", true},
    {"gpus_per_node", 1, kMostAccelerators, ""},
};

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
  if (links.exists() && links.need("link") != nullptr) {
    links.read_name("link", part.scale_up.link, kLinks);
  }
  links.read("in_switch_reduction", part.scale_up.in_switch_reduction);
  links.finish();

  top.read("host_link_bytes_per_s", part.host_link);
  top.read("nic_bytes_per_s", part.nic_per_gpu);
  top.read_name("nic_link", part.nic_link, kLinks);
  top.read("any_layout_fp8", part.any_layout_fp8);
  top.read("power_w", part.board_power_w);
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
  for (const char* key : {"shared_memory_per_unit_bytes", "notes"}) top.skip(key);
  top.finish();
  check_ranges(root, "", kRanges, bad);
  if (!bad.empty()) return faults(std::move(bad));
  return part;
}

}  // namespace eratos::reader
