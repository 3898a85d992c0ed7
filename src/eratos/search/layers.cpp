#include "eratos/search/layers.h"

#include <algorithm>
#include <utility>

#include "eratos/base/check.h"
#include "eratos/lower/lower.h"
#include "eratos/search/space.h"

namespace eratos::search {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

constexpr std::size_t kPiece = 4096;  // deals of one advance()

// The layers that may be recomputed are still to be chosen: prediction modules are not among them.
job::RecomputeSpec open_recompute(job::RecomputeSpec r) {
  r.method = job::RecomputeMethod::block;
  r.layers = 0;
  r.layer_ids.clear();
  return r;
}

std::vector<job::StageLayout> layouts(const job::CheckedJob& job) {
  std::vector<job::StageLayout> out;
  for (const job::VirtualStage& s : job.stages) {
    out.push_back({s.layers, s.mtp, s.embedding, s.output});
  }
  return out;
}

// The first `count` of `n` layers.
std::vector<std::uint8_t> first_of(int n, int count) {
  std::vector<std::uint8_t> out(at(n), 0);
  std::fill_n(out.begin(), std::min(n, count), std::uint8_t{1});
  return out;
}

}  // namespace

std::optional<Diagnostic> Layers::refusal(const job::JobSpec& job) {
  const auto checked = std::make_unique<job::CheckedJob>();
  Diagnostics faults = job::check(job, *checked);
  if (!faults.empty()) return std::move(faults.front());
  return projection::Ranks::refusal(*checked);
}

Layers::Layers(const job::JobSpec& job, const LayerMode& mode, bool deals,
               const calibration::Calibration& calibration, const projection::Options& options,
               double known)
    : spec_(job),
      mode_(mode),
      deals_(deals),
      limit_(job.cluster.accelerator.memory_visible * (1.0 - options.memory_margin)),
      checked_(std::make_unique<job::CheckedJob>()),
      known_step_(known) {
  spec_.recompute =
      mode.what == LayerMode::What::all ? mode.recompute : open_recompute(mode.recompute);
  const Diagnostics faults = job::check(spec_, *checked_);
  ERATOS_CHECK(faults.empty());
  ranks_ = std::make_unique<projection::Ranks>(*checked_, calibration);
  if (mode.what == LayerMode::What::first) most_first_ = spec_.model.layers();
  next_rank_ = spec_.parallel.pp;
  table_ = std::make_unique<StageTable>(spec_.parallel.pp, spec_.model.layers());
}

int Layers::least_layers(int rank) const {
  const bool last = rank + 1 == spec_.parallel.pp;
  return last && spec_.mtp && spec_.model.mtp_layers > 0 ? 0 : 1;
}

// Layers of one class have the same two programs.
std::uint16_t Layers::class_of(int layer, int position) const {
  const job::NarrowSpec& n = spec_.narrow;
  const bool wide =
      layer < n.bf16_first_layers || layer >= spec_.model.layers() - n.bf16_last_layers;
  const bool offloaded = position < spec_.offload.layers;
  return static_cast<std::uint16_t>(spec_.model.pattern[at(layer)] * 4 + (wide ? 2 : 0) +
                                    (offloaded ? 1 : 0));
}

bool Layers::try_set(int rank, int first, const std::vector<std::uint8_t>& full, Choice& out) {
  ++priced_;
  ranks_->put(rank, first, full);
  const memory::StageMemory& m = ranks_->memory();
  out.least = min(out.least, m.least);
  out.state = m.parameters + m.gradients + m.optimizer + m.communication + m.framework;
  if (m.least > limit_) return false;
  const Bytes peak = m.device;
  const projection::RankCost cost = ranks_->cost();
  for (const projection::RankCost& c : out.costs) {
    if (c.forward <= cost.forward && c.backward <= cost.backward) return true;
  }
  for (std::size_t i = out.costs.size(); i-- > 0;) {
    if (cost.forward > out.costs[i].forward || cost.backward > out.costs[i].backward) continue;
    const auto gone = static_cast<std::ptrdiff_t>(i);
    out.costs.erase(out.costs.begin() + gone);
    out.full.erase(out.full.begin() + gone);
    out.device_peaks.erase(out.device_peaks.begin() + gone);
  }
  out.costs.push_back(cost);
  out.full.push_back(full);
  out.device_peaks.push_back(peak);
  return true;
}

// Every number of recomputed layers of each class. Of the largest class the fewest that fit, unless
// what goes to the host is less for a recomputed layer.
void Layers::choose_each(int rank, int first, int count, Choice& out) {
  struct Class {
    std::uint16_t id = 0;
    std::vector<std::size_t> places;
    std::size_t recomputed = 0;
  };
  std::vector<Class> classes;
  for (int n = 0; n < count; ++n) {
    const std::uint16_t id = class_of(first + n, n);
    auto found =
        std::find_if(classes.begin(), classes.end(), [&](const Class& c) { return c.id == id; });
    if (found == classes.end()) found = classes.insert(classes.end(), Class{id, {}, 0});
    found->places.push_back(at(n));
  }
  std::stable_sort(classes.begin(), classes.end(), [](const Class& a, const Class& b) {
    return a.places.size() > b.places.size();
  });
  std::vector<std::uint8_t> full(at(count), 0);
  for (;;) {
    for (std::size_t c = 1; c < classes.size(); ++c) {
      for (std::size_t i = 0; i < classes[c].places.size(); ++i)
        full[classes[c].places[i]] = i < classes[c].recomputed ? 1 : 0;
    }
    const std::size_t most = classes.empty() ? 0 : classes[0].places.size();
    for (std::size_t k = 0; k <= most; ++k) {
      for (std::size_t i = 0; i < most; ++i) full[classes[0].places[i]] = i < k ? 1 : 0;
      if (try_set(rank, first, full, out) && !spec_.offload.any_activations()) break;
      if (out.state <= limit_) continue;
      // Nothing fits; what it would need is known from the two ends.
      try_set(rank, first, std::vector<std::uint8_t>(at(count), 1), out);
      return;
    }
    std::size_t c = 1;
    for (; c < classes.size(); ++c) {
      if (++classes[c].recomputed <= classes[c].places.size()) break;
      classes[c].recomputed = 0;
    }
    if (c >= classes.size()) return;
  }
}

// Where the mode leaves nothing open.
std::vector<std::uint8_t> Layers::given_set(int first, int count) const {
  if (mode_.what == LayerMode::What::first) return first_of(count, first_layers_);
  std::vector<std::uint8_t> full(at(count), 0);
  for (int n = 0; n < count; ++n)
    full[at(n)] = lower::recomputed_in_full(spec_.recompute, first + n, n) ? 1 : 0;
  return full;
}

Layers::Choice Layers::choose(int rank, int first, int count) {
  Choice out;
  if (mode_.what == LayerMode::What::each) {
    choose_each(rank, first, count, out);
  } else {
    try_set(rank, first, given_set(first, count), out);
  }
  return out;
}

const Layers::Choice& Layers::choice_of(int rank, int first, int count) {
  std::string key{static_cast<char>(rank & 0xff), static_cast<char>(rank >> 8)};
  const bool open = mode_.what == LayerMode::What::each;
  const std::vector<std::uint8_t> full =
      open ? std::vector<std::uint8_t>(at(count)) : given_set(first, count);
  for (int n = 0; n < count; ++n) {
    const std::uint16_t id = class_of(first + n, n);
    key += static_cast<char>(id & 0xff);
    key += static_cast<char>(id >> 8);
    key += static_cast<char>(full[at(n)]);
  }
  const auto [place, fresh] = known_.try_emplace(std::move(key), nullptr);
  if (fresh) {
    choices_.push_back(choose(rank, first, count));
    place->second = &choices_.back();
  }
  return *place->second;
}

// All runs of layers that the rank may hold.
void Layers::fill_rank(int rank) {
  const int p = spec_.parallel.pp;
  const int layers = spec_.model.layers();
  const auto need = [&](int r, int l) -> double& { return least_[at(r) * at(layers + 1) + at(l)]; };
  for (int first = rank; first <= (rank == 0 ? 0 : layers); ++first) {
    for (int n = 0; first + n <= layers; ++n) {
      table_->choices(rank, first, n) = nullptr;
    }
    need(rank, first) = StageSearch::kNever;
    const job::VirtualStage& own = checked_->stages[at(rank)];
    if (!deals_ && first != own.first_layer) continue;
    for (int n = least_layers(rank); first + n <= layers; ++n) {
      if (rank + 1 == p && first + n != layers) continue;
      if (!deals_ && n != own.layers) continue;
      const Choice& choice = choice_of(rank, first, n);
      table_->choices(rank, first, n) = &choice.costs;
      need(rank, first) =
          std::min(need(rank, first), std::max(choice.least.value, need(rank + 1, first + n)));
    }
  }
}

void Layers::begin_search() {
  search_ = std::make_unique<StageSearch>(
      pace_of(ranks_->order(), ranks_->links()), *table_,
      StageModel{[this](std::span<const projection::RankCost* const> r) { return ranks_->step(r); },
                 [this](double tensors) { return ranks_->host(tensors); }},
      std::min(known_step_, plan_.step));
}

// Recomputed layers as a job says them: none, the first K of every stage, or their numbers.
job::RecomputeSpec Layers::said(const std::vector<StagePlan>& stages) const {
  if (mode_.what == LayerMode::What::all) return mode_.recompute;
  std::vector<int> ids;
  int most = 0;
  for (const StagePlan& s : stages) {
    for (std::size_t n = 0; n < s.full.size(); ++n) {
      if (s.full[n] != 0) ids.push_back(s.first + static_cast<int>(n));
    }
    most = std::max(most, static_cast<int>(std::count(s.full.begin(), s.full.end(), 1)));
  }
  if (ids.empty()) return {};
  const bool alike = std::all_of(stages.begin(), stages.end(), [&](const StagePlan& s) {
    return s.full == first_of(static_cast<int>(s.full.size()), most);
  });
  job::RecomputeSpec out = mode_.recompute;
  out.granularity = job::Granularity::full;
  out.method = alike ? job::RecomputeMethod::block : job::RecomputeMethod::uniform;
  out.layers = alike ? most : 1;
  out.layer_ids = alike ? std::vector<int>{} : std::move(ids);
  return out;
}

void Layers::keep_plan() {
  if (search_->best().empty()) return;
  plan_.step = search_->best_step();
  plan_.stages.clear();
  plan_.layout = spec_.layout;
  int first = 0;
  std::vector<job::StageLayout> stages = layouts(*checked_);
  for (int rank = 0; rank < spec_.parallel.pp; ++rank) {
    const auto [n, which] = search_->best()[at(rank)];
    const Choice& choice = choice_of(rank, first, n);
    plan_.stages.push_back({first, choice.full[which], choice.device_peaks[which]});
    stages[at(rank)].layers = n;
    first += n;
  }
  if (deals_ && spec_.parallel.pp > 1) {
    plan_.layout = {};
    plan_.layout.stages = std::move(stages);
  }
  plan_.recompute = said(plan_.stages);
}

bool Layers::advance() {
  const int layers = spec_.model.layers();
  if (next_rank_ > 0) {
    if (next_rank_ == spec_.parallel.pp) {
      least_.assign(at(spec_.parallel.pp + 1) * at(layers + 1), StageSearch::kNever);
      least_.back() = 0;
    }
    fill_rank(--next_rank_);
    if (next_rank_ == 0) {
      least_peak_ = min(least_peak_, Bytes{least_[0]});
      begin_search();
    }
    return true;
  }
  const bool more = search_->advance(kPiece);
  keep_plan();
  if (more) return true;
  bound_ = std::min(bound_, search_->lower_bound());
  begun_ += search_->nodes();
  simulated_ += search_->simulated();
  search_.reset();
  if (first_layers_ >= most_first_) return false;
  ++first_layers_;
  next_rank_ = spec_.parallel.pp;
  return true;
}

double Layers::lower_bound() const {
  return search_ == nullptr ? bound_ : std::min(bound_, search_->lower_bound());
}
Bytes Layers::least_peak() const { return least_peak_; }
std::uint64_t Layers::deals_begun() const {
  return begun_ + (search_ == nullptr ? 0 : search_->nodes());
}
std::uint64_t Layers::deals_simulated() const {
  return simulated_ + (search_ == nullptr ? 0 : search_->simulated());
}

}  // namespace eratos::search
