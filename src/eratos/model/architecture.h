// An architecture: distinct blocks, which layer is which, what stands before and behind them.
//
// Worked example: Mixtral 8x7B is one block repeated 32 times; DeepSeek-V3 has two, a dense one
// for layers 0..2 and an MoE one for layers 3..60. Llama 3.1 8B has 8,030,261,248 parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/layer/specs.h"

namespace eratos::model {

struct Architecture {
  std::string name;
  double hidden = 0;
  double vocab = 0;  // as published, before any padding
  bool tie_embeddings = false;
  layer::Position position = layer::Position::rotary;
  double max_positions = 0;  // learned positions: rows of the table; 0: as long as the sequence
  bool embedding_norm = false;
  bool embedding_scale = false;
  double final_soft_cap = 0;
  bool head_bias = false;
  layer::NormSpec norm;
  std::vector<layer::BlockSpec> blocks;    // distinct
  std::vector<std::uint8_t> pattern;       // pattern[layer] indexes `blocks`
  int mtp_layers = 0;                      // multi-token prediction modules
  int mtp_kind = -1;                       // their layer, an index of `blocks`; -1: the last layer's
  double published_parameters = 0;         // 0 when not known
  std::string source;

  int layers() const { return static_cast<int>(pattern.size()); }
  int streams() const { return blocks.empty() ? 1 : blocks.front().streams; }
  const layer::BlockSpec& mtp_block() const {
    return blocks[mtp_kind < 0 ? pattern.back() : static_cast<std::size_t>(mtp_kind)];
  }
};

struct ParameterCount {
  double total = 0;
  double active = 0;     // total minus the weights of experts a token does not visit
  double embedding = 0;  // input embedding and output layer, once each (once if tied)
};

// Counts with the published vocabulary (`vocab_padded` 0) or a padded one. MTP modules count only
// when `with_mtp`. Source of the MTP parts: arXiv 2412.19437, section 2.2.
ParameterCount count_parameters(const Architecture& a, double vocab_padded = 0,
                                bool with_mtp = false);

// True when some block routes to experts.
bool is_moe(const Architecture& a);

}  // namespace eratos::model
