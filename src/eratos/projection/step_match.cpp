#include "eratos/projection/step_match.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

#include "eratos/lower/lower.h"
#include "eratos/projection/compose.h"
#include "eratos/projection/pieces.h"
#include "eratos/projection/traced_work.h"

namespace eratos::projection {

namespace {

using ops::Module;
using ops::Pass;

// What a once-a-step or streaming kernel of a module is called by its name in a trace.
KernelClass class_of(const ops::Op& op) {
  if (std::holds_alternative<ops::Gemm>(op.work)) return KernelClass::gemm;
  if (std::holds_alternative<ops::Attention>(op.work)) return KernelClass::attention;
  if (std::holds_alternative<ops::Collective>(op.work)) return KernelClass::communication;
  if (std::holds_alternative<ops::HostCopy>(op.work)) return KernelClass::copy;
  switch (op.module) {
    case Module::norm:
      return KernelClass::norm;
    case Module::activation:
    case Module::expert_activation:
      return KernelClass::activation;
    case Module::rotary:
      return KernelClass::rotary;
    case Module::core_attention:
      return KernelClass::attention;
    case Module::loss:
      return KernelClass::loss;
    case Module::embedding:
      return KernelClass::embedding;
    case Module::optimizer:
    case Module::gradient_norm:
      return KernelClass::optimizer;
    case Module::dispatch:
    case Module::combine:
      return KernelClass::permute;
    case Module::router:
      return KernelClass::router;
    case Module::scan:
      return KernelClass::scan;
    case Module::convolution:
      return KernelClass::convolution;
    case Module::quantize:
      return KernelClass::quantize;
    default:
      return KernelClass::elementwise;
  }
}

std::string_view group_of(Module m) {
  switch (m) {
    case Module::qkv:
    case Module::mla_down:
    case Module::mla_up:
    case Module::rotary:
    case Module::core_attention:
    case Module::attention_out:
      return "attention";
    case Module::mlp_in:
    case Module::activation:
    case Module::mlp_out:
      return "mlp";
    case Module::router:
    case Module::latent:
    case Module::dispatch:
    case Module::expert_in:
    case Module::expert_activation:
    case Module::expert_out:
    case Module::combine:
    case Module::shared_expert:
      return "moe";
    case Module::norm:
      return "norm";
    case Module::embedding:
      return "embedding";
    case Module::output_layer:
      return "output";
    case Module::loss:
      return "loss";
    case Module::optimizer:
    case Module::gradient_norm:
      return "optimizer";
    default:
      return "";
  }
}

bool is_backward(Pass p) { return p != Pass::forward && p != Pass::step; }

// One op of the step, `count` times.
struct Expected {
  const ops::Op* op = nullptr;
  double count = 0;
  double seconds = 0;  // of one
  std::size_t row = 0;
};

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", v);
  return text;
}

std::string what_of(const ops::Op& op) {
  if (const auto* g = std::get_if<ops::Gemm>(&op.work)) {
    return "gemm m" + number(g->m) + " n" + number(g->n) + " k" + number(g->k) +
           (g->groups > 1 ? " g" + number(g->groups) : "") + " " +
           std::string(eratos::name_of(g->dtype));
  }
  if (const auto* a = std::get_if<ops::Attention>(&op.work)) {
    return "attention b" + number(a->batch) + " s" + number(a->seq_q) + " h" + number(a->heads) +
           " d" + number(a->head_dim);
  }
  if (const auto* c = std::get_if<ops::Collective>(&op.work)) {
    return std::string(ops::name_of(c->kind)) + " " + number(c->bytes.value) + " B";
  }
  return std::string(name_of(class_of(op)));
}

std::string pass_name(const ops::Op& op) {
  if (std::holds_alternative<ops::Gemm>(op.work)) return std::string(ops::name_of(op.pass));
  if (op.pass == Pass::step) return "step";
  return is_backward(op.pass) ? "backward" : "forward";
}

// The program's side: rows with what is expected of them.
class Program {
 public:
  Program(const job::CheckedJob& job, const Pricing& pricing, int stage, const Workspace& w,
          StepMatch& out)
      : job_(job), pricing_(pricing), out_(out) {
    const double micro_batches = job.micro_batches;
    const int parts = lower::parts_of(job);
    for (int part = 0; part < parts; ++part) {
      const ops::StageProgram& program = lower::part_of(job, w.lowered, stage, part);
      for (const ops::StageItem& item : program.items) {
        const ops::Program& p = w.lowered.programs[item.program];
        for (const ops::Op& op : p.forward) add(op, item.repeat * micro_batches);
        for (const ops::Op& op : p.backward) add(op, item.repeat * micro_batches);
      }
      stages_.push_back(&program);
    }
    for (const ops::Op& op : w.lowered.step_ops[static_cast<std::size_t>(stage)]) {
      const auto* c = std::get_if<ops::Collective>(&op.work);
      add(op, c != nullptr ? c->repeats : 1);
    }
    micro_batches_ = job.micro_batches;
    programs_ = &w.lowered.programs;
  }

  // As many ranks, where the trace has them.
  bool same_group(const TracedMessage& traced, const ops::Op& op) const {
    const auto* c = std::get_if<ops::Collective>(&op.work);
    return traced.ranks == 0 ||
           (c != nullptr && parallel::group_of(job_.parallel, c->axis).size == traced.ranks);
  }

  std::size_t row_of(const ops::Op& op) const { return row_at_.at(key_of(op)); }

  // Rows whose op does what `see` accepts.
  template <class See>
  std::optional<std::size_t> find(const See& see) const {
    for (const Expected& e : expected_) {
      if (see(*e.op)) return e.row;
    }
    return std::nullopt;
  }

  // Products and attentions of the step in the order of a rank without a pipeline: micro-batch
  // after micro-batch, forward and then backward; the layers of a backward from the last to the
  // first.
  std::vector<const ops::Op*> anchors() const {
    std::vector<const ops::Op*> out;
    if (job_.parallel.pp > 1 || stages_.size() != 1) return out;
    const auto add = [&](const std::vector<ops::Op>& list) {
      for (const ops::Op& op : list) {
        const bool matrix = std::holds_alternative<ops::Gemm>(op.work) ||
                            std::holds_alternative<ops::Attention>(op.work);
        if (matrix && op.kernels > 0) out.push_back(&op);
      }
    };
    const auto& items = stages_[0]->items;
    for (int m = 0; m < micro_batches_; ++m) {
      for (const ops::StageItem& item : items) {
        for (int i = 0; i < item.repeat; ++i) add((*programs_)[item.program].forward);
      }
      for (std::size_t i = items.size(); i-- > 0;) {
        for (int r = 0; r < items[i].repeat; ++r) add((*programs_)[items[i].program].backward);
      }
    }
    return out;
  }

 private:
  bool on_one_host(const ops::Collective& c) const {
    const auto& placement = pricing_.placements[static_cast<std::size_t>(c.axis)];
    return placement.members.empty() || placement.members[0] >= placement.size;
  }

  // What makes two ops one row.
  std::string key_of(const ops::Op& op) const {
    std::string key = what_of(op) + "/" + pass_name(op);
    if (std::holds_alternative<ops::Elementwise>(op.work)) return key;
    if (const auto* g = std::get_if<ops::Gemm>(&op.work)) {
      key += g->accumulate_fp32 ? "/accumulate" : "";
    }
    if (const auto* a = std::get_if<ops::Attention>(&op.work)) {
      key += a->backward ? "/b" : "/f";
      key += number(a->seq_kv) + "/" + number(a->kv_heads) + "/" + number(a->window);
    }
    if (const auto* c = std::get_if<ops::Collective>(&op.work)) {
      key += "/" + std::to_string(static_cast<int>(c->axis));
    }
    return key;
  }

  void add(const ops::Op& op, double count) {
    const double each = price(op, pricing_);
    const auto* c = std::get_if<ops::Collective>(&op.work);
    if (each <= 0 && c == nullptr) return;
    const auto [at, fresh] = row_at_.try_emplace(key_of(op), out_.rows.size());
    if (fresh) {
      MatchRow& row = out_.rows.emplace_back();
      row.what = what_of(op);
      row.pass = pass_name(op);
      int ranks = 0;
      if (c != nullptr) {
        ranks = parallel::group_of(job_.parallel, c->axis).size;
        row.what += " over " + std::to_string(ranks);
      }
      // Streaming kernels are matched by kind, so none of them is a piece; nor is an exchange
      // between hosts, as what is measured of exchanges is of one.
      const bool beyond = c != nullptr && !on_one_host(*c);
      if (!std::holds_alternative<ops::Elementwise>(op.work) && !beyond) {
        row.piece = piece_of(op, nullptr, job_, ranks);
      }
    }
    MatchRow& row = out_.rows[at->second];
    const std::string module(ops::name_of(op.module));
    if ((", " + row.modules + ", ").find(", " + module + ", ") == std::string::npos) {
      row.modules += (row.modules.empty() ? "" : ", ") + module;
    }
    const double repeats = c != nullptr ? c->repeats : 1;
    row.expected += count;
    row.modelled += count * each / (op.pass == Pass::step ? repeats : 1);
    out_.modelled[static_cast<std::size_t>(class_of(op))] +=
        count * each / (op.pass == Pass::step ? repeats : 1);
    expected_.push_back({&op, count, each, at->second});
    if (const std::string_view group = group_of(op.module); !group.empty()) {
      const auto known = std::find_if(out_.modules.begin(), out_.modules.end(),
                                      [&](const ModuleRow& m) { return m.name == group; });
      ModuleRow& m = known != out_.modules.end() ? *known : out_.modules.emplace_back();
      m.name = group;
      if (c == nullptr) m.modelled += count * each;
    }
  }

  const job::CheckedJob& job_;
  const Pricing& pricing_;
  StepMatch& out_;
  std::map<std::string, std::size_t> row_at_;
  std::vector<Expected> expected_;
  std::vector<const ops::StageProgram*> stages_;
  const std::vector<ops::Program>* programs_ = nullptr;
  int micro_batches_ = 0;
};

// The trace's side.
class Matcher {
 public:
  Matcher(const TracedStep& step, const StepAccount& account, const Program& program,
          StepMatch& out)
      : step_(step), account_(account), program_(program), out_(out) {
    row_of_.assign(step.kernels.size(), kNone);
  }

  void run() {
    shapes();
    if (!step_.shapes) order();
    classes();
    finish();
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  void take(std::size_t kernel, std::size_t row, MatchedBy by) {
    row_of_[kernel] = row;
    MatchRow& r = out_.rows[row];
    r.by = by;
    r.own += account_.own[kernel];
  }

  // Kernels of one host op are one run of it: a product and its split-K sum.
  void shapes() {
    struct Run {
      std::vector<std::size_t> kernels;
      Nanoseconds length = 0;
      Nanoseconds first = 0;
    };
    std::map<std::pair<std::size_t, int>, Run> runs;
    for (std::size_t i = 0; i < step_.kernels.size(); ++i) {
      const TracedKernel& k = step_.kernels[i];
      int op = -1;
      const auto row = row_by_shape(k, op);
      if (!row) continue;
      // Kernels without an op of their own (messages) are runs by themselves.
      const int run_id =
          op >= 0 && k.kind != KernelClass::communication ? op : -2 - static_cast<int>(i);
      Run& run = runs[{*row, run_id}];
      run.kernels.push_back(i);
      run.length += k.end - k.start;
    }
    for (const auto& [key, run] : runs) {
      MatchRow& row = out_.rows[key.first];
      ++row.found;
      row.samples.push_back(static_cast<double>(run.length) * 1e-9);
      for (const std::size_t kernel : run.kernels) take(kernel, key.first, MatchedBy::shape);
    }
  }

  std::optional<std::size_t> row_by_shape(const TracedKernel& k, int& op) {
    if (k.kind == KernelClass::communication) {
      if (!k.message.known || k.message.bytes <= 0) return std::nullopt;
      for (const bool exact : {true, false}) {
        const auto row = program_.find([&](const ops::Op& o) {
          return same_message(k.message, o) && program_.same_group(k.message, o) &&
                 (!exact || is_backward(o.pass) == k.backward);
        });
        if (row) return row;
      }
      return std::nullopt;
    }
    const bool product = k.kind == KernelClass::gemm || k.kind == KernelClass::gemm_part;
    if (!product && k.kind != KernelClass::attention) return std::nullopt;
    for (op = k.op; op >= 0; op = step_.ops[static_cast<std::size_t>(op)].parent) {
      const TracedOp& around = step_.ops[static_cast<std::size_t>(op)];
      if (product) {
        const auto g = product_of(around);
        if (!g) continue;
        shape_of_[k.op] = shape_text(*g);
        // The direction first; a recomputed forward stands inside a backward.
        for (const bool exact : {true, false}) {
          const auto row = program_.find([&](const ops::Op& o) {
            return same_product(*g, o) && (!exact || is_backward(o.pass) == k.backward);
          });
          if (row) return row;
        }
        return std::nullopt;
      }
      const auto a = attention_of(around);
      if (!a) continue;
      return program_.find([&](const ops::Op& o) {
        return same_attention(*a, o) && is_backward(o.pass) == k.backward;
      });
    }
    return std::nullopt;
  }

  void order() {
    const std::vector<const ops::Op*> anchors = program_.anchors();
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < step_.kernels.size(); ++i) {
      const KernelClass kind = step_.kernels[i].kind;
      if (kind == KernelClass::gemm || kind == KernelClass::attention) found.push_back(i);
    }
    if (anchors.empty() || anchors.size() != found.size()) return;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const bool product = std::holds_alternative<ops::Gemm>(anchors[i]->work);
      if (product != (step_.kernels[found[i]].kind == KernelClass::gemm)) return;
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::size_t row = program_.row_of(*anchors[i]);
      const TracedKernel& k = step_.kernels[found[i]];
      ++out_.rows[row].found;
      out_.rows[row].samples.push_back(static_cast<double>(k.end - k.start) * 1e-9);
      take(found[i], row, MatchedBy::order);
    }
  }

  // Kinds of kernels whose sizes nobody records. A class of several rows (norms forward and
  // backward) is told apart by direction.
  void classes() {
    std::map<std::pair<KernelClass, std::string>, std::size_t> rows;
    for (std::size_t i = 0; i < out_.rows.size(); ++i) {
      const MatchRow& row = out_.rows[i];
      for (std::size_t c = 0; c < static_cast<std::size_t>(KernelClass::count_); ++c) {
        const auto kind = static_cast<KernelClass>(c);
        if (row.what == name_of(kind)) rows.try_emplace({kind, row.pass}, i);
      }
    }
    for (std::size_t i = 0; i < step_.kernels.size(); ++i) {
      if (row_of_[i] != kNone) continue;
      const TracedKernel& k = step_.kernels[i];
      std::string pass = k.backward ? "backward" : "forward";
      if (k.kind == KernelClass::optimizer) pass = "step";
      const auto at = rows.find({k.kind, pass});
      if (at == rows.end()) continue;
      MatchRow& row = out_.rows[at->second];
      ++row.found;
      row.samples.push_back(static_cast<double>(k.end - k.start) * 1e-9);
      take(i, at->second, MatchedBy::kind);
    }
  }

  void finish() {
    std::map<std::tuple<std::string, KernelClass, std::string>, UnmatchedKernel> rest;
    std::vector<Nanoseconds> of_module(step_.modules.size(), 0);
    for (std::size_t i = 0; i < step_.kernels.size(); ++i) {
      const TracedKernel& k = step_.kernels[i];
      if (k.module >= 0) of_module[static_cast<std::size_t>(k.module)] += account_.own[i];
      if (row_of_[i] != kNone) {
        const bool sure = out_.rows[row_of_[i]].by != MatchedBy::kind;
        (sure ? out_.matched : out_.by_kind) += account_.own[i];
        continue;
      }
      const auto shape = shape_of_.find(k.op);
      const std::string text = shape != shape_of_.end() ? shape->second : std::string();
      UnmatchedKernel& u = rest[{k.name, k.kind, text}];
      u.name = k.name;
      u.kind = k.kind;
      u.shape = text;
      ++u.count;
      u.own += account_.own[i];
      out_.unattributed += account_.own[i];
    }
    for (auto& [key, u] : rest) out_.unmatched.push_back(std::move(u));
    std::stable_sort(out_.unmatched.begin(), out_.unmatched.end(),
                     [](const auto& a, const auto& b) { return a.own > b.own; });
    for (MatchRow& row : out_.rows) {
      std::sort(row.samples.begin(), row.samples.end());
      if (!row.samples.empty()) row.median = calibration::quantile(row.samples, 0.5);
      thin(row.samples);
      if (row.by != MatchedBy::shape) {
        row.samples.clear();
        row.piece.reset();
      } else if (auto* g = std::get_if<calibration::GemmPiece>(&row.piece->work)) {
        // What ran is a product of ATen, which adds into no buffer, whatever the job's would.
        g->accumulate = false;
      }
    }
    std::stable_sort(out_.rows.begin(), out_.rows.end(), [](const MatchRow& a, const MatchRow& b) {
      return a.own != b.own ? a.own > b.own : a.modelled > b.modelled;
    });
    for (std::size_t i = 0; i < step_.modules.size(); ++i) {
      const auto known =
          std::find_if(out_.modules.begin(), out_.modules.end(),
                       [&](const ModuleRow& m) { return m.name == step_.modules[i]; });
      ModuleRow& m = known != out_.modules.end() ? *known : out_.modules.emplace_back();
      m.name = step_.modules[i];
      m.own += of_module[i];
    }
    if (step_.modules.empty()) out_.modules.clear();
  }

  // Evenly over the sorted samples, so that quantiles stay.
  static void thin(std::vector<double>& samples) {
    if (samples.size() <= kMostSamples) return;
    std::vector<double> kept;
    for (std::size_t i = 0; i < kMostSamples; ++i) {
      kept.push_back(samples[i * (samples.size() - 1) / (kMostSamples - 1)]);
    }
    samples = std::move(kept);
  }

  const TracedStep& step_;
  const StepAccount& account_;
  const Program& program_;
  StepMatch& out_;
  std::vector<std::size_t> row_of_;
  std::map<int, std::string> shape_of_;  // of an op that launched a product
};

}  // namespace

std::string_view name_of(MatchedBy by) {
  constexpr std::array<std::string_view, 4> kNames{"shape", "order", "class", "nothing"};
  return kNames[static_cast<std::size_t>(by)];
}

double MatchRow::error() const {
  if (by == MatchedBy::kind) {
    return own > 0 && modelled > 0 ? static_cast<double>(own) * 1e-9 / modelled - 1 : 0;
  }
  return median > 0 && modelled > 0 ? median / modelled_each() - 1 : 0;
}

int stage_of_rank(const job::CheckedJob& job, int rank) {
  const parallel::Group pp = parallel::group_of(job.parallel, Axis::pp);
  return rank < 0 ? 0 : rank / pp.stride % pp.size;
}

StepMatch match_step(const TracedStep& step, const StepAccount& account, const job::CheckedJob& job,
                     const calibration::Calibration& calibration, int stage, Workspace& w) {
  StepMatch out;
  out.stage = stage;
  prepare(job, w);
  const Pricing pricing = make_pricing(job, calibration);
  const Program program(job, pricing, stage, w, out);
  Matcher(step, account, program, out).run();
  return out;
}

std::vector<calibration::MeasuredPiece> pieces_of(const StepMatch& match) {
  std::vector<calibration::MeasuredPiece> out;
  std::map<std::string, std::size_t> known;
  for (const MatchRow& row : match.rows) {
    if (row.by != MatchedBy::shape || !row.piece || row.samples.empty()) continue;
    // A recomputed product is the forward one once more.
    const auto [at, fresh] = known.try_emplace(calibration::id_of(*row.piece), out.size());
    if (fresh) {
      out.emplace_back().piece = *row.piece;
    }
    calibration::MeasuredPiece& piece = out[at->second];
    piece.samples.insert(piece.samples.end(), row.samples.begin(), row.samples.end());
    calibration::summarise(piece.samples, piece);
  }
  return out;
}

}  // namespace eratos::projection
