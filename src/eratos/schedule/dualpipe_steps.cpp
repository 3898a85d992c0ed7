#include "eratos/schedule/dualpipe_steps.h"

#include <cstddef>

#include "eratos/base/check.h"

namespace eratos::schedule::dual {
namespace {

// Each half's micro-batches run in turn, so counting them is enough.
class Steps {
 public:
  Steps(int first_chunk, Order& order)
      : first_chunk_(first_chunk), order_(order), begin_(order.actions.size()) {}

  void forward(int half, bool with_next = false) {
    put({forwards_[half]++, chunk_of(half), Kind::forward, with_next});
  }
  void backward(int half) { put({backwards_[half]++, chunk_of(half), Kind::backward}); }
  void input_gradient(int half) { put({backwards_[half]++, chunk_of(half), Kind::input_gradient}); }
  void pair(int forward_half, int backward_half) {
    forward(forward_half, true);
    backward(backward_half);
  }
  // The queue's oldest: the first B* of this rank whose W has not been put.
  void weight_gradient() {
    std::size_t& at = oldest_;
    while (action(at).kind != Kind::input_gradient) ++at;
    Action w = action(at++);
    w.kind = Kind::weight_gradient;
    put(w);
  }

 private:
  std::int16_t chunk_of(int half) const {
    return static_cast<std::int16_t>(half == 0 ? first_chunk_ : 1 - first_chunk_);
  }
  const Action& action(std::size_t at) const { return order_.actions[begin_ + at]; }
  void put(Action a) { order_.actions.push_back(a); }

  int first_chunk_;
  Order& order_;
  std::size_t begin_;
  std::size_t oldest_ = 0;
  int forwards_[2] = {0, 0};
  int backwards_[2] = {0, 0};
};

}  // namespace

void append_steps(int h, int r, int n, int first_chunk, Order& order) {
  ERATOS_CHECK(n >= 2 * h);
  Steps steps(first_chunk, order);
  const int below = h - r - 1;
  for (int i = 0; i < 2 * below; ++i) steps.forward(0);
  for (int i = 0; i < r + 1; ++i) {
    steps.forward(0);
    steps.forward(1);
  }
  for (int i = 0; i < below; ++i) {
    steps.input_gradient(1);
    steps.weight_gradient();
    steps.forward(1);
  }
  for (int i = 0; i < n - 2 * h + r + 1; ++i) {
    if (i == 0 && below == 0) {
      steps.forward(0);
      steps.backward(1);
    } else {
      steps.pair(0, 1);
    }
    steps.pair(1, 0);
  }
  for (int i = 0; i < below; ++i) {
    steps.backward(1);
    steps.pair(1, 0);
  }
  for (int i = 0; i < 2 * (r + 1); ++i) {
    const int half = i % 2 == 0 ? 1 : 0;
    if (i < r + 1) {
      steps.backward(half);
    } else {
      steps.input_gradient(half);
    }
  }
  for (int i = 0; i < below; ++i) {
    steps.weight_gradient();
    steps.input_gradient(0);
  }
  for (int i = 0; i < r + 1; ++i) steps.weight_gradient();
}

}  // namespace eratos::schedule::dual
