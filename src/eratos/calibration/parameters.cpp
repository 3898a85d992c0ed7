#include "eratos/calibration/parameters.h"

#include <cstddef>

namespace eratos::calibration {

namespace {

using framework::FrameworkProfile;

template <DType T>
double& in_training(PartCalibration& p) {
  return p.gemm[static_cast<std::size_t>(T)].in_training;
}

constexpr std::string_view kClocks =
    "clocks under the power limit of a whole step, which one kernel alone does not reach";
constexpr std::string_view kClocksSource =
    "0.66 to 0.95 over the parts of data/calibrations; runs of one part on three frameworks agree "
    "within 5%, of one part in two rooms within 8% (docs/ACCURACY.md, by accelerator)";
constexpr std::string_view kShares =
    "what is hidden is decided by bucket sizes, streams and the order of launches";
constexpr std::string_view kSharesSource =
    "0.4 to 0.9 over the profiles of data/frameworks; a share is at most 1";
constexpr std::string_view kLogits = "how many passes the loss makes over the logits, and how wide";
constexpr std::string_view kLogitsSource =
    "a fused loss reads and writes 16-bit logits and gradients twice: 8 bytes; 80 when every "
    "operation of a torch loss in fp32 is a pass (docs/model/kernels.md)";
constexpr std::string_view kPython =
    "its Python, hooks and autograd, on a host of the user's own speed";
constexpr std::string_view kPythonSource =
    "5 us a launch (Transformer Engine) to 18 us (eager torch) in dgxc-benchmarking traces, 41 us "
    "for torch 2.0 on older hosts; hosts differ by a factor of two in single-thread speed";

template <DType T>
constexpr Parameter training(std::string_view path) {
  return {.path = path,
          .owner = Owner::part,
          .least = 0.4,
          .most = 1.0,
          .spread = 0.1,
          .why = kClocks,
          .source = kClocksSource,
          .in_part = &in_training<T>};
}

using Field = double& (*)(FrameworkProfile&);

constexpr Parameter share(std::string_view path, Field field) {
  return {.path = path,
          .least = 0.02,
          .most = 1.0,
          .spread = 0.25,
          .why = kShares,
          .source = kSharesSource,
          .in_framework = field};
}

constexpr Parameter cost(std::string_view path, double least, double most, Field field) {
  return {.path = path,
          .least = least,
          .most = most,
          .spread = 0.35,
          .why = kPython,
          .source = kPythonSource,
          .in_framework = field};
}

constexpr Parameter traffic(std::string_view path, Field field) {
  return {.path = path,
          .least = 4,
          .most = 160,
          .spread = 0.3,
          .why = kLogits,
          .source = kLogitsSource,
          .in_framework = field};
}

constexpr Parameter kParameters[] = {
    traffic("loss.unfused_traffic_bytes_per_logit",
            [](FrameworkProfile& p) -> double& { return p.loss.unfused_traffic_per_logit; }),
    traffic("loss.fused_traffic_bytes_per_logit",
            [](FrameworkProfile& p) -> double& { return p.loss.fused_traffic_per_logit; }),
    cost("host.per_kernel_s", 5e-7, 1e-4,
         [](FrameworkProfile& p) -> double& { return p.host.per_kernel.value; }),
    cost("host.per_layer_s", 1e-5, 1e-2,
         [](FrameworkProfile& p) -> double& { return p.host.per_layer.value; }),
    cost("host.per_layer_tp_across_nodes_s", 1e-5, 1e-2,
         [](FrameworkProfile& p) -> double& { return p.host.per_layer_tp_across_nodes.value; }),
    cost("host.per_micro_batch_s", 1e-5, 5e-2,
         [](FrameworkProfile& p) -> double& { return p.host.per_micro_batch.value; }),
    cost("host.per_layer_tp_each_node_s", 5e-6, 5e-3,
         [](FrameworkProfile& p) -> double& { return p.host.per_layer_tp_each_node.value; }),
    cost("host.per_gathered_piece_s", 2e-7, 1e-3,
         [](FrameworkProfile& p) -> double& { return p.host.per_gathered_piece.value; }),
    cost("host.per_moe_router_s", 1e-5, 3e-2,
         [](FrameworkProfile& p) -> double& { return p.host.per_moe_router.value; }),
    cost("host.per_moe_wait_s", 1e-5, 3e-2,
         [](FrameworkProfile& p) -> double& { return p.host.per_moe_wait.value; }),
    cost("host.per_moe_overlap_s", 1e-5, 3e-2,
         [](FrameworkProfile& p) -> double& { return p.host.per_moe_overlap.value; }),
    cost("host.per_local_expert_s", 1e-6, 1e-3,
         [](FrameworkProfile& p) -> double& { return p.host.per_local_expert.value; }),
    cost("host.per_recompute_s", 1e-5, 1e-2,
         [](FrameworkProfile& p) -> double& { return p.host.per_recompute.value; }),
    cost("host.per_blocking_send_s", 1e-5, 2e-2,
         [](FrameworkProfile& p) -> double& { return p.host.per_blocking_send.value; }),
    cost("host.per_step_s", 1e-4, 10,
         [](FrameworkProfile& p) -> double& { return p.host.per_step.value; }),
    cost("host.per_moe_layer_s", 1e-5, 1e-1,
         [](FrameworkProfile& p) -> double& { return p.host.per_moe_layer.value; }),
    {.path = "host.overlap_exponent",
     .least = 1.5,
     .most = 12,
     .spread = 0.3,
     .why = "how sharply a step turns from host-bound to device-bound",
     .source = "1 adds host and device, infinity takes the longer: 2.8 and 6 in data/frameworks",
     .in_framework = [](FrameworkProfile& p) -> double& { return p.host.overlap_exponent; }},
    {.path = "host.tp_overlap_exponent",
     .least = 1.2,
     .most = 12,
     .spread = 0.3,
     .why = "the same where ranks of a tensor-parallel group wait for one another's hosts",
     .source = "below overlap_exponent: what one host is late adds to what another is",
     .in_framework = [](FrameworkProfile& p) -> double& { return p.host.tp_overlap_exponent; }},
    share("overlap.tp_share", [](FrameworkProfile& p) -> double& { return p.overlap.tp_share; }),
    share("overlap.dp_share", [](FrameworkProfile& p) -> double& { return p.overlap.dp_share; }),
    share("overlap.fsdp_share",
          [](FrameworkProfile& p) -> double& { return p.overlap.fsdp_share; }),
    share("overlap.ep_share", [](FrameworkProfile& p) -> double& { return p.overlap.ep_share; }),
    share("overlap.pp_exposed",
          [](FrameworkProfile& p) -> double& { return p.overlap.pp_exposed; }),
    {.path = "kernel.matrix",
     .least = 0.5,
     .most = 1.0,
     .spread = 0.05,
     .why = "products that its own code makes slower than the library's",
     .source = "0.96 in one profile of data/frameworks, 1 in all others",
     .in_framework = [](FrameworkProfile& p) -> double& { return p.kernel.matrix; }},
    {.path = "kernel.narrow_matrix",
     .least = 0.5,
     .most = 1.0,
     .spread = 0.07,
     .why = "8- and 4-bit products of the library that its generation shipped with",
     .source = "0.9 for libraries before late 2025 in data/frameworks, 1 since",
     .in_framework = [](FrameworkProfile& p) -> double& { return p.kernel.narrow_matrix; }},
    {.path = "kernel.attention",
     .least = 0.3,
     .most = 1.1,
     .spread = 0.12,
     .why = "which implementation it calls, and its masks",
     .source = "0.54 (Triton) to 0.9 (cuDNN, CK) over the profiles of data/frameworks",
     .in_framework = [](FrameworkProfile& p) -> double& { return p.kernel.attention; }},
    {.path = "kernel.memory_bound",
     .least = 0.25,
     .most = 1.1,
     .spread = 0.15,
     .why = "how well its norms, activations and casts are written",
     .source = "0.48 (a kernel an operation) to 0.93 (fused) over the profiles of data/frameworks",
     .in_framework = [](FrameworkProfile& p) -> double& { return p.kernel.memory_bound; }},
    {.path = "kernel.collective",
     .least = 0.3,
     .most = 1.1,
     .spread = 0.1,
     .why = "few large or many small buffers, and channels left to the kernels beside them",
     .source = "0.71 to 1 over the profiles of data/frameworks",
     .in_framework = [](FrameworkProfile& p) -> double& { return p.kernel.collective; }},
    {.path = "kernel.network_decay",
     .least = 0.01,
     .most = 1.0,
     .spread = 0.4,
     .why = "collectives across many nodes without a tuned plug-in or topology",
     .source = "0.26 in one profile of data/frameworks; 1 would halve the rate with every doubling",
     .in_framework = [](FrameworkProfile& p) -> double& { return p.kernel.network_decay; }},
    {.path = "kernel.attention_sinks",
     .least = 0.1,
     .most = 1.0,
     .spread = 0.25,
     .why = "what a learned logit a head costs its attention kernel",
     .source = "0.22 (no kernel of its own) and 0.38 in data/frameworks",
     .in_framework = [](FrameworkProfile& p) -> double& { return p.kernel.attention_sinks; }},
    {.path = "kernel.per_group_s",
     .least = 5e-7,
     .most = 1e-4,
     .spread = 0.35,
     .why = "stacks that launch a product for each group of a grouped product",
     .source = "9 us in data/frameworks: about two launches",
     .in_framework = [](FrameworkProfile& p) -> double& { return p.kernel.per_group.value; }},
    training<DType::bf16>("gemm.bf16.in_training"),
    training<DType::fp16>("gemm.fp16.in_training"),
    training<DType::fp8>("gemm.fp8.in_training"),
    training<DType::fp4>("gemm.fp4.in_training"),
    training<DType::tf32>("gemm.tf32.in_training"),
    training<DType::fp32>("gemm.fp32.in_training"),
    {.path = "network.share",
     .owner = Owner::part,
     .least = 0.05,
     .most = 1.0,
     .spread = 0.25,
     .why = "what the room's network cards, cables and switches leave of their nominal rate",
     .source = "0.81 to 0.95 measured on three networks (collective/context.cpp); untuned ones are "
               "seen at a third",
     .in_part = [](PartCalibration& p) -> double& { return p.network.share; }},
};

}  // namespace

std::span<const Parameter> parameters() { return kParameters; }

const Parameter* find_parameter(std::string_view path) {
  for (const Parameter& p : kParameters) {
    if (p.path == path) return &p;
  }
  return nullptr;
}

const Parameter* in_training_of(DType dtype) {
  PartCalibration part;
  for (const Parameter& p : kParameters) {
    if (p.in_part == nullptr) continue;
    if (&p.in_part(part) == &part.gemm[static_cast<std::size_t>(dtype)].in_training) return &p;
  }
  return nullptr;
}

double value_of(const Parameter& parameter, const framework::FrameworkProfile& profile) {
  return parameter.in_framework(const_cast<framework::FrameworkProfile&>(profile));
}

double value_of(const Parameter& parameter, const PartCalibration& part) {
  return parameter.in_part(const_cast<PartCalibration&>(part));
}

bool is_neutral(const Parameter& parameter, double value) {
  if (value <= 0) return true;
  return parameter.owner == Owner::framework && value == 1;
}

}  // namespace eratos::calibration
