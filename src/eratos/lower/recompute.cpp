#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "eratos/lower/passes.h"

namespace eratos::lower {

namespace {

using ops::kMaxTensors;
using ops::Module;
using ops::TensorId;

// Modules whose checkpoint discards its output as well, once forward has used it.
bool drops_output(Module m) {
  return m == Module::norm || m == Module::activation || m == Module::expert_activation ||
         m == Module::mla_up;
}

// Ops [begin, end) of forward that are made again together.
struct Stretch {
  std::uint16_t begin = 0;
  std::uint16_t end = 0;
  bool made = false;    // already stands in backward
  bool needed = false;  // by the op at hand
};

inline constexpr std::size_t kMaxStretches = 256;

class Recompute {
 public:
  explicit Recompute(ops::Program& p) : p_(p) { ERATOS_CHECK(p.tensors.size() <= kMaxTensors); }

  void add(std::size_t begin, std::size_t end) {
    stretches_.push_back(
        {static_cast<std::uint16_t>(begin), static_cast<std::uint16_t>(end), false, false});
  }

  // Forgets all that the stretches made.
  void drop_all() {
    for (const Stretch& s : stretches_) {
      for (std::size_t i = s.begin; i < s.end; ++i) {
        for (const TensorId id : p_.forward[i].writes) {
          if (!p_.tensors[id].saved) continue;
          p_.tensors[id].saved = false;
          dropped_.set(id);
        }
      }
    }
  }

  // Forgets what the stretches made. A tensor that ops outside them read in forward as well is
  // kept, unless its maker discards its output.
  void drop(bool discards_output_modules) {
    const std::bitset<kMaxTensors> outside = read_outside();
    for (const Stretch& s : stretches_) {
      for (std::size_t i = s.begin; i < s.end; ++i) {
        for (const TensorId id : p_.forward[i].writes) {
          if (!p_.tensors[id].saved) continue;
          const bool discards = discards_output_modules && drops_output(p_.forward[i].module);
          if (!discards && outside.test(id)) continue;
          p_.tensors[id].saved = false;
          dropped_.set(id);
        }
      }
    }
  }

  // Puts each stretch before the first backward op that reads what it made (or at the front), those
  // it depends on before it, and keeps what they read from elsewhere.
  void insert(bool at_front) {
    find_makers();
    for (std::size_t j = 0; j < p_.backward.size(); ++j) {
      bool any = false;
      if (at_front && j == 0) {
        for (Stretch& s : stretches_) any = s.needed = true;
      }
      for (const TensorId id : p_.backward[j].reads) {
        if (dropped_.test(id)) any = need(id) || any;
      }
      if (!any) continue;
      require_inputs();
      for (Stretch& s : stretches_) {
        if (!s.needed) continue;
        s.needed = false;
        s.made = true;
        p_.backward.insert(at(p_.backward, j), at(p_.forward, s.begin), at(p_.forward, s.end));
        for (int n = s.end - s.begin; n > 0; --n) {
          p_.backward[j++].pass = ops::Pass::recompute;
        }
      }
    }
  }

  // Takes away what was made again to no end.
  void stop_early() {
    std::bitset<kMaxTensors> read;
    std::vector<ops::Op>& list = p_.backward;
    for (std::size_t i = list.size(); i-- > 0;) {
      const ops::Op& op = list[i];
      const bool used = std::any_of(op.writes.begin(), op.writes.end(),
                                    [&](TensorId id) { return read.test(id); });
      if (op.pass == ops::Pass::recompute && !op.writes.empty() && !used) {
        list.erase(at(list, i));
        continue;
      }
      for (const TensorId id : op.reads) read.set(id);
    }
  }

 private:
  static std::vector<ops::Op>::iterator at(std::vector<ops::Op>& list, std::size_t i) {
    return list.begin() + static_cast<std::ptrdiff_t>(i);
  }

  // The first stretch that writes each tensor.
  void find_makers() {
    std::fill_n(makers_.begin(), p_.tensors.size(), kNobody);
    for (std::size_t n = stretches_.size(); n-- > 0;) {
      for (std::size_t i = stretches_[n].begin; i < stretches_[n].end; ++i) {
        for (const TensorId id : p_.forward[i].writes) makers_[id] = static_cast<std::uint16_t>(n);
      }
    }
  }

  Stretch* maker_of(TensorId id) {
    return makers_[id] == kNobody ? nullptr : &stretches_[makers_[id]];
  }

  std::bitset<kMaxTensors> read_outside() const {
    std::bitset<kMaxTensors> read;
    std::size_t next = 0;
    for (std::size_t i = 0; i < p_.forward.size(); ++i) {
      while (next < stretches_.size() && i >= stretches_[next].end) ++next;
      if (next < stretches_.size() && i >= stretches_[next].begin) continue;
      for (const TensorId id : p_.forward[i].reads) read.set(id);
    }
    return read;
  }

  bool need(TensorId id) {
    Stretch* s = maker_of(id);
    if (s == nullptr || s->made) return false;
    s->needed = true;
    return true;
  }

  // A stretch reads what forward made before it: from the last stretch to the first.
  void require_inputs() {
    for (std::size_t n = stretches_.size(); n-- > 0;) {
      const Stretch& s = stretches_[n];
      if (!s.needed) continue;
      for (std::size_t i = s.begin; i < s.end; ++i) {
        for (const TensorId id : p_.forward[i].reads) {
          const Stretch* maker = maker_of(id);
          if (maker == &s) continue;
          if (maker == nullptr) {
            p_.tensors[id].saved = true;
          } else if (!p_.tensors[id].saved) {
            need(id);
          }
        }
      }
    }
  }

  static constexpr std::uint16_t kNobody = 0xffff;

  ops::Program& p_;
  InplaceVector<Stretch, kMaxStretches> stretches_;
  std::bitset<kMaxTensors> dropped_;
  std::array<std::uint16_t, kMaxTensors> makers_;  // of the program's own tensors; insert() fills it
};

// Where the final norm and the output layer begin (MTP modules carry a head of their own).
std::size_t head_begin(const ops::Program& p) {
  std::size_t i = 0;
  while (i < p.forward.size() && p.forward[i].module != Module::output_layer) ++i;
  if (i == p.forward.size()) return i;
  while (i > 0 && p.forward[i - 1].module == Module::norm) --i;
  return i;
}

void read_beside(std::vector<ops::Op>& list, std::size_t from, TensorId whole, TensorId part) {
  for (std::size_t i = from; i < list.size(); ++i) {
    auto& reads = list[i].reads;
    if (std::find(reads.begin(), reads.end(), whole) == reads.end()) continue;
    if (reads.size() < reads.capacity()) reads.push_back(part);
  }
}

// Cuts a product that is several launched as one into the share that is kept, which stays at `i`,
// and the rest behind it.
void cut_product(ops::Program& p, std::size_t i, double share) {
  ops::Op rest = p.forward[i];
  auto* kept_work = std::get_if<ops::Gemm>(&p.forward[i].work);
  auto* rest_work = std::get_if<ops::Gemm>(&rest.work);
  kept_work->n *= share;
  rest_work->n *= 1 - share;
  const TensorId whole = rest.writes[0];
  ops::Tensor part = p.tensors[whole];
  part.name = "kept_products";
  part.elements *= share;
  p.tensors[whole].elements *= 1 - share;
  p.tensors.push_back(part);
  const auto id = static_cast<TensorId>(p.tensors.size() - 1);
  p.forward[i].writes[0] = id;
  p.forward[i].kernels = static_cast<std::uint16_t>(p.forward[i].kernels - 1);
  rest.kernels = 1;
  p.forward.insert(p.forward.begin() + static_cast<std::ptrdiff_t>(i + 1), rest);
  read_beside(p.forward, i + 2, whole, id);
  read_beside(p.backward, 0, whole, id);
}

// Of the products launched as one, how much the odd ones of the layer's count make. Q, K and V: the
// slice that V is tells K's width.
double alternate_share(const ops::Program& p, std::size_t i, int first) {
  const int products = std::max<int>(1, p.forward[i].kernels);
  if (products == 1) return first % 2 == 0 ? 1.0 : 0.0;
  double one = 1.0 / products;
  if (p.forward[i].module == Module::qkv && products == 3) {
    const TensorId whole = p.forward[i].writes[0];
    for (const ops::Op& op : p.forward) {
      if (op.kernels == 0 && op.reads.size() == 1 && op.reads[0] == whole &&
          op.writes.size() == 1) {
        one = p.tensors[op.writes[0]].elements / p.tensors[whole].elements;
        break;
      }
    }
    return first % 2 == 0 ? 1.0 - one : one;
  }
  const int kept = first % 2 == 0 ? (products + 1) / 2 : products / 2;
  return kept * one;
}

bool is_reduce_scatter(const ops::Op& op) {
  const auto* c = std::get_if<ops::Collective>(&op.work);
  return c != nullptr && c->kind == ops::CollectiveKind::reduce_scatter;
}

// Is it one of the plain products that the policy counts? Grouped ones and the router's are not.
bool counts(const ops::Op& op) {
  const auto* g = std::get_if<ops::Gemm>(&op.work);
  return g != nullptr && !g->experts && op.module != Module::router;
}

// Nothing of what the first `end` ops of forward made is kept that backward never reads.
void forget_unread(ops::Program& p, std::size_t end) {
  std::bitset<kMaxTensors> read;
  for (const ops::Op& op : p.backward) {
    for (const TensorId id : op.reads) read.set(id);
  }
  for (std::size_t i = 0; i < end; ++i) {
    for (const TensorId id : p.forward[i].writes) {
      if (!read.test(id)) p.tensors[id].saved = false;
    }
  }
}

}  // namespace

void apply_policy(ops::Program& p, const job::RecomputeSpec& spec, bool drops_unread) {
  std::vector<bool> keeps;
  int products = 0;
  for (std::size_t i = 0; i < p.forward.size(); ++i) {
    const ops::Op& op = p.forward[i];
    const bool product = std::holds_alternative<ops::Gemm>(op.work);
    const bool result = product || std::holds_alternative<ops::Attention>(op.work) ||
                        std::holds_alternative<ops::Collective>(op.work);
    bool keep = result && spec.kept.test(static_cast<std::size_t>(op.module));
    if (spec.alternate && is_reduce_scatter(op)) keep = true;
    if (spec.alternate && counts(op) && !keep) {
      const int launched = std::max<int>(1, op.kernels);
      const double share = alternate_share(p, i, products);
      products += launched;
      keep = share > 0;
      if (share > 0 && share < 1) {
        cut_product(p, i, share);
        keeps.push_back(true);
        keeps.push_back(false);
        ++i;
        continue;
      }
    }
    keeps.push_back(keep);
  }
  const std::size_t end = head_begin(p);
  Recompute again(p);
  for (std::size_t i = 0; i < end;) {
    std::size_t stop = i;
    while (stop < end && !keeps[stop]) ++stop;
    if (stop > i) again.add(i, stop);
    i = stop > i ? stop : i + 1;
  }
  again.drop_all();
  again.insert(end == p.forward.size());
  if (!drops_unread) return;
  again.stop_early();
  forget_unread(p, end);
}

void apply_full_recompute(ops::Program& p, bool stops_early) {
  const std::size_t end = head_begin(p);
  Recompute again(p);
  again.add(0, end);
  again.drop(false);
  again.insert(end == p.forward.size());
  if (stops_early) again.stop_early();
}

void apply_selective_recompute(ops::Program& p, const job::ModuleSet& modules) {
  const auto chosen = [&](std::size_t i) {
    return modules.test(static_cast<std::size_t>(p.forward[i].module));
  };
  Recompute again(p);
  for (std::size_t i = 0; i < p.forward.size();) {
    std::size_t end = i;
    while (end < p.forward.size() && chosen(end)) ++end;
    if (end > i) again.add(i, end);
    i = end > i ? end : i + 1;
  }
  again.drop(true);
  again.insert(false);
}

}  // namespace eratos::lower
