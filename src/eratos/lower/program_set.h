// The distinct programs of a job, kept for the next job that has the same ones: the candidates of a
// search share tp, cp, ep, micro-batch, sequence and recipe, and differ in pp, dp or schedule.
//
// Programs are lowered from a copy that holds the inputs listed in program_set.cpp and nothing else of
// a job: what is not in the list cannot change a program, and two jobs whose copies are equal have equal
// programs, whatever was lowered before. Equality is that of the inputs themselves, never of a hash.
//
// Worked example: Llama 3.1 8B at tp 2, first with pp 2 and then with pp 4: the second job finds
// embedding, layer and output, and lowers nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "eratos/base/inplace_vector.h"
#include "eratos/job/job.h"
#include "eratos/ops/stage.h"

namespace eratos::lower {

// What makes two layers of one kind different programs.
struct Variant {
  bool full = false;       // recomputed in full
  bool wide = false;       // of a narrow recipe's first and last layers
  bool offloaded = false;  // its kept tensors go to the host

  std::size_t index() const {
    return (full ? 1u : 0u) + (wide ? 2u : 0u) + (offloaded ? 4u : 0u);
  }
};

enum class Role : std::uint8_t { embedding, layer, mtp, output, embedding_share, output_share };

struct ProgramId {
  Role role = Role::layer;
  std::uint8_t kind = 0;  // of a layer: an index of the architecture's blocks
  Variant variant;        // of a layer; `full` of an MTP module
  bool own = false;       // an output layer that holds its weight
};

// What a job's programs depend on. Only what program_set.cpp lists is set, all else as constructed.
struct ProgramInputs {
  job::JobSpec spec;
  job::CheckedJob job;
  double load = 1;  // rows that the rank's experts receive against equal shares (ops/load.h)
};

class ProgramSet {
 public:
  ProgramSet() = default;
  ProgramSet(const ProgramSet&) = delete;  // its inputs point at one another
  ProgramSet& operator=(const ProgramSet&) = delete;

  // Are these the programs of `job`?
  bool is_of(const job::CheckedJob& job, double load) const;
  // Forgets all programs and becomes those of `job`. Allocation: none when warm.
  void start(const job::CheckedJob& job, double load);
  // The same, with the programs of `other` under the same indices.
  void start_like(const ProgramSet& other, const job::CheckedJob& job, double load,
                  ops::LoweredJob& out);

  // Its index in `out`, whose first size() programs are this set's; lowered first where it is new.
  std::uint16_t find(const ProgramId& id, ops::LoweredJob& out);
  std::size_t size() const { return ids_.size(); }

  const ProgramId& id(std::size_t i) const { return ids_[i]; }
  // Does program `i` route to experts? If not it is the same at every load.
  bool routes(std::size_t i) const;
  // Program `i` at another load.
  void lower_at(double load, std::size_t i, ops::Program& out) const;

 private:
  std::uint16_t& place_of(const ProgramId& id);

  bool filled_ = false;
  ProgramInputs inputs_;
  std::vector<ProgramId> ids_;  // by index
  // Indices by what the program is; kAbsent: not lowered yet.
  std::array<InplaceVector<std::uint16_t, 32>, 8> layers_;  // by Variant::index() and kind
  std::array<std::uint16_t, 8> others_{};
};

}  // namespace eratos::lower
