// On how many ranks or nodes the experts of one token lie.
//
// Letters: E experts in order of their number, cut into N equal places (ranks, nodes); k of them a
// token visits; G equal groups of consecutive experts, of which a token may visit M (group-limited
// routing), S = E/G experts in one.
//
// Balanced routing: any k experts as likely as any others. A place of c experts is missed with the
// probability that none of k is one of its own, C(E - c, k) / C(E, k), so
//   E[distinct] = N (1 - C(E - E/N, k) / C(E, k)).
// With groups, any M of them, and k/M experts in each: a group is chosen for the sum of its k/M
// best scores, so that the k best of the chosen groups are nearly those. A place is missed when
// none of the groups it holds whole is chosen, nor an expert of its part of a group. Worked
// example: 256 experts, k 8. On 8 nodes: 8 (1 - C(224,8)/C(256,8)) = 5.29; with 8 groups of which 4
// are chosen: 4. On 64 ranks: 7.68, and with groups 4 * 8 (1 - C(28,2)/C(32,2)) = 7.61 (3.95
// and 7.49 of 3,000 tokens with random scores).
// Source: hypergeometric distribution; groups: arXiv 2412.19437, section 2.1.2 (node-limited
// routing); Megatron-LM core/transformer/moe/moe_utils.py (group_limited_topk).
#pragma once

namespace eratos::ops {

struct Fanout {
  int experts = 0;  // 0: unknown
  int chosen = 0;
  int groups = 1;
  int chosen_groups = 1;

  bool known() const { return experts > 0; }
  friend bool operator==(const Fanout&, const Fanout&) = default;
};

// Expected distinct places, 1 to the least of k and `places`. A place that is no whole number of
// groups begins where a group does.
double distinct_places(const Fanout& fanout, double places);

}  // namespace eratos::ops
