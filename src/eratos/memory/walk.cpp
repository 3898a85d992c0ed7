// Lifetimes of one program's tensors.
#include <array>
#include <cmath>
#include <cstddef>

#include "eratos/base/check.h"
#include "eratos/memory/memory.h"

namespace eratos::memory {

namespace {

constexpr std::size_t kMostTensors = 1024;
constexpr std::int16_t kNever = -1;

struct Lifetimes {
  std::array<std::int16_t, kMostTensors> last_read{};
  std::array<bool, kMostTensors> alive{};
};

void find_last_reads(const std::vector<ops::Op>& list, std::size_t tensors, Lifetimes& life) {
  for (std::size_t i = 0; i < tensors; ++i) life.last_read[i] = kNever;
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (const ops::TensorId id : list[i].reads) life.last_read[id] = static_cast<std::int16_t>(i);
  }
}

double rounded(const ops::Tensor& t, double rounding) {
  const double bytes = t.bytes().value;
  return rounding > 1 ? std::ceil(bytes / rounding) * rounding : bytes;
}

struct Peak {
  double bytes = 0;
  ops::Module module = ops::Module::residual;
};

// Runs one list. `keep` says which tensors survive their last read here.
template <class Keep>
Peak run(const ops::Program& p, const std::vector<ops::Op>& list, double rounding, double live,
         Lifetimes& life, Keep keep) {
  Peak peak{live, ops::Module::residual};
  for (std::size_t i = 0; i < list.size(); ++i) {
    const ops::Op& op = list[i];
    for (const ops::TensorId id : op.writes) {
      if (life.alive[id]) continue;
      life.alive[id] = true;
      live += rounded(p.tensors[id], rounding);
    }
    if (live > peak.bytes) peak = {live, op.module};
    const auto release = [&](ops::TensorId id) {
      if (!life.alive[id] || keep(id) || life.last_read[id] > static_cast<std::int16_t>(i)) return;
      life.alive[id] = false;
      live -= rounded(p.tensors[id], rounding);
    };
    for (const ops::TensorId id : op.reads) release(id);
    for (const ops::TensorId id : op.writes) release(id);
  }
  return peak;
}

void count_parameters(const ops::Program& p, ProgramMemory& out) {
  for (std::size_t i = 0; i < p.parameters.size(); ++i) {
    const ops::Parameter& q = p.parameters[i];
    (q.expert ? out.expert_parameters : out.dense_parameters) += q.elements;
    // The output layer's is no cached one: its program makes it (layer/linear.h).
    if (!q.matrix || q.embedding) continue;
    const double shape = q.elements / q.copies;
    bool seen = false;
    for (std::size_t j = 0; j < i; ++j) {
      const ops::Parameter& earlier = p.parameters[j];
      seen = seen || (earlier.matrix && earlier.module == q.module &&
                      earlier.elements / earlier.copies == shape);
    }
    if (!seen) out.placeholder_elements += shape;
  }
}

}  // namespace

void walk(const ops::Program& p, Bytes rounding, ProgramMemory& out) {
  const std::size_t count = p.tensors.size();
  ERATOS_CHECK(count <= kMostTensors);
  out = ProgramMemory{};
  out.name = p.name;
  count_parameters(p, out);
  Lifetimes life;

  // Forward: the input is there; kept tensors and the output stay.
  find_last_reads(p.forward, count, life);
  for (std::size_t i = 0; i < count; ++i) life.alive[i] = false;
  double live = 0;
  if (p.input != ops::kNoTensor) {
    life.alive[p.input] = true;
    live += rounded(p.tensors[p.input], rounding.value);
  }
  const Peak forward = run(p, p.forward, rounding.value, live, life, [&](ops::TensorId id) {
    return p.tensors[id].saved || id == p.output;
  });

  // Backward: everything kept is there, and so is the gradient that comes in.
  find_last_reads(p.backward, count, life);
  double saved = 0;
  live = 0;
  for (std::size_t i = 0; i < count; ++i) {
    life.alive[i] = p.tensors[i].saved;
    if (p.tensors[i].saved) saved += rounded(p.tensors[i], rounding.value);
  }
  live = saved;
  std::array<bool, kMostTensors> written{};
  for (const auto* list : {&p.forward, &p.backward}) {
    for (const ops::Op& op : *list) {
      for (const ops::TensorId id : op.writes) written[id] = true;
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (life.last_read[i] == kNever || life.alive[i] || written[i] || i == p.input) continue;
    life.alive[i] = true;
    live += rounded(p.tensors[i], rounding.value);
  }
  const Peak backward =
      run(p, p.backward, rounding.value, live, life, [](ops::TensorId) { return false; });

  out.saved = Bytes{saved};
  out.forward_peak = Bytes{forward.bytes};
  out.forward_module = forward.module;
  out.backward_peak = Bytes{backward.bytes};
  out.backward_module = backward.module;
}

}  // namespace eratos::memory
