// Frozen linears and the adapters beside them.
#include <algorithm>
#include <cstddef>
#include <variant>

#include "eratos/lower/passes.h"

namespace eratos::lower {

namespace {

using ops::CollectiveKind;
using ops::ElementwiseClass;
using ops::Module;
using ops::TensorId;

bool is_product(const ops::Op& op) { return std::holds_alternative<ops::Gemm>(op.work); }

bool reads(const ops::Op& op, TensorId id) {
  return std::find(op.reads.begin(), op.reads.end(), id) != op.reads.end();
}

bool read_by(const std::vector<ops::Op>& list, TensorId id) {
  return std::any_of(list.begin(), list.end(), [&](const ops::Op& op) { return reads(op, id); });
}

class Adapters {
 public:
  Adapters(ops::Program& p, const job::LoraSpec& spec, const layer::LayerContext& context)
      : p_(p), spec_(spec), c_(context) {}

  void run() {
    for (ops::Parameter& q : p_.parameters) q.frozen = true;
    for (std::size_t i = 0; i < p_.forward.size(); ++i) {
      if (is_product(p_.forward[i]) && targeted(p_.forward[i].module)) i = add_forward(i);
    }
    std::vector<ops::Op> kept;
    kept.reserve(p_.backward.size() + 6 * beside_.size());
    for (ops::Op& op : p_.backward) {
      if (op.pass != ops::Pass::wgrad) {
        kept.push_back(op);
      } else if (is_product(op) && targeted(op.module)) {
        add_backward(op, kept);
      }
    }
    p_.backward = std::move(kept);
    drop_unread_gathers();
    for (std::size_t id = 0; id < p_.tensors.size(); ++id) {
      ops::Tensor& t = p_.tensors[id];
      if (t.saved && !read_by(p_.backward, static_cast<TensorId>(id))) t.saved = false;
    }
  }

 private:
  // What one adapter's backward needs from its forward.
  struct Beside {
    Module module;
    double in;       // k of the base product, as the rank sees it
    double out;      // n
    TensorId x;      // what A reads where dropout made it anew; else the base's own operand
    TensorId low;    // A x
    TensorId mask;
    bool used;
  };

  bool targeted(Module m) const { return spec_.targets.test(static_cast<std::size_t>(m)); }

  TensorId tensor(const char* name, double elements, DType dtype, bool saved) {
    ops::Tensor t;
    t.name = name;
    t.elements = elements;
    t.dtype = dtype;
    t.module = Module::adapter;
    t.saved = saved;
    p_.tensors.push_back(t);
    return static_cast<TensorId>(p_.tensors.size() - 1);
  }

  static ops::Op op_of(ops::Pass pass, ops::Work work, std::uint16_t kernels = 1) {
    ops::Op op;
    op.pass = pass;
    op.module = Module::adapter;
    op.work = work;
    op.kernels = kernels;
    return op;
  }

  ops::Op streaming(ops::Pass pass, double elements, double passes, std::uint16_t kernels) const {
    return op_of(pass, ops::Elementwise{bytes_of(passes * elements, c_.activation),
                                        ElementwiseClass::streaming},
                 kernels);
  }

  ops::Op exchange(ops::Pass pass, CollectiveKind kind, double elements) const {
    ops::Op op = op_of(pass, ops::Collective{kind, Axis::tp, bytes_of(elements, c_.activation), 0, {}});
    op.stream = ops::Stream::tp;
    return op;
  }

  // The forward product at `i`, its reduction after it. Returns the last op that was added.
  // Source: NVIDIA-NeMo/Megatron-Bridge peft/utils.py, ParallelLinearAdapter: beside a linear cut by
  // columns A is cut by columns as well and its result gathered; beside one cut by rows A is, its
  // result is reduced, and B's columns are gathered.
  std::size_t add_forward(std::size_t i) {
    const ops::Op base = p_.forward[i];
    const auto g = *std::get_if<ops::Gemm>(&base.work);
    std::size_t after = i;
    TensorId y = base.writes[0];
    bool by_rows = false;
    if (i + 1 < p_.forward.size() && reads(p_.forward[i + 1], y)) {
      if (const auto* c = std::get_if<ops::Collective>(&p_.forward[i + 1].work)) {
        by_rows = c->axis == Axis::tp && (c->kind == CollectiveKind::reduce_scatter ||
                                          c->kind == CollectiveKind::all_reduce);
        if (by_rows) y = p_.forward[++after].writes[0];
      }
    }
    const bool expert = base.module == Module::expert_in || base.module == Module::expert_out;
    const double t = expert ? 1.0 : c_.tp;
    // Separate Q, K and V (or gate and up) have an adapter each.
    const double products = g.groups > 1 ? 1.0 : base.kernels;
    const double rank = spec_.rank * products;
    Beside b{base.module, g.k, g.n, ops::kNoTensor, ops::kNoTensor, ops::kNoTensor, false};
    std::vector<ops::Op> added;
    TensorId x = base.reads[0];
    if (spec_.dropout > 0) {
      b.mask = tensor("adapter_dropout_mask", g.m * g.k, DType::bool8, true);
      b.x = tensor("adapter_input", g.m * g.k, c_.activation, true);
      ops::Op drop = op_of(ops::Pass::forward,
                           ops::Elementwise{bytes_of(2 * g.m * g.k, c_.activation) +
                                                bytes_of(g.m * g.k, DType::bool8),
                                            ElementwiseClass::streaming});
      drop.reads.push_back(x);
      drop.writes.push_back(b.x);
      drop.writes.push_back(b.mask);
      added.push_back(drop);
      x = b.x;
    }
    b.low = tensor("adapter_low", g.m * rank, c_.activation, true);
    ops::Op a = op_of(ops::Pass::forward,
                      ops::Gemm{g.m, by_rows ? rank : rank / t, g.k, g.groups, c_.activation, false},
                      base.kernels);
    a.reads.push_back(x);
    a.writes.push_back(b.low);
    added.push_back(a);
    if (t > 1) {
      ops::Op e = exchange(ops::Pass::forward,
                           by_rows ? CollectiveKind::all_reduce : CollectiveKind::all_gather,
                           g.m * rank);
      e.reads.push_back(b.low);
      e.writes.push_back(b.low);
      added.push_back(e);
    }
    const double columns = by_rows ? g.n / t : g.n;
    const TensorId high = tensor("adapter_output", g.m * g.n, c_.activation, false);
    ops::Op up = op_of(ops::Pass::forward,
                       ops::Gemm{g.m, columns, spec_.rank * 1.0, g.groups, c_.activation, false},
                       base.kernels);
    up.reads.push_back(b.low);
    up.writes.push_back(high);
    added.push_back(up);
    if (by_rows && t > 1) {
      ops::Op e = exchange(ops::Pass::forward, CollectiveKind::all_gather, g.m * g.n);
      e.reads.push_back(high);
      e.writes.push_back(high);
      added.push_back(e);
    }
    // Scaled by alpha / rank (read, write), then added (two reads, a write).
    ops::Op add = streaming(ops::Pass::forward, p_.tensors[y].elements, 5, 2);
    add.reads.push_back(y);
    add.reads.push_back(high);
    add.writes.push_back(y);
    added.push_back(add);
    p_.forward.insert(p_.forward.begin() + static_cast<std::ptrdiff_t>(after + 1), added.begin(),
                      added.end());

    const double copies = g.groups > 1 ? g.groups : 1.0;
    const double a_rank = by_rows ? rank : rank / t;
    p_.parameters.push_back({"lora_a", a_rank * g.k * copies, Module::adapter, expert, true, false,
                             copies, false});
    p_.parameters.push_back({"lora_b", spec_.rank * columns * copies, Module::adapter, expert, true,
                             false, copies, false});
    b.in = g.k;
    b.out = columns;
    beside_.push_back(b);
    return after + added.size();
  }

  // Takes the place of the base's weight gradient: dB, the gradient of A x, dA, and what flows on.
  void add_backward(const ops::Op& wgrad, std::vector<ops::Op>& to) {
    const auto g = *std::get_if<ops::Gemm>(&wgrad.work);
    Beside* b = nullptr;
    for (std::size_t n = beside_.size(); n-- > 0 && b == nullptr;) {
      if (beside_[n].module == wgrad.module && !beside_[n].used) b = &beside_[n];
    }
    if (b == nullptr) return;
    b->used = true;
    const bool fused = c_.profile->state.wgrad_fused_accumulation;
    const double rows = g.k * (g.groups > 1 ? g.groups : 1.0);
    const double rank = p_.tensors[b->low].elements / rows;
    const TensorId x = b->x != ops::kNoTensor ? b->x : wgrad.reads[0];
    const TensorId dy = wgrad.reads[wgrad.reads.size() - 1];
    const double per_group = g.groups > 1 ? g.groups : 1.0;

    ops::Op db = op_of(ops::Pass::wgrad,
                       ops::Gemm{b->out * per_group, spec_.rank * 1.0, g.k, g.groups, c_.activation,
                                 fused},
                       wgrad.kernels);
    db.reads.push_back(b->low);
    db.reads.push_back(dy);
    to.push_back(db);
    const TensorId d_low = tensor("adapter_low_gradient", rows * rank, c_.activation, false);
    ops::Op dl = op_of(ops::Pass::dgrad,
                       ops::Gemm{rows, spec_.rank * 1.0, b->out, g.groups, c_.activation, false},
                       wgrad.kernels);
    dl.reads.push_back(dy);
    dl.writes.push_back(d_low);
    to.push_back(dl);
    ops::Op da = op_of(ops::Pass::wgrad,
                       ops::Gemm{rank * per_group, b->in, g.k, g.groups, c_.activation, fused},
                       wgrad.kernels);
    da.reads.push_back(x);
    da.reads.push_back(d_low);
    to.push_back(da);
    const TensorId d_in = tensor("adapter_input_gradient", rows * b->in, c_.activation, false);
    ops::Op dx = op_of(ops::Pass::dgrad,
                       ops::Gemm{rows, b->in, rank, g.groups, c_.activation, false}, wgrad.kernels);
    dx.reads.push_back(d_low);
    dx.writes.push_back(d_in);
    to.push_back(dx);
    ops::Op add = streaming(ops::Pass::dgrad, rows * b->in, b->mask != ops::kNoTensor ? 4 : 3, 1);
    add.reads.push_back(d_in);
    if (b->mask != ops::kNoTensor) add.reads.push_back(b->mask);
    to.push_back(add);
  }

  // Inputs gathered again for weight gradients that are no longer taken.
  void drop_unread_gathers() {
    auto& list = p_.backward;
    const auto unread = [&](const ops::Op& op) {
      const auto* c = std::get_if<ops::Collective>(&op.work);
      if (c == nullptr || c->kind != CollectiveKind::all_gather || op.writes.empty()) return false;
      return !read_by(list, op.writes[0]);
    };
    for (std::size_t i = list.size(); i-- > 0;) {
      if (unread(list[i])) list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  ops::Program& p_;
  const job::LoraSpec& spec_;
  const layer::LayerContext& c_;
  std::vector<Beside> beside_;
};

}  // namespace

void apply_lora(ops::Program& p, const job::LoraSpec& spec, const layer::LayerContext& context) {
  Adapters(p, spec, context).run();
}

}  // namespace eratos::lower
