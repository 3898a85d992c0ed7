// Matrix products, one or in groups, and attention.
#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "faults.h"
#include "formulas.h"
#include "torch_device.h"

namespace eratos::device {

namespace {

// C[m,n] = A[m,k] B[k,n] for each group, in the layout that the passes of a linear layer have:
// forward X W' (W is stored [out, in], so B is a transposed view), dgrad dY W, wgrad dY' X (A is
// one).
struct Group {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

enum class Pass { forward, dgrad, wgrad };

Pass pass_of(const Piece& piece) {
  const std::string pass = piece.text("pass");
  if (pass == "forward") return Pass::forward;
  if (pass == "dgrad") return Pass::dgrad;
  if (pass == "wgrad") return Pass::wgrad;
  throw CannotMeasure("a product has no pass `" + pass + "`: forward, dgrad or wgrad");
}

// m counts the rows of all groups. Tokens are the rows of A in forward and dgrad, and what is
// summed over in wgrad, whose m is the experts' outputs together: `rows` are tokens in both.
std::vector<Group> groups_of(const Piece& piece, Pass pass) {
  const std::int64_t count = std::max<std::int64_t>(1, piece.number("groups", 1));
  const std::int64_t m = piece.number("m");
  std::vector<std::int64_t> rows = piece.numbers("rows");
  const std::int64_t tokens = pass == Pass::wgrad ? piece.number("k") * count : m;
  if (rows.empty()) {
    for (std::int64_t i = 0; i < count; ++i) {
      rows.push_back(tokens * (i + 1) / count - tokens * i / count);
    }
  }
  if (static_cast<std::int64_t>(rows.size()) != count ||
      std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) != tokens) {
    throw CannotMeasure("`rows` are not the " + std::to_string(tokens) + " rows of " +
                        std::to_string(count) + " groups");
  }
  std::vector<Group> out;
  for (const std::int64_t r : rows) {
    if (r == 0) continue;  // an expert without a token runs nothing
    if (pass == Pass::wgrad) {
      out.push_back({m / count, piece.number("n"), r});
    } else {
      out.push_back({r, piece.number("n"), piece.number("k")});
    }
  }
  return out;
}

struct Operands {
  at::Tensor a;
  at::Tensor b;
  at::Tensor sum;  // where the product is added to what is there
};

class GemmWork : public Work {
 public:
  GemmWork(const Place& place, const Piece& piece)
      : place_(place),
        pass_(pass_of(piece)),
        type_(dtype_of(piece)),
        accumulate_(piece.yes("accumulate")),
        groups_(groups_of(piece, pass_)) {
    batch_ = static_cast<std::int64_t>(groups_.size());
    for (const Group& g : groups_) {
      if (g.m != groups_[0].m || g.k != groups_[0].k) batch_ = 1;
    }
    if (!piece.yes("strided")) batch_ = 1;
    if (batch_ > 1) groups_.resize(1);
    double bytes = 0;
    for (const Group& g : groups_) {
      const double each = static_cast<double>(c10::elementSize(type_));
      bytes += each * static_cast<double>(batch_ * (g.m * g.k + g.k * g.n + g.m * g.n));
    }
    need_room(place_, bytes);
    const std::int64_t sets = sets_for(place_, bytes, bytes);
    for (std::int64_t i = 0; i < sets; ++i) {
      std::vector<Operands> set;
      for (const Group& g : groups_) set.push_back(operands(g));
      sets_.push_back(std::move(set));
    }
    synchronize(place_);
  }

  void sample(int calls, int samples, std::vector<std::vector<double>>& out) override {
    const at::NoGradGuard none;
    Marks marks(place_);
    marks.mark();
    for (int s = 0; s < samples; ++s) {
      for (int c = 0; c < calls; ++c) {
        for (Operands& o : sets_[next_++ % sets_.size()]) product(o);
      }
      marks.mark();
    }
    for (const double s : marks.intervals()) out[0].push_back(s / calls);
  }

  // The real product's own result, at sampled rows and columns: which kernel a library picks
  // depends on the size.
  double check(double& allowed) override {
    const at::NoGradGuard none;
    allowed = allowed_error(type_);
    double worst = 0;
    for (std::size_t g = 0; g < groups_.size(); g += std::max<std::size_t>(1, groups_.size() / 2)) {
      Operands o = operands(groups_[g]);
      if (accumulate_) o.sum.zero_();
      at::Tensor c = product(o);
      if (batch_ > 1) {
        c = c.select(0, batch_ - 1);
        o = {o.a.select(0, batch_ - 1), o.b.select(0, batch_ - 1), {}};
      }
      const at::Tensor rows =
          random_index(place_, std::min<std::int64_t>(16, c.size(0)), c.size(0));
      const at::Tensor columns =
          random_index(place_, std::min<std::int64_t>(16, c.size(1)), c.size(1));
      const at::Tensor wanted = at::mm(o.a.index_select(0, rows).to(at::kDouble),
                                       o.b.index_select(1, columns).to(at::kDouble));
      const at::Tensor got = c.index_select(0, rows).index_select(1, columns);
      worst = std::max(worst, relative_error(got, wanted));
    }
    return worst;
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> out;
    if (groups_.size() > 1) out.emplace_back("a product for each group, one after another");
    if (accumulate_ && type_ != at::kFloat && type_ != at::kDouble) {
      out.emplace_back("added up in the operands' format: libtorch has no sum in fp32 of them");
    }
    return out;
  }

 private:
  Operands operands(const Group& g) const {
    Operands out;
    out.a = pass_ == Pass::wgrad ? matrix(g.k, g.m).transpose(-2, -1) : matrix(g.m, g.k);
    out.b = pass_ == Pass::forward ? matrix(g.n, g.k).transpose(-2, -1) : matrix(g.k, g.n);
    if (accumulate_) out.sum = matrix(g.m, g.n);
    return out;
  }

  at::Tensor matrix(std::int64_t rows, std::int64_t columns) const {
    if (batch_ > 1) return random(place_, {batch_, rows, columns}, type_);
    return random(place_, {rows, columns}, type_);
  }

  // The result is a new tensor, as a framework makes one.
  at::Tensor product(Operands& o) const {
    if (batch_ > 1) return accumulate_ ? o.sum.baddbmm_(o.a, o.b) : at::bmm(o.a, o.b);
    return accumulate_ ? o.sum.addmm_(o.a, o.b) : at::mm(o.a, o.b);
  }

  Place place_;
  Pass pass_;
  at::ScalarType type_;
  bool accumulate_;
  std::vector<Group> groups_;
  std::int64_t batch_ = 1;  // groups that one strided product does together
  std::vector<std::vector<Operands>> sets_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Work> make_gemm(const Place& place, const Piece& piece) {
  return std::make_unique<GemmWork>(place, piece);
}

std::unique_ptr<Work> make_attention(const Place& place, const Piece& piece) {
  const std::string pass = piece.text("pass");
  if (pass != "forward" && pass != "backward") {
    throw CannotMeasure("attention has no pass `" + pass + "`: forward or backward");
  }
  const at::ScalarType type = dtype_of(piece);
  const std::int64_t batch = piece.number("batch");
  const std::int64_t queries = piece.number("seq_q");
  const std::int64_t keys = piece.number("seq_kv");
  const std::int64_t heads = piece.number("heads");
  const std::int64_t groups = piece.number("kv_heads");
  const std::int64_t size = piece.number("head_dim");
  const std::int64_t value_size = piece.number("v_head_dim", size);
  const bool causal = piece.number("causal", 1) != 0;
  const std::int64_t window = piece.number("window");
  if (piece.yes("sinks")) throw CannotMeasure("attention with sinks: libtorch has none");
  if (heads % groups != 0) throw CannotMeasure("`kv_heads` does not divide `heads`");
  if (causal && queries > keys) throw CannotMeasure("`seq_q` exceeds `seq_kv`");

  Formula f;
  f.allowed = allowed_error(type);
  f.differentiable = {0, 1, 2};
  if (const std::string note = attention_note(); !note.empty()) f.notes.push_back(note);
  f.inputs = [=](std::int64_t rows) -> Tensors {
    const bool small = rows > 0;
    const std::int64_t b = small ? 1 : batch;
    const std::int64_t g = small ? 1 : groups;
    const std::int64_t h = heads / groups * g;
    const std::int64_t s = small ? std::min(queries, rows) : queries;
    const std::int64_t past = keys - queries;
    const std::int64_t t = small ? s + std::min(past, rows) : keys;
    return {random(place, {b, s, h, size}, type), random(place, {b, t, g, size}, type),
            random(place, {b, t, g, value_size}, type)};
  };
  f.fast = [=](const Tensors& x) {
    return fast_formulas().attention(x[0], x[1], x[2], causal, window, true);
  };
  f.plain = [=](const Tensors& x) {
    return plain_formulas().attention(x[0], x[1], x[2], causal, window, true);
  };
  return formula_work(place, std::move(f), pass == "backward");
}

}  // namespace eratos::device
