#include "eratos/projection/measured_prices.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <variant>

#include "eratos/lower/lower.h"
#include "eratos/projection/compose.h"

namespace eratos::projection {

namespace {

using calibration::AttentionPiece;
using calibration::BlockPiece;
using calibration::BlockWhat;
using calibration::CollectivePiece;
using calibration::ElementwisePiece;
using calibration::GemmPiece;
using calibration::MeasuredPiece;
using calibration::Piece;
using calibration::PiecePass;

// T and the least s of a family.
constexpr double kBetweenFamilies = 0.3;
constexpr double kLeastSpread = 0.1;
constexpr double kMedianToDeviation = 1.4826;
// How far two neighbours may be apart, and how far the model's curve may bend between them.
constexpr double kMostApart = 4;
constexpr double kMostBend = 0.05;

std::string_view class_name(ops::ElementwiseClass kind) {
  constexpr std::string_view kNames[] = {"streaming", "norm_forward",  "norm_backward",
                                         "permute",   "cross_entropy", "optimizer"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string family_of(const ops::Op& op) {
  if (const auto* g = std::get_if<ops::Gemm>(&op.work)) {
    const bool grouped = g->groups > 1 && g->experts;
    return "gemm " + std::string(name_of(g->dtype)) + (grouped ? " grouped" : "");
  }
  if (const auto* a = std::get_if<ops::Attention>(&op.work)) {
    return std::string("attention ") + (a->backward ? "backward " : "forward ") +
           std::string(name_of(a->dtype));
  }
  if (const auto* e = std::get_if<ops::Elementwise>(&op.work)) {
    return "elementwise " + std::string(class_name(e->kind));
  }
  return "";
}

bool together(const collective::GroupPlacement& p) {
  return p.members.empty() || p.members[0] >= p.size;
}

// More ranks than that ran over several domains, and a file does not say how many stood in each.
int most_in_one_domain(const hardware::ClusterSpec& cluster) {
  const int of_part = cluster.accelerator.scale_up.domain_gpus;
  return cluster.levels.empty() ? of_part : std::max(of_part, cluster.levels[0].gpus);
}

std::string link_family(ops::CollectiveKind kind, collective::Algorithm algorithm,
                        const collective::GroupPlacement& placement) {
  return std::string(ops::name_of(kind)) + ' ' + std::string(collective::name_of(algorithm)) +
         (together(placement) ? " in one domain" : " across domains");
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return calibration::quantile(values, 0.5);
}

Family fit(std::string name, const std::vector<double>& logs) {
  Family f;
  f.name = std::move(name);
  f.points = static_cast<int>(logs.size());
  const double m = median_of(logs);
  std::vector<double> distance;
  for (const double x : logs) distance.push_back(std::abs(x - m));
  f.median = std::exp(m);
  f.spread = std::max(kLeastSpread, kMedianToDeviation * median_of(distance));
  const double prior = f.points * kBetweenFamilies * kBetweenFamilies;
  const double w = prior / (prior + f.spread * f.spread);
  f.factor = std::exp(w * m);
  f.error = std::sqrt(f.spread * f.spread + (1 - w) * kBetweenFamilies * kBetweenFamilies);
  return f;
}

double with_spread(double error, const MeasuredPiece& m) {
  // Of a median: the deviation of the samples, which is their interquartile range / 1.35, by the
  // root of their number. Source: of a normal law.
  const double n = std::max<double>(1, static_cast<double>(m.samples.size()));
  const double of_median = m.spread / 1.35 / std::sqrt(n);
  return std::sqrt(error * error + of_median * of_median);
}

}  // namespace

std::string_view name_of(Origin o) {
  switch (o) {
    case Origin::measured:
      return "measured";
    case Origin::interpolated:
      return "interpolated";
    case Origin::calibrated:
      return "calibrated";
    case Origin::modelled:
      return "modelled";
  }
  return "?";
}

void OriginTime::add(const Priced& p, double times) {
  const auto o = static_cast<std::size_t>(p.origin);
  seconds[o] += p.seconds * times;
  error[o] += p.seconds * p.error * times;
}

void OriginTime::add(const OriginTime& t, double times) {
  for (std::size_t o = 0; o < kOrigins; ++o) {
    seconds[o] += t.seconds[o] * times;
    error[o] += t.error[o] * times;
  }
}

double OriginTime::total() const {
  double sum = 0;
  for (const double s : seconds) sum += s;
  return sum;
}

MeasuredPrices::MeasuredPrices(const job::CheckedJob& job, const Pricing& model,
                               const calibration::Measured& measured, Workspace& w)
    : job_(job), model_(model), measured_(measured) {
  index();
  fit_families();
  const std::size_t count = w.lowered.program_count;
  times_.resize(count);
  origins_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (w.in_job[i] == 0) continue;
    find_spans(w.lowered.programs[i], i, w.active->set.id(i));
    time_one(w.lowered.programs[i], i);
  }
}

// Prices every measured kernel and exchange by the model as well.
void MeasuredPrices::index() {
  for (const MeasuredPiece& m : measured_.pieces) {
    if (m.median.value <= 0) continue;
    std::string id = calibration::id_of(m.piece);
    if (m.piece.kind() == calibration::PieceKind::block) {
      blocks_[id] = &m;
      continue;
    }
    const std::optional<ops::Op> op = op_of(m.piece);
    if (!op) continue;
    Entry e;
    e.measured = &m;
    e.id = id;
    e.op = *op;
    if (const auto* c = std::get_if<CollectivePiece>(&m.piece.work)) {
      if (c->ranks > most_in_one_domain(job_.spec->cluster)) continue;
      e.placement.size = static_cast<int>(c->ranks);
      const std::size_t levels = std::max<std::size_t>(1, model_.links.levels.size());
      for (std::size_t i = 0; i < levels; ++i) e.placement.members.push_back(e.placement.size);
      const collective::Choice choice =
          collective::choose(c->what, Bytes{c->bytes}, e.placement, model_.links);
      e.modelled = choice.time.value;
      e.algorithm = choice.algorithm;
    } else {
      e.op.kernels = 1;
      e.modelled = projection::price(e.op, model_);
    }
    if (e.modelled <= 0) continue;
    kernels_[id] = entries_.size();
    entries_.push_back(std::move(e));
  }
}

void MeasuredPrices::fit_families() {
  std::map<std::string, std::vector<double>> logs;
  for (const Entry& e : entries_) {
    const auto* c = std::get_if<CollectivePiece>(&e.measured->piece.work);
    const std::string family =
        c != nullptr ? link_family(c->what, e.algorithm, e.placement) : family_of(e.op);
    logs[family].push_back(std::log(e.ratio()));
  }
  for (const auto& [name, values] : logs) families_[name] = fit(name, values);
}

std::optional<Priced> MeasuredPrices::calibrated(const std::string& family, double modelled) {
  const auto at = families_.find(family);
  if (at == families_.end()) return std::nullopt;
  at->second.used = true;
  return Priced{modelled * at->second.factor, Origin::calibrated, at->second.error};
}

// Takes the nearest entries on either side of `at`, of those that are the same but for that size.
template <class Same, class Size>
void MeasuredPrices::narrow(double at, Same same, Size size, Neighbours& best) const {
  Neighbours found;
  found.at = at;
  for (const Entry& e : entries_) {
    if (!same(e.measured->piece)) continue;
    const double x = size(e.measured->piece);
    if (x < at && (found.below == nullptr || x > found.low)) {
      found.below = &e;
      found.low = x;
    }
    if (x > at && (found.above == nullptr || x < found.high)) {
      found.above = &e;
      found.high = x;
    }
  }
  if (found.below == nullptr || found.above == nullptr || found.high > kMostApart * found.low)
    return;
  if (best.below == nullptr || found.high / found.low < best.high / best.low) best = found;
}

MeasuredPrices::Neighbours MeasuredPrices::neighbours_of(const Piece& piece) const {
  Neighbours best;
  const auto along = [&](const auto& work, auto field) {
    using Work = std::decay_t<decltype(work)>;
    const auto same = [&](const Piece& other) {
      const auto* o = std::get_if<Work>(&other.work);
      if (o == nullptr || other.dtype != piece.dtype) return false;
      Work moved = *o;
      field(moved, field(work, -1));
      return moved == work;
    };
    narrow(
        field(work, -1), same, [&](const Piece& p) { return field(std::get<Work>(p.work), -1); },
        best);
  };
  // A field as a function: sets it where the value is not negative, and says what it is. It works
  // on a copy where it is asked alone.
  const auto field_of = [](auto member) {
    return [member](auto&& work, double value) {
      if constexpr (!std::is_const_v<std::remove_reference_t<decltype(work)>>) {
        if (value >= 0) work.*member = value;
      }
      return work.*member;
    };
  };
  if (const auto* g = std::get_if<GemmPiece>(&piece.work)) {
    if (!g->rows.empty()) return best;
    for (double GemmPiece::*member : {&GemmPiece::m, &GemmPiece::n, &GemmPiece::k}) {
      along(*g, field_of(member));
    }
  } else if (const auto* a = std::get_if<AttentionPiece>(&piece.work)) {
    along(*a, field_of(&AttentionPiece::batch));
    if (a->seq_q == a->seq_kv) {
      along(*a, [](auto&& work, double value) {
        if constexpr (!std::is_const_v<std::remove_reference_t<decltype(work)>>) {
          // Only squares are on this line.
          if (value >= 0 && work.seq_q == work.seq_kv) work.seq_q = work.seq_kv = value;
        }
        return work.seq_q;
      });
    }
  } else if (const auto* e = std::get_if<ElementwisePiece>(&piece.work)) {
    const auto same = [&](const Piece& other) {
      const auto* o = std::get_if<ElementwisePiece>(&other.work);
      return o != nullptr && other.dtype == piece.dtype && o->what == e->what &&
             o->pass == e->pass && o->launches == e->launches;
    };
    narrow(
        e->bytes, same, [](const Piece& p) { return std::get<ElementwisePiece>(p.work).bytes; },
        best);
  } else if (const auto* c = std::get_if<CollectivePiece>(&piece.work)) {
    along(*c, field_of(&CollectivePiece::bytes));
  }
  return best;
}

std::optional<Priced> MeasuredPrices::between(const Piece& piece, const std::string& id,
                                              double modelled) {
  const Neighbours n = neighbours_of(piece);
  if (n.below == nullptr || modelled <= 0) return std::nullopt;
  const double share = (n.at - n.low) / (n.high - n.low);
  const double chord = n.below->modelled + share * (n.above->modelled - n.below->modelled);
  if (std::abs(chord - modelled) > kMostBend * modelled) return std::nullopt;
  const double ratio = n.below->ratio() + share * (n.above->ratio() - n.below->ratio());
  if (matched_[id]++ == 0) interpolations_.push_back({id, n.below->id, n.above->id});
  const bool link = piece.kind() == calibration::PieceKind::collective;
  const double own = with_spread(link ? kLinkError : kKernelError, *n.below->measured);
  return Priced{modelled * ratio, Origin::interpolated,
                std::sqrt(own * own + kInterpolationError * kInterpolationError)};
}

Priced MeasuredPrices::price(const ops::Op& op, const ops::Program* program) {
  if (const auto* c = std::get_if<ops::Collective>(&op.work)) {
    const auto& placement = model_.placements[static_cast<std::size_t>(c->axis)];
    if (c->fanout.known()) return {projection::price(op, model_), Origin::modelled, 0};
    Priced p = link(c->kind, c->bytes, placement);
    p.seconds *= c->repeats;
    return p;
  }
  const Priced modelled{projection::price(op, model_), Origin::modelled, 0};
  const std::optional<Piece> piece = piece_of(op, program, job_, 1, owned_);
  if (!piece) return modelled;
  const std::string id = calibration::id_of(*piece);
  if (const auto at = kernels_.find(id); at != kernels_.end()) {
    matched_[id]++;
    const MeasuredPiece& m = *entries_[at->second].measured;
    return {m.median.value, Origin::measured, with_spread(kKernelError, m)};
  }
  if (const auto p = between(*piece, id, modelled.seconds)) return *p;
  if (const auto p = calibrated(family_of(op), modelled.seconds)) return *p;
  return modelled;
}

Priced MeasuredPrices::link(ops::CollectiveKind kind, Bytes bytes,
                            const collective::GroupPlacement& placement) {
  const collective::Choice choice = collective::choose(kind, bytes, placement, model_.links);
  const Priced modelled{choice.time.value, Origin::modelled, 0};
  if (placement.size < 2 || bytes.value <= 0) return modelled;
  const CollectivePiece work{kind, static_cast<double>(placement.size), bytes.value};
  // What was measured ran on one host.
  if (together(placement)) {
    const Piece piece{work, DType::fp32};
    const std::string id = calibration::id_of(piece);
    if (const auto at = kernels_.find(id); at != kernels_.end()) {
      matched_[id]++;
      const MeasuredPiece& m = *entries_[at->second].measured;
      return {m.median.value, Origin::measured, with_spread(kLinkError, m)};
    }
    if (const auto p = between(piece, id, modelled.seconds)) return *p;
  }
  return fitted_link(work, choice.algorithm, placement, modelled.seconds);
}

// a times the model's time of an empty message, b times the rest: weighted by 1 / measured, so that
// every size's relative error counts alike.
Priced MeasuredPrices::fitted_link(const CollectivePiece& piece, collective::Algorithm algorithm,
                                   const collective::GroupPlacement& placement, double modelled) {
  constexpr Bytes kEmpty{1};
  const auto empty = [&](const collective::GroupPlacement& at) {
    return collective::time_of(piece.what, kEmpty, at, model_.links).value;
  };
  const std::string family = link_family(piece.what, algorithm, placement);
  double ff = 0;
  double fr = 0;
  double rr = 0;
  double fy = 0;
  double ry = 0;
  std::map<double, int> sizes;
  for (const Entry& e : entries_) {
    const auto* c = std::get_if<CollectivePiece>(&e.measured->piece.work);
    if (c == nullptr || link_family(c->what, e.algorithm, e.placement) != family) continue;
    const double y = e.measured->median.value;
    const double fixed = empty(e.placement) / y;
    const double rest = (e.modelled - empty(e.placement)) / y;
    ff += fixed * fixed;
    fr += fixed * rest;
    rr += rest * rest;
    fy += fixed;
    ry += rest;
    sizes[c->bytes] += 1;
  }
  const double determinant = ff * rr - fr * fr;
  const bool enough = sizes.size() > 1 && determinant > 1e-9 * ff * rr;
  const double a = enough ? (fy * rr - ry * fr) / determinant : 0;
  const double b = enough ? (ry * ff - fy * fr) / determinant : 0;
  if (enough && a >= 0 && b > 0) {
    Family& f = families_.at(family);
    f.used = true;
    const double fixed = empty(placement);
    return {a * fixed + b * (modelled - fixed), Origin::calibrated, f.error};
  }
  if (const auto p = calibrated(family, modelled)) return *p;
  return {modelled, Origin::modelled, 0};
}

// Between two measured blocks that differ in tokens alone, experts' rows and shards in step with
// them.
std::optional<Priced> MeasuredPrices::between_blocks(const Piece& piece) {
  const auto& block = std::get<BlockPiece>(piece.work);
  const MeasuredPiece* below = nullptr;
  const MeasuredPiece* above = nullptr;
  const auto tokens = [](const MeasuredPiece* m) {
    return std::get<BlockPiece>(m->piece.work).tokens;
  };
  for (const auto& [id, m] : blocks_) {
    BlockPiece other = std::get<BlockPiece>(m->piece.work);
    // Whole numbers, so that products are exact where quotients would be rounded.
    const auto in_step = [&](double BlockPiece::*rows) {
      if (other.*rows * block.tokens == block.*rows * other.tokens) other.*rows = block.*rows;
    };
    in_step(&BlockPiece::shard_tokens);
    in_step(&BlockPiece::expert_rows);
    other.tokens = block.tokens;
    if (m->piece.dtype != piece.dtype || !(other == block)) continue;
    if (tokens(m) < block.tokens && (below == nullptr || tokens(m) > tokens(below))) below = m;
    if (tokens(m) > block.tokens && (above == nullptr || tokens(m) < tokens(above))) above = m;
  }
  if (below == nullptr || above == nullptr || tokens(above) > kMostApart * tokens(below)) {
    return std::nullopt;
  }
  const double share = (block.tokens - tokens(below)) / (tokens(above) - tokens(below));
  const std::string id = calibration::id_of(piece);
  if (matched_[id]++ == 0) {
    interpolations_.push_back(
        {id, calibration::id_of(below->piece), calibration::id_of(above->piece)});
  }
  const double own = with_spread(kSpanError, *below);
  return Priced{below->median.value + share * (above->median.value - below->median.value),
                Origin::interpolated,
                std::sqrt(own * own + kInterpolationError * kInterpolationError)};
}

std::optional<Priced> MeasuredPrices::block_time(const Piece& piece) {
  const std::string id = calibration::id_of(piece);
  if (const auto at = blocks_.find(id); at != blocks_.end()) {
    matched_[id]++;
    return Priced{at->second->median.value, Origin::measured, with_spread(kSpanError, *at->second)};
  }
  if (const auto p = between_blocks(piece)) return p;
  auto block = std::get<BlockPiece>(piece.work);
  if (block.recompute != "full") return std::nullopt;
  // With all of it made again: a forward, and a backward that finds everything kept.
  block.recompute = "none";
  const auto plain = block_time({block, piece.dtype});
  if (!plain || block.pass == PiecePass::forward) return plain;
  block.pass = PiecePass::forward;
  const auto again = block_time({block, piece.dtype});
  if (!again) return std::nullopt;
  return Priced{plain->seconds + again->seconds, std::max(plain->origin, again->origin),
                std::max(plain->error, again->error)};
}

bool MeasuredPrices::add_span(const BlockPieces& b, std::size_t index, bool backward,
                              const ops::Program& program) {
  const Piece& piece = backward ? b.backward : b.forward;
  const std::optional<Priced> time = block_time(piece);
  if (!time) return false;
  Span span;
  span.id = calibration::id_of(piece);
  span.backward = backward;
  span.program = index;
  span.begin = backward ? b.backward_begin : b.forward_begin;
  span.end = backward ? b.backward_end : b.forward_end;
  span.again = std::get<BlockPiece>(piece.work).recompute == "full";
  span.measured = time->seconds;
  span.origin = time->origin;
  span.error = time->error;
  spans_.push_back(span);
  Span& added = spans_.back();
  const auto& list = backward ? program.backward : program.forward;
  for (std::size_t i = added.begin; i < added.end; ++i) {
    if (span_of(list[i], index, backward, i) == &added) {
      added.kernels += price(list[i], &program).seconds;
    }
  }
  if (added.kernels > 0) return true;
  spans_.pop_back();  // nothing of it is on the device
  return false;
}

void MeasuredPrices::find_spans(const ops::Program& program, std::size_t index,
                                const lower::ProgramId& id) {
  std::string why;
  const std::vector<BlockPieces> blocks = blocks_of(program, id, job_, why);
  for (const bool backward : {false, true}) {
    bool whole = false;
    for (std::size_t i = 0; i < blocks.size() && !whole; ++i) {
      const bool found = add_span(blocks[i], index, backward, program);
      whole = i == 0 && found;
    }
  }
}

// The measured module that an op is in; none for exchanges, copies to the host and what is made
// again beside it.
const Span* MeasuredPrices::span_of(const ops::Op& op, std::size_t program, bool backward,
                                    std::size_t index) const {
  if (std::holds_alternative<ops::Collective>(op.work) ||
      std::holds_alternative<ops::HostCopy>(op.work)) {
    return nullptr;
  }
  for (const Span& s : spans_) {
    if (s.program != program || s.backward != backward) continue;
    if (index < s.begin || index >= s.end) continue;
    if (op.pass == ops::Pass::recompute && !s.again) continue;
    return &s;
  }
  return nullptr;
}

void MeasuredPrices::time_one(const ops::Program& program, std::size_t index) {
  std::vector<Priced> priced[2];
  std::vector<const Span*> span[2];
  const std::vector<ops::Op>* lists[2] = {&program.forward, &program.backward};
  for (const int b : {0, 1}) {
    for (std::size_t i = 0; i < lists[b]->size(); ++i) {
      const ops::Op& op = (*lists[b])[i];
      priced[b].push_back(price(op, &program));
      span[b].push_back(span_of(op, index, b == 1, i));
      if (const Span* s = span[b].back()) {
        priced[b].back() = {priced[b].back().seconds * s->factor(), s->origin, s->error};
      }
    }
  }
  const auto prices = [&](const ops::Op& op) {
    const bool backward =
        &op >= program.backward.data() && &op < program.backward.data() + program.backward.size();
    const int b = backward ? 1 : 0;
    const auto i = static_cast<std::size_t>(&op - lists[b]->data());
    return OpPrice{priced[b][i].seconds, span[b][i] == nullptr};
  };
  ProgramTime& out = times_[index];
  time_program(program, model_, prices, out);
  account(program, index, priced[0], priced[1]);
  // Modules keep their kernels' times: what a span takes beyond them is nobody's.
  for (const int b : {0, 1}) {
    for (std::size_t i = 0; i < lists[b]->size(); ++i) {
      const Span* s = span[b][i];
      if (s == nullptr) continue;
      const ops::Op& op = (*lists[b])[i];
      const double beyond = priced[b][i].seconds * (1 - 1 / s->factor());
      const auto m = static_cast<std::size_t>(op.module);
      PassTime& half = op.pass == ops::Pass::wgrad ? out.weight_gradient : out.input_gradient;
      (b == 0 ? out.forward : out.backward).module[m] -= beyond;
      if (b == 1) half.module[m] -= beyond;
    }
  }
}

void MeasuredPrices::account(const ops::Program& program, std::size_t index,
                             const std::vector<Priced>& forward,
                             const std::vector<Priced>& backward) {
  const auto see = [&](const std::vector<ops::Op>& list, const std::vector<Priced>& priced,
                       ChunkPass pass, auto in_pass) {
    PassOrigin& out = origins_[index][static_cast<std::size_t>(pass)];
    double alone = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const ops::Op& op = list[i];
      if (!in_pass(op)) continue;
      if (std::holds_alternative<ops::Collective>(op.work)) {
        out.streams[static_cast<std::size_t>(op.stream)].add(priced[i], 1);
      } else if (std::holds_alternative<ops::HostCopy>(op.work)) {
        out.streams[static_cast<std::size_t>(ops::Stream::host)].add(priced[i], 1);
      } else {
        out.compute.add(priced[i], 1);
        const bool inside = span_of(op, index, pass != ChunkPass::forward, i) != nullptr;
        (inside ? out.spanned : alone) += priced[i].seconds;
      }
    }
    out.whole = out.spanned > 0 && alone <= 0;
    ProgramTime model;
    time_program(program, model_, true, model);
    const PassTime& own = pass == ChunkPass::forward          ? model.forward
                          : pass == ChunkPass::backward       ? model.backward
                          : pass == ChunkPass::input_gradient ? model.input_gradient
                                                              : model.weight_gradient;
    out.kernels = own.kernels;
    out.experts = own.experts;
  };
  const auto all = [](const ops::Op&) { return true; };
  const auto weights = [](const ops::Op& op) { return op.pass == ops::Pass::wgrad; };
  const auto rest = [](const ops::Op& op) { return op.pass != ops::Pass::wgrad; };
  see(program.forward, forward, ChunkPass::forward, all);
  see(program.backward, backward, ChunkPass::backward, all);
  see(program.backward, backward, ChunkPass::input_gradient, rest);
  see(program.backward, backward, ChunkPass::weight_gradient, weights);
}

}  // namespace eratos::projection
