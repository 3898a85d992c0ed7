// What the sources that include libtorch share: the device's tensors, time marks, room.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/Event.h>

#include "plan.h"
#include "work.h"

namespace eratos::device {

using Tensors = std::vector<at::Tensor>;

struct Place {
  c10::Device device{c10::kCPU};
  std::int64_t cache = 0;  // bytes that a rotation of buffers must exceed
  bool cpu() const { return device.is_cpu(); }
};

// fp64 fp32 bf16 fp16. Errors: CannotMeasure for others.
at::ScalarType dtype_of(const Piece& piece);
// Share of the largest value by which a result of this format may differ from the reference.
double allowed_error(at::ScalarType type);
// max|a - b| / max|b|, in double.
double relative_error(const at::Tensor& a, const at::Tensor& b);

// Uniform in [-scale, scale): never zeros, whose bits switch less and let a GPU clock higher.
at::Tensor random(const Place& place, at::IntArrayRef shape, at::ScalarType type, double scale = 1);
// Whole numbers of [0, below).
at::Tensor random_index(const Place& place, std::int64_t count, std::int64_t below);

// How many sets of buffers to rotate, where a turn touches `touched` bytes of one set and the set
// holds `holds`: what all touch is at least twice the last-level cache, so that it has left it by
// its next turn; what all hold is at most a quarter of the free memory.
std::int64_t sets_for(const Place& place, double touched, double holds);
// Throws OutOfMemory where `bytes` are not free on a processor (whose kernel would grant them and
// end the process later).
void need_room(const Place& place, double bytes);

// Points in time on the device. On a processor the steady clock; on a GPU events in its stream, or,
// where this libtorch has no way to read events, the clock after all earlier work is done.
class Marks {
 public:
  explicit Marks(const Place& place);
  void mark();
  // Seconds from each mark to the next, after waiting for the last. Clears them.
  std::vector<double> intervals();

 private:
  Place place_;
  std::vector<std::chrono::steady_clock::time_point> clock_;
  std::vector<c10::Event> events_;
};
void synchronize(const Place& place);

// A differentiable computation: its inputs, how the device does it, and its definition.
struct Formula {
  // At most `rows` rows (or positions) of the piece; 0 for all.
  std::function<Tensors(std::int64_t rows)> inputs;
  std::function<at::Tensor(const Tensors&)> fast;
  std::function<at::Tensor(const Tensors&)> plain;  // in double, from copies of the inputs
  std::vector<std::size_t> differentiable;          // inputs that get a gradient
  double allowed = 0;
  std::vector<std::string> notes;
};

// Times forward, or backward alone (graphs are made once and kept), over rotated inputs.
std::unique_ptr<Work> formula_work(const Place& place, Formula formula, bool backward);

// The kinds of piece.
std::unique_ptr<Work> make_gemm(const Place& place, const Piece& piece);
std::unique_ptr<Work> make_attention(const Place& place, const Piece& piece);
std::unique_ptr<Work> make_elementwise(const Place& place, const Piece& piece);
// forward and backward of one block; `passes` says which piece of the group each entry is.
std::unique_ptr<Work> make_block(const Place& place, const Piece& piece,
                                 const std::vector<std::string>& passes);

// Bytes that tensors hold on the device.
struct Held {
  double live = -1;
  double peak = -1;
  double reserved = -1;
};
// Counts from here on; on a processor before the first tensor, or these are not counted.
void count_memory(const Place& place);
Held held(const Place& place);
void reset_peak(const Place& place);
std::vector<MemoryPhase> memory_phases(const Place& place, const Plan& plan,
                                       const std::vector<std::size_t>& group);

}  // namespace eratos::device
