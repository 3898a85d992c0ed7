// The mixers there are: one line each. Who checks, lowers, counts or names a mixer asks here and
// does not know which one it is.
//
// A line `X(Mamba, mamba)` promises in specs.h and layer/: MambaSpec, an alternative of `Mixer`; in
// layer/mamba.h MambaState, kMambaNames, and
//   void      check_mamba(spec, parallel, faults)            what is illegal, with its cure
//   double    mamba_parameters(spec)                         whole, not cut
//   MixerWork mamba_work(spec, sequence, causal)             what a token meets
//   TensorId  mamba_forward(spec, builder, x, state)         the ops, at local shapes
//   TensorId  mamba_backward(spec, builder, state, dy)
//
// Worked example: mixer_parameters of Llama 3.1 8B's attention is 41,943,040; of no mixer, 0.
#pragma once

#include "eratos/layer/attention.h"
#include "eratos/layer/compressed_attention.h"
#include "eratos/layer/delta_net.h"
#include "eratos/layer/legality.h"
#include "eratos/layer/mamba.h"
#include "eratos/layer/mixer_work.h"
#include "eratos/layer/mla.h"
#include "eratos/layer/specs.h"

#define ERATOS_MIXERS(X)  \
  X(Attention, attention) \
  X(Mla, mla)             \
  X(Mamba, mamba)         \
  X(DeltaNet, delta_net)  \
  X(CompressedAttention, compressed_attention)

namespace eratos::layer {

// What forward leaves for backward; only the member of the mixer at hand is used.
struct MixerState {
#define ERATOS_MIXER_STATE(Type, word) Type##State word;
  ERATOS_MIXERS(ERATOS_MIXER_STATE)
#undef ERATOS_MIXER_STATE
};

void check_mixer(const Mixer& mixer, const parallel::ParallelSpec& p, Diagnostics& out);
double mixer_parameters(const Mixer& mixer);
MixerWork mixer_work(const Mixer& mixer, double sequence, bool causal);
MixerNames mixer_names(const Mixer& mixer);
TensorId mixer_forward(const Mixer& mixer, Builder& b, TensorId x, MixerState& s);
TensorId mixer_backward(const Mixer& mixer, Builder& b, const MixerState& s, TensorId dy);

}  // namespace eratos::layer
