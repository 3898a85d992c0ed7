// What every mixer says of itself in numbers and words, for those who need not know which one it
// is.
#pragma once

namespace eratos::layer {

// What a token meets, as the FLOP conventions count it: 2 FLOPs forward for each weight, and
// 2 * width for each key that it sees.
// Worked example: Llama 3.1 8B's attention, 4,096 tokens, causal: 41.9e6 weights, 2,048 keys of
// width 2 * 4096.
struct MixerWork {
  double weights = 0;  // of matrix products; of a recurrence, as many as do its work
  double width = 0;    // heads * (d + d_v)
  double keys = 0;     // on average
};

// Names of a layer by what stands beside the mixer: nothing, a dense feed-forward, experts.
struct MixerNames {
  const char* alone;
  const char* dense;
  const char* moe;
};

}  // namespace eratos::layer
