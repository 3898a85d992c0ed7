// Appends ops and tensors to one program: the pen that the layers of this folder write with.
//
// A layer's forward() is called in order, its backward() in reverse order; both take the tensors
// they read and return the one they produce. `save` marks what backward will read again.
#pragma once

#include <initializer_list>

#include "eratos/layer/context.h"
#include "eratos/ops/ops.h"

namespace eratos::layer {

using ops::Module;
using ops::Pass;
using ops::TensorId;

class Builder {
 public:
  using Ids = std::initializer_list<TensorId>;

  Builder(ops::Program& program, const LayerContext& context) : program_(program), context_(context) {}

  ops::Program& program() { return program_; }
  const LayerContext& context() const { return context_; }
  const framework::FrameworkProfile& profile() const { return *context_.profile; }

  // A new tensor of `elements` local elements in the activation format (or `dtype`).
  TensorId tensor(const char* name, double elements, Module module);
  TensorId tensor(const char* name, double elements, DType dtype, Module module);

  // Held from forward to its last backward reader.
  void save(TensorId id);
  // The same, for the operand of a matrix product (8-bit recipes keep it in 8 bits).
  void save_gemm_input(TensorId id);

  double elements(TensorId id) const { return program_.tensors[id].elements; }

  // `replicated`: every tensor-parallel rank holds all of it.
  void parameter(const char* name, double elements, Module module, bool replicated = false);
  // `copies` equal matrices of elements / copies each.
  void expert_parameter(const char* name, double elements, double copies, Module module);
  void vector_parameter(const char* name, double elements, Module module, bool replicated = true);
  // Biases of the local experts.
  void expert_vector_parameter(const char* name, double elements, double copies, Module module);
  void embedding_parameter(const char* name, double elements, Module module);

  ops::Op& gemm(Pass pass, Module module, ops::Gemm work, Ids reads, Ids writes);
  ops::Op& attention(Pass pass, ops::Attention work, Ids reads, Ids writes);
  // Traffic is what it reads and writes, plus `extra`.
  ops::Op& elementwise(Pass pass, Module module, ops::ElementwiseClass kind, Ids reads, Ids writes,
                       Bytes extra = Bytes{0});
  // Forward only: names parts of `whole` as tensors of their own. No kernel, no traffic.
  void slice(Module module, TensorId whole, Ids parts);
  // Backward only: `id` is not needed beyond this point. No kernel, no traffic.
  void release(Module module, TensorId id);
  // Nothing is appended when the group has one member.
  void collective(Pass pass, Module module, ops::CollectiveKind kind, Axis axis,
                  double elements, DType dtype, Ids reads, Ids writes, double overlappable = 0,
                  ops::Fanout fanout = {});

 private:
  ops::Op& add(Pass pass, Module module, ops::Stream stream, Ids reads, Ids writes);
  ops::Program& program_;
  const LayerContext& context_;
};

}  // namespace eratos::layer
