#include "eratos/model/architecture.h"

#include <variant>

#include "eratos/layer/hyper_connection.h"
#include "eratos/layer/mixers.h"
#include "eratos/layer/norm.h"

namespace eratos::model {

namespace {

using layer::MlaSpec;
using layer::MlpSpec;
using layer::MoeSpec;

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
  const double width = m.latent > 0 ? m.latent : m.hidden;
  const double expert = parameters_of(MlpSpec{width, m.ffn, m.gated, m.bias, m.activation});
  Split s;
  s.total = m.hidden * m.experts + expert * m.experts;
  if (m.router_bias) s.total += m.experts;
  s.total += 2 * m.hidden * m.latent;
  if (m.shared_ffn > 0) {
    s.total += parameters_of(MlpSpec{m.hidden, m.shared_ffn, m.gated, m.bias, m.activation});
  }
  if (m.shared_gate) s.total += m.hidden;
  // Three norms, the router's input scale, and one scale an expert.
  if (m.own_norms) s.total += 4 * m.hidden + m.experts;
  s.idle = expert * (m.experts - m.top_k);
  return s;
}

Split parameters_of(const layer::BlockSpec& block, double hidden) {
  Split s;
  s.total += layer::mixer_parameters(block.mixer);
  if (const auto* m = std::get_if<MlpSpec>(&block.feed_forward)) {
    s.total += parameters_of(*m);
  } else if (const auto* moe = std::get_if<MoeSpec>(&block.feed_forward)) {
    const Split e = parameters_of(*moe);
    s.total += e.total;
    s.idle += e.idle;
  }
  const int halves = (layer::has_mixer(block) ? 1 : 0) + (layer::has_feed_forward(block) ? 1 : 0);
  s.total += halves * layer::hyper_parameters(hidden, block.streams);
  const int branches = block.parallel && !block.norm_per_branch ? 1 : halves;
  const int norms = (block.pre_norm ? branches : 0) + (block.post_norm ? halves : 0);
  s.total += norms * layer::norm_parameters(block.norm, hidden);
  return s;
}

}  // namespace

ParameterCount count_parameters(const Architecture& a, double vocab_padded, bool with_mtp) {
  const double vocab = vocab_padded > 0 ? vocab_padded : a.vocab;
  ParameterCount n;
  n.embedding = vocab * a.hidden * (a.tie_embeddings ? 1 : 2);
  n.total = n.embedding + layer::norm_parameters(a.norm, a.hidden);
  if (a.position == layer::Position::learned) n.total += a.max_positions * a.hidden;
  if (a.head_bias) n.total += vocab;
  if (a.embedding_norm) n.total += layer::norm_parameters(a.norm, a.hidden);
  n.total += layer::hyper_head_parameters(a.hidden, a.streams());
  double idle = 0;
  for (const std::uint8_t kind : a.pattern) {
    const Split s = parameters_of(a.blocks[kind], a.hidden);
    n.total += s.total;
    idle += s.idle;
  }
  if (with_mtp && a.mtp_layers > 0 && !a.pattern.empty()) {
    const Split s = parameters_of(a.mtp_block(), a.hidden);
    // Two input norms, the joining projection, the block, its final norm; embedding and head
    // shared.
    n.total += a.mtp_layers * layer::hyper_head_parameters(a.hidden, a.streams());
    n.total += a.mtp_layers *
               (s.total + 2 * a.hidden * a.hidden + 3 * layer::norm_parameters(a.norm, a.hidden));
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

}  // namespace eratos::model
