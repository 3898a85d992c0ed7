#include "eratos/projection/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "eratos/base/crc32.h"
#include "eratos/lower/lower.h"
#include "eratos/projection/compose.h"
#include "eratos/projection/pieces.h"
#include "eratos/projection/state.h"
#include "eratos/schedule/vocabulary.h"

namespace eratos::projection {

namespace {

using calibration::Piece;
using calibration::PieceKind;

// The second size of a collective that stands for a larger group: far enough from the first to tell
// a message's fixed time from its bytes.
constexpr double kSmaller = 16;

class Collector {
 public:
  void begin_rank() { std::fill(now_.begin(), now_.end(), 0.0); }

  void add(const Piece& piece, double count, double seconds) {
    std::string id = calibration::id_of(piece);
    const auto [at, fresh] = index_.try_emplace(id, pieces_.size());
    if (fresh) {
      pieces_.push_back({piece, std::move(id), 0, Seconds{seconds}});
      now_.push_back(0);
    }
    now_[at->second] += count;
    PlannedPiece& planned = pieces_[at->second];
    planned.count = std::max(planned.count, now_[at->second]);
  }

  std::vector<PlannedPiece> take() { return std::move(pieces_); }

 private:
  std::vector<PlannedPiece> pieces_;
  std::vector<double> now_;  // by piece: how often this rank runs it
  std::map<std::string, std::size_t> index_;
};

// What runs on the device in [begin, end), collectives and copies to the host left out.
double device_seconds(const std::vector<ops::Op>& list, std::size_t begin, std::size_t end,
                      bool again, const Pricing& pricing) {
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const ops::Op& op = list[i];
    if (std::holds_alternative<ops::Collective>(op.work) ||
        std::holds_alternative<ops::HostCopy>(op.work)) {
      continue;
    }
    if (op.pass == ops::Pass::recompute && !again) continue;
    sum += price(op, pricing);
  }
  return sum;
}

bool recomputes(const Piece& piece) {
  return std::get<calibration::BlockPiece>(piece.work).recompute == "full";
}

class Planner {
 public:
  Planner(const job::CheckedJob& job, const Pricing& pricing, const Devices& devices, Workspace& w)
      : job_(job), pricing_(pricing), devices_(devices), w_(w) {}

  void walk(Plan& out) {
    for (int rank = 0; rank < job_.parallel.pp; ++rank) {
      collector_.begin_rank();
      for (int part = 0; part < lower::parts_of(job_); ++part) {
        for (const ops::StageItem& item : lower::part_of(job_, w_.lowered, rank, part).items) {
          program(item.program, static_cast<double>(item.repeat) * micro_batches(), out);
        }
      }
      sends(rank);
      steps(rank);
    }
    smaller_sizes();
    out.pieces = collector_.take();
  }

 private:
  double micro_batches() const {
    return schedule::micro_batches_of(shape_of(job_), schedule_of(job_).placement);
  }

  int members(const ops::Op& op) const {
    const auto* c = std::get_if<ops::Collective>(&op.work);
    return c == nullptr ? 1 : pricing_.placements[static_cast<std::size_t>(c->axis)].size;
  }

  void program(std::size_t index, double count, Plan& out) {
    const ops::Program& p = w_.lowered.programs[index];
    std::string why;
    for (const BlockPieces& b : blocks_of(p, w_.active->set.id(index), job_, why)) {
      collector_.add(b.forward, count,
                     device_seconds(p.forward, b.forward_begin, b.forward_end, false, pricing_));
      collector_.add(b.backward, count,
                     device_seconds(p.backward, b.backward_begin, b.backward_end,
                                    recomputes(b.backward), pricing_));
    }
    if (!why.empty()) unplanned(p.name, why, out);
    for (const auto* list : {&p.forward, &p.backward}) {
      for (const ops::Op& op : *list) run(op, &p, count, 0);
    }
  }

  void unplanned(const std::string& what, const std::string& why, Plan& out) const {
    const auto same = [&](const Unplanned& u) { return u.what == what && u.why == why; };
    if (std::none_of(out.unplanned.begin(), out.unplanned.end(), same)) {
      out.unplanned.push_back({what, why});
    }
  }

  void run(const ops::Op& op, const ops::Program* program, double count, double owned) {
    const std::optional<Piece> piece = piece_of(op, program, job_, members(op), owned);
    if (!piece) return;
    if (const auto* c = std::get_if<ops::Collective>(&op.work)) {
      collective(*c, count * c->repeats, members(op), price(op, pricing_) / c->repeats);
    } else {
      collector_.add(*piece, count, price(op, pricing_));
    }
  }

  // As it is where the ranks at hand are enough; else of as many as there are, in two sizes.
  void collective(const ops::Collective& c, double count, int members, double seconds) {
    calibration::CollectivePiece piece{c.kind, static_cast<double>(members), c.bytes.value};
    if (members <= devices_.ranks) {
      collector_.add({piece, DType::fp32}, count, seconds);
      return;
    }
    if (devices_.ranks < 2) return;
    piece.ranks = devices_.ranks;
    collector_.add({piece, DType::fp32}, count, time_of_group(piece));
    double& most = stands_for_[static_cast<std::size_t>(c.kind)];
    most = std::max(most, c.bytes.value);
  }

  // The second size of each kind that stands for a larger group.
  void smaller_sizes() {
    for (std::size_t kind = 0; kind < stands_for_.size(); ++kind) {
      if (stands_for_[kind] <= 0) continue;
      const calibration::CollectivePiece piece{static_cast<ops::CollectiveKind>(kind),
                                               static_cast<double>(devices_.ranks),
                                               std::round(stands_for_[kind] / kSmaller)};
      collector_.add({piece, DType::fp32}, 0, time_of_group(piece));
    }
  }

  double time_of_group(const calibration::CollectivePiece& piece) const {
    collective::GroupPlacement together;
    together.size = static_cast<int>(piece.ranks);
    for (std::size_t i = 0; i < pricing_.links.levels.size(); ++i) {
      together.members.push_back(together.size);
    }
    if (together.members.empty()) together.members.push_back(together.size);
    return collective::time_of(piece.what, Bytes{piece.bytes}, together, pricing_.links).value;
  }

  void sends(int rank) {
    if (job_.parallel.pp < 2) return;
    for (int chunk = 0; chunk < parallel::chunks_of(job_.parallel); ++chunk) {
      const auto stage = static_cast<std::size_t>(parallel::stage_of(job_.parallel, rank, chunk));
      const Bytes bytes = w_.lowered.stages[stage].send;
      if (bytes.value <= 0) continue;
      const calibration::CollectivePiece piece{ops::CollectiveKind::send_recv, 2, bytes.value};
      // Activations there, their gradients back.
      if (devices_.ranks >= 2) {
        collector_.add({piece, DType::fp32}, 2 * micro_batches(), time_of_group(piece));
      }
    }
  }

  void steps(int rank) {
    const double owned = owned_parameters(job_, w_, rank);
    for (const ops::Op& op : w_.lowered.step_ops[static_cast<std::size_t>(rank)]) {
      run(op, nullptr, 1, owned);
    }
  }

  const job::CheckedJob& job_;
  const Pricing& pricing_;
  const Devices& devices_;
  Workspace& w_;
  Collector collector_;
  std::array<double, 5>
      stands_for_{};  // by kind: most bytes measured on fewer ranks than the job's
};

// Whole blocks, kernels, a layer's halves, collectives; inside each what takes most first.
int place_of(const Piece& piece) {
  switch (piece.kind()) {
    case PieceKind::block: {
      const auto what = std::get<calibration::BlockPiece>(piece.work).what;
      const bool half = what == calibration::BlockWhat::attention ||
                        what == calibration::BlockWhat::mlp || what == calibration::BlockWhat::moe;
      return half ? 2 : 0;
    }
    case PieceKind::gemm:
    case PieceKind::attention:
    case PieceKind::elementwise:
      return 1;
    case PieceKind::collective:
      return 3;
    case PieceKind::memory:
      return 4;
  }
  return 5;
}

bool before(const PlannedPiece& a, const PlannedPiece& b) {
  const int pa = place_of(a.piece);
  const int pb = place_of(b.piece);
  return pa != pb ? pa < pb : a.count * a.modelled.value > b.count * b.modelled.value;
}

// Forward and backward of one block are one run: moves each backward behind its forward.
void pair_blocks(std::vector<PlannedPiece>& pieces) {
  std::vector<PlannedPiece> out;
  std::vector<bool> taken(pieces.size(), false);
  const auto partner = [&](std::size_t i) {
    calibration::BlockPiece b = std::get<calibration::BlockPiece>(pieces[i].piece.work);
    b.pass = b.pass == calibration::PiecePass::forward ? calibration::PiecePass::backward
                                                       : calibration::PiecePass::forward;
    const std::string id = calibration::id_of({b, pieces[i].piece.dtype});
    const auto at = std::find_if(pieces.begin(), pieces.end(),
                                 [&](const PlannedPiece& p) { return p.id == id; });
    return static_cast<std::size_t>(at - pieces.begin());
  };
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (taken[i]) continue;
    taken[i] = true;
    if (pieces[i].piece.kind() != PieceKind::block) {
      out.push_back(pieces[i]);
      continue;
    }
    const std::size_t j = partner(i);
    taken[j] = true;
    const bool first = std::get<calibration::BlockPiece>(pieces[i].piece.work).pass ==
                       calibration::PiecePass::forward;
    out.push_back(pieces[first ? i : j]);
    out.push_back(pieces[first ? j : i]);
  }
  pieces = std::move(out);
}

std::string digest_of(const std::vector<PlannedPiece>& pieces) {
  std::string all;
  for (const PlannedPiece& p : pieces) all += p.id + '\n';
  std::array<char, 16> buffer{};
  const int n = std::snprintf(buffer.data(), buffer.size(), "%08x", crc32(all));
  return {buffer.data(), static_cast<std::size_t>(n)};
}

std::string word_of(const std::string& name) {
  std::string out = name.empty() ? "job" : name;
  for (char& c : out) {
    if (c == ' ' || c == '\t' || c == '\n') c = '-';
  }
  return out;
}

}  // namespace

std::vector<Piece> memory_pieces(const job::CheckedJob& small, Workspace& w, std::string& why) {
  prepare(small, w);
  calibration::MemoryPiece piece;
  piece.layers = 0;
  piece.micro_batches = 1;
  DType dtype = DType::bf16;
  std::size_t kinds = 0;
  for (const ops::StageItem& item : w.lowered.stages[0].items) {
    const lower::ProgramId& id = w.active->set.id(item.program);
    const auto blocks = blocks_of(w.lowered.programs[item.program], id, small, why);
    if (blocks.empty()) return {};
    if (id.role != lower::Role::layer) continue;
    if (piece.layers == 0 ||
        !(std::get<calibration::BlockPiece>(blocks[0].forward.work) == piece.layer))
      ++kinds;
    piece.layer = std::get<calibration::BlockPiece>(blocks[0].forward.work);
    piece.layers += item.repeat;
    dtype = blocks[0].forward.dtype;
  }
  if (kinds != 1) {
    why = "layers of several kinds";
    return {};
  }
  piece.layer.vocab = small.padded_vocab / small.parallel.tp;
  std::vector<Piece> out;
  for (std::size_t phase = 0; phase < std::size(calibration::kMemoryPhases); ++phase) {
    piece.phase = static_cast<calibration::MemoryPhase>(phase);
    out.push_back({piece, dtype});
  }
  return out;
}

Plan plan_of(const job::CheckedJob& job, const calibration::Calibration& calibration,
             const Devices& devices, Workspace& w) {
  Plan out;
  out.job = word_of(job.spec->name);
  out.small = downscale(job, calibration, devices, w);
  std::vector<Piece> memory;
  if (out.small.legal && out.small.fits) {
    job::CheckedJob small;
    std::string why;
    if (job::check(out.small.spec, small).empty()) memory = memory_pieces(small, w, why);
    if (!why.empty()) out.unplanned.push_back({"memory", why});
  } else {
    out.unplanned.push_back(
        {"memory", out.small.legal ? "one layer of the smallest micro-batch does not fit the device"
                                   : out.small.why});
  }
  prepare(job, w);
  const Pricing pricing = make_pricing(job, calibration);
  Planner(job, pricing, devices, w).walk(out);
  std::stable_sort(out.pieces.begin(), out.pieces.end(), before);
  pair_blocks(out.pieces);
  for (const Piece& piece : memory) {
    out.pieces.push_back({piece, calibration::id_of(piece), 0, Seconds{0}});
  }
  out.digest = digest_of(out.pieces);
  return out;
}

}  // namespace eratos::projection
