#include "eratos/ops/ops.h"

#include <array>
#include <cstddef>
#include <cstdio>

namespace eratos::ops {

std::string_view name_of(Module m) {
  constexpr std::array<std::string_view, static_cast<std::size_t>(Module::count_)> kNames{
      "embedding",
      "norm",
      "qkv",
      "mla_down",
      "mla_up",
      "rotary",
      "core_attention",
      "attention_out",
      "mixer_in",
      "mixer_gate",
      "convolution",
      "scan",
      "mixer_out",
      "mlp_in",
      "activation",
      "mlp_out",
      "router",
      "latent",
      "dispatch",
      "expert_in",
      "expert_activation",
      "expert_out",
      "combine",
      "shared_expert",
      "residual",
      "output_layer",
      "loss",
      "mtp",
      "adapter",
      "quantize",
      "offload",
      "gradient_reduce",
      "parameter_gather",
      "gradient_norm",
      "optimizer"};
  return kNames[static_cast<std::size_t>(m)];
}

std::string_view name_of(Pass p) {
  constexpr std::array<std::string_view, 5> kNames{"forward", "recompute", "dgrad", "wgrad",
                                                   "step"};
  return kNames[static_cast<std::size_t>(p)];
}

std::string_view name_of(CollectiveKind k) {
  constexpr std::array<std::string_view, 5> kNames{"all_reduce", "all_gather", "reduce_scatter",
                                                   "all_to_all", "send_recv"};
  return kNames[static_cast<std::size_t>(k)];
}

Flops Op::flops() const {
  if (const auto* gemm = std::get_if<Gemm>(&work)) return gemm->flops();
  if (const auto* attention = std::get_if<Attention>(&work)) return attention->flops();
  return Flops{0};
}

void Program::clear() {
  tensors.clear();
  forward.clear();
  backward.clear();
  parameters.clear();
  input = kNoTensor;
  output = kNoTensor;
  name = "";
}

Bytes saved_bytes(const Program& p) {
  Bytes total;
  for (const Tensor& t : p.tensors) {
    if (t.saved && !t.offloaded) total += t.bytes();
  }
  return total;
}

double parameter_elements(const Program& p, bool experts_only) {
  double total = 0;
  for (const Parameter& q : p.parameters) {
    if (!experts_only || q.expert) total += q.elements;
  }
  return total;
}

namespace {

void append_op(std::string& out, const Program& p, const Op& op) {
  std::array<char, 256> line{};
  const std::string pass(name_of(op.pass));
  const std::string module(name_of(op.module));
  int n = 0;
  if (const auto* g = std::get_if<Gemm>(&op.work)) {
    n = std::snprintf(line.data(), line.size(),
                      "  %-9s %-17s gemm m=%.0f n=%.0f k=%.0f groups=%.0f %s", pass.c_str(),
                      module.c_str(), g->m, g->n, g->k, g->groups,
                      std::string(eratos::name_of(g->dtype)).c_str());
  } else if (const auto* a = std::get_if<Attention>(&op.work)) {
    n = std::snprintf(
        line.data(), line.size(),
        "  %-9s %-17s attention%s b=%.0f sq=%.0f skv=%.0f heads=%.0f/%.0f d=%.0f/%.0f%s%s",
        pass.c_str(), module.c_str(), a->backward ? "_backward" : "", a->batch, a->seq_q, a->seq_kv,
        a->heads, a->kv_heads, a->head_dim, a->v_head_dim, a->causal ? " causal" : "",
        a->sinks ? " sinks" : "");
    if (a->window > 0) {
      n += std::snprintf(line.data() + n, line.size() - static_cast<std::size_t>(n), " window=%.0f",
                         a->window);
    }
  } else if (const auto* e = std::get_if<Elementwise>(&op.work)) {
    n = std::snprintf(line.data(), line.size(), "  %-9s %-17s elementwise bytes=%.0f", pass.c_str(),
                      module.c_str(), e->traffic.value);
  } else if (const auto* c = std::get_if<Collective>(&op.work)) {
    n = std::snprintf(line.data(), line.size(), "  %-9s %-17s %s bytes=%.0f", pass.c_str(),
                      module.c_str(), std::string(name_of(c->kind)).c_str(), c->bytes.value);
  } else if (const auto* h = std::get_if<ops::HostCopy>(&op.work)) {
    n = std::snprintf(line.data(), line.size(), "  %-9s %-17s host bytes=%.0f", pass.c_str(),
                      module.c_str(), h->bytes.value);
  }
  out.append(line.data(), static_cast<std::size_t>(n));
  auto append_names = [&](const char* label, const auto& ids) {
    if (ids.empty()) return;
    out += label;
    for (const TensorId id : ids) {
      out += ' ';
      out += p.tensors[id].name;
    }
  };
  append_names(" <-", op.reads);
  append_names(" ->", op.writes);
  out += '\n';
}

}  // namespace

std::string to_text(const Program& p) {
  std::string out = std::string("program ") + p.name + "\n";
  for (const Tensor& t : p.tensors) {
    std::array<char, 160> line{};
    const int n = std::snprintf(line.data(), line.size(), "  tensor %-24s %.0f %s %s%s\n", t.name,
                                t.elements, std::string(eratos::name_of(t.dtype)).c_str(),
                                std::string(name_of(t.module)).c_str(),
                                t.offloaded ? " offloaded"
                                : t.saved   ? " saved"
                                            : "");
    out.append(line.data(), static_cast<std::size_t>(n));
  }
  out += " forward\n";
  for (const Op& op : p.forward) append_op(out, p, op);
  out += " backward\n";
  for (const Op& op : p.backward) append_op(out, p, op);
  return out;
}

}  // namespace eratos::ops
