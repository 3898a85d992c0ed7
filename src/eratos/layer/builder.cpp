#include "eratos/layer/builder.h"

namespace eratos::layer {

TensorId Builder::tensor(const char* name, double elements, Module module) {
  return tensor(name, elements, context_.activation, module);
}

TensorId Builder::tensor(const char* name, double elements, DType dtype, Module module) {
  ops::Tensor t;
  t.name = name;
  t.elements = elements;
  t.dtype = dtype;
  t.module = module;
  program_.tensors.push_back(t);
  return static_cast<TensorId>(program_.tensors.size() - 1);
}

void Builder::save(TensorId id) {
  if (id != ops::kNoTensor) program_.tensors[id].saved = true;
}

void Builder::save_gemm_input(TensorId id) {
  save(id);
  if (id != ops::kNoTensor) program_.tensors[id].gemm_input = true;
}

void Builder::parameter(const char* name, double elements, Module module, bool replicated) {
  program_.parameters.push_back({name, elements, module, false, true, false, 1, replicated});
}
void Builder::expert_parameter(const char* name, double elements, double copies, Module module) {
  program_.parameters.push_back({name, elements, module, true, true, false, copies});
}
void Builder::vector_parameter(const char* name, double elements, Module module, bool replicated) {
  program_.parameters.push_back({name, elements, module, false, false, false, 1, replicated});
}
void Builder::expert_vector_parameter(const char* name, double elements, double copies,
                                      Module module) {
  program_.parameters.push_back({name, elements, module, true, false, false, copies});
}
void Builder::embedding_parameter(const char* name, double elements, Module module) {
  program_.parameters.push_back({name, elements, module, false, true, true, 1});
}

ops::Op& Builder::add(Pass pass, Module module, ops::Stream stream, Ids reads, Ids writes) {
  auto& list = pass == Pass::forward ? program_.forward : program_.backward;
  list.emplace_back();
  ops::Op& op = list.back();
  op.pass = pass;
  op.module = module;
  op.stream = stream;
  for (const TensorId id : reads) {
    if (id != ops::kNoTensor) op.reads.push_back(id);
  }
  for (const TensorId id : writes) {
    if (id != ops::kNoTensor) op.writes.push_back(id);
  }
  return op;
}

ops::Op& Builder::gemm(Pass pass, Module module, ops::Gemm work, Ids reads, Ids writes) {
  ops::Op& op = add(pass, module, ops::Stream::compute, reads, writes);
  op.work = work;
  return op;
}

ops::Op& Builder::attention(Pass pass, ops::Attention work, Ids reads, Ids writes) {
  ops::Op& op = add(pass, Module::core_attention, ops::Stream::compute, reads, writes);
  op.work = work;
  return op;
}

ops::Op& Builder::elementwise(Pass pass, Module module, ops::ElementwiseClass kind, Ids reads,
                              Ids writes, Bytes extra) {
  ops::Op& op = add(pass, module, ops::Stream::compute, reads, writes);
  Bytes traffic = extra;
  for (const TensorId id : op.reads) traffic += program_.tensors[id].bytes();
  for (const TensorId id : op.writes) traffic += program_.tensors[id].bytes();
  op.work = ops::Elementwise{traffic, kind};
  return op;
}

void Builder::slice(Module module, TensorId whole, Ids parts) {
  ops::Op& op = add(Pass::forward, module, ops::Stream::compute, {whole}, parts);
  op.work = ops::Elementwise{};
  op.kernels = 0;
}

void Builder::release(Module module, TensorId id) {
  ops::Op& op = add(Pass::dgrad, module, ops::Stream::compute, {id}, {});
  op.work = ops::Elementwise{};
  op.kernels = 0;
}

namespace {

int group_size(const LayerContext& c, Axis axis) {
  switch (axis) {
    case Axis::tp:
      return c.tp;
    case Axis::cp:
      return c.cp;
    case Axis::ep:
      return c.ep;
    case Axis::etp:
      return c.etp;
    default:
      return 1;
  }
}

ops::Stream stream_of(Axis axis) {
  switch (axis) {
    case Axis::cp:
      return ops::Stream::cp;
    case Axis::ep:
    case Axis::etp:
      return ops::Stream::ep;
    default:
      return ops::Stream::tp;
  }
}

}  // namespace

void Builder::collective(Pass pass, Module module, ops::CollectiveKind kind, Axis axis,
                         double elements, DType dtype, Ids reads, Ids writes, double overlappable,
                         ops::Fanout fanout) {
  if (group_size(context_, axis) <= 1) return;
  ops::Op& op = add(pass, module, stream_of(axis), reads, writes);
  op.work = ops::Collective{kind, axis, bytes_of(elements, dtype), overlappable, fanout};
}

}  // namespace eratos::layer
