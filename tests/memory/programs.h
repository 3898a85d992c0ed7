// Tiny programs written by hand: tensors of so many bytes, ops that read and write them.
#pragma once

#include <initializer_list>

#include "eratos/ops/ops.h"

namespace eratos::memory {

struct Writer {
  ops::Program program;

  // `bytes` of int8, so that elements are bytes.
  ops::TensorId tensor(const char* name, double bytes, bool saved = false) {
    ops::Tensor t;
    t.name = name;
    t.elements = bytes;
    t.dtype = DType::int8;
    t.saved = saved;
    program.tensors.push_back(t);
    return static_cast<ops::TensorId>(program.tensors.size() - 1);
  }

  void forward(ops::Module module, std::initializer_list<ops::TensorId> reads,
               std::initializer_list<ops::TensorId> writes) {
    add(program.forward, ops::Pass::forward, module, reads, writes);
  }
  void backward(ops::Module module, std::initializer_list<ops::TensorId> reads,
                std::initializer_list<ops::TensorId> writes, ops::Pass pass = ops::Pass::dgrad) {
    add(program.backward, pass, module, reads, writes);
  }

 private:
  static void add(std::vector<ops::Op>& list, ops::Pass pass, ops::Module module,
                  std::initializer_list<ops::TensorId> reads,
                  std::initializer_list<ops::TensorId> writes) {
    ops::Op op;
    op.pass = pass;
    op.module = module;
    op.work = ops::Elementwise{};
    for (const ops::TensorId id : reads) op.reads.push_back(id);
    for (const ops::TensorId id : writes) op.writes.push_back(id);
    list.push_back(op);
  }
};

}  // namespace eratos::memory
