#include "eratos/layer/mixers.h"

#include <variant>

namespace eratos::layer {

void check_mixer(const Mixer& mixer, const parallel::ParallelSpec& p, Diagnostics& out) {
#define ERATOS_MIXER(Type, word) \
  if (const auto* spec = std::get_if<Type##Spec>(&mixer)) check_##word(*spec, p, out);
  ERATOS_MIXERS(ERATOS_MIXER)
#undef ERATOS_MIXER
}

double mixer_parameters(const Mixer& mixer) {
#define ERATOS_MIXER(Type, word) \
  if (const auto* spec = std::get_if<Type##Spec>(&mixer)) return word##_parameters(*spec);
  ERATOS_MIXERS(ERATOS_MIXER)
#undef ERATOS_MIXER
  return 0;
}

MixerWork mixer_work(const Mixer& mixer, double sequence, bool causal) {
#define ERATOS_MIXER(Type, word)                          \
  if (const auto* spec = std::get_if<Type##Spec>(&mixer)) \
    return word##_work(*spec, sequence, causal);
  ERATOS_MIXERS(ERATOS_MIXER)
#undef ERATOS_MIXER
  return {};
}

MixerNames mixer_names(const Mixer& mixer) {
#define ERATOS_MIXER(Type, word) \
  if (std::holds_alternative<Type##Spec>(mixer)) return k##Type##Names;
  ERATOS_MIXERS(ERATOS_MIXER)
#undef ERATOS_MIXER
  return {"nothing alone", "mlp alone", "moe alone"};
}

TensorId mixer_forward(const Mixer& mixer, Builder& b, TensorId x, MixerState& s) {
#define ERATOS_MIXER(Type, word)                          \
  if (const auto* spec = std::get_if<Type##Spec>(&mixer)) \
    return word##_forward(*spec, b, x, s.word);
  ERATOS_MIXERS(ERATOS_MIXER)
#undef ERATOS_MIXER
  return x;
}

TensorId mixer_backward(const Mixer& mixer, Builder& b, const MixerState& s, TensorId dy) {
#define ERATOS_MIXER(Type, word)                          \
  if (const auto* spec = std::get_if<Type##Spec>(&mixer)) \
    return word##_backward(*spec, b, s.word, dy);
  ERATOS_MIXERS(ERATOS_MIXER)
#undef ERATOS_MIXER
  return dy;
}

}  // namespace eratos::layer
