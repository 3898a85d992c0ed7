// The device behind work.h: which kind of piece goes where, and libtorch's faults in our words.
#include <algorithm>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <utility>

#include <dlfcn.h>

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/api/include/torch/version.h>

#if defined(ERATOS_DEVICE_CUDA)
#include <c10/cuda/CUDACachingAllocator.h>
#elif defined(ERATOS_DEVICE_ROCM)
#include <c10/hip/HIPCachingAllocator.h>
#endif

#include "collectives.h"
#include "faults.h"
#include "machine.h"
#include "torch_device.h"

namespace eratos::device {

namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Runs `work`; what libtorch throws comes out as CannotMeasure or OutOfMemory.
template <class F>
auto in_our_words(F&& work) {
  try {
    return work();
  } catch (const CannotMeasure&) {
    throw;
  } catch (const Fault&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw OutOfMemory("out of memory");
  } catch (const std::exception& e) {
    const std::string what = first_line(e.what());
    for (const char* sign : {"out of memory", "can't allocate memory", "not enough memory"}) {
      if (what.find(sign) != std::string::npos) throw OutOfMemory("out of memory: " + what);
    }
    throw CannotMeasure("libtorch: " + what);
  }
}

// A rank that is gone is no fault of the piece: it ends the run.
template <class F>
auto together(F&& work) {
  try {
    return work();
  } catch (const CannotMeasure&) {
    throw;
  } catch (const std::exception& e) {
    throw Fault(kEnvironment, "error: another rank is gone: " + first_line(e.what()) +
                                  "; what was measured is kept: run again with --resume");
  }
}

class Guarded : public Work {
 public:
  Guarded(std::unique_ptr<Work> inner, bool of_ranks)
      : inner_(std::move(inner)), of_ranks_(of_ranks) {}
  void sample(int calls, int samples, std::vector<std::vector<double>>& out) override {
    const auto run = [&] { inner_->sample(calls, samples, out); };
    of_ranks_ ? together(run) : in_our_words(run);
  }
  double check(double& allowed) override {
    const auto run = [&] { return inner_->check(allowed); };
    return of_ranks_ ? together(run) : in_our_words(run);
  }
  std::vector<std::string> notes() const override { return inner_->notes(); }

 private:
  std::unique_ptr<Work> inner_;
  bool of_ranks_;
};

class Torch : public Device {
 public:
  Torch(const Place& place, int threads, const Rank& rank) : place_(place), threads_(threads) {
    if (rank.ranks > 1) ranks_ = Ranks::meet(place, rank);
    gpu_ = place_.cpu() ? Gpu{} : gpu_state(place_.device.index());
  }

  std::string kind() const override { return place_.cpu() ? "cpu" : "cuda"; }
  std::string name() const override {
    if (!place_.cpu()) return gpu_.name.empty() ? "unnamed GPU" : gpu_.name;
    const std::string name = cpu_name();
    return name.empty() ? "unnamed processor" : name;
  }
  std::string driver() const override { return gpu_.driver; }
  std::string libtorch() const override {
    std::string out = TORCH_VERSION;
    // The line of the build's settings that names its BLAS or its CUDA.
    std::istringstream in(at::show_config());
    std::string line;
    while (std::getline(in, line)) {
      for (const char* about : {"CUDA Runtime", "HIP Runtime", "MKL ", "capability usage"}) {
        const std::size_t at = line.find(about);
        if (at != std::string::npos) out += ", " + line.substr(at);
      }
    }
    return out;
  }
  std::string backend() const override { return ranks_ ? ranks_->backend() : ""; }
  int threads() const override { return threads_; }

  std::unique_ptr<Work> make(const Plan& plan, const std::vector<std::size_t>& group) override {
    const Piece& piece = plan.pieces[group.front()];
    if (piece.kind == "collective") {
      if (!ranks_) {
        throw CannotMeasure("it wants " + piece.text("ranks") + " ranks: run with --ranks " +
                            piece.text("ranks"));
      }
      return std::make_unique<Guarded>(together([&] { return ranks_->make(piece, group.front()); }),
                                       true);
    }
    return std::make_unique<Guarded>(in_our_words([&] { return alone(plan, group); }), false);
  }

  std::unique_ptr<Work> reference(Reference of) override {
    Piece piece;
    const std::string format = place_.cpu() ? "fp32" : "bf16";
    const std::string size = place_.cpu() ? "384" : "4096";
    if (of == Reference::compute) {
      piece.kind = "gemm";
      piece.fields = {
          {"dtype", format}, {"pass", "forward"}, {"m", size}, {"n", size}, {"k", size}};
    } else {
      piece.kind = "elementwise";
      piece.fields = {{"what", "copy"}, {"bytes", std::to_string(2 * place_.cache)}};
    }
    Place once = place_;
    once.cache = 0;  // one set of buffers, as each look shall be alike
    return in_our_words([&] {
      return of == Reference::compute ? make_gemm(once, piece) : make_elementwise(once, piece);
    });
  }

  std::vector<MemoryPhase> memory(const Plan& plan,
                                  const std::vector<std::size_t>& group) override {
    return in_our_words([&] { return memory_phases(place_, plan, group); });
  }

  void release() override {
#if defined(ERATOS_DEVICE_CUDA)
    if (!place_.cpu()) c10::cuda::CUDACachingAllocator::emptyCache();
#elif defined(ERATOS_DEVICE_ROCM)
    if (!place_.cpu()) c10::hip::HIPCachingAllocator::emptyCache();
#endif
  }

  void follow(const Plan& plan) override {
    together([&] { ranks_->follow(plan); });
  }
  void dismiss() override {
    if (ranks_) together([&] { ranks_->dismiss(); });
  }

 private:
  std::unique_ptr<Work> alone(const Plan& plan, const std::vector<std::size_t>& group) const {
    const Piece& piece = plan.pieces[group.front()];
    if (piece.kind == "gemm") return make_gemm(place_, piece);
    if (piece.kind == "attention") return make_attention(place_, piece);
    if (piece.kind == "elementwise") return make_elementwise(place_, piece);
    std::vector<std::string> passes;
    for (const std::size_t i : group) passes.push_back(plan.pieces[i].text("pass"));
    return make_block(place_, piece, passes);
  }

  Place place_;
  int threads_;
  Gpu gpu_;
  std::unique_ptr<Ranks> ranks_;
};

// libtorch tells OpenMP and MKL, but not an OpenBLAS that has threads of its own.
void set_threads(int threads) {
  at::set_num_threads(threads);
  using Set = void (*)(int);
  const auto set = reinterpret_cast<Set>(::dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set != nullptr) set(threads);
}

}  // namespace

std::unique_ptr<Device> open_device(const std::string& kind, int threads, double cache,
                                    const Rank& rank) {
  Place place;
  if (kind == "cuda") {
    const bool built = c10::impl::hasDeviceGuardImpl(c10::kCUDA);
    const int devices = built ? c10::impl::getDeviceGuardImpl(c10::kCUDA)->deviceCount() : 0;
    if (devices == 0) {
      throw Fault(
          kEnvironment,
          built ? "error: no GPU is visible to libtorch; is its driver there "
                  "(nvidia-smi, rocm-smi)? --device cpu measures the processor"
                : "error: this eratos-device was built with a libtorch for processors alone; "
                  "build it with the libtorch of a PyTorch for CUDA or ROCm (measure/README.md), "
                  "or measure --device cpu");
    }
    if (rank.local >= devices) {
      throw Fault(kEnvironment, "error: rank " + std::to_string(rank.rank) + " wants GPU " +
                                    std::to_string(rank.local) + ", and " +
                                    std::to_string(devices) + " are visible");
    }
    place.device = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(rank.local));
    c10::impl::getDeviceGuardImpl(c10::kCUDA)->setDevice(place.device);
    // The largest last-level cache of today's GPUs. Source: AMD Instinct MI300X data sheet,
    // Infinity Cache 256 MB; others have less.
    place.cache = 256'000'000;
  } else {
    place.cache = last_level_cache_bytes();
  }
  if (cache >= 0) place.cache = static_cast<std::int64_t>(cache);
  count_memory(place);
  if (threads < 1) {
    threads = std::max(1, processors() / (rank.by == "--ranks" ? rank.ranks : 1));
  }
  set_threads(threads);
  return std::make_unique<Torch>(place, threads, rank);
}

}  // namespace eratos::device
