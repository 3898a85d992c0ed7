#include "eratos/projection/allocation_trace.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "eratos/base/check.h"
#include "eratos/lower/lower.h"
#include "eratos/lower/step.h"
#include "eratos/projection/compose.h"
#include "eratos/projection/picture.h"
#include "eratos/projection/state.h"
#include "eratos/projection/routing.h"

namespace eratos::projection {

namespace {

using schedule::Action;
using schedule::Kind;

constexpr std::int32_t kNone = -1;

// What a program's tensors go through, found once a program.
struct Life {
  std::vector<std::int64_t> bytes;         // rounded as memory::walk() rounds
  std::vector<std::int32_t> forward_last;  // index of the last op that reads it, or kNone
  std::vector<std::int32_t> backward_last;
  std::vector<bool> comes_in;       // gradients that backward reads and nobody here makes
  std::vector<bool> put_off;        // needed by weight gradients
  std::vector<std::int64_t> waits;  // bytes of those while they wait
};

std::vector<std::int32_t> last_reads(const std::vector<ops::Op>& list, std::size_t tensors) {
  std::vector<std::int32_t> last(tensors, kNone);
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (const ops::TensorId id : list[i].reads) last[id] = static_cast<std::int32_t>(i);
  }
  return last;
}

std::int64_t rounded_up(std::int64_t bytes, std::int64_t to) { return (bytes + to - 1) / to * to; }
std::int64_t whole(double bytes) { return static_cast<std::int64_t>(std::ceil(bytes - 1e-6)); }

Life life_of(const ops::Program& p, Bytes rounding) {
  const std::size_t count = p.tensors.size();
  Life life;
  const std::int64_t block = std::max<std::int64_t>(1, whole(rounding.value));
  for (const ops::Tensor& t : p.tensors) {
    life.bytes.push_back(rounded_up(whole(t.bytes().value), block));
  }
  life.forward_last = last_reads(p.forward, count);
  life.backward_last = last_reads(p.backward, count);
  std::vector<bool> made(count, false);
  for (const auto* list : {&p.forward, &p.backward}) {
    for (const ops::Op& op : *list) {
      for (const ops::TensorId id : op.writes) made[id] = true;
    }
  }
  life.comes_in.assign(count, false);
  for (std::size_t i = 0; i < count; ++i) {
    life.comes_in[i] =
        life.backward_last[i] != kNone && !p.tensors[i].saved && !made[i] && i != p.input;
  }
  const auto wanted = std::make_unique<bool[]>(count);
  memory::find_put_off(p, {wanted.get(), count});
  life.put_off.assign(wanted.get(), wanted.get() + count);
  for (std::size_t i = 0; i < count; ++i) {
    const Bytes waits = memory::put_off_bytes(p, static_cast<ops::TensorId>(i));
    life.waits.push_back(rounded_up(whole(waits.value), block));
  }
  return life;
}

// Blocks by tensor of one program: one layer, one micro-batch.
using Alive = std::vector<std::int32_t>;  // event that allocated it, or kNone

class Tracer {
 public:
  Tracer(const job::CheckedJob& job, const Workspace& w, const StepPicture& picture, int rank)
      : job_(job), w_(w), picture_(picture), state_(state_rules(job)) {
    out_.rank = rank;
    out_.allocator = memory::CachingAllocator(job.spec->framework.memory.expandable_segments);
    const schedule::Schedule& schedule = schedule_of(job);
    out_.micro_batches = schedule::micro_batches_of(shape_of(job), schedule.placement);
    parts_ = lower::parts_of(job);
    const Bytes rounding = job.spec->framework.memory.allocator_rounding;
    for (std::size_t i = 0; i < w.lowered.program_count; ++i) {
      lives_.push_back(life_of(w.lowered.programs[i], rounding));
    }
    first_block_.assign(static_cast<std::size_t>(parts_), kNone);
    const int chunks = parallel::chunks_of(job.parallel);
    for (int part = 0; part < chunks; ++part) {
      const int stage = schedule::stage_of(shape_of(job), schedule.placement, rank, part);
      int before = 0;
      for (int s = 0; s < stage; ++s)
        before += blocks_in(w.lowered.stages[static_cast<std::size_t>(s)]);
      first_block_[static_cast<std::size_t>(part)] = before;
    }
    gradients_from_start_ =
        job.spec->framework.state.contiguous_gradient_buffer || job.micro_batches > 1;
  }

  AllocationTrace run(std::int64_t most_allocations) {
    out_.traced = how_many(most_allocations);
    held_.resize(static_cast<std::size_t>(out_.traced) * static_cast<std::size_t>(parts_));
    outputs_.assign(held_.size(), kNone);
    start();
    phase("start of step", 0);
    const auto actions = picture_.order.of(out_.rank);
    const auto first =
        static_cast<std::size_t>(picture_.order.first[static_cast<std::size_t>(out_.rank)]);
    bool warm = false;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& a = actions[i];
      const schedule::Interval& at = picture_.intervals[first + i];
      const bool leaves = a.kind == Kind::backward || a.kind == Kind::input_gradient;
      if (leaves && !warm) {
        phase("end of warm-up", at.start);
        warm = true;
      }
      // Of two side by side the first has the first half of their time.
      const bool second = i > 0 && actions[i - 1].with_next;
      const Picoseconds middle = at.start + (at.end - at.start) / 2;
      const schedule::Interval its{second ? middle : at.start, a.with_next ? middle : at.end};
      if (a.micro_batch < out_.traced) act(a, its);
    }
    const Picoseconds end = picture_.timing.ranks[static_cast<std::size_t>(out_.rank)].last_end;
    now_ = end;
    phase("end of cool-down", end);
    step(end);
    finish();
    return std::move(out_);
  }

 private:
  const ops::StageProgram& part(int i) const {
    return lower::part_of(job_, w_.lowered, out_.rank, i);
  }
  static int blocks_in(const ops::StageProgram& stage) {
    int n = 0;
    for (const ops::StageItem& item : stage.items) n += item.repeat;
    return n;
  }

  // Micro-batches 0 to n - 1: those in flight when most is kept, as many more as the pipeline is
  // deep (what an action works with may be highest a turn later), and more as long as there is
  // room.
  int how_many(std::int64_t most) const {
    std::int64_t level = 0;
    std::int64_t highest = -1;
    int seen = 0;
    int needed = 1;
    const auto slot = [&](int chunk) -> const schedule::ChunkCost& {
      return picture_.chunks[static_cast<std::size_t>(
          schedule::slot_of(picture_.order.shape, out_.rank, chunk))];
    };
    const auto share = [&] {
      return picture_.outputs.empty() ? std::int64_t{0}
                                      : picture_.outputs[static_cast<std::size_t>(out_.rank)].held;
    };
    for (const Action& a : picture_.order.of(out_.rank)) {
      seen = std::max(seen, a.micro_batch + 1);
      if (a.kind == Kind::forward) level += slot(a.chunk).held;
      if (a.kind == Kind::output) level += share();
      if (a.kind == Kind::input_gradient) level += slot(a.chunk).kept;
      if (level > highest) {
        highest = level;
        needed = seen;
      }
      if (a.kind == Kind::backward || a.kind == Kind::input_gradient) level -= slot(a.chunk).held;
      if (a.kind == Kind::weight_gradient) level -= slot(a.chunk).kept;
      if (a.kind == Kind::output_gradient) level -= share();
    }
    std::int64_t each = 1;
    for (int i = 0; i < parts_; ++i) {
      for (const ops::StageItem& item : part(i).items) {
        const ops::Program& p = w_.lowered.programs[item.program];
        for (const auto* list : {&p.forward, &p.backward}) {
          for (const ops::Op& op : *list) {
            each += item.repeat * static_cast<std::int64_t>(op.writes.size());
          }
        }
      }
    }
    const std::int64_t room = std::min<std::int64_t>(most / each, out_.micro_batches);
    needed = std::min(needed + job_.parallel.pp, out_.micro_batches);
    return std::max(needed, static_cast<int>(room));
  }

  std::int32_t allocate(const Owner& owner, std::int64_t bytes) {
    if (bytes <= 0) return kNone;
    const auto id = static_cast<std::int32_t>(out_.owners.size());
    out_.owners.push_back(owner);
    const std::int64_t before = out_.allocator.reserved();
    const std::int64_t address = out_.allocator.allocate(bytes, id);
    if (const std::int64_t more = out_.allocator.reserved() - before; more > 0) {
      // A segment of its own, or pages mapped behind the block that now ends an expandable one.
      const auto& grown = out_.allocator.segment_of(address);
      out_.events.push_back(
          {EventKind::segment, kNone, grown.address + grown.bytes - more, more, now_});
    }
    const auto event = static_cast<std::int32_t>(out_.events.size());
    out_.events.push_back({EventKind::allocate, id, address, bytes, now_});
    level_ += bytes;
    if (level_ > out_.peak) {
      out_.peak = level_;
      out_.peak_event = static_cast<std::size_t>(event);
      peak_time_ = now_;
    }
    return event;
  }

  void free(std::int32_t event) {
    if (event == kNone) return;
    const AllocationEvent e = out_.events[static_cast<std::size_t>(event)];
    out_.allocator.free(e.address);
    out_.events.push_back({EventKind::free, e.owner, e.address, e.bytes, now_});
    level_ -= e.bytes;
  }

  void phase(const char* name, Picoseconds time) { out_.phases.push_back({name, time, level_}); }

  Owner amount(const char* name, ops::Module module, Kind kind = Kind::forward,
               int micro_batch = kNone) {
    Owner o;
    o.tensor = name;
    o.module = module;
    o.held = HeldAs::amount;
    o.kind = kind;
    o.micro_batch = micro_batch;
    return o;
  }

  // ---- what is held all step

  double state_bytes(const ops::Parameter& q, HeldAs held) const {
    const memory::StateBytes& b = q.expert ? state_.expert : state_.dense;
    switch (held) {
      case HeldAs::weight:
        return q.elements * (b.parameter + (q.narrow ? b.narrow : 0)) / b.parameter_shards;
      case HeldAs::gradient:
        return q.frozen ? 0 : q.elements * b.gradient / b.gradient_shards;
      case HeldAs::optimizer:
        return q.frozen ? 0
                        : q.elements *
                              (b.optimizer + (q.matrix && !q.embedding ? b.optimizer_matrix : 0)) /
                              b.optimizer_shards;
      default:
        return 0;
    }
  }

  // One layer's state of one kind.
  void allocate_state(const ops::Program& p, int block, HeldAs held, Kind kind) {
    for (std::size_t i = 0; i < p.parameters.size(); ++i) {
      const ops::Parameter& q = p.parameters[i];
      Owner o;
      o.tensor = q.name;
      o.program = p.name;
      o.module = q.module;
      o.held = held;
      o.kind = kind;
      o.op = static_cast<std::int32_t>(i);
      o.block = block;
      allocate(o, whole(state_bytes(q, held)));
    }
  }

  void start() {
    std::vector<HeldAs> kinds{HeldAs::weight};
    if (gradients_from_start_) kinds.push_back(HeldAs::gradient);
    kinds.push_back(HeldAs::optimizer);
    for (const HeldAs held : kinds) {
      for (int i = 0; i < parts_; ++i) {
        int block = first_block_[static_cast<std::size_t>(i)];
        for (const ops::StageItem& item : part(i).items) {
          for (int n = 0; n < item.repeat; ++n) {
            allocate_state(w_.lowered.programs[item.program], block, held, Kind::forward);
            if (block != kNone) ++block;
          }
        }
      }
    }
    const job::JobSpec& spec = *job_.spec;
    const layer::LayerContext c = lower::context_of(job_);
    allocate(amount("workspace", ops::Module::output_layer),
             whole(spec.framework.memory.workspace.value));
    if (job_.parallel.tp > 1) {
      const Bytes hidden = bytes_of(c.tokens() * spec.model.hidden, c.activation);
      allocate(amount("hidden buffers", ops::Module::residual),
               whole(hidden.value *
                     (spec.framework.memory.hidden_buffers + lagging_buffers(job_, out_.rank, w_))));
    }
    if (lower::dense_shards(job_) > 1) {
      allocate(amount("gradient buckets", ops::Module::gradient_reduce),
               whole(spec.framework.memory.buckets.value));
    }
    double placeholders = 0;
    std::vector<bool> seen(w_.lowered.program_count, false);
    double largest = 0;
    double trained = 0;
    for (int i = 0; i < parts_; ++i) {
      for (const ops::StageItem& item : part(i).items) {
        const memory::ProgramMemory& p = w_.program_memory[item.program];
        const double dense = p.dense_parameters - p.dense_frozen;
        const double expert = p.expert_parameters - p.expert_frozen;
        if (!seen[item.program]) placeholders += p.placeholder_elements * state_.placeholder_bytes;
        seen[item.program] = true;
        updated_ += item.repeat * (dense / state_.dense.optimizer_shards +
                                   expert / state_.expert.optimizer_shards);
        updated_experts_ += item.repeat * expert / state_.expert.optimizer_shards;
        largest = std::max(largest, p.dense_parameters + p.expert_parameters);
        trained = std::max(trained, dense + expert);
      }
    }
    allocate(amount("gradient placeholders", ops::Module::gradient_reduce), whole(placeholders));
    if (!state_.gathers) return;
    gathered_ = whole(largest * state_.gathered_bytes * spec.framework.state.gathered_units);
    gathered_gradient_ = whole(trained * (state_.gathered_bytes + state_.dense.gradient));
  }

  // The update, and what the optimizer takes for it.
  void step(Picoseconds end) {
    now_ = end;
    const RankPicture& picture = picture_.ranks[static_cast<std::size_t>(out_.rank)];
    for (const OpSpan& op : picture.ops) {
      if (op.micro_batch == kNone && op.name == "optimizer") now_ = op.start;
    }
    const double widened = std::max((updated_ - updated_experts_) * state_.dense.widened,
                                    updated_experts_ * state_.expert.widened);
    const double bytes =
        updated_ * job_.spec->framework.state.step_bytes_per_parameter + widened;
    const bool copies = state_.dense.gradient < 4.0;
    const double flat =
        copies ? updated_ * job_.spec->framework.state.step_flat_bytes_per_parameter : 0.0;
    const std::int32_t taken =
        allocate(amount("the optimizer's own", ops::Module::optimizer), whole(bytes));
    const std::int32_t buffer =
        allocate(amount("flat buffer of the step", ops::Module::optimizer), whole(flat));
    phase("optimizer", now_);
    free(buffer);
    free(taken);
  }

  // The allocator once more, up to the peak.
  void measure_peak() {
    memory::CachingAllocator again(job_.spec->framework.memory.expandable_segments);
    for (std::size_t i = 0; i <= out_.peak_event && i < out_.events.size(); ++i) {
      const AllocationEvent& e = out_.events[i];
      if (e.kind == EventKind::allocate) again.allocate(e.bytes, e.owner);
      if (e.kind == EventKind::free) again.free(e.address);
    }
    out_.reserved_at_peak = again.reserved();
    out_.held_at_peak = again.held();
  }

  void finish() {
    measure_peak();
    out_.reserved = out_.allocator.reserved();
    const Phase peak{"peak", peak_time_, out_.peak};
    // Before the first phase that is later; phases are in the order of their times.
    const auto at = std::find_if(out_.phases.begin() + 1, out_.phases.end(),
                                 [&](const Phase& p) { return p.time > peak.time; });
    out_.phases.insert(at, peak);
  }

  // ---- one action

  // An op is one of the action's `ops_` equal parts.
  void tick() {
    const double share = ops_ > 0 ? static_cast<double>(done_) / static_cast<double>(ops_) : 0;
    now_ = at_.start + static_cast<Picoseconds>(share * static_cast<double>(at_.end - at_.start));
    ++done_;
  }

  std::vector<Alive>& held_of(int micro_batch, int part_index) {
    auto& blocks = held_[static_cast<std::size_t>(micro_batch) * static_cast<std::size_t>(parts_) +
                         static_cast<std::size_t>(part_index)];
    if (blocks.empty()) blocks.resize(static_cast<std::size_t>(blocks_in(part(part_index))));
    return blocks;
  }

  void act(const Action& a, const schedule::Interval& at) {
    const bool one = job_.parallel.output_layer == parallel::OutputLayer::one_barrier;
    const bool is_share = a.kind == Kind::output || a.kind == Kind::output_gradient;
    const int index = is_share ? parallel::chunks_of(job_.parallel) : a.chunk;
    at_ = at;
    done_ = 0;
    ops_ = 0;
    for (const ops::StageItem& item : part(index).items) {
      const ops::Program& p = w_.lowered.programs[item.program];
      const bool first = a.kind == Kind::forward || a.kind == Kind::output;
      if (first) ops_ += p.forward.size() * static_cast<std::size_t>(item.repeat);
      if (!first || (a.kind == Kind::output && one)) {
        ops_ += p.backward.size() * static_cast<std::size_t>(item.repeat);
      }
    }
    now_ = at.start;
    kind_ = a.kind;
    micro_batch_ = a.micro_batch;
    std::vector<Alive>& held = held_of(a.micro_batch, index);
    const bool forward = a.kind == Kind::forward || a.kind == Kind::output;
    const std::int32_t gathered = allocate(
        amount("gathered parameters", ops::Module::parameter_gather, a.kind, a.micro_batch),
        gathered_);
    if (forward) run_forward(index, held);
    if (!forward || (a.kind == Kind::output && one)) {
      const std::int32_t gradient =
          allocate(amount("gradient before it is scattered", ops::Module::gradient_reduce, a.kind,
                          a.micro_batch),
                   gathered_gradient_);
      const bool split = a.kind == Kind::input_gradient || a.kind == Kind::output;
      const bool late = a.kind == Kind::weight_gradient || (a.kind == Kind::output_gradient && one);
      run_backward(index, held, split, late);
      free(gradient);
    }
    now_ = at.end;
    free(gathered);
  }

  Owner tensor(const ops::Program& p, ops::TensorId id, std::int32_t op, int block) const {
    const ops::Tensor& t = p.tensors[id];
    Owner o;
    o.tensor = t.name;
    o.program = p.name;
    o.module = t.module;
    o.held = t.saved ? HeldAs::saved : HeldAs::temporary;
    o.kind = kind_;
    o.op = op;
    o.block = block;
    o.micro_batch = micro_batch_;
    return o;
  }

  void release(Alive& alive, ops::TensorId id) {
    free(alive[id]);
    alive[id] = kNone;
  }

  template <class Keep, class Skip>
  void run_ops(const ops::Program& p, const std::vector<ops::Op>& list, const Life& life,
               const std::vector<std::int32_t>& last, int block, Alive& alive, Keep keep,
               Skip skip) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const ops::Op& op = list[i];
      tick();
      if (skip(op)) continue;
      const auto index = static_cast<std::int32_t>(i);
      for (const ops::TensorId id : op.writes) {
        if (alive[id] == kNone) alive[id] = allocate(tensor(p, id, index, block), life.bytes[id]);
      }
      const auto end_of = [&](ops::TensorId id) {
        if (!keep(id) && last[id] <= index) release(alive, id);
      };
      for (const ops::TensorId id : op.reads) end_of(id);
      for (const ops::TensorId id : op.writes) end_of(id);
    }
  }

  void run_forward(int index, std::vector<Alive>& held) {
    std::int32_t carried = kNone;  // the block that one program hands to the next
    std::size_t place = 0;
    for (const ops::StageItem& item : part(index).items) {
      const ops::Program& p = w_.lowered.programs[item.program];
      const Life& life = lives_[item.program];
      for (int n = 0; n < item.repeat; ++n, ++place) {
        const int block = block_at(index, place);
        Alive& alive = held[place];
        alive.assign(p.tensors.size(), kNone);
        take_input(p, life, carried, block, alive);
        run_ops(
            p, p.forward, life, life.forward_last, block, alive,
            [&](ops::TensorId id) { return p.tensors[id].saved || id == p.output; },
            [](const ops::Op&) { return false; });
        carried = kNone;
        for (std::size_t i = 0; i < alive.size(); ++i) {
          const auto id = static_cast<ops::TensorId>(i);
          const ops::Tensor& t = p.tensors[i];
          if (t.saved && !t.offloaded) {
            // Saved, but written by no op of forward: the model counts it from here on.
            if (alive[i] == kNone) alive[i] = allocate(tensor(p, id, kNone, block), life.bytes[i]);
          } else if (id == p.output) {
            carried = std::exchange(alive[i], kNone);
          } else {
            release(alive, id);
          }
        }
      }
    }
    now_ = at_.end;
    if (kept_output(job_, out_.rank).value > 0 && index < parallel::chunks_of(job_.parallel)) {
      outputs_[output_slot(index)] = carried;
      return;
    }
    free(carried);  // sent on
  }

  std::size_t output_slot(int index) const {
    return static_cast<std::size_t>(micro_batch_) * static_cast<std::size_t>(parts_) +
           static_cast<std::size_t>(index);
  }

  void take_input(const ops::Program& p, const Life& life, std::int32_t carried, int block,
                  Alive& alive) {
    if (p.input == ops::kNoTensor) {
      free(carried);
      return;
    }
    const bool fits = carried != kNone &&
                      out_.events[static_cast<std::size_t>(carried)].bytes == life.bytes[p.input];
    if (!fits) {
      free(carried);
      alive[p.input] = allocate(tensor(p, p.input, kNone, block), life.bytes[p.input]);
      return;
    }
    alive[p.input] = carried;
    if (p.tensors[p.input].saved) {
      const AllocationEvent& e = out_.events[static_cast<std::size_t>(carried)];
      out_.owners[static_cast<std::size_t>(e.owner)].held = HeldAs::saved;
    }
  }

  int block_at(int index, std::size_t place) const {
    const int first = first_block_[static_cast<std::size_t>(index)];
    return first == kNone ? kNone : first + static_cast<int>(place);
  }

  // split: without the weights' gradients. late: only them.
  void run_backward(int index, std::vector<Alive>& held, bool split, bool late) {
    const ops::StageProgram& stage = part(index);
    std::size_t place = held.size();
    for (std::size_t i = stage.items.size(); i-- > 0;) {
      const ops::Program& p = w_.lowered.programs[stage.items[i].program];
      const Life& life = lives_[stage.items[i].program];
      for (int n = 0; n < stage.items[i].repeat; ++n) {
        --place;
        const int block = block_at(index, place);
        if (!gradients_from_start_ && !split) allocate_state(p, block, HeldAs::gradient, kind_);
        Alive& alive = held[place];
        for (std::size_t t = 0; t < alive.size() && !late; ++t) {
          if (alive[t] != kNone) continue;
          const bool back = p.tensors[t].saved && p.tensors[t].offloaded;
          if (!back && !life.comes_in[t]) continue;
          alive[t] =
              allocate(tensor(p, static_cast<ops::TensorId>(t), kNone, block), life.bytes[t]);
        }
        run_ops(
            p, p.backward, life, life.backward_last, block, alive,
            [&](ops::TensorId id) { return split && life.put_off[id]; },
            [&](const ops::Op& op) {
              const bool weights = op.pass == ops::Pass::wgrad;
              return (split && weights) || (late && !weights);
            });
        for (std::size_t t = 0; t < alive.size(); ++t) {
          const auto id = static_cast<ops::TensorId>(t);
          const bool waits = split && life.put_off[t];
          if (waits && life.waits[t] == life.bytes[t]) continue;
          release(alive, id);
          if (waits)
            alive[t] = allocate(tensor(p, id, kNone, block), life.waits[t]);  // a cast of it
        }
        if (!split) alive.clear();
      }
    }
    if (!late) free(std::exchange(outputs_[output_slot(index)], kNone));
  }

  const job::CheckedJob& job_;
  const Workspace& w_;
  const StepPicture& picture_;
  memory::StateRules state_;
  int parts_ = 1;
  bool gradients_from_start_ = true;
  std::vector<Life> lives_;                // [program]
  std::vector<std::int32_t> first_block_;  // [part]
  std::vector<std::vector<Alive>> held_;   // [micro-batch * parts + part][place]
  std::vector<std::int32_t> outputs_;      // the same: what was sent on and is kept all the same
  double updated_ = 0;                     // parameters that the rank's optimizer updates
  double updated_experts_ = 0;             // of them
  std::int64_t gathered_ = 0;
  std::int64_t gathered_gradient_ = 0;
  AllocationTrace out_;
  std::int64_t level_ = 0;
  Picoseconds peak_time_ = 0;

  // Of the action that runs.
  schedule::Interval at_;
  std::size_t ops_ = 0;
  std::size_t done_ = 0;
  Picoseconds now_ = 0;
  Kind kind_ = Kind::forward;
  std::int32_t micro_batch_ = kNone;
};

}  // namespace

std::string_view name_of(HeldAs h) {
  switch (h) {
    case HeldAs::weight:
      return "weight";
    case HeldAs::gradient:
      return "gradient";
    case HeldAs::optimizer:
      return "optimizer state";
    case HeldAs::saved:
      return "saved for backward";
    case HeldAs::temporary:
      return "temporary";
    case HeldAs::amount:
      return "amount";
  }
  return "?";
}

std::vector<std::int32_t> AllocationTrace::alive_at_peak() const {
  std::vector<bool> freed(owners.size(), false);
  for (std::size_t i = 0; i < peak_event; ++i) {
    if (events[i].kind == EventKind::free) freed[static_cast<std::size_t>(events[i].owner)] = true;
  }
  std::vector<std::int32_t> alive;
  for (std::size_t i = 0; i <= peak_event && i < events.size(); ++i) {
    const AllocationEvent& e = events[i];
    if (e.kind != EventKind::allocate || freed[static_cast<std::size_t>(e.owner)]) continue;
    alive.push_back(static_cast<std::int32_t>(i));
  }
  return alive;
}

Result<AllocationTrace> trace_allocations(const job::CheckedJob& job,
                                          const calibration::Calibration& calibration,
                                          const TraceOptions& options, Workspace& w) {
  if (options.rank < 0 || options.rank >= job.parallel.pp) {
    return fault({.message = "there is no pipeline rank " + std::to_string(options.rank),
                  .cure = "choose one of 0 to " + std::to_string(job.parallel.pp - 1)});
  }
  const Result<StepPicture> drawn = picture(job, calibration, 0, w);
  if (!drawn) return faults(drawn.error());
  // Its tensors are those of the table: at the load of the median peak, where routing is uneven.
  if (const ops::LoadSpread spread = spread_of(job); !spread.even()) {
    RoutingAnswer routing;
    uneven_memory(job, spread, {}, true, w, routing);
    prepare_at(routing.at_peak, job, w);
  }
  return Tracer(job, w, *drawn, options.rank).run(options.most_allocations);
}

std::vector<PeakTensor> top_at_peak(const AllocationTrace& trace, std::size_t most) {
  std::vector<PeakTensor> all;
  for (const std::int32_t i : trace.alive_at_peak()) {
    const AllocationEvent& e = trace.events[static_cast<std::size_t>(i)];
    const Owner& o = trace.owners[static_cast<std::size_t>(e.owner)];
    auto same = std::find_if(all.begin(), all.end(), [&](const PeakTensor& t) {
      return t.held == o.held && t.module == o.module && std::string_view(t.tensor) == o.tensor;
    });
    if (same == all.end()) {
      all.push_back({o.tensor, o.module, o.held, e.bytes, 1});
    } else {
      same->bytes += e.bytes;
      ++same->copies;
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const PeakTensor& a, const PeakTensor& b) { return a.bytes > b.bytes; });
  if (all.size() > most) all.resize(most);
  return all;
}

}  // namespace eratos::projection
