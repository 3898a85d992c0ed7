// How tokens reach the ranks that hold their experts, and how the results come back.
//
// Letters: Ts tokens this rank routes, k experts a token visits, E experts, e = ep, u = etp,
// w width of a row (hidden, or the experts' latent width), F capacity factor.
//
// Rows an expert takes are all that come (dropless), or at most C = ceil(F Ts k / E) of them:
// balanced routing with F below 1 drops 1 - F of the rows, and with padding every expert computes C
// rows whatever comes.
// Source: arXiv 2006.16668 (capacity); Megatron-LM core/transformer/moe/moe_utils.py
// (get_capacity) and token_dispatcher.py (drop_and_pad).
//
// What moves, in elements of one rank, and what it costs beside:
//   alltoall   Ts k w: copies of a token travel one by one; rows are sorted by expert before the
//              exchange, and again behind it when a rank holds several experts
//   allgather  every token of the e u ranks, Ts e u w; each rank picks its experts' rows from
//              them; back: a reduction of as many. No sort beside the pick
//   deepep     Ts E[d] w with E[d] distinct ranks (ops/fanout.h): a token travels to a rank at most
//              once and is copied there, and to a node at most once, from where it is forwarded
//              (collective/two_stage.cpp); nothing is sorted before
//   hybridep   as deepep; its own kernel copies them from the exchange's buffer into expert order
//              (csrc/hybrid_ep/extension/permute.cu), so that no tensor stands between
//   einsum     rows are picked by products with one-hot masks over every expert's places, S =
//              ceil(F s k / E) E of them a sequence of s tokens: 2 Ts S w FLOPs there, as many back,
//              and the gradient of the weights in the masks once more; masks of 2 Ts S elements;
//              all places travel, filled or not
// Source: Megatron-LM core/transformer/moe/token_dispatcher.py and fused_a2a.py; the sources of
// deepseek-ai/DeepEP; einsum, arXiv 2006.16668 (GShard), algorithm 1 and section 3.2, and
// AI-Hypercomputer/maxtext layers/moe.py (dense_matmul with a capacity factor).
// Worked example: 256 experts, 4096 tokens, k 8, e 8, w 7168, 16 bits: alltoall 4096*8*7168*2 =
// 470 MB; deepep 4096*5.29*7168*2 = 311 MB; allgather 470 MB gathered and as much reduced; einsum at
// F 1.25 and s 4096: 40,960 places, 2*4096*40960*7168 = 2.41 TFLOP there, twice an expert's share.
#pragma once

#include "eratos/layer/builder.h"
#include "eratos/layer/specs.h"

namespace eratos::layer {

struct RouteSizes {
  double tokens = 0;  // routed by this rank
  double chosen = 0;  // tokens * top_k
  double sent = 0;    // rows it sends: chosen, as the capacity allows
  double received = 0;  // rows that come to it: as many, times its load
  double rows = 0;    // rows its experts compute
  double held = 0;    // rows of the buffers that they stand in: rows, or whatever may come
  bool strided = false;  // every expert has as many
  double local_experts = 0;
  double width = 0;         // of a row
  double expert_width = 0;  // feed-forward width of one expert on this rank
};
RouteSizes route_sizes(const MoeSpec& spec, const LayerContext& c);

// Tokens [tokens, width] to rows in expert order [rows, width]. Forward: the way there. dgrad: the
// gradient's way there, which is the way back mirrored.
TensorId scatter_rows(const MoeSpec& spec, Builder& b, Pass pass, TensorId tokens, TensorId map);
// Rows in expert order to tokens [tokens, width], copies added up. `returned`, where given, is told
// the rows as they come back to the rank of their tokens.
TensorId gather_rows(const MoeSpec& spec, Builder& b, Pass pass, TensorId rows, TensorId map,
                     TensorId* returned = nullptr);

// einsum: the masks over tokens and places, made from the router's probabilities, and in backward
// the product that gives the weights in them their gradient.
TensorId routing_masks(const MoeSpec& spec, Builder& b, TensorId probs);
TensorId mask_gradient(const MoeSpec& spec, Builder& b, TensorId dy, TensorId returned);

}  // namespace eratos::layer
