// Which layers of a model attend differently: windows, chunks, other head sizes, no rotary
// positions.
//
// Keys of a model file: `sliding_window` or `attention_chunk` (keys), `window_pattern` ("5:1": five
// local layers, then a global one, and again; or a list with 1 for each local layer; absent: every
// layer is local), `no_rope_every` n (each n-th layer has no rotary positions) or `no_rope_layers`
// (a list with 1 for each), and what global layers have instead: `global_head_dim`,
// `global_kv_heads`, `global_shared_kv` (the key projection serves as values too).
// Files of published runs say some of it in words: "128 in every other layer".
//
// Worked example: Gemma 3 12B, 48 layers, `sliding_window: 1024`, `window_pattern: "5:1"`: layers
// 5, 11, ... 47 are global, 40 of 48 have the window.
#pragma once

#include <vector>

#include "eratos/model/architecture.h"
#include "eratos/reader/fields.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

struct LayerPattern {
  std::vector<int> local;    // by layer, 1: window or chunk
  std::vector<int> no_rope;  // by layer, 1: no rotary positions
  int window = 0;
  int chunk = 0;
  bool sinks_in_words = false;
  int global_head_dim = 0;  // 0: as the local ones
  int global_kv_heads = 0;
  bool global_shared_kv = false;

  // The attention of one layer, from what all layers share.
  layer::AttentionSpec at(int layer, layer::AttentionSpec shared) const;
  // Layers of one number have the same attention.
  int kind(int layer) const;
};

// Faults: a list of another length than `layers`, an unreadable ratio.
LayerPattern read_layer_pattern(Fields& top, int layers);

// The keys above, where some layer differs from full attention with rotary positions.
void write_layer_pattern(const model::Architecture& a, text::Node& out);

// The attention of a local layer, or of the first layer where none is; nullptr without attention.
const layer::AttentionSpec* shared_attention(const model::Architecture& a);

}  // namespace eratos::reader
