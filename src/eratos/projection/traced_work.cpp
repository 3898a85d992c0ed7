#include "eratos/projection/traced_work.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace eratos::projection {

namespace {

using Dims = std::vector<double>;

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}
bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

const Dims* input(const TracedOp& op, std::size_t i, std::size_t axes) {
  if (i >= op.dims.size() || op.dims[i].size() != axes) return nullptr;
  for (const double d : op.dims[i]) {
    if (!(d >= 1)) return nullptr;
  }
  return &op.dims[i];
}

std::optional<DType> dtype_of(const TracedOp& op, std::size_t i) {
  if (i >= op.types.size()) return std::nullopt;
  const std::string& type = op.types[i];
  if (contains(type, "BFloat16")) return DType::bf16;
  if (contains(type, "Half")) return DType::fp16;
  if (contains(type, "Float8")) return DType::fp8;
  if (type == "float") return DType::fp32;
  return std::nullopt;
}

std::optional<TracedProduct> matrices(const TracedOp& op, std::size_t first) {
  const Dims* a = input(op, first, 2);
  const Dims* b = input(op, first + 1, 2);
  if (a == nullptr || b == nullptr || (*a)[1] != (*b)[0]) return std::nullopt;
  return TracedProduct{(*a)[0], (*b)[1], (*a)[1], 1, dtype_of(op, first)};
}

std::optional<TracedProduct> batches(const TracedOp& op, std::size_t first) {
  const Dims* a = input(op, first, 3);
  const Dims* b = input(op, first + 1, 3);
  if (a == nullptr || b == nullptr || (*a)[0] != (*b)[0] || (*a)[2] != (*b)[1]) return std::nullopt;
  return TracedProduct{(*a)[0] * (*a)[1], (*b)[2], (*a)[2], (*a)[0], dtype_of(op, first)};
}

// Rows of all leading axes together: [b, s, k] is [b s, k].
std::optional<TracedProduct> rows_times(const TracedOp& op, bool transposed) {
  if (op.dims.empty() || op.dims[0].size() < 2) return std::nullopt;
  const Dims* a = input(op, 0, op.dims[0].size());
  const Dims* b = input(op, 1, 2);
  if (a == nullptr || b == nullptr) return std::nullopt;
  const double k = a->back();
  double m = 1;
  for (std::size_t i = 0; i + 1 < a->size(); ++i) m *= (*a)[i];
  const double bk = transposed ? (*b)[1] : (*b)[0];
  if (bk != k) return std::nullopt;
  return TracedProduct{m, transposed ? (*b)[0] : (*b)[1], k, 1, dtype_of(op, 0)};
}

}  // namespace

std::optional<TracedProduct> product_of(const TracedOp& op) {
  if (op.name == "aten::mm" || op.name == "aten::_scaled_mm") return matrices(op, 0);
  if (op.name == "aten::addmm" || op.name == "aten::_addmm_activation") return matrices(op, 1);
  if (op.name == "aten::bmm") return batches(op, 0);
  if (op.name == "aten::baddbmm") return batches(op, 1);
  if (op.name == "aten::linear") return rows_times(op, true);
  if (op.name == "aten::matmul") return rows_times(op, false);
  return std::nullopt;
}

std::string shape_text(const TracedProduct& p) {
  std::array<char, 128> text{};
  const int n = std::snprintf(text.data(), text.size(), "m%.0f n%.0f k%.0f", p.m, p.n, p.k);
  std::string out(text.data(), static_cast<std::size_t>(n));
  if (p.groups > 1) {
    const int g = std::snprintf(text.data(), text.size(), " g%.0f", p.groups);
    out.append(text.data(), static_cast<std::size_t>(g));
  }
  return out;
}

bool same_product(const TracedProduct& traced, const ops::Op& op) {
  const auto* g = std::get_if<ops::Gemm>(&op.work);
  if (g == nullptr || g->groups != traced.groups || g->k != traced.k) return false;
  if (traced.dtype && *traced.dtype != g->dtype) return false;
  if (g->m == traced.m && g->n == traced.n) return true;
  return op.pass == ops::Pass::wgrad && g->groups == 1 && g->m == traced.n && g->n == traced.m;
}

std::optional<TracedAttention> attention_of(const TracedOp& op) {
  const bool backward = ends_with(op.name, "_backward");
  // A backward's first input is the gradient of the output, of the shape of Q.
  const Dims* q = input(op, 0, 4);
  if (q == nullptr) return std::nullopt;
  const bool aten = contains(op.name, "aten::_scaled_dot_product_") ||
                    op.name == "aten::scaled_dot_product_attention";
  const bool flash =
      contains(op.name, "_flash_attention_forward") ||
      contains(op.name, "_flash_attention_backward") || contains(op.name, "_flash_attn_forward") ||
      contains(op.name, "_flash_attn_backward") || contains(op.name, "FlashAttnFunc");
  if (aten)
    return TracedAttention{(*q)[0], (*q)[2], (*q)[1], backward ? 0 : (*q)[3], dtype_of(op, 0)};
  if (flash)
    return TracedAttention{(*q)[0], (*q)[1], (*q)[2], backward ? 0 : (*q)[3], dtype_of(op, 0)};
  return std::nullopt;
}

bool same_attention(const TracedAttention& traced, const ops::Op& op) {
  const auto* a = std::get_if<ops::Attention>(&op.work);
  if (a == nullptr || (traced.dtype && *traced.dtype != a->dtype)) return false;
  // The gradient of the output has V's width, which may be another than Q's.
  const bool width = traced.head_dim == 0 || traced.head_dim == a->head_dim;
  return width && a->batch == traced.batch && a->seq_q == traced.sequence &&
         a->heads == traced.heads;
}

bool same_message(const TracedMessage& traced, const ops::Op& op) {
  const auto* c = std::get_if<ops::Collective>(&op.work);
  if (c == nullptr || c->kind != traced.kind || c->bytes.value <= 0) return false;
  constexpr double kRounding = 1e-3;
  return std::abs(traced.bytes / c->bytes.value - 1) <= kRounding;
}

}  // namespace eratos::projection
