// A pipeline rank's bytes at its worst moment.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>

#include "eratos/memory/memory.h"

namespace eratos::memory {

std::string_view name_of(Moment m) {
  switch (m) {
    case Moment::forward:
      return "forward";
    case Moment::loss:
      return "loss";
    case Moment::backward:
      return "backward";
    case Moment::optimizer:
      return "optimizer step";
  }
  return "?";
}

namespace {

using Programs = std::vector<ProgramMemory>;

Bytes saved_of(const Programs& programs, const ops::StageProgram& stage) {
  Bytes total;
  for (const ops::StageItem& item : stage.items) total += programs[item.program].saved * item.repeat;
  return total;
}

Bytes put_off_of(const Programs& programs, const ops::StageProgram& stage) {
  Bytes total;
  for (const ops::StageItem& item : stage.items) total += programs[item.program].put_off * item.repeat;
  return total;
}

double trained_dense(const ProgramMemory& p) { return p.dense_parameters - p.dense_frozen; }
double trained_expert(const ProgramMemory& p) { return p.expert_parameters - p.expert_frozen; }

double parameters_of(const ProgramMemory& p, const StateBytes& dense, const StateBytes& expert) {
  return (p.dense_parameters * dense.parameter + p.dense_narrow * dense.narrow) /
             dense.parameter_shards +
         (p.expert_parameters * expert.parameter + p.expert_narrow * expert.narrow) /
             expert.parameter_shards;
}

struct Candidate {
  Bytes activations;  // kept tensors of all micro-batches
  Bytes transient;
  Bytes gradients;
  Moment moment = Moment::forward;
  ops::Module module = ops::Module::residual;
  const char* program = "";
  Bytes most;  // but for gradients, at any moment that was tried

  Bytes total() const { return activations + transient + gradients; }
};

void take_larger(Candidate& best, const Candidate& other) {
  const Bytes most = max(best.most, other.activations + other.transient);
  if (other.total() > best.total()) best = other;
  best.most = most;
}

double gradient_of(const ProgramMemory& p, const StateRules& state) {
  return trained_dense(p) * state.dense.gradient / state.dense.gradient_shards +
         trained_expert(p) * state.expert.gradient / state.expert.gradient_shards;
}

double optimizer_of(const ProgramMemory& p, const StateRules& state) {
  return (trained_dense(p) * state.dense.optimizer + p.dense_matrix * state.dense.optimizer_matrix) /
             state.dense.optimizer_shards +
         (trained_expert(p) * state.expert.optimizer +
          p.expert_matrix * state.expert.optimizer_matrix) /
             state.expert.optimizer_shards;
}

// ZeRO-3: the units gathered at once, and in backward the whole gradient of one of them before it
// is scattered.
Bytes gathered(const Programs& programs, const StageInput& stage, const StateRules& state,
               double units, bool backward) {
  if (!state.gathers) return Bytes{0};
  double largest = 0;
  double trained = 0;
  for (int c = 0; c < stage.chunk_count; ++c) {
    for (const ops::StageItem& item : stage.chunks[c]->items) {
      const ProgramMemory& p = programs[item.program];
      largest = std::max(largest, p.dense_parameters + p.expert_parameters);
      trained = std::max(trained, trained_dense(p) + trained_expert(p));
    }
  }
  const double gradient = backward ? trained * (state.gathered_bytes + state.dense.gradient) : 0;
  return Bytes{largest * state.gathered_bytes * units + gradient};
}

// Worst moment of the forward of a chunk's last micro-batch, on top of what others keep.
void try_forward(const Programs& programs, const ops::StageProgram& chunk, Bytes others,
                 Bytes gather, Bytes gradients, Candidate& best) {
  Bytes before;
  for (const ops::StageItem& item : chunk.items) {
    const ProgramMemory& p = programs[item.program];
    // The last repeat has all the earlier ones' kept tensors beneath it.
    before += p.saved * (item.repeat - 1);
    Candidate c;
    c.activations = others + before + min(p.saved, p.forward_peak);
    c.transient = others + before + p.forward_peak + gather - c.activations;
    c.gradients = gradients;
    c.moment = p.forward_module == ops::Module::loss ? Moment::loss : Moment::forward;
    c.module = p.forward_module;
    c.program = p.name;
    take_larger(best, c);
    before += p.saved;
  }
}

// Worst moment of a backward that starts with `held` bytes; `split`: of its input gradients, which
// leave behind what the weights' gradients need.
void try_backward(const Programs& programs, const StageInput& stage, const StateRules& state,
                  const ops::StageProgram& chunk, bool split, Bytes held, Bytes gather,
                  Bytes all_gradients, Candidate& best) {
  Bytes left = held;
  Bytes made;  // gradients of what has already run backward
  for (std::size_t i = chunk.items.size(); i-- > 0;) {
    const ops::StageItem& item = chunk.items[i];
    const ProgramMemory& p = programs[item.program];
    const Bytes peak = split ? p.gradient_peak : p.backward_peak;
    const Bytes stays = split ? p.put_off : Bytes{0};
    made += Bytes{gradient_of(p, state)};
    Candidate c;
    c.activations = left - p.saved;
    c.transient = peak + gather;
    // At the peak inside backward part of the program's own kept tensors is still there.
    const Bytes own = min(p.saved, peak);
    c.activations += own;
    c.transient -= own;
    c.gradients = stage.gradients_from_start ? all_gradients : made;
    c.module = split ? p.gradient_module : p.backward_module;
    c.moment = c.module == ops::Module::loss ? Moment::loss : Moment::backward;
    c.program = p.name;
    take_larger(best, c);
    if (item.repeat > 1) {
      // The first repeat to run last: the other end of what is kept, and most gradients.
      c.activations += (stays - p.saved) * (item.repeat - 1);
      if (!stage.gradients_from_start)
        c.gradients += Bytes{gradient_of(p, state)} * (item.repeat - 1);
      take_larger(best, c);
    }
    made += Bytes{gradient_of(p, state)} * (item.repeat - 1);
    left += (stays - p.saved) * item.repeat;
  }
  if (!split) return;
  // Over, and all of it still there.
  Candidate c;
  c.activations = left;
  c.gradients = stage.gradients_from_start ? all_gradients : made;
  c.moment = Moment::backward;
  take_larger(best, c);
}

// Worst moment of the weights' gradients that start with `held` bytes: what each layer needs is
// gone after its own.
void try_weights(const Programs& programs, const ops::StageProgram& chunk, Bytes held,
                 Bytes gradients, Candidate& best) {
  Bytes left = held;
  for (std::size_t i = chunk.items.size(); i-- > 0;) {
    const ops::StageItem& item = chunk.items[i];
    const ProgramMemory& p = programs[item.program];
    Candidate c;
    c.activations = left;
    c.transient = p.weight_peak - p.put_off;
    c.gradients = gradients;
    c.moment = Moment::backward;
    c.module = p.gradient_module;
    c.program = p.name;
    take_larger(best, c);
    left -= p.put_off * item.repeat;
  }
}

// What the allocator holds beside what it has handed out. Segments of fixed size keep the shapes of
// what was freed: a flat buffer of the optimizer step finds no hole of its size among them, and comes
// on top of the passes' peak. Expandable segments map pages anew, and under pressure every segment
// without a live block goes back to the driver before the allocator gives up.
// Source: pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp: malloc, release_cached_blocks,
// ExpandableSegment.
// `apart`: shards of gradients are made on the stream that reduces them. A block belongs to the stream
// that asked for it: what activations left is of no use to them, and the most that passes hold and
// all shards are reserved side by side, though they are never there together.
// Source: pytorch torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_reduce (the
// output is allocated under reduce_scatter_stream).
void reserve(const Candidate& best, Bytes flat, Bytes apart, const framework::MemoryOverheads& rules,
             StageMemory& out) {
  const double share = rules.expandable_segments ? rules.expandable_fraction : rules.reserve_fraction;
  out.reserved = (out.allocated + apart) * (1.0 + share);
  if (!rules.expandable_segments && best.moment != Moment::optimizer) out.reserved += flat;
  const Bytes outside = rules.context + out.communication;
  out.device = out.reserved + outside;
  out.least = min(out.device, out.allocated * (1.0 + rules.pressed_fraction) + outside);
}

}  // namespace

void stage_memory(const Programs& programs, const StageInput& stage, const StateRules& state,
                  const framework::FrameworkProfile& profile, StageMemory& out) {
  out = StageMemory{};
  double gradients = 0;
  double owned = 0;
  double owned_experts = 0;  // of them
  double placeholders = 0;
  Bytes held;
  for (int c = 0; c < stage.chunk_count; ++c) {
    const ops::StageProgram& chunk = *stage.chunks[c];
    held += saved_of(programs, chunk) * stage.in_flight[c];
    if (c < stage.model_chunks) held += stage.stage_output * stage.in_flight[c];
    if (stage.waiting != nullptr) held += put_off_of(programs, chunk) * stage.waiting[c];
    for (const ops::StageItem& item : chunk.items) {
      const ProgramMemory& p = programs[item.program];
      const double n = item.repeat;
      out.parameters += Bytes{n * parameters_of(p, state.dense, state.expert)};
      gradients += n * gradient_of(p, state);
      out.optimizer += Bytes{n * optimizer_of(p, state)};
      owned += n * (trained_dense(p) / state.dense.optimizer_shards +
                    trained_expert(p) / state.expert.optimizer_shards);
      owned_experts += n * trained_expert(p) / state.expert.optimizer_shards;
      // A shape is cached once a rank, however many layers have it.
      bool seen = false;
      for (int d = 0; d <= c && !seen; ++d) {
        for (const ops::StageItem& earlier : stage.chunks[d]->items) {
          if (&earlier == &item) break;
          seen = seen || earlier.program == item.program;
        }
      }
      if (!seen) placeholders += p.placeholder_elements * state.placeholder_bytes;
    }
  }
  const double units = profile.state.gathered_units;
  Candidate best;
  const Bytes early = stage.gradients_from_start ? Bytes{gradients} : Bytes{0};
  const Bytes gather_forward = gathered(programs, stage, state, units, false);
  const Bytes gather_backward = gathered(programs, stage, state, units, true);
  const ops::StageProgram& peak_chunk = *stage.chunks[stage.peak_chunk];
  // Where input gradients leave more than they free, the peak may have no forward in flight.
  const bool by_forward = stage.in_flight[stage.peak_chunk] > 0;
  if (by_forward) {
    try_forward(programs, peak_chunk, held - saved_of(programs, peak_chunk), gather_forward, early,
                best);
  }
  for (int c = 0; c < stage.model_chunks; ++c) {
    const bool waits = stage.waiting != nullptr && stage.waiting[c] > 0;
    if (stage.in_flight[c] < 1 && !waits) continue;
    const ops::StageProgram& chunk = *stage.chunks[c];
    const Bytes saved = saved_of(programs, chunk);
    // A backward of another chunk follows a forward of that chunk, not the peak chunk's.
    // Assumes: as many micro-batches are held then, and never more bytes than at the peak.
    const Bytes then = by_forward ? min(held, held - saved_of(programs, peak_chunk) + saved) : held;
    if (stage.splits_backward) {
      // An input gradient that ends with more than it began with ends at the peak.
      const Bytes begins = min(then, held + saved - put_off_of(programs, chunk));
      try_backward(programs, stage, state, chunk, true, begins, gather_backward, Bytes{gradients},
                   best);
    }
    if (waits) try_weights(programs, chunk, held, Bytes{gradients}, best);
    if ((!stage.splits_backward || stage.whole_too) && stage.in_flight[c] > 0) {
      try_backward(programs, stage, state, chunk, false, then, gather_backward, Bytes{gradients},
                   best);
    }
  }
  for (int c = stage.model_chunks; c < stage.chunk_count; ++c) {
    // A share of the vocabulary layers: what its S works with comes on top of what the others hold.
    const bool waits = stage.waiting != nullptr && stage.waiting[c] > 0;
    if (stage.in_flight[c] < 1 && !waits) continue;
    const ops::StageProgram& share = *stage.chunks[c];
    const Bytes own = waits ? put_off_of(programs, share) : saved_of(programs, share);
    try_forward(programs, share, held - own, gather_forward, early, best);
    try_backward(programs, stage, state, share, waits, held - own + saved_of(programs, share),
                 gather_backward, Bytes{gradients}, best);
  }
  Candidate step;
  step.gradients = Bytes{gradients};
  // Of 16-bit gradients alone: the optimizer makes an fp32 copy of its partition of them.
  const bool copies = state.dense.gradient < 4.0;
  const Bytes flat{copies ? owned * profile.state.step_flat_bytes_per_parameter : 0.0};
  // Experts have an optimizer of their own, which runs after the other's.
  // Source: NVIDIA/Megatron-LM megatron/core/optimizer, ChainedOptimizer.
  const Bytes widened{std::max((owned - owned_experts) * state.dense.widened,
                               owned_experts * state.expert.widened)};
  step.transient = Bytes{owned * profile.state.step_bytes_per_parameter} + flat + widened;
  step.moment = Moment::optimizer;
  step.module = ops::Module::optimizer;
  step.program = "optimizer";
  take_larger(best, step);

  out.held = held;
  out.gradients = best.gradients;
  out.activations = best.activations;
  out.transient = best.transient + Bytes{placeholders};
  if (stage.has_tensor_parallel) {
    out.transient +=
        stage.hidden_buffer * (profile.memory.hidden_buffers + stage.lagging_buffers);
  }
  out.communication = profile.memory.communicator * stage.communicators +
                      profile.memory.all_to_all_peer * stage.all_to_all_peers;
  out.framework = profile.memory.context + profile.memory.workspace;
  if (stage.reduces_gradients) out.transient += profile.memory.buckets;
  out.allocated = out.parameters + out.gradients + out.optimizer + out.activations + out.transient +
                  profile.memory.workspace;
  const Bytes apart = state.gathers
                          ? max(Bytes{0}, best.most + Bytes{gradients} - best.total())
                          : Bytes{0};
  reserve(best, flat, apart, profile.memory, out);
  out.moment = best.moment;
  out.peak_module = best.module;
  out.peak_program = best.program;
  double chunks_held = 0;
  double chunks_waiting = 0;
  for (int c = 0; c < stage.model_chunks; ++c) {
    chunks_held += stage.in_flight[c];
    if (stage.waiting != nullptr) chunks_waiting += stage.waiting[c];
  }
  out.in_flight = chunks_held / stage.vpp;
  out.waiting = chunks_waiting / stage.vpp;
}

namespace {

// Calls visit(tensor, bytes held at the peak) for every tensor that outlives its pass.
template <class Visit>
void for_every_held(const std::vector<ops::Program>& programs, const StageInput& stage, Visit visit) {
  for (int c = 0; c < stage.chunk_count; ++c) {
    for (const ops::StageItem& item : stage.chunks[c]->items) {
      const ops::Program& p = programs[item.program];
      const bool waits = stage.waiting != nullptr && stage.waiting[c] > 0;
      const auto put_off = std::make_unique<bool[]>(p.tensors.size());
      find_put_off(p, {put_off.get(), p.tensors.size()});
      for (std::size_t i = 0; i < p.tensors.size(); ++i) {
        const ops::Tensor& t = p.tensors[i];
        Bytes bytes = t.saved && !t.offloaded ? t.bytes() * stage.in_flight[c] : Bytes{0};
        if (waits && put_off[i]) {
          bytes += put_off_bytes(p, static_cast<ops::TensorId>(i)) * stage.waiting[c];
        }
        if (bytes.value > 0) visit(t, bytes * item.repeat);
      }
    }
  }
}

}  // namespace

void module_memory(const std::vector<ops::Program>& programs, const StageInput& stage,
                   std::vector<Bytes>& out) {
  out.assign(static_cast<std::size_t>(ops::Module::count_), Bytes{0});
  for_every_held(programs, stage, [&](const ops::Tensor& t, Bytes bytes) {
    out[static_cast<std::size_t>(t.module)] += bytes;
  });
}

std::vector<Holder> holders(const std::vector<ops::Program>& programs, const StageInput& stage,
                            std::size_t most) {
  std::vector<Holder> all;
  for_every_held(programs, stage, [&](const ops::Tensor& t, Bytes bytes) {
    auto same = std::find_if(all.begin(), all.end(), [&](const Holder& h) {
      return h.module == t.module && std::string_view(h.name) == t.name;
    });
    if (same == all.end()) {
      all.push_back({t.name, t.module, bytes});
    } else {
      same->bytes += bytes;
    }
  });
  std::stable_sort(all.begin(), all.end(),
                   [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  if (all.size() > most) all.resize(most);
  return all;
}

}  // namespace eratos::memory
