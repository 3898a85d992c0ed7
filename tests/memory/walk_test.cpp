// Lifetimes of hand-made programs, every peak worked out by hand.
#include <gtest/gtest.h>

#include "eratos/memory/memory.h"
#include "eratos/ops/ops.h"
#include "programs.h"

namespace eratos::memory {
namespace {

using ops::Module;

ProgramMemory walked(const ops::Program& p, double rounding = 1) {
  ProgramMemory out;
  walk(p, Bytes{rounding}, false, out);
  return out;
}

// x(100) -> a(40) -> b(200) -> y(10), nothing kept: 100, then x+a 140, a+b 240 once x is read,
// then b+y 210.
TEST(Walk, ATensorLivesFromItsWriterToItsLastReader) {
  Writer w;
  const auto x = w.tensor("x", 100);
  const auto a = w.tensor("a", 40);
  const auto b = w.tensor("b", 200);
  const auto y = w.tensor("y", 10);
  w.forward(Module::norm, {x}, {a});
  w.forward(Module::mlp_in, {a}, {b});
  w.forward(Module::mlp_out, {b}, {y});
  w.program.input = x;
  w.program.output = y;
  const ProgramMemory m = walked(w.program);
  EXPECT_EQ(m.forward_peak.value, 240);
  EXPECT_EQ(m.forward_module, Module::mlp_in);
  EXPECT_EQ(m.saved.value, 0);
  EXPECT_EQ(m.backward_peak.value, 0);
}

// The same with x and b kept: 100, 140, 340 (x a b), then a is gone: x b y 310.
TEST(Walk, AKeptTensorOutlivesForward) {
  Writer w;
  const auto x = w.tensor("x", 100, true);
  const auto a = w.tensor("a", 40);
  const auto b = w.tensor("b", 200, true);
  const auto y = w.tensor("y", 10);
  w.forward(Module::norm, {x}, {a});
  w.forward(Module::mlp_in, {a}, {b});
  w.forward(Module::mlp_out, {b}, {y});
  w.program.input = x;
  w.program.output = y;
  // Backward: dy(10) comes in. db(200): x b dy db 510; b and dy are then done: x db 300;
  // dx(100): x db dx 400.
  const auto dy = w.tensor("dy", 10);
  const auto db = w.tensor("db", 200);
  const auto dx = w.tensor("dx", 100);
  w.backward(Module::mlp_out, {b, dy}, {db});
  w.backward(Module::mlp_in, {x, db}, {dx});
  const ProgramMemory m = walked(w.program);
  EXPECT_EQ(m.saved.value, 300);
  EXPECT_EQ(m.forward_peak.value, 340);
  EXPECT_EQ(m.backward_peak.value, 510);
  EXPECT_EQ(m.backward_module, Module::mlp_out);
}

// The output stays after its last reader inside the program; another tensor would not.
TEST(Walk, TheOutputIsNotFreedInForward) {
  Writer w;
  const auto x = w.tensor("x", 1);
  const auto y = w.tensor("y", 50);
  const auto z = w.tensor("z", 70);
  const auto u = w.tensor("u", 60);
  w.forward(Module::norm, {x}, {y});
  w.forward(Module::loss, {y}, {z});
  w.forward(Module::loss, {z}, {u});
  w.program.input = x;
  w.program.output = y;
  // y z 120, then y z u 180; were y not the output it would be z u 130.
  EXPECT_EQ(walked(w.program).forward_peak.value, 180);
  w.program.output = u;
  EXPECT_EQ(walked(w.program).forward_peak.value, 130);
}

// x(100) is kept, dy(10) comes in: 110. Whole: dw(50) is made first, 160, then x and dw are gone and dx
// makes 110. Put off: x stays for later, so dx makes 210; x and dy are what W still needs, dw is not
// there yet.
TEST(Walk, WeightGradientsPutOffKeepWhatTheyRead) {
  Writer w;
  const auto x = w.tensor("x", 100, true);
  const auto dy = w.tensor("dy", 10);
  const auto dw = w.tensor("dw", 50);
  const auto dx = w.tensor("dx", 100);
  w.forward(Module::mlp_in, {x}, {});
  w.program.input = x;
  w.backward(Module::mlp_in, {x, dy}, {dw}, ops::Pass::wgrad);
  w.backward(Module::mlp_in, {dw}, {}, ops::Pass::wgrad);
  w.backward(Module::mlp_in, {dy}, {dx});
  ProgramMemory m;
  walk(w.program, Bytes{1}, true, m);
  EXPECT_EQ(m.backward_peak.value, 160);
  EXPECT_EQ(m.gradient_peak.value, 210);
  EXPECT_EQ(m.put_off.value, 110);
  EXPECT_EQ(m.weight_peak.value, 160);
}

// 8-bit products read casts: what waits for one takes a byte an element and the recipe's scales, 8
// of dy's 16 bytes and 1/4 more. A tensor that something else reads as well waits as it is.
TEST(Walk, WhatWaitsForAnEightBitProductWaitsInEightBits) {
  Writer w;
  const auto x = w.tensor("x", 100, true);
  w.program.tensors[x].dtype = DType::fp8;
  w.program.tensors[x].scale_bytes = 0.25;
  const auto dy = w.tensor("dy", 8);
  w.program.tensors[dy].dtype = DType::bf16;
  w.forward(Module::mlp_in, {x}, {});
  w.backward(Module::mlp_in, {x, dy}, {}, ops::Pass::wgrad);
  w.program.backward.back().work = ops::Gemm{1, 1, 1, 1, DType::fp8};
  EXPECT_EQ(put_off_bytes(w.program, x).value, 125);
  EXPECT_EQ(put_off_bytes(w.program, dy).value, 10);
  ProgramMemory m;
  walk(w.program, Bytes{1}, true, m);
  EXPECT_EQ(m.put_off.value, 135);
  w.backward(Module::mlp_in, {dy}, {}, ops::Pass::wgrad);
  EXPECT_EQ(put_off_bytes(w.program, dy).value, 16);
}

// An op that writes what it reads adds nothing.
TEST(Walk, InPlaceTakesNoSecondBuffer) {
  Writer w;
  const auto x = w.tensor("x", 100, true);
  const auto d = w.tensor("d", 30);
  const auto e = w.tensor("e", 30);
  w.forward(Module::norm, {x}, {});
  w.program.input = x;
  w.backward(Module::rotary, {d}, {d});
  w.backward(Module::qkv, {x, d}, {e});
  // d comes in: 130; in place 130; then x d e 160.
  EXPECT_EQ(walked(w.program).backward_peak.value, 160);
}

// Two weights' gradients: a tensor nobody reads lives for its own op only.
TEST(Walk, WhatNobodyReadsIsGoneAfterItsOp) {
  Writer w;
  const auto x = w.tensor("x", 10, true);
  const auto dy = w.tensor("dy", 5);
  const auto dw = w.tensor("dw", 1000);
  const auto dv = w.tensor("dv", 900);
  w.program.input = x;
  w.backward(Module::mlp_out, {x, dy}, {dw}, ops::Pass::wgrad);
  w.backward(Module::mlp_in, {x, dy}, {dv}, ops::Pass::wgrad);
  EXPECT_EQ(walked(w.program).backward_peak.value, 1015);
}

// Full recomputation: only x is kept; backward makes a and b again and holds them until read.
TEST(Walk, RecomputedTensorsLiveAgainFromTheirSecondWriter) {
  Writer w;
  const auto x = w.tensor("x", 100, true);
  const auto a = w.tensor("a", 40);
  const auto b = w.tensor("b", 200);
  const auto y = w.tensor("y", 10);
  w.forward(Module::norm, {x}, {a});
  w.forward(Module::mlp_in, {a}, {b});
  w.forward(Module::mlp_out, {b}, {y});
  w.program.input = x;
  w.program.output = y;
  const auto dy = w.tensor("dy", 10);
  const auto db = w.tensor("db", 200);
  const auto da = w.tensor("da", 40);
  w.backward(Module::norm, {x}, {a}, ops::Pass::recompute);
  w.backward(Module::mlp_in, {a}, {b}, ops::Pass::recompute);
  w.backward(Module::mlp_out, {b, dy}, {db});
  w.backward(Module::mlp_in, {a, db}, {da});
  const ProgramMemory m = walked(w.program);
  EXPECT_EQ(m.saved.value, 100);
  // x's last reader is the first recomputed op: then a dy 50, a b dy 250, a b dy db 450, a db da
  // 280.
  EXPECT_EQ(m.backward_peak.value, 450);
  EXPECT_EQ(m.backward_module, Module::mlp_out);
}

TEST(Walk, EveryTensorIsRoundedUpByItself) {
  Writer w;
  const auto x = w.tensor("x", 513, true);
  const auto a = w.tensor("a", 512, true);
  const auto b = w.tensor("b", 1, true);
  w.forward(Module::norm, {x}, {a, b});
  w.program.input = x;
  EXPECT_EQ(walked(w.program, 512).saved.value, 1024 + 512 + 512);
  EXPECT_EQ(walked(w.program, 1).saved.value, 1026);
  EXPECT_EQ(walked(w.program, 512).forward_peak.value, 2048);
}

ops::Parameter parameter(double elements, Module module, bool expert = false, double copies = 1,
                         bool matrix = true, bool embedding = false) {
  return {"w", elements, module, expert, matrix, embedding, copies};
}

// One stand-in a shape: two experts' matrices of 300 give one of 300; norms and the vocabulary
// none.
TEST(Walk, ParametersAndPlaceholdersByShape) {
  Writer w;
  w.program.parameters = {parameter(100, Module::qkv),
                          parameter(100, Module::attention_out),
                          parameter(8, Module::norm, false, 1, false),
                          parameter(600, Module::expert_in, true, 2),
                          parameter(50, Module::output_layer, false, 1, true, true),
                          parameter(70, Module::embedding, false, 1, true, true)};
  const ProgramMemory m = walked(w.program);
  EXPECT_EQ(m.dense_parameters, 328);
  EXPECT_EQ(m.expert_parameters, 600);
  EXPECT_EQ(m.placeholder_elements, 100 + 100 + 300);
}

}  // namespace
}  // namespace eratos::memory
