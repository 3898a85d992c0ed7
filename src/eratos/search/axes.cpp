#include "eratos/search/axes.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <system_error>
#include <utility>
#include <variant>

#include "eratos/job/optimizer.h"
#include "eratos/parallel/schedules.h"

namespace eratos::search {

namespace {

using job::Granularity;
using ops::Module;
using parallel::Sharding;

constexpr int kStages = 8;  // of a sharding's number, beside its group

std::optional<int> whole_number(std::string_view word, int least) {
  int n = 0;
  const char* end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, n);
  if (error != std::errc() || at != end || n < least) return std::nullopt;
  return n;
}

Value number_value(int n) { return {n, std::to_string(n)}; }
Value switch_value(bool on) { return {on ? 1 : 0, on ? "true" : "false"}; }

template <class E>
Value named(E e) {
  return {static_cast<int>(e), std::string(job::name_of(e))};
}

// Enumerators from 0 on, as long as they have a name.
template <class E>
std::vector<Value> every(E last) {
  std::vector<Value> out;
  for (int i = 0; i <= static_cast<int>(last); ++i) out.push_back(named(static_cast<E>(i)));
  return out;
}

Value sharding_value(Sharding stage, int group) {
  Value v = named(stage);
  if (group > 0) v.word += ":" + std::to_string(group);
  v.number += kStages * group;
  return v;
}

Value schedule_value(std::string_view name) {
  for (std::size_t i = 0; i < std::size(parallel::kScheduleFacts); ++i) {
    if (parallel::kScheduleFacts[i].name == name) return {static_cast<int>(i), std::string(name)};
  }
  return {-1, "auto"};
}

Value recompute_value(Space& space, const job::RecomputeSpec& r, const std::string& word) {
  for (std::size_t i = 0; i < space.recomputes.size(); ++i) {
    if (word != "job" && word_of(space.recomputes[i]) == word) {
      return {static_cast<int>(i), word};
    }
  }
  space.recomputes.push_back(r);
  return {static_cast<int>(space.recomputes.size()) - 1, word};
}

Value recompute_value(Space& space, const job::RecomputeSpec& r) {
  return recompute_value(space, r, word_of(r));
}

job::RecomputeSpec selective(std::initializer_list<Module> modules) {
  job::RecomputeSpec r;
  r.granularity = Granularity::selective;
  for (const Module m : modules) r.modules.set(static_cast<std::size_t>(m));
  return r;
}

job::RecomputeSpec whole(job::RecomputeMethod method, int layers) {
  job::RecomputeSpec r;
  r.granularity = Granularity::full;
  r.method = method;
  r.layers = layers;
  return r;
}

std::optional<job::ModuleSet> modules_of(std::string_view words) {
  job::ModuleSet out;
  while (!words.empty()) {
    const std::size_t plus = words.find('+');
    const std::string_view word = words.substr(0, plus);
    words = plus == std::string_view::npos ? std::string_view() : words.substr(plus + 1);
    bool found = false;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (ops::name_of(static_cast<Module>(i)) != word) continue;
      out.set(i);
      found = true;
    }
    if (!found) return std::nullopt;
  }
  return out;
}

std::optional<Value> recompute_of(Space& space, std::string_view word) {
  const std::size_t colon = word.find(':');
  const std::string_view kind = word.substr(0, colon);
  const std::string_view rest = colon == std::string_view::npos ? "" : word.substr(colon + 1);
  const bool bare = colon == std::string_view::npos;
  if (kind == "none" && bare) return recompute_value(space, {});
  if (kind == "selective" && bare) {
    return recompute_value(space, selective({Module::core_attention}));
  }
  if (kind == "selective") {
    const auto modules = modules_of(rest);
    if (!modules || modules->none()) return std::nullopt;
    job::RecomputeSpec r = selective({});
    r.modules = *modules;
    return recompute_value(space, r);
  }
  if (kind == "full" && bare)
    return recompute_value(space, whole(job::RecomputeMethod::uniform, 1));
  const auto layers = whole_number(rest, 1);
  if (!layers || *layers > space.base.model.layers()) return std::nullopt;
  if (kind == "full") return recompute_value(space, whole(job::RecomputeMethod::block, *layers));
  if (kind == "uniform") {
    return recompute_value(space, whole(job::RecomputeMethod::uniform, *layers));
  }
  return std::nullopt;
}

std::optional<Value> sharding_of(std::string_view word) {
  const std::size_t colon = word.find(':');
  int group = 0;
  if (colon != std::string_view::npos) {
    const auto n = whole_number(word.substr(colon + 1), 1);
    if (!n) return std::nullopt;
    group = *n;
  }
  for (const Value& v : every(Sharding::hsdp)) {
    if (v.word != word.substr(0, colon)) continue;
    const auto stage = static_cast<Sharding>(v.number);
    const bool grouped = stage == Sharding::hsdp || stage == Sharding::zero3;
    if ((group > 0 && !grouped) || (group == 0 && stage == Sharding::hsdp)) return std::nullopt;
    return sharding_value(stage, group);
  }
  return std::nullopt;
}

std::optional<Value> one_of(const std::vector<Value>& values, std::string_view word) {
  for (const Value& v : values) {
    if (v.word == word) return v;
  }
  return std::nullopt;
}

std::vector<Value> split_values() { return {{0, "given"}, {1, "even"}, {2, "balanced"}}; }

std::vector<Value> schedule_values() {
  std::vector<Value> out{{-1, "auto"}};
  for (const parallel::ScheduleFacts& f : parallel::kScheduleFacts) {
    out.push_back(schedule_value(f.name));
  }
  return out;
}

// Source: Megatron-LM core/parallel_state.py (the default) and training/arguments.py
// (--use-tp-pp-dp-mapping).
constexpr RankOrder kOrders[] = {{Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp},
                                 {Axis::tp, Axis::cp, Axis::ep, Axis::pp, Axis::dp}};

std::string word_of(const RankOrder& order) {
  constexpr std::pair<Axis, std::string_view> kNames[] = {
      {Axis::tp, "tp"}, {Axis::cp, "cp"}, {Axis::ep, "ep"}, {Axis::dp, "dp"}, {Axis::pp, "pp"}};
  std::string out;
  for (const Axis a : order) {
    for (const auto& [axis, name] : kNames) {
      if (axis == a) out += (out.empty() ? "" : "-") + std::string(name);
    }
  }
  return out;
}

Value order_value(const RankOrder& order) { return {number_of(order), word_of(order)}; }

std::optional<Value> order_of_word(std::string_view word) {
  constexpr int kEvery = 5 * 4 * 3 * 2;
  for (int n = 0; n < kEvery; ++n) {
    const Value v = order_value(order_of(n));
    if (v.word == word) return v;
  }
  return std::nullopt;
}

bool is_trivial(const job::LayoutSpec& l) {
  return l.stages.empty() && l.first_stage_layers == 0 && l.last_stage_layers == 0 &&
         !l.embedding_counts && !l.output_counts;
}

// d divides n, d <= most.
std::vector<Value> divisors(int n, int most) {
  std::vector<Value> out;
  for (int d = 1; d <= std::min(n, most); ++d) {
    if (n % d == 0) out.push_back(number_value(d));
  }
  return out;
}

constexpr int kMostDegree = 64;  // of a group that exchanges in every layer
constexpr int kMostMicro = 16;
constexpr int kMostStages = 128;

// Degrees that divide both the experts and the accelerators.
std::vector<Value> expert_degrees(const job::JobSpec& s) {
  std::vector<Value> out;
  for (const Value& v : divisors(most_experts(s), kMostDegree * 8)) {
    if (s.cluster.gpus() % v.number == 0) out.push_back(v);
  }
  return out;
}

std::vector<Value> micro_values(int global) {
  std::vector<Value> out;
  for (int n = 1; n <= std::min(global, kMostMicro); n *= 2) out.push_back(number_value(n));
  return out;
}

// Chunks that divide the layers, and the few that uneven stages are worth.
std::vector<Value> chunk_values(int layers) {
  std::vector<Value> out;
  for (int v = 1; v <= std::max(1, layers / 2); ++v) {
    if (layers % v == 0 || v <= 4) out.push_back(number_value(v));
  }
  return out;
}

// Megatron-LM's modules without a large product (--recompute-modules core_attn, layernorm, moe_act,
// mla_up_proj).
std::vector<Module> cheap_modules(const model::Architecture& a) {
  const bool mla = std::any_of(a.blocks.begin(), a.blocks.end(), [](const layer::BlockSpec& b) {
    return std::holds_alternative<layer::MlaSpec>(b.mixer);
  });
  std::vector<Module> out{Module::core_attention, Module::norm};
  if (model::is_moe(a)) out.push_back(Module::expert_activation);
  if (mla) out.push_back(Module::mla_up);
  return out;
}

// What Megatron-LM recomputes by module (those above, or mlp), one by one, and all but the products
// of mlp together; whole layers; the first 1, 2, 4 and so on of a stage.
std::vector<Value> recompute_values(Space& space) {
  std::vector<Value> out{recompute_value(space, {})};
  const model::Architecture& a = space.base.model;
  const bool moe = model::is_moe(a);
  const std::vector<Module> cheap = cheap_modules(a);
  job::RecomputeSpec all = selective({});
  for (const Module m : cheap) {
    out.push_back(recompute_value(space, selective({m})));
    all.modules.set(static_cast<std::size_t>(m));
  }
  if (!moe) {
    out.push_back(
        recompute_value(space, selective({Module::mlp_in, Module::activation, Module::mlp_out})));
  }
  out.push_back(recompute_value(space, all));
  out.push_back(recompute_value(space, whole(job::RecomputeMethod::uniform, 1)));
  for (int k = 1; k < a.layers(); k *= 2) {
    out.push_back(recompute_value(space, whole(job::RecomputeMethod::block, k)));
  }
  return out;
}

// The framework's own choice, and the others it runs. Schedules that fit an order to a limit, or
// search for one, are taken only by name.
std::vector<Value> schedules_offered(const job::JobSpec& s) {
  std::vector<Value> out{{-1, "auto"}};
  for (const std::string& name : s.framework.schedules.offered) {
    const parallel::ScheduleFacts* facts = parallel::find_schedule_facts(name);
    if (facts == nullptr || facts->needs_limit) continue;
    if (name == "1f1b" || name == "interleaved-1f1b") continue;
    out.push_back(schedule_value(name));
  }
  return out;
}

std::vector<Value> sharding_values(const job::JobSpec& s) {
  std::vector<Value> out;
  const job::OptimizerKind* kind = job::find_optimizer(s.optimizer.kind);
  for (const Sharding stage : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
    out.push_back(sharding_value(stage, 0));
    if (kind != nullptr && !kind->shards) return out;
  }
  if (s.cluster.nodes > 1) {
    out.push_back(sharding_value(Sharding::hsdp, s.cluster.gpus_per_node));
  }
  return out;
}

std::vector<Value> dispatchers(const job::JobSpec& s) {
  if (!model::is_moe(s.model) || s.routing.dispatcher == job::Dispatcher::einsum) return {};
  return {named(job::Dispatcher::alltoall), named(job::Dispatcher::allgather)};
}

std::vector<Value> both_if(bool worth) {
  if (!worth) return {};
  return {switch_value(false), switch_value(true)};
}

// Without the job's own, which is added where it is missing.
std::vector<Value> usual_values(Space& space, AxisId axis) {
  const job::JobSpec& s = space.base;
  const int world = s.cluster.gpus();
  const bool moe = model::is_moe(s.model);
  switch (axis) {
    case AxisId::tp:
    case AxisId::cp:
      return divisors(world, kMostDegree);
    case AxisId::ep:
      return moe ? expert_degrees(s) : std::vector<Value>{};
    case AxisId::etp:
      return moe ? divisors(world, s.cluster.gpus_per_node) : std::vector<Value>{};
    case AxisId::sequence_parallel:
      return {switch_value(false), switch_value(true)};
    case AxisId::micro:
      return micro_values(s.batch.global);
    case AxisId::dispatcher:
      return dispatchers(s);
    case AxisId::fused_loss:
      return {switch_value(false), switch_value(true)};
    case AxisId::recompute:
      return recompute_values(space);
    case AxisId::pp:
      return divisors(world, std::min(s.model.layers(), kMostStages));
    case AxisId::vpp:
      return chunk_values(s.model.layers());
    case AxisId::split:
      if (s.framework.pipeline_split != framework::PipelineSplit::even) return {{1, "even"}};
      return {{1, "even"}, {2, "balanced"}};
    case AxisId::schedule:
      return schedules_offered(s);
    case AxisId::sharding:
      return sharding_values(s);
    case AxisId::offload:
      if (s.cluster.accelerator.host_link.value <= 0) return {};
      return {number_value(0), number_value(100)};
    case AxisId::overlap_tp:
      return both_if(s.framework.overlap.tp_share > 0);
    case AxisId::overlap_moe:
      return both_if(moe && s.framework.overlap.ep_share > 0);
    case AxisId::overlap_reduce:
    case AxisId::overlap_gather:
      return both_if(s.framework.overlap.dp_share > 0);
    case AxisId::precision:
    case AxisId::cp_kind:
    case AxisId::order:
    case AxisId::global:
    case AxisId::overlap_p2p:
    case AxisId::count_:
      break;
  }
  return {};
}

// Every set of modules that --recompute-modules may list: those without a large product, and a
// dense layer's mlp, which is its two products and what stands between them.
void add_module_sets(Space& space, std::vector<Value>& out) {
  const model::Architecture& a = space.base.model;
  std::vector<std::vector<Module>> choices;
  for (const Module m : cheap_modules(a)) choices.push_back({m});
  if (!model::is_moe(a)) {
    choices.push_back({Module::mlp_in, Module::activation, Module::mlp_out});
  }
  for (std::size_t set = 1; set < std::size_t{1} << choices.size(); ++set) {
    job::RecomputeSpec r = selective({});
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if ((set >> i & 1) == 0) continue;
      for (const Module m : choices[i]) r.modules.set(static_cast<std::size_t>(m));
    }
    out.push_back(recompute_value(space, r));
  }
}

// Whole nodes that divide the accelerators.
void add_groups(const job::JobSpec& s, std::vector<Value>& out) {
  const job::OptimizerKind* kind = job::find_optimizer(s.optimizer.kind);
  if (kind != nullptr && !kind->shards) return;
  for (int nodes = 1; nodes < s.cluster.nodes; ++nodes) {
    if (s.cluster.nodes % nodes != 0) continue;
    out.push_back(sharding_value(Sharding::hsdp, nodes * s.cluster.gpus_per_node));
  }
}

// Beyond the usual ones; some may be among them.
std::vector<Value> rare_values(Space& space, AxisId axis) {
  const job::JobSpec& s = space.base;
  std::vector<Value> out;
  switch (axis) {
    case AxisId::precision:
      return every(job::Recipe::nvfp4);
    case AxisId::cp_kind:
      return every(parallel::CpKind::a2a);
    case AxisId::order:
      for (const RankOrder& order : kOrders) out.push_back(order_value(order));
      return out;
    case AxisId::dispatcher:
      if (!dispatchers(s).empty()) out = every(job::Dispatcher::hybridep);
      return out;
    case AxisId::recompute:
      add_module_sets(space, out);
      return out;
    case AxisId::sharding:
      add_groups(s, out);
      return out;
    case AxisId::offload:
      if (s.cluster.accelerator.host_link.value <= 0) return out;
      return {number_value(25), number_value(50), number_value(75)};
    case AxisId::overlap_p2p:
      return {switch_value(false), switch_value(true)};
    default:
      return out;
  }
}

bool is_switch(AxisId axis) {
  switch (axis) {
    case AxisId::sequence_parallel:
    case AxisId::fused_loss:
    case AxisId::overlap_tp:
    case AxisId::overlap_moe:
    case AxisId::overlap_p2p:
    case AxisId::overlap_reduce:
    case AxisId::overlap_gather:
      return true;
    default:
      return false;
  }
}

}  // namespace

int most_experts(const job::JobSpec& s) {
  int most = 0;
  for (const layer::BlockSpec& block : s.model.blocks) {
    if (const auto* moe = std::get_if<layer::MoeSpec>(&block.feed_forward)) {
      most = std::max(most, moe->experts);
    }
  }
  return most;
}

bool is_numeric(AxisId axis) {
  switch (axis) {
    case AxisId::tp:
    case AxisId::cp:
    case AxisId::ep:
    case AxisId::etp:
    case AxisId::micro:
    case AxisId::pp:
    case AxisId::vpp:
    case AxisId::global:
    case AxisId::offload:
      return true;
    default:
      return false;
  }
}

std::string word_of(const job::RecomputeSpec& r) {
  switch (r.granularity) {
    case Granularity::none:
      return "none";
    case Granularity::selective: {
      std::string out;
      for (std::size_t i = 0; i < r.modules.size(); ++i) {
        if (!r.modules.test(i)) continue;
        out +=
            (out.empty() ? "selective:" : "+") + std::string(ops::name_of(static_cast<Module>(i)));
      }
      return out.empty() || out == "selective:core_attention" ? "selective" : out;
    }
    case Granularity::full:
      break;
  }
  if (!r.policy.empty() || r.kept.any() || r.alternate || !r.layer_ids.empty()) return "job";
  if (r.method == job::RecomputeMethod::block) return "full:" + std::to_string(r.layers);
  return r.layers == 1 ? "full" : "uniform:" + std::to_string(r.layers);
}

std::optional<Value> value_of(Space& space, AxisId axis, std::string_view word) {
  if (word == "job") return value_of_job(space, axis);
  if (is_numeric(axis)) {
    const auto n = whole_number(word, axis == AxisId::offload ? 0 : 1);
    if (!n || (axis == AxisId::offload && *n > 100)) return std::nullopt;
    return number_value(*n);
  }
  switch (axis) {
    case AxisId::precision:
      return one_of(every(job::Recipe::nvfp4), word);
    case AxisId::cp_kind:
      return one_of(every(parallel::CpKind::a2a), word);
    case AxisId::dispatcher:
      return one_of(every(job::Dispatcher::einsum), word);
    case AxisId::split:
      return one_of(split_values(), word);
    case AxisId::schedule:
      return one_of(schedule_values(), word);
    case AxisId::order:
      return order_of_word(word);
    case AxisId::recompute:
      return recompute_of(space, word);
    case AxisId::sharding:
      return sharding_of(word);
    default:
      return one_of({switch_value(true), switch_value(false)}, word);
  }
}

Value value_of_job(const Space& space, AxisId axis) {
  const job::JobSpec& s = space.base;
  switch (axis) {
    case AxisId::precision:
      return named(s.precision);
    case AxisId::tp:
      return number_value(s.parallel.tp);
    case AxisId::cp:
      return number_value(s.parallel.cp);
    case AxisId::cp_kind:
      return named(s.parallel.cp_kind);
    case AxisId::ep:
      return number_value(s.parallel.ep);
    case AxisId::etp:
      return number_value(s.parallel.etp);
    case AxisId::sequence_parallel:
      return switch_value(s.parallel.sequence_parallel);
    case AxisId::micro:
      return number_value(s.batch.micro);
    case AxisId::dispatcher:
      return named(s.routing.dispatcher);
    case AxisId::fused_loss:
      return switch_value(s.loss_fused);
    case AxisId::recompute:
      return {0, word_of(s.recompute)};
    case AxisId::pp:
      return number_value(s.parallel.pp);
    case AxisId::vpp:
      return number_value(s.parallel.vpp);
    case AxisId::split:
      return is_trivial(s.layout) ? Value{1, "even"} : Value{0, "given"};
    case AxisId::schedule:
      return schedule_value(s.schedule.algorithm);
    case AxisId::order:
      return order_value(s.parallel.order);
    case AxisId::sharding:
      return sharding_value(s.parallel.sharding, s.parallel.hsdp_group);
    case AxisId::global:
      return number_value(s.batch.global);
    case AxisId::offload:
      return number_value(static_cast<int>(std::lround(s.offload.optimizer * 100)));
    case AxisId::overlap_tp:
      return switch_value(s.overlap.tp);
    case AxisId::overlap_moe:
      return switch_value(s.overlap.moe_a2a);
    case AxisId::overlap_p2p:
      return switch_value(s.overlap.p2p);
    case AxisId::overlap_reduce:
      return switch_value(s.overlap.grad_reduce);
    case AxisId::overlap_gather:
      return switch_value(s.overlap.param_gather);
    case AxisId::count_:
      break;
  }
  return {};
}

void put_in_order(AxisId axis, std::vector<Value>& values) {
  if (!is_numeric(axis) && !is_switch(axis)) return;
  std::sort(values.begin(), values.end(),
            [](const Value& a, const Value& b) { return a.number < b.number; });
}

int own_number(const Space& space, AxisId axis) { return value_of_job(space, axis).number; }

std::vector<Value> default_values(Space& space, AxisId axis) {
  std::vector<Value> out = usual_values(space, axis);
  const Value own = value_of_job(space, axis);
  const bool there =
      std::any_of(out.begin(), out.end(), [&](const Value& v) { return v.number == own.number; });
  if (!there) out.push_back(own);
  put_in_order(axis, out);
  return out;
}

std::vector<Value> every_value(Space& space, AxisId axis) {
  std::vector<Value> out = default_values(space, axis);
  for (Value& v : rare_values(space, axis)) {
    const bool there =
        std::any_of(out.begin(), out.end(), [&](const Value& o) { return o.number == v.number; });
    if (!there) out.push_back(std::move(v));
  }
  put_in_order(axis, out);
  return out;
}

std::vector<std::string> words_of(AxisId axis) {
  std::vector<std::string> out;
  const auto add = [&](const std::vector<Value>& values) {
    for (const Value& v : values) out.push_back(v.word);
  };
  if (is_numeric(axis)) return out;
  switch (axis) {
    case AxisId::precision:
      add(every(job::Recipe::nvfp4));
      break;
    case AxisId::cp_kind:
      add(every(parallel::CpKind::a2a));
      break;
    case AxisId::dispatcher:
      add(every(job::Dispatcher::einsum));
      break;
    case AxisId::split:
      add(split_values());
      break;
    case AxisId::schedule:
      add(schedule_values());
      break;
    case AxisId::order:
      for (const RankOrder& order : kOrders) out.push_back(word_of(order));
      break;
    case AxisId::recompute:
      out = {"none", "selective",   "selective:MODULE+MODULE",
             "full", "full:LAYERS", "uniform:LAYERS"};
      break;
    case AxisId::sharding:
      out = {"none", "zero1", "zero2", "zero3", "zero3:GROUP", "hsdp:GROUP"};
      break;
    default:
      out = {"true", "false"};
  }
  return out;
}

}  // namespace eratos::search
