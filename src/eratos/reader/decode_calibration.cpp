#include <algorithm>
#include <string>

#include "eratos/calibration/curves.h"
#include "eratos/reader/decode.h"
#include "eratos/reader/fields.h"

namespace eratos::reader {

namespace {

constexpr double kMicro = 1e-6;
constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr double kNano = 1e-9;

constexpr Name<bool> kPasses[] = {{"forward", false}, {"backward", true}};
constexpr const char* kElementwise[] = {"streaming", "norm_forward",  "norm_backward",
                                        "permute",   "cross_entropy", "optimizer"};
constexpr Name<int> kCollectives[] = {{"all_reduce", 0},
                                      {"all_gather", 1},
                                      {"reduce_scatter", 2},
                                      {"all_to_all", 3},
                                      {"send_recv", 4}};
constexpr Name<int> kAlgorithms[] = {
    {"ring", 0}, {"in_switch", 1}, {"mesh", 2}, {"pairwise", 3}, {"direct", 4}};

void read_gemm_curve(Fields& each, calibration::GemmCurve& curve) {
  each.require("peak_fraction", curve.peak_fraction);
  each.read("in_training", curve.in_training);
  if (const text::Node* tile = each.get("tile"); tile != nullptr) {
    if (!tile->is_sequence() || tile->size() != curve.tile.size()) {
      each.fail("tile", "`" + each.path_of("tile") + "` must be a list of four numbers");
    } else {
      for (std::size_t i = 0; i < curve.tile.size(); ++i) {
        if (auto value = tile->items()[i].as_double(); value) {
          curve.tile[i] = *value;
        } else {
          each.fail("tile", value.error().front().message);
        }
      }
    }
  }
  each.read("wide_tile", curve.wide_tile);
  each.read("grouped", curve.grouped);
  each.read("memory", curve.memory);
  each.read("tile_overhead_us", curve.tile_overhead, kMicro);
  each.read("launch_us", curve.launch, kMicro);
  each.read("split_launch_us", curve.split_launch, kMicro);
  each.require("source", curve.source);
  each.finish();
}

void read_gemm(Fields& top, calibration::PartCalibration& part) {
  Fields gemm = top.child("gemm");
  for (const DType t :
       {DType::bf16, DType::fp16, DType::fp8, DType::fp4, DType::tf32, DType::fp32}) {
    Fields each = gemm.child(name_of(t));
    if (each.exists()) read_gemm_curve(each, part.gemm[static_cast<std::size_t>(t)]);
  }
  gemm.finish();
}

// A list of mappings at `key`, each handed to `read`.
template <class Read>
void read_list(Fields& top, std::string_view key, Diagnostics& bad, const Read& read) {
  const text::Node* list = top.get(key);
  if (list == nullptr) return;
  if (!list->is_sequence()) {
    top.fail(key, "`" + top.path_of(key) + "` must be a list");
    return;
  }
  for (std::size_t i = 0; i < list->items().size(); ++i) {
    Fields each(&list->items()[i], text::join_path(top.path_of(key), i), bad);
    read(each);
  }
}

void read_libraries(Fields& top, calibration::PartCalibration& part, Diagnostics& bad) {
  read_list(top, "gemm_libraries", bad, [&](Fields& each) {
    calibration::LibraryGemm& entry = part.libraries.emplace_back();
    each.require("library", entry.library);
    each.require("dtype", entry.dtype);
    read_gemm_curve(each, entry.curve);
  });
  read_list(top, "casts", bad, [&](Fields& each) {
    calibration::CastCurve& cast = part.casts.emplace_back();
    each.require("kernel", cast.kernel);
    each.require("share", cast.share);
    each.read("launch_us", cast.launch, kMicro);
    each.require("source", cast.source);
    each.finish();
  });
}

void read_attention(Fields& top, calibration::PartCalibration& part, Diagnostics& bad) {
  Fields attention = top.child("attention");
  if (!attention.exists()) return;
  calibration::AttentionTable& table = part.attention;
  attention.require("default_kernel", table.default_kernel);
  attention.read("adds_to_kin", table.adds_to_kin);
  attention.read("head_dim_64", table.head_dim_64);
  attention.read("mla", table.mla);
  attention.require("source", table.source);
  if (const text::Node* curves = attention.need("curves"); curves != nullptr) {
    if (!curves->is_sequence() || curves->size() == 0) {
      attention.fail("curves", "`attention.curves` must be a list with at least one curve");
    }
    for (std::size_t i = 0; i < curves->items().size(); ++i) {
      Fields each(&curves->items()[i], text::join_path("attention.curves", i), bad);
      calibration::AttentionCurve curve;
      each.require("kernel", curve.kernel);
      each.need("pass");
      each.read_name("pass", curve.backward, kPasses);
      each.require("causal", curve.causal);
      each.require("head_dim", curve.head_dim);
      each.read("dtype", curve.dtype);
      each.need("rate_tflops");
      each.read("rate_tflops", curve.rate, kTera);
      each.require("s0_tokens", curve.s0);
      each.read("fill", curve.fill);
      each.require("source", curve.source);
      each.finish();
      table.curves.push_back(std::move(curve));
    }
  }
  attention.finish();
}

void read_collectives(Fields& top, calibration::PartCalibration& part, Diagnostics& bad) {
  const text::Node* list = top.get("collectives");
  if (list == nullptr) return;
  if (!list->is_sequence()) top.fail("collectives", "`collectives` must be a list of curves");
  for (std::size_t i = 0; i < list->items().size(); ++i) {
    Fields each(&list->items()[i], text::join_path("collectives", i), bad);
    calibration::CollectiveCurve curve;
    int known = 0;
    if (each.need("kind") != nullptr && each.read_name("kind", known, kCollectives)) {
      each.read("kind", curve.kind);
    }
    if (each.need("algorithm") != nullptr && each.read_name("algorithm", known, kAlgorithms)) {
      each.read("algorithm", curve.algorithm);
    }
    each.require("gpus", curve.gpus);
    each.read("domains", curve.domains);
    each.read("from_bytes", curve.from.value);
    each.read("alpha_us", curve.alpha, kMicro);
    each.need("busbw_gb_per_s");
    each.read("busbw_gb_per_s", curve.busbw, kGiga);
    if (each.read("gamma_ns_per_sqrt_byte", curve.gamma)) curve.gamma *= kNano;
    each.require("source", curve.source);
    each.finish();
    part.collectives.push_back(std::move(curve));
  }
  const auto pieces = std::count_if(
      part.collectives.begin(), part.collectives.end(),
      [&](const auto& c) { return calibration::in_pieces(part.collectives, c); });
  if (pieces > calibration::kMostCurvePieces) {
    top.fail("collectives", "`collectives` has " + std::to_string(pieces) +
                                " pieces of curves; at most " +
                                std::to_string(calibration::kMostCurvePieces) + " are kept");
  }
}

void read_elementwise(Fields& top, calibration::PartCalibration& part) {
  Fields elementwise = top.child("elementwise");
  if (!elementwise.exists()) return;
  elementwise.read("launch_us", part.elementwise.launch, kMicro);
  Fields share = elementwise.child("share");
  if (!share.exists()) elementwise.need("share");
  for (std::size_t i = 0; i < part.elementwise.share.size(); ++i) {
    share.require(kElementwise[i], part.elementwise.share[i]);
  }
  share.finish();
  elementwise.require("source", part.elementwise.source);
  elementwise.finish();
}

}  // namespace

Result<calibration::Calibration> decode_calibration(const text::Node& root) {
  Diagnostics bad;
  calibration::Calibration out;
  calibration::PartCalibration& part = out.part;
  Fields top(&root, "", bad);
  top.require("part", part.part);
  out.name = part.part;
  top.read("borrowed", part.borrowed);
  top.require("source", part.source);
  read_gemm(top, part);
  read_libraries(top, part, bad);
  read_attention(top, part, bad);
  read_elementwise(top, part);
  read_collectives(top, part, bad);

  Fields network = top.child("network");
  if (network.exists()) {
    network.require("share", part.network.share);
    network.read("alpha_us", part.network.alpha, kMicro);
    if (network.read("gamma_ns_per_sqrt_byte", part.network.gamma)) part.network.gamma *= kNano;
    network.require("source", part.network.source);
    network.finish();
  }

  top.finish();
  if (!bad.empty()) return faults(std::move(bad));
  return out;
}

}  // namespace eratos::reader
