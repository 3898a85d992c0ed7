// Lifetimes of one program's tensors.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "eratos/base/check.h"
#include "eratos/memory/memory.h"

namespace eratos::memory {

namespace {

constexpr std::int16_t kNever = -1;
constexpr std::int16_t kKept = 0x7fff;  // survives the list

// Left uninitialised: only the entries of the program's own tensors are used.
struct Lifetimes {
  std::array<double, ops::kMaxTensors> bytes;  // rounded up
  std::array<std::int16_t, ops::kMaxTensors> last_read;
  std::array<bool, ops::kMaxTensors> alive;
  std::array<bool, ops::kMaxTensors> made;  // written by some op
};

// Last readers in `list`; what it writes joins `life.made`.
void find_last_reads(const std::vector<ops::Op>& list, std::size_t tensors, Lifetimes& life) {
  std::fill_n(life.last_read.begin(), tensors, kNever);
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (const ops::TensorId id : list[i].reads) life.last_read[id] = static_cast<std::int16_t>(i);
    for (const ops::TensorId id : list[i].writes) life.made[id] = true;
  }
}

// Up to whole blocks.
class Rounding {
 public:
  // The product with a reciprocal is the quotient where that is exact, and no slow division.
  explicit Rounding(double block)
      : block_(block), inverse_(1 / block), exact_(is_power_of_two(block)) {}

  double up(double bytes) const {
    if (block_ <= 1) return bytes;
    const double blocks = exact_ ? bytes * inverse_ : bytes / block_;
    const auto whole = static_cast<double>(static_cast<std::int64_t>(blocks));
    return (whole < blocks ? whole + 1 : whole) * block_;
  }

 private:
  static bool is_power_of_two(double x) {
    if (!(x >= 1) || x > 1e15) return false;
    const auto whole = static_cast<std::int64_t>(x);
    return static_cast<double>(whole) == x && (whole & (whole - 1)) == 0;
  }

  double block_;
  double inverse_;
  bool exact_;
};

struct Peak {
  double bytes = 0;
  ops::Module module = ops::Module::residual;
};

// Runs one list. `skip` says which ops do not run. What is not kept goes with its last reader.
template <class Skip>
Peak run(const std::vector<ops::Op>& list, double live, Lifetimes& life, Skip skip) {
  Peak peak{live, ops::Module::residual};
  for (std::size_t i = 0; i < list.size(); ++i) {
    const ops::Op& op = list[i];
    if (skip(op)) continue;
    for (const ops::TensorId id : op.writes) {
      if (life.alive[id]) continue;
      life.alive[id] = true;
      live += life.bytes[id];
    }
    if (live > peak.bytes) peak = {live, op.module};
    const auto release = [&](ops::TensorId id) {
      if (!life.alive[id] || life.last_read[id] > static_cast<std::int16_t>(i)) return;
      life.alive[id] = false;
      live -= life.bytes[id];
    };
    for (const ops::TensorId id : op.reads) release(id);
    for (const ops::TensorId id : op.writes) release(id);
  }
  return peak;
}

constexpr auto kNothing = [](const ops::Op&) { return false; };

void count_parameters(const ops::Program& p, ProgramMemory& out) {
  for (std::size_t i = 0; i < p.parameters.size(); ++i) {
    const ops::Parameter& q = p.parameters[i];
    (q.expert ? out.expert_parameters : out.dense_parameters) += q.elements;
    if (q.frozen) (q.expert ? out.expert_frozen : out.dense_frozen) += q.elements;
    if (q.matrix && !q.embedding && !q.frozen) {
      (q.expert ? out.expert_matrix : out.dense_matrix) += q.elements;
    }
    if (q.narrow) (q.expert ? out.expert_narrow : out.dense_narrow) += q.elements;
    // The output layer's is no cached one: its program makes it (layer/linear.h).
    if (!q.matrix || q.embedding || q.frozen) continue;
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

void find_put_off(const ops::Program& p, std::span<bool> out) {
  std::fill(out.begin(), out.end(), false);
  for (const bool writes : {false, true}) {
    for (const ops::Op& op : p.backward) {
      if (op.pass != ops::Pass::wgrad) continue;
      for (const ops::TensorId id : op.reads) {
        if (!writes) out[id] = true;
      }
      for (const ops::TensorId id : op.writes) {
        if (writes) out[id] = false;
      }
    }
  }
}

Bytes put_off_bytes(const ops::Program& p, ops::TensorId id) {
  const ops::Tensor& t = p.tensors[id];
  ops::Tensor cast = t;
  double widest = 0;  // bytes an element, of the products that read it
  for (const ops::Op& op : p.backward) {
    if (op.pass != ops::Pass::wgrad) continue;
    if (std::find(op.reads.begin(), op.reads.end(), id) == op.reads.end()) continue;
    const auto* product = std::get_if<ops::Gemm>(&op.work);
    if (product == nullptr) return t.bytes();
    if (bytes_per_element(product->dtype) <= widest) continue;
    cast.dtype = product->dtype;
    widest = bytes_per_element(cast.dtype);
  }
  if (widest == 0 || widest >= bytes_per_element(t.dtype)) return t.bytes();
  // All casts of a program are of one recipe.
  for (const ops::Tensor& other : p.tensors) {
    if (other.dtype == cast.dtype) cast.scale_bytes = std::max(cast.scale_bytes, other.scale_bytes);
  }
  return cast.bytes();
}

void walk(const ops::Program& p, Bytes rounding, bool split, ProgramMemory& out) {
  const std::size_t count = p.tensors.size();
  ERATOS_CHECK(count <= ops::kMaxTensors);
  out = ProgramMemory{};
  out.name = p.name;
  count_parameters(p, out);
  Lifetimes life;
  const Rounding block(rounding.value);
  double saved = 0;
  double offloaded = 0;  // of them: there during forward and backward, but not between
  for (std::size_t i = 0; i < count; ++i) {
    const ops::Tensor& t = p.tensors[i];
    life.bytes[i] = block.up(t.bytes().value);
    life.alive[i] = false;
    life.made[i] = false;
    if (t.saved) saved += life.bytes[i];
    if (t.saved && t.offloaded) offloaded += life.bytes[i];
  }

  // Forward: the input is there; kept tensors and the output stay.
  find_last_reads(p.forward, count, life);
  for (std::size_t i = 0; i < count; ++i) {
    if (p.tensors[i].saved) life.last_read[i] = kKept;
  }
  if (p.output != ops::kNoTensor) life.last_read[p.output] = kKept;
  double live = 0;
  if (p.input != ops::kNoTensor) {
    life.alive[p.input] = true;
    live += life.bytes[p.input];
  }
  const Peak forward = run(p.forward, live, life, kNothing);

  // Backward: everything kept is there, and so is the gradient that comes in: what backward reads
  // and nothing writes.
  find_last_reads(p.backward, count, life);
  const auto begin_backward = [&] {
    live = saved;
    for (std::size_t i = 0; i < count; ++i) {
      life.alive[i] = p.tensors[i].saved;
      if (life.last_read[i] == kNever || life.alive[i] || life.made[i] || i == p.input) continue;
      life.alive[i] = true;
      live += life.bytes[i];
    }
  };
  begin_backward();
  const Peak backward = run(p.backward, live, life, kNothing);

  // The same with the weights' gradients put off: what they read stays, what only they make does
  // not come to be.
  if (split) {
    std::array<bool, ops::kMaxTensors> wanted;
    find_put_off(p, {wanted.data(), count});
    double put_off = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!wanted[i]) continue;
      put_off += block.up(put_off_bytes(p, static_cast<ops::TensorId>(i)).value);
    }
    begin_backward();
    std::array<std::int16_t, ops::kMaxTensors> last_read;
    std::copy_n(life.last_read.begin(), count, last_read.begin());
    for (std::size_t i = 0; i < count; ++i) {
      if (wanted[i]) life.last_read[i] = kKept;
    }
    const Peak gradient = run(p.backward, live, life,
                              [](const ops::Op& op) { return op.pass == ops::Pass::wgrad; });
    std::copy_n(last_read.begin(), count, life.last_read.begin());
    std::copy_n(wanted.begin(), count, life.alive.begin());
    const Peak weight = run(p.backward, put_off, life,
                            [](const ops::Op& op) { return op.pass != ops::Pass::wgrad; });
    out.weight_peak = Bytes{weight.bytes};
    out.put_off = Bytes{put_off};
    out.gradient_peak = Bytes{gradient.bytes};
    out.gradient_module = gradient.module;
  }

  out.saved = Bytes{saved - offloaded};
  out.forward_peak = Bytes{forward.bytes};
  out.forward_module = forward.module;
  out.backward_peak = Bytes{backward.bytes};
  out.backward_module = backward.module;
}

}  // namespace eratos::memory
