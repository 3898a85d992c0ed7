#include "block.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "faults.h"

namespace eratos::device {

namespace {

std::int64_t needed(const Piece& piece, const char* key) {
  const std::int64_t n = piece.number(key, -1);
  if (n < 1) throw CannotMeasure(std::string("a block of its kind needs `") + key + '`');
  return n;
}

Activation activation_of(const Piece& piece) {
  const std::string name = piece.text("activation");
  if (name.empty() || name == "silu") return Activation::silu;
  if (name == "gelu") return Activation::gelu;
  if (name == "relu") return Activation::relu;
  if (name == "squared_relu") return Activation::squared_relu;
  throw CannotMeasure("no activation of this program is named `" + name + "`");
}

std::int64_t qkv_width(const BlockShape& s) { return (s.heads + 2 * s.kv_heads) * s.head_dim; }

void keep_double(at::Tensor& t) {
  if (!t.defined() || !at::isFloatingType(t.scalar_type())) return;
  const bool gradient = t.requires_grad();
  t = t.detach().to(at::kDouble).requires_grad_(gradient);
}

}  // namespace

BlockShape block_shape(const Piece& piece, const std::string& what) {
  BlockShape s;
  s.type = dtype_of(piece);
  s.tokens = needed(piece, "tokens");
  s.sequence = piece.number("sequence", s.tokens);
  s.hidden = needed(piece, "hidden");
  s.attention = what == "layer" || what == "attention";
  s.mlp = what == "layer" || what == "mlp" || what == "moe";
  s.embedding = what == "embedding";
  s.head = what == "head";
  if (!s.attention && !s.mlp && !s.embedding && !s.head) {
    throw CannotMeasure("`" + what + "` cannot be measured: no block of this program is named so");
  }
  if (s.sequence < 1 || s.tokens % s.sequence != 0) {
    throw CannotMeasure("`sequence` does not divide `tokens`");
  }
  if (s.attention) {
    s.heads = needed(piece, "heads");
    s.kv_heads = std::max<std::int64_t>(1, piece.number("kv_heads", s.heads));
    s.head_dim = needed(piece, "head_dim");
    if (s.heads % s.kv_heads != 0) throw CannotMeasure("`kv_heads` does not divide `heads`");
    s.window = piece.number("window");
    s.qkv_bias = piece.yes("qkv_bias");
    s.qk_norm = piece.yes("qk_norm");
    s.fused = piece.text("attention") != "unfused";
    if (piece.text("position") == "alibi") {
      throw CannotMeasure("attention with alibi: no kernel of this program adds it");
    }
  }
  if (s.mlp) {
    s.ffn = needed(piece, "ffn");
    s.experts = what == "mlp" ? 0 : piece.number("experts");
    if (s.experts > 0) {
      s.top_k = needed(piece, "top_k");
      s.all_experts = std::max(s.experts, piece.number("all_experts"));
      if (s.top_k > s.all_experts) throw CannotMeasure("`top_k` exceeds `all_experts`");
      s.expert_rows = piece.number("expert_rows");
      if (s.expert_rows < 1) s.expert_rows = s.tokens * s.top_k;
      s.shared_ffn = piece.number("shared_ffn");
    }
    if (what == "moe" && s.experts < 1) throw CannotMeasure("a block `moe` needs `experts`");
  }
  if (s.embedding || s.head) s.vocab = needed(piece, "vocab");
  s.shard_tokens = piece.number("shard_tokens");
  if (s.shard_tokens < 1) s.shard_tokens = s.tokens;
  if (s.tokens % s.shard_tokens != 0)
    throw CannotMeasure("`shard_tokens` does not divide `tokens`");
  s.gated = piece.number("gated", 1) != 0;
  s.activation = activation_of(piece);
  s.layer_norm = piece.text("norm") == "layernorm";
  s.rotary = piece.text("position") != "none" && piece.text("position") != "learned";
  s.recompute = piece.text("recompute") == "full";
  return s;
}

BlockShape small_block(const BlockShape& shape) {
  BlockShape s = shape;
  s.sequence = std::min<std::int64_t>(s.sequence, 48);
  s.tokens = std::min<std::int64_t>(s.tokens / shape.sequence, 2) * s.sequence;
  s.hidden = std::min<std::int64_t>(s.hidden, 192);
  if (s.attention) {
    const std::int64_t each = s.heads / s.kv_heads;
    s.kv_heads = std::min<std::int64_t>(s.kv_heads, 2);
    s.heads = each * s.kv_heads;
  }
  s.ffn = std::min<std::int64_t>(s.ffn, 320);
  s.shared_ffn = std::min<std::int64_t>(s.shared_ffn, 160);
  s.experts = std::min<std::int64_t>(s.experts, 4);
  s.expert_rows = std::min<std::int64_t>(s.expert_rows, s.tokens * s.top_k);
  const std::int64_t shards = shape.tokens / shape.shard_tokens;
  s.shard_tokens = s.tokens % shards == 0 ? s.tokens / shards : s.tokens;
  s.vocab = std::min<std::int64_t>(s.vocab, 512);
  return s;
}

double weight_bytes(const BlockShape& s) {
  const auto d = [](std::int64_t n) { return static_cast<double>(n); };
  double n = d(s.hidden) * (s.attention + s.mlp + s.head);
  if (s.attention) n += d(s.hidden) * d(qkv_width(s) + s.heads * s.head_dim);
  const double wide = s.gated ? 2 : 1;
  if (s.mlp) n += d(std::max<std::int64_t>(1, s.experts)) * (1 + wide) * d(s.hidden) * d(s.ffn);
  n += (1 + wide) * d(s.hidden) * d(s.shared_ffn) + d(s.all_experts) * d(s.hidden);
  n += d(s.vocab) * d(s.hidden);
  return n * static_cast<double>(c10::elementSize(s.type));
}

double kept_bytes(const BlockShape& s) {
  const auto d = [](std::int64_t n) { return static_cast<double>(n); };
  const double rows = d(s.experts > 0 ? s.expert_rows : s.tokens);
  double n = 4 * d(s.tokens) * d(s.hidden);
  if (s.attention) n += d(s.tokens) * d(qkv_width(s) + 2 * s.heads * s.head_dim);
  if (s.mlp) n += rows * d(s.ffn) * (s.gated ? 4 : 2);
  if (s.head) n += 2 * d(s.tokens) * d(s.vocab);
  return n * static_cast<double>(c10::elementSize(s.type));
}

at::Tensor Block::weight(std::int64_t out, std::int64_t in) const {
  // Results stay of the size of their inputs, whatever the depth of the sum.
  return random(place_, {out, in}, shape_.type, std::sqrt(3.0 / static_cast<double>(in)))
      .requires_grad_(true);
}

at::Tensor Block::ones(std::int64_t width) const {
  return at::ones({width}, at::TensorOptions(place_.device).dtype(shape_.type))
      .requires_grad_(true);
}

Block::Block(const Place& place, const BlockShape& shape) : place_(place), shape_(shape) {
  const BlockShape& s = shape_;
  need_room(place_, weight_bytes(s));
  const std::int64_t wide = s.gated ? 2 : 1;
  if (s.attention) {
    norm1_ = ones(s.hidden);
    qkv_ = weight(qkv_width(s), s.hidden);
    out_ = weight(s.hidden, s.heads * s.head_dim);
    if (s.qkv_bias) bias_ = ones(qkv_width(s));
    if (s.qk_norm) q_norm_ = ones(s.head_dim);
    if (s.qk_norm) k_norm_ = ones(s.head_dim);
    if (s.rotary) angles_ = rotary_angles(s.sequence, s.head_dim, place.device);
  }
  if (s.mlp) {
    norm2_ = ones(s.hidden);
    for (std::int64_t e = 0; e < std::max<std::int64_t>(1, s.experts); ++e) {
      up_.push_back(weight(wide * s.ffn, s.hidden));
      down_.push_back(weight(s.hidden, s.ffn));
    }
  }
  if (s.mlp && s.experts > 0) {
    router_ = weight(s.all_experts, s.hidden);
    if (s.shared_ffn > 0) {
      shared_up_ = weight(wide * s.shared_ffn, s.hidden);
      shared_down_ = weight(s.hidden, s.shared_ffn);
    }
    // Row c goes to expert c % experts and is a choice of token c / top_k: as even as can be, and
    // scattered. More rows than choices come from other ranks; here they are the same tokens again.
    std::vector<std::int64_t> tokens;
    std::vector<std::int64_t> slots;
    for (std::int64_t e = 0; e < s.experts; ++e) {
      std::int64_t rows = 0;
      for (std::int64_t c = e; c < s.expert_rows; c += s.experts) {
        tokens.push_back(c / s.top_k % s.tokens);
        slots.push_back(c % (s.tokens * s.top_k));
        ++rows;
      }
      expert_rows_.push_back(rows);
    }
    row_token_ = at::tensor(tokens).to(place.device);
    row_slot_ = at::tensor(slots).to(place.device);
  }
  if (s.embedding || s.head) table_ = weight(s.vocab, s.hidden);
  if (s.head) {
    norm1_ = ones(s.hidden);
    targets_ = random_index(place, s.tokens, s.vocab);
  }
}

at::Tensor Block::input() const {
  if (shape_.embedding) return random_index(place_, shape_.tokens, shape_.vocab);
  return random(place_, {shape_.shard_tokens, shape_.hidden}, shape_.type).requires_grad_(true);
}

at::Tensor Block::output_gradient() const {
  if (shape_.head) return at::ones({}, at::TensorOptions(place_.device).dtype(at::kFloat));
  return random(place_, {shape_.shard_tokens, shape_.hidden}, shape_.type);
}

Block Block::in_double() const {
  Block out = *this;
  out.shape_.type = at::kDouble;
  for (at::Tensor* t :
       {&out.norm1_, &out.qkv_, &out.bias_, &out.q_norm_, &out.k_norm_, &out.out_, &out.norm2_,
        &out.router_, &out.shared_up_, &out.shared_down_, &out.table_}) {
    keep_double(*t);
  }
  for (at::Tensor& t : out.up_) keep_double(t);
  for (at::Tensor& t : out.down_) keep_double(t);
  return out;
}

std::vector<at::Tensor> Block::weights() const {
  std::vector<at::Tensor> out;
  for (const at::Tensor* t : {&norm1_, &qkv_, &bias_, &q_norm_, &k_norm_, &out_, &norm2_, &router_,
                              &shared_up_, &shared_down_, &table_}) {
    if (t->defined()) out.push_back(*t);
  }
  out.insert(out.end(), up_.begin(), up_.end());
  out.insert(out.end(), down_.begin(), down_.end());
  return out;
}

at::Tensor Block::all_rows(const at::Tensor& shard) const {
  const std::int64_t times = shape_.tokens / shape_.shard_tokens;
  return times == 1 ? shard : shard.repeat({times, 1});
}

at::Tensor Block::own_rows(const at::Tensor& all) const {
  return shape_.tokens == shape_.shard_tokens ? all : all.narrow(0, 0, shape_.shard_tokens);
}

at::Tensor Block::attend(const Formulas& f, const at::Tensor& x) const {
  const BlockShape& s = shape_;
  const std::int64_t b = s.tokens / s.sequence;
  const at::Tensor qkv = at::linear(all_rows(f.norm(x, norm1_, s.layer_norm)), qkv_, bias_);
  const std::vector<at::Tensor> parts = qkv.split_with_sizes(
      {s.heads * s.head_dim, s.kv_heads * s.head_dim, s.kv_heads * s.head_dim}, -1);
  at::Tensor q = parts[0].reshape({b, s.sequence, s.heads, s.head_dim});
  at::Tensor k = parts[1].reshape({b, s.sequence, s.kv_heads, s.head_dim});
  const at::Tensor v = parts[2].reshape({b, s.sequence, s.kv_heads, s.head_dim});
  if (s.qk_norm) {
    q = f.norm(q, q_norm_, s.layer_norm);
    k = f.norm(k, k_norm_, s.layer_norm);
  }
  if (s.rotary) {
    q = f.rotary(q, angles_);
    k = f.rotary(k, angles_);
  }
  const at::Tensor mixed = f.attention(q, k, v, true, s.window, s.fused);
  return x + own_rows(at::linear(mixed.reshape({s.tokens, s.heads * s.head_dim}), out_));
}

at::Tensor Block::dense(const Formulas& f, const at::Tensor& x, const at::Tensor& up,
                        const at::Tensor& down) const {
  return at::linear(f.activation(at::linear(x, up), shape_.activation, shape_.gated), down);
}

at::Tensor Block::feed(const Formulas& f, const at::Tensor& x) const {
  const at::Tensor normed = all_rows(f.norm(x, norm2_, shape_.layer_norm));
  return x + own_rows(dense(f, normed, up_[0], down_[0]));
}

// The router's chances weigh the experts' results; which expert a row goes to is balanced by force,
// so that every run does the same work.
at::Tensor Block::experts(const Formulas& f, const at::Tensor& x) const {
  const BlockShape& s = shape_;
  const at::Tensor normed = all_rows(f.norm(x, norm2_, s.layer_norm));
  const at::Tensor chances = f.router(at::linear(normed, router_), s.top_k);
  const at::Tensor by_row = chances.reshape({-1}).index_select(0, row_slot_).to(x.scalar_type());
  const at::Tensor rows = normed.index_select(0, row_token_);
  const std::vector<at::Tensor> of_expert = rows.split_with_sizes(expert_rows_, 0);
  std::vector<at::Tensor> results;
  for (std::size_t e = 0; e < of_expert.size(); ++e) {
    results.push_back(dense(f, of_expert[e], up_[e], down_[e]));
  }
  const at::Tensor weighted = at::cat(results, 0) * by_row.unsqueeze(1);
  at::Tensor y = at::zeros_like(normed).index_add(0, row_token_, weighted);
  if (s.shared_ffn > 0) y = y + dense(f, normed, shared_up_, shared_down_);
  return x + own_rows(y);
}

at::Tensor Block::forward(const Formulas& f, const at::Tensor& x) const {
  if (shape_.embedding) return own_rows(at::embedding(table_, x));
  if (shape_.head) {
    const at::Tensor normed = all_rows(f.norm(x, norm1_, shape_.layer_norm));
    return f.cross_entropy(at::linear(normed, table_), targets_);
  }
  at::Tensor y = x;
  if (shape_.attention) y = attend(f, y);
  if (shape_.mlp) y = shape_.experts > 0 ? experts(f, y) : feed(f, y);
  return y;
}

namespace {

class BlockWork : public Work {
 public:
  BlockWork(const Place& place, const BlockShape& shape, std::vector<std::string> passes)
      : place_(place), passes_(std::move(passes)) {
    const double each = 2 * weight_bytes(shape) + kept_bytes(shape);
    need_room(place, each);
    // An embedding touches the rows of its tokens alone.
    const std::int64_t copies = sets_for(place, shape.embedding ? kept_bytes(shape) : each, each);
    for (std::int64_t i = 0; i < copies; ++i) {
      blocks_.emplace_back(place, shape);
      inputs_.push_back(blocks_.back().input());
      gradients_.push_back(blocks_.back().output_gradient());
    }
    synchronize(place);
  }

  void sample(int calls, int samples, std::vector<std::vector<double>>& out) override {
    Marks marks(place_);
    marks.mark();
    for (int s = 0; s < samples; ++s) {
      for (int c = 0; c < calls; ++c) once(marks);
    }
    const std::vector<double> times = marks.intervals();  // forward, backward, forward, ...
    for (std::size_t p = 0; p < passes_.size(); ++p) {
      const std::size_t which = passes_[p] == "backward" ? 1 : 0;
      for (int s = 0; s < samples; ++s) {
        double sum = 0;
        for (int c = 0; c < calls; ++c) {
          sum += times[2 * (static_cast<std::size_t>(s) * static_cast<std::size_t>(calls) +
                            static_cast<std::size_t>(c)) +
                       which];
        }
        out[p].push_back(sum / calls);
      }
    }
  }

  double check(double& allowed) override {
    // Roundings of several kernels in a row.
    constexpr double kKernelsDeep = 4;
    const Block block(place_, small_block(blocks_.front().shape()));
    allowed = kKernelsDeep * allowed_error(block.shape().type);
    const Block wide = block.in_double();
    const c10::AutoGradMode mode(true);
    const at::Tensor x = block.input();
    const bool numbers = block.shape().embedding;
    const at::Tensor x_wide = numbers ? x : x.detach().to(at::kDouble).requires_grad_(true);
    const at::Tensor y = block.forward(fast_formulas(), x);
    const at::Tensor y_wide = wide.forward(plain_formulas(), x_wide);
    const at::Tensor dy = block.output_gradient();
    y.backward(dy.to(y.scalar_type()));
    y_wide.backward(dy.to(at::kDouble));
    double worst = relative_error(y, y_wide);
    if (!numbers) worst = std::max(worst, relative_error(x.grad(), x_wide.grad()));
    const std::vector<at::Tensor> got = block.weights();
    const std::vector<at::Tensor> wanted = wide.weights();
    for (std::size_t i = 0; i < got.size(); ++i) {
      worst = std::max(worst, relative_error(got[i].grad(), wanted[i].grad()));
    }
    return worst;
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> out;
    const BlockShape& s = blocks_.front().shape();
    if (const std::string note = attention_note(); s.attention && s.fused && !note.empty()) {
      out.push_back(note);
    }
    if (s.experts > 0) {
      out.emplace_back("routing balanced by force, a product for each expert, one after another");
    }
    return out;
  }

 private:
  void once(Marks& marks) {
    const std::size_t i = next_++ % blocks_.size();
    const Block& block = blocks_[i];
    at::Tensor x = inputs_[i];
    at::Tensor y;
    if (block.shape().recompute) {
      {
        const at::NoGradGuard none;
        y = block.forward(fast_formulas(), x);
      }
      marks.mark();
      const c10::AutoGradMode mode(true);
      y = block.forward(fast_formulas(), x);
    } else {
      const c10::AutoGradMode mode(true);
      y = block.forward(fast_formulas(), x);
      marks.mark();
    }
    y.backward(gradients_[i]);
    marks.mark();
    if (x.requires_grad())
      x.mutable_grad() = at::Tensor();  // not added up: it goes to the layer before
  }

  Place place_;
  std::vector<std::string> passes_;
  std::vector<Block> blocks_;
  std::vector<at::Tensor> inputs_;
  std::vector<at::Tensor> gradients_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Work> make_block(const Place& place, const Piece& piece,
                                 const std::vector<std::string>& passes) {
  for (const std::string& pass : passes) {
    if (pass != "forward" && pass != "backward") {
      throw CannotMeasure("a block has no pass `" + pass + "`: forward or backward");
    }
  }
  return std::make_unique<BlockWork>(place, block_shape(piece, piece.text("what")), passes);
}

}  // namespace eratos::device
