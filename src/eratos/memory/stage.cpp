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

  Bytes total() const { return activations + transient + gradients; }
};

void take_larger(Candidate& best, const Candidate& other) {
  if (other.total() > best.total()) best = other;
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

// Worst moment of the forward of the peak chunk's last micro-batch.
void try_forward(const Programs& programs, const StageInput& stage, Bytes held, Bytes gather,
                 Bytes gradients, Candidate& best) {
  const ops::StageProgram& chunk = *stage.chunks[stage.peak_chunk];
  const Bytes others = held - saved_of(programs, chunk);
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

// Worst moment of a backward that starts with everything held.
void try_backward(const Programs& programs, const StageInput& stage, const StateRules& state,
                  int chunk_index, Bytes held, Bytes gather, Bytes all_gradients, Candidate& best) {
  const ops::StageProgram& chunk = *stage.chunks[chunk_index];
  Bytes left = held;
  Bytes made;  // gradients of what has already run backward
  for (std::size_t i = chunk.items.size(); i-- > 0;) {
    const ops::StageItem& item = chunk.items[i];
    const ProgramMemory& p = programs[item.program];
    const bool split = stage.splits_backward && chunk_index < stage.model_chunks;
    const Bytes peak = split ? p.gradient_peak : p.backward_peak;
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
    if (!stage.gradients_from_start && item.repeat > 1) {
      // The first repeat to run last: least kept, most gradients.
      c.activations -= p.saved * (item.repeat - 1);
      c.gradients += Bytes{gradient_of(p, state)} * (item.repeat - 1);
      take_larger(best, c);
    }
    made += Bytes{gradient_of(p, state)} * (item.repeat - 1);
    left -= p.saved * item.repeat;
    if (split) left += p.put_off * item.repeat;
  }
}

}  // namespace

void stage_memory(const Programs& programs, const StageInput& stage, const StateRules& state,
                  const framework::FrameworkProfile& profile, StageMemory& out) {
  out = StageMemory{};
  double gradients = 0;
  double owned = 0;
  double placeholders = 0;
  Bytes held;
  for (int c = 0; c < stage.chunk_count; ++c) {
    const ops::StageProgram& chunk = *stage.chunks[c];
    held += saved_of(programs, chunk) * stage.in_flight[c];
    if (stage.waiting != nullptr) held += put_off_of(programs, chunk) * stage.waiting[c];
    for (const ops::StageItem& item : chunk.items) {
      const ProgramMemory& p = programs[item.program];
      const double n = item.repeat;
      out.parameters += Bytes{n * parameters_of(p, state.dense, state.expert)};
      gradients += n * gradient_of(p, state);
      out.optimizer += Bytes{n * optimizer_of(p, state)};
      owned += n * (trained_dense(p) / state.dense.optimizer_shards +
                    trained_expert(p) / state.expert.optimizer_shards);
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
  // A peak between the two gradients may have no forward of its chunk in flight.
  if (stage.in_flight[stage.peak_chunk] > 0)
    try_forward(programs, stage, held, gathered(programs, stage, state, units, false), early, best);
  const Bytes peak_chunk = saved_of(programs, *stage.chunks[stage.peak_chunk]);
  for (int c = 0; c < stage.chunk_count; ++c) {
    if (stage.in_flight[c] < 1) continue;
    // A backward of another chunk follows a forward of that chunk, not the peak chunk's.
    // Assumes: as many micro-batches are held then, and never more bytes than at the peak.
    const Bytes then = min(held, held - peak_chunk + saved_of(programs, *stage.chunks[c]));
    try_backward(programs, stage, state, c, then, gathered(programs, stage, state, units, true),
                 Bytes{gradients}, best);
  }
  Candidate step;
  step.gradients = Bytes{gradients};
  step.transient = Bytes{owned * profile.state.step_bytes_per_parameter};
  step.moment = Moment::optimizer;
  step.module = ops::Module::optimizer;
  step.program = "optimizer";
  take_larger(best, step);

  out.gradients = best.gradients;
  out.activations = best.activations;
  out.transient = best.transient + Bytes{placeholders};
  if (stage.has_tensor_parallel) out.transient += stage.hidden_buffer * profile.memory.hidden_buffers;
  out.communication = profile.memory.communicator * stage.communicators;
  out.framework = profile.memory.context + profile.memory.workspace;
  out.allocated = out.parameters + out.gradients + out.optimizer + out.activations + out.transient +
                  profile.memory.workspace;
  out.reserved = out.allocated * (1.0 + profile.memory.reserve_fraction);
  out.device = out.reserved + profile.memory.context + out.communication;
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

// Calls visit(tensor, copies held at the peak) for every tensor that outlives its pass.
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
        double copies = t.saved && !t.offloaded ? stage.in_flight[c] : 0;
        if (waits && put_off[i]) copies += stage.waiting[c];
        if (copies > 0) visit(t, copies * item.repeat);
      }
    }
  }
}

}  // namespace

void module_memory(const std::vector<ops::Program>& programs, const StageInput& stage,
                   std::vector<Bytes>& out) {
  out.assign(static_cast<std::size_t>(ops::Module::count_), Bytes{0});
  for_every_held(programs, stage, [&](const ops::Tensor& t, double copies) {
    out[static_cast<std::size_t>(t.module)] += t.bytes() * copies;
  });
}

std::vector<Holder> holders(const std::vector<ops::Program>& programs, const StageInput& stage,
                            std::size_t most) {
  std::vector<Holder> all;
  for_every_held(programs, stage, [&](const ops::Tensor& t, double copies) {
    const Bytes bytes = t.bytes() * copies;
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
