#include "collectives.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>
#include <vector>

#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#if defined(ERATOS_DEVICE_GLOO)
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif
#if defined(ERATOS_DEVICE_NCCL)
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

#include "faults.h"

namespace eratos::device {

namespace {

#if TORCH_VERSION_MAJOR >= 2
using Group = c10d::Backend;
#else
using Group = c10d::ProcessGroup;
#endif

// A rank that dies is noticed at once, by its closed connections; this is for one that hangs.
constexpr std::chrono::seconds kPatience{60};
// Followers wait this long for rank 0, which measures by itself meanwhile.
constexpr std::chrono::hours kLongest{24};

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// One kind of collective over all ranks, its buffers in place. `bytes`: as ops::Collective counts,
// the larger buffer of one rank.
class Exchange {
 public:
  Exchange(const Place& place, Group& group, const std::string& backend, int rank, int ranks,
           const Piece& piece)
      : place_(place), group_(group), rank_(rank), ranks_(ranks), what_(piece.text("what")) {
    const at::ScalarType type = dtype_of(piece);
    const auto element = static_cast<std::int64_t>(c10::elementSize(type));
    // Whole shares for every rank.
    const std::int64_t share = std::max<std::int64_t>(1, piece.number("bytes") / element / ranks);
    all_ = random(place, {share * ranks}, type);
    own_ = random(place, {share}, type);
    other_ = random(place, {share * ranks}, type);
    composed_ = what_ == "reduce_scatter" && backend == "gloo";
  }

  static void check_name(const std::string& what) {
    for (const char* known :
         {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"}) {
      if (what == known) return;
    }
    throw CannotMeasure("`" + what + "` cannot be measured: no collective is named so");
  }

  bool composed() const { return composed_; }

  void run() {
    if (what_ == "all_reduce") {
      Tensors data{all_};
      group_.allreduce(data)->wait();
    } else if (what_ == "all_gather") {
      gather();
    } else if (what_ == "reduce_scatter") {
      reduce_scatter();
    } else if (what_ == "all_to_all") {
      group_.alltoall_base(other_, all_, none_, none_)->wait();
    } else {
      send_recv();
    }
  }

  // Integers small enough for any format: every rank knows what must come out.
  double check() {
    const at::NoGradGuard none;
    const std::int64_t share = own_.numel();
    all_.fill_(rank_ + 1);
    own_.fill_(rank_ + 1);
    if (what_ == "all_to_all" || composed_) {
      for (int r = 0; r < ranks_; ++r) all_.narrow(0, r * share, share).fill_(10 * rank_ + r);
    }
    run();
    const double sum = ranks_ * (ranks_ + 1) / 2.0;
    const auto filled = [&](std::int64_t n, double value) {
      return at::full({n}, value, at::TensorOptions(place_.device).dtype(at::kDouble));
    };
    double worst = 0;
    if (what_ == "all_reduce") {
      worst = relative_error(all_, filled(all_.numel(), sum));
    } else if (what_ == "all_gather") {
      for (int r = 0; r < ranks_; ++r) {
        worst =
            std::max(worst, relative_error(all_.narrow(0, r * share, share), filled(share, r + 1)));
      }
    } else if (what_ == "reduce_scatter") {
      const double composed = 10 * (sum - ranks_) + ranks_ * rank_;
      worst = relative_error(own_, filled(share, composed_ ? composed : sum));
    } else if (what_ == "all_to_all") {
      for (int r = 0; r < ranks_; ++r) {
        worst = std::max(worst, relative_error(other_.narrow(0, r * share, share),
                                               filled(share, 10 * r + rank_)));
      }
    } else if (rank_ == 1) {
      worst = relative_error(all_, filled(all_.numel(), 1));
    }
    return worst;
  }

 private:
  void gather() {
    std::vector<Tensors> parts(1);
    for (int r = 0; r < ranks_; ++r)
      parts[0].push_back(all_.narrow(0, r * own_.numel(), own_.numel()));
    Tensors own{own_};
#if defined(ERATOS_DEVICE_NCCL)
    if (!place_.cpu()) {
      group_._allgather_base(all_, own_)->wait();
      return;
    }
#endif
    group_.allgather(parts, own)->wait();
  }

  void reduce_scatter() {
    if (!composed_) {
      group_._reduce_scatter_base(own_, all_)->wait();
      return;
    }
    group_.alltoall_base(other_, all_, none_, none_)->wait();
    own_.copy_(at::sum(other_.view({ranks_, own_.numel()}), 0));
  }

  // Rank 0 sends, rank 1 receives; the others look on.
  void send_recv() {
    Tensors data{all_};
    if (rank_ == 0) group_.send(data, 1, 0)->wait();
    if (rank_ == 1) group_.recv(data, 0, 0)->wait();
  }

  Place place_;
  Group& group_;
  int rank_;
  int ranks_;
  std::string what_;
  bool composed_ = false;
  at::Tensor all_, own_, other_;
  std::vector<std::int64_t> none_;
};

class Met : public Ranks {
 public:
  Met(const Place& place, const Rank& rank) : place_(place), rank_(rank) {
    if (rank.master_host.empty()) {
      store_ = c10::make_intrusive<c10d::FileStore>(rank.store_file, rank.ranks);
    } else {
      c10d::TCPStoreOptions options;
      options.port = static_cast<std::uint16_t>(rank.master_port);
      options.isServer = rank.rank == 0 && !rank.agent_serves;
      options.waitWorkers = false;
      options.timeout = kPatience;
      store_ = c10::make_intrusive<c10d::PrefixStore>(
          "eratos-device", c10::make_intrusive<c10d::TCPStore>(rank.master_host, options));
    }
    store_->setTimeout(kPatience);
    open();
    if (rank_.rank != 0) store_->setTimeout(kLongest);
  }

  std::string backend() const override { return backend_; }

  std::unique_ptr<Work> make(const Piece& piece, std::size_t index) override;
  void follow(const Plan& plan) override;
  void dismiss() override { tell("end"); }

  // What rank 0 says, and every rank's answer to it: numbers.
  void tell(const std::string& what) {
    store_->set("say/" + std::to_string(++said_), bytes_of(what));
  }
  std::string hear() { return text_of(store_->get("say/" + std::to_string(++said_))); }
  void answer(const std::vector<double>& numbers) {
    std::ostringstream out;
    out.precision(17);
    for (const double n : numbers) out << n << ' ';
    store_->set("answer/" + std::to_string(said_) + '/' + std::to_string(rank_.rank),
                bytes_of(out.str()));
  }
  // The largest of all ranks' numbers, one by one.
  std::vector<double> most(std::vector<double> numbers) {
    for (int r = 0; r < rank_.ranks; ++r) {
      if (r == rank_.rank) continue;
      std::istringstream in(
          text_of(store_->get("answer/" + std::to_string(said_) + '/' + std::to_string(r))));
      double n = 0;
      for (std::size_t i = 0; i < numbers.size() && in >> n; ++i)
        numbers[i] = std::max(numbers[i], n);
    }
    return numbers;
  }

  std::unique_ptr<Exchange> exchange(const Piece& piece) {
    return std::make_unique<Exchange>(place_, *group_, backend_, rank_.rank, rank_.ranks, piece);
  }

  std::vector<double> samples(Exchange& exchange, int calls, int count) {
    std::vector<double> out;
    for (int s = 0; s < count; ++s) {
      group_->barrier()->wait();
      Marks marks(place_);
      marks.mark();
      for (int c = 0; c < calls; ++c) exchange.run();
      marks.mark();
      out.push_back(marks.intervals()[0] / calls);
    }
    return out;
  }

 private:
  void open() {
    if (place_.cpu()) {
#if defined(ERATOS_DEVICE_GLOO)
      backend_ = "gloo";
      auto options = c10d::ProcessGroupGloo::Options::create(kPatience);
      options->devices.push_back(rank_.master_host.empty()
                                     ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                     : c10d::ProcessGroupGloo::createDefaultDevice());
      options->threads = 2;  // as torch.distributed has it
      group_ =
          c10::make_intrusive<c10d::ProcessGroupGloo>(store_, rank_.rank, rank_.ranks, options);
      return;
#endif
    } else {
#if defined(ERATOS_DEVICE_NCCL)
      backend_ = "nccl";
      group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(
          store_, rank_.rank, rank_.ranks, c10d::ProcessGroupNCCL::Options::create());
      return;
#endif
    }
    throw Fault(
        kEnvironment,
        std::string("error: several ranks on ") + (place_.cpu() ? "cpu" : "cuda") + " need " +
            (place_.cpu() ? "gloo (Debian: libgloo-dev)" : "NCCL or RCCL") +
            ", whose headers were not there when eratos-device was built; build it again with "
            "them, or measure with one rank");
  }

  Place place_;
  Rank rank_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<Group> group_;
  std::string backend_;
  std::int64_t said_ = 0;
};

class CollectiveWork : public Work {
 public:
  CollectiveWork(Met& ranks, const Piece& piece, std::size_t index) : ranks_(ranks) {
    ranks_.tell("make " + std::to_string(index));
    exchange_ = ranks_.exchange(piece);
  }

  void sample(int calls, int samples, std::vector<std::vector<double>>& out) override {
    ranks_.tell("sample " + std::to_string(calls) + ' ' + std::to_string(samples));
    for (const double s : ranks_.most(ranks_.samples(*exchange_, calls, samples)))
      out[0].push_back(s);
  }

  double check(double& allowed) override {
    allowed = 1e-6;  // sums of small integers, exact in every format
    ranks_.tell("check");
    return ranks_.most({exchange_->check()})[0];
  }

  std::vector<std::string> notes() const override {
    if (!exchange_->composed()) return {};
    return {"gloo has no reduce-scatter: an all-to-all and the sum of what came"};
  }

 private:
  Met& ranks_;
  std::unique_ptr<Exchange> exchange_;
};

std::unique_ptr<Work> Met::make(const Piece& piece, std::size_t index) {
  if (piece.number("ranks") != rank_.ranks) {
    throw CannotMeasure("it wants " + piece.text("ranks") + " ranks, and " +
                        std::to_string(rank_.ranks) + " are at hand");
  }
  Exchange::check_name(piece.text("what"));
  return std::make_unique<CollectiveWork>(*this, piece, index);
}

void Met::follow(const Plan& plan) {
  std::unique_ptr<Exchange> current;
  for (;;) {
    std::istringstream said(hear());
    std::string what;
    said >> what;
    if (what == "end") return;
    if (what == "make") {
      std::size_t index = 0;
      said >> index;
      current = exchange(plan.pieces.at(index));
    } else if (what == "sample" && current) {
      int calls = 1;
      int count = 1;
      said >> calls >> count;
      answer(samples(*current, calls, count));
    } else if (what == "check" && current) {
      answer({current->check()});
    }
  }
}

}  // namespace

std::unique_ptr<Ranks> Ranks::meet(const Place& place, const Rank& rank) {
  try {
    return std::make_unique<Met>(place, rank);
  } catch (const c10::Error& e) {
    const std::string what = e.what_without_backtrace();
    throw Fault(kEnvironment, "error: the ranks did not meet: " + what.substr(0, what.find('\n')));
  }
}

}  // namespace eratos::device
