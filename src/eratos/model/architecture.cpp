#include "eratos/model/architecture.h"

#include <variant>

#include "eratos/layer/norm.h"

namespace eratos::model {

namespace {

using layer::AttentionSpec;
using layer::MlaSpec;
using layer::MlpSpec;
using layer::MoeSpec;

double parameters_of(const AttentionSpec& a) {
  const double q = static_cast<double>(a.heads) * a.head_dim;
  const double kv = static_cast<double>(a.kv_heads) * a.head_dim;
  double n = a.hidden * (q + 2 * kv) + q * a.hidden;
  if (a.qkv_bias) n += q + 2 * kv;
  if (a.out_bias) n += a.hidden;
  if (a.qk_norm) n += 2.0 * a.head_dim;
  if (a.qk_norm_full) n += q + kv;
  return n;
}

double parameters_of(const MlaSpec& a) {
  const double qk = a.qk_nope_head_dim + a.qk_rope_head_dim;
  const double heads = a.heads;
  double n = 0;
  if (a.q_lora_rank > 0) {
    n += a.hidden * a.q_lora_rank + a.q_lora_rank + a.q_lora_rank * heads * qk;
  } else {
    n += a.hidden * heads * qk;
  }
  n += a.hidden * (a.kv_lora_rank + a.qk_rope_head_dim) + a.kv_lora_rank;
  n += a.kv_lora_rank * heads * (a.qk_nope_head_dim + a.v_head_dim);
  n += heads * a.v_head_dim * a.hidden;
  return n;
}

double parameters_of(const MlpSpec& m) {
  double n = (m.gated ? 3 : 2) * m.hidden * m.ffn;
  if (m.bias) n += (m.gated ? 2 : 1) * m.ffn + m.hidden;
  return n;
}

struct Split {
  double total = 0;
  double idle = 0;  // of experts a token does not visit
};

Split parameters_of(const MoeSpec& m) {
  const double expert = parameters_of(MlpSpec{m.hidden, m.ffn, m.gated, m.bias, m.activation});
  Split s;
  s.total = m.hidden * m.experts + expert * m.experts;
  if (m.router_bias) s.total += m.experts;
  if (m.shared_ffn > 0) {
    s.total += parameters_of(MlpSpec{m.hidden, m.shared_ffn, m.gated, m.bias, m.activation});
  }
  if (m.shared_gate) s.total += m.hidden;
  s.idle = expert * (m.experts - m.top_k);
  return s;
}

Split parameters_of(const layer::BlockSpec& block) {
  Split s;
  double hidden = 0;
  if (const auto* a = std::get_if<AttentionSpec>(&block.mixer)) {
    s.total += parameters_of(*a);
    hidden = a->hidden;
  } else if (const auto* mla = std::get_if<MlaSpec>(&block.mixer)) {
    s.total += parameters_of(*mla);
    hidden = mla->hidden;
  }
  if (const auto* m = std::get_if<MlpSpec>(&block.feed_forward)) {
    s.total += parameters_of(*m);
  } else if (const auto* moe = std::get_if<MoeSpec>(&block.feed_forward)) {
    const Split e = parameters_of(*moe);
    s.total += e.total;
    s.idle += e.idle;
  }
  s.total += (block.parallel ? 1 : 2) * layer::norm_parameters(block.norm, hidden);
  return s;
}

}  // namespace

ParameterCount count_parameters(const Architecture& a, double vocab_padded, bool with_mtp) {
  const double vocab = vocab_padded > 0 ? vocab_padded : a.vocab;
  ParameterCount n;
  n.embedding = vocab * a.hidden * (a.tie_embeddings ? 1 : 2);
  n.total = n.embedding + layer::norm_parameters(a.norm, a.hidden);
  if (a.position == layer::Position::learned) n.total += a.max_positions * a.hidden;
  if (a.embedding_norm) n.total += layer::norm_parameters(a.norm, a.hidden);
  double idle = 0;
  for (const std::uint8_t kind : a.pattern) {
    const Split s = parameters_of(a.blocks[kind]);
    n.total += s.total;
    idle += s.idle;
  }
  if (with_mtp && a.mtp_layers > 0 && !a.pattern.empty()) {
    const Split s = parameters_of(a.blocks[a.pattern.back()]);
    // Two input norms, the joining projection, the block, its final norm; embedding and head shared.
    n.total += a.mtp_layers * (s.total + 2 * a.hidden * a.hidden +
                               3 * layer::norm_parameters(a.norm, a.hidden));
    idle += a.mtp_layers * s.idle;
  }
  n.active = n.total - idle;
  return n;
}

bool is_moe(const Architecture& a) {
  for (const layer::BlockSpec& block : a.blocks) {
    if (std::holds_alternative<MoeSpec>(block.feed_forward)) return true;
  }
  return false;
}

bool has_mla(const Architecture& a) {
  for (const layer::BlockSpec& block : a.blocks) {
    if (std::holds_alternative<MlaSpec>(block.mixer)) return true;
  }
  return false;
}

}  // namespace eratos::model
