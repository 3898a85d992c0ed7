// Bytes that tensors hold: a counting allocator on a processor, the caching allocator's own numbers
// on a GPU; and the phases of a reduced job.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>

#include <malloc.h>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#if defined(ERATOS_DEVICE_CUDA)
#include <c10/cuda/CUDACachingAllocator.h>
namespace caching = c10::cuda::CUDACachingAllocator;
#elif defined(ERATOS_DEVICE_ROCM)
#include <c10/hip/HIPCachingAllocator.h>
namespace caching = c10::hip::HIPCachingAllocator;
#endif

#include "block.h"
#include "faults.h"
#include "torch_device.h"

namespace eratos::device {

namespace {

std::atomic<double> live{0};
std::atomic<double> peak{0};

void count(double bytes) {
  double now = live.load();
  while (!live.compare_exchange_weak(now, now + bytes)) {
  }
  now += bytes;
  double most = peak.load();
  while (now > most && !peak.compare_exchange_weak(most, now)) {
  }
}

// Before each block of memory stands its size, in a line of its own.
constexpr std::size_t kAlignment = 64;  // as libtorch's own allocator: c10/core/alignment.h

void give_back(void* data) {
  if (data == nullptr) return;
  char* begin = static_cast<char*>(data) - kAlignment;
  count(-static_cast<double>(*reinterpret_cast<std::size_t*>(begin)));
  std::free(begin);
}

// libtorch's allocators changed shape between 1.13 and 2: `allocate` was const, `copy_data` came.
// Each function below overrides what its libtorch asks for; none says `override`, which the other
// lacks.
struct Counting final : c10::Allocator {
  static c10::DataPtr take(std::size_t bytes) {
    if (bytes == 0) return {nullptr, nullptr, &give_back, c10::Device(c10::kCPU)};
    void* begin = nullptr;
    if (::posix_memalign(&begin, kAlignment, bytes + kAlignment) != 0) {
      throw OutOfMemory("out of memory: " + std::to_string(bytes / 1'000'000) +
                        " MB more could not be allocated");
    }
    *static_cast<std::size_t*>(begin) = bytes;
    count(static_cast<double>(bytes));
    void* data = static_cast<char*>(begin) + kAlignment;
    return {data, data, &give_back, c10::Device(c10::kCPU)};
  }
  c10::DataPtr allocate(std::size_t bytes) const { return take(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return take(bytes); }
  c10::DeleterFnPtr raw_deleter() const { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::copy_n(static_cast<const char*>(from), bytes, static_cast<char*>(to));
  }
};

// One layer's part of a forward that is kept for its backward.
struct Kept {
  at::Tensor x;
  at::Tensor y;  // undefined where it is computed again
};

struct Step {
  std::vector<Block> blocks;  // embedding, layers, head
  std::vector<std::vector<Kept>> in_flight;
  std::vector<at::Tensor> moments;
};

MemoryPhase read(const Place& place) {
  synchronize(place);
  const Held now = held(place);
  return {now.peak, now.reserved, now.live};
}

std::vector<Kept> forward(const Step& step) {
  std::vector<Kept> out;
  at::Tensor x;
  for (const Block& block : step.blocks) {
    Kept kept;
    kept.x = x.defined() ? x.detach().requires_grad_(true) : block.input();
    const c10::AutoGradMode mode(!block.shape().recompute);
    kept.y = block.forward(fast_formulas(), kept.x);
    x = kept.y;
    if (block.shape().recompute) kept.y = at::Tensor();
    out.push_back(std::move(kept));
  }
  return out;
}

void backward(const Step& step, std::vector<Kept>& kept) {
  const c10::AutoGradMode mode(true);
  at::Tensor gradient = step.blocks.back().output_gradient();
  for (std::size_t i = step.blocks.size(); i-- > 0;) {
    at::Tensor y =
        kept[i].y.defined() ? kept[i].y : step.blocks[i].forward(fast_formulas(), kept[i].x);
    y.backward(gradient);
    gradient = kept[i].x.grad();
    kept[i] = {};
  }
}

// Adam's moments and, for 16-bit weights, a copy of them, all in fp32; then one step.
void optimizer(Step& step) {
  const at::NoGradGuard none;
  for (const Block& block : step.blocks) {
    for (const at::Tensor& w : block.weights()) {
      const at::Tensor master = w.detach().to(at::kFloat);
      at::Tensor m = at::zeros_like(master);
      at::Tensor v = at::zeros_like(master);
      if (w.scalar_type() != at::kFloat) step.moments.push_back(master);
      step.moments.push_back(m);
      step.moments.push_back(v);
      const at::Tensor g = w.grad().to(at::kFloat);
      m.mul_(0.9).add_(g, 0.1);
      v.mul_(0.95).addcmul_(g, g, 0.05);
      at::Tensor to = w.detach();
      to.sub_(m / v.sqrt().add_(1e-8) * 1e-4);
    }
  }
}

// glibc serves large blocks by mapping fresh pages until one of them is freed, and then raises its
// limits to these: a process that trains is there after its first step. Left to itself, a
// measurement would pay for page faults or not as its heap happens to lie. Source: mallopt(3),
// M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, dynamic adjustment.
void settle_heap() {
#if defined(__GLIBC__)
  constexpr int kMost = 32 << 20;  // DEFAULT_MMAP_THRESHOLD_MAX of 64 bits
  ::mallopt(M_MMAP_THRESHOLD, kMost);
  ::mallopt(M_TRIM_THRESHOLD, 2 * kMost);
#endif
}

}  // namespace

void count_memory(const Place& place) {
  if (!place.cpu()) return;
  settle_heap();
  static Counting counting;
  constexpr std::uint8_t kAboveAllOthers = 255;
  c10::SetAllocator(c10::kCPU, &counting, kAboveAllOthers);
}

Held held(const Place& place) {
  if (place.cpu()) return {live.load(), peak.load(), peak.load()};
#if defined(ERATOS_DEVICE_CUDA) || defined(ERATOS_DEVICE_ROCM)
  const auto stats = caching::getDeviceStats(place.device.index());
  constexpr std::size_t kAll = 0;  // StatType::AGGREGATE
  return {static_cast<double>(stats.allocated_bytes[kAll].current),
          static_cast<double>(stats.allocated_bytes[kAll].peak),
          static_cast<double>(stats.reserved_bytes[kAll].peak)};
#else
  return {};
#endif
}

void reset_peak(const Place& place) {
  if (place.cpu()) {
    peak = live.load();
    return;
  }
#if defined(ERATOS_DEVICE_CUDA) || defined(ERATOS_DEVICE_ROCM)
  caching::resetPeakStats(place.device.index());
#endif
}

std::vector<MemoryPhase> memory_phases(const Place& place, const Plan& plan,
                                       const std::vector<std::size_t>& group) {
  const Piece& first = plan.pieces[group.front()];
  if (held(place).live < 0) {
    throw CannotMeasure(
        "this program was built without the headers of the GPU's runtime, which its "
        "allocator's numbers need");
  }
  const BlockShape layer = block_shape(first, "layer");
  const std::int64_t layers = first.number("layers", 1);
  const std::int64_t micro_batches = std::max<std::int64_t>(1, first.number("micro_batches", 1));
  BlockShape end = layer;
  end.attention = false;
  end.mlp = false;
  end.experts = 0;
  end.recompute = false;
  end.vocab = first.number("vocab");

  double bytes = static_cast<double>(layers) * weight_bytes(layer);
  BlockShape head = end;
  head.head = true;
  if (end.vocab > 0) bytes += 2 * weight_bytes(head);
  need_room(place, 4 * bytes);

  const Held before = held(place);
  reset_peak(place);
  Step step;
  if (end.vocab > 0) {
    BlockShape embedding = end;
    embedding.embedding = true;
    step.blocks.emplace_back(place, embedding);
  }
  for (std::int64_t i = 0; i < layers; ++i) step.blocks.emplace_back(place, layer);
  if (end.vocab > 0) step.blocks.emplace_back(place, head);
  std::vector<std::pair<std::string, MemoryPhase>> phases;
  phases.emplace_back("parameters", read(place));

  reset_peak(place);
  for (std::int64_t m = 0; m < micro_batches; ++m) step.in_flight.push_back(forward(step));
  phases.emplace_back("forward", read(place));

  reset_peak(place);
  for (std::vector<Kept>& kept : step.in_flight) backward(step, kept);
  step.in_flight.clear();
  phases.emplace_back("backward", read(place));

  reset_peak(place);
  optimizer(step);
  phases.emplace_back("optimizer", read(place));

  std::vector<MemoryPhase> out;
  for (const std::size_t i : group) {
    const std::string wanted = plan.pieces[i].text("phase");
    const auto found = std::find_if(phases.begin(), phases.end(),
                                    [&](const auto& phase) { return phase.first == wanted; });
    if (found == phases.end()) {
      throw CannotMeasure("no phase is named `" + wanted +
                          "`: parameters, forward, backward or optimizer");
    }
    MemoryPhase of = found->second;
    of.peak -= before.live;
    of.live -= before.live;
    if (place.cpu()) of.reserved -= before.live;
    out.push_back(of);
  }
  return out;
}

}  // namespace eratos::device
