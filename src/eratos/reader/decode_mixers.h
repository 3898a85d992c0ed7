// What mixes the positions of each layer where that is not attention alone: state spaces, linear
// attention, and stacks whose layers are a mixer or a feed-forward but not both.
//
// Keys of a model: data/README.md (`pattern`, `mamba`, `linear_attention`). Files of published runs
// say the same under `other`.
// Worked example: pattern "MEM*E/*E" is five layers (Mamba, experts, Mamba, attention, experts) and
// one prediction module whose layer is attention and experts.
#pragma once

#include <string>
#include <vector>

#include "eratos/model/architecture.h"
#include "eratos/reader/fields.h"

namespace eratos::reader {

struct MixerKeys {
  bool has_mamba = false;
  bool has_delta_net = false;
  layer::MambaSpec mamba;
  layer::DeltaNetSpec delta_net;
  // One letter a layer: M Mamba, G linear attention, * attention, - MLP, E experts. Empty: every
  // layer has both halves.
  std::string pattern;
  std::string mtp;  // letters of one prediction module
  int mtp_modules = 0;
  // Where every layer has both halves: linear attention in all but one layer of each `every`.
  int every = 0;
  std::vector<int> linear_layers;  // or: 1 for each layer with it

  // DeepSeek-V4: the ratio of each layer, one more for a prediction module; the shape of attention
  // itself is the model's.
  layer::CompressedAttentionSpec compressed;
  std::vector<int> ratios;
  int streams = 1;

  bool has(char letter) const { return pattern.find(letter) != std::string::npos; }
  layer::CompressedAttentionSpec compressed_at(std::size_t i,
                                               const layer::AttentionSpec& like) const;
  // Whether layer i of a model whose layers have both halves has linear attention.
  bool is_linear(int i) const;
};

// `layers` is set where the keys imply it. Says through `top` what cannot be.
MixerKeys read_mixers(Fields& top, double hidden, int& layers);

// The same keys, written.
void write_compressed(const model::Architecture& a, text::Node& out);
void write_mixers(const layer::MambaSpec* mamba, const layer::DeltaNetSpec* delta_net,
                  text::Node& out);

}  // namespace eratos::reader
