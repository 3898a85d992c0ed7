// A pipeline rank's worst moment, from program figures that are set by hand.
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "eratos/framework/profile.h"
#include "eratos/memory/memory.h"
#include "eratos/ops/ops.h"
#include "eratos/ops/stage.h"
#include "programs.h"

namespace eratos::memory {
namespace {

ProgramMemory program(double saved, double forward_peak, double backward_peak, double dense = 0,
                      double expert = 0) {
  ProgramMemory p;
  p.saved = Bytes{saved};
  p.forward_peak = Bytes{forward_peak};
  p.backward_peak = Bytes{backward_peak};
  p.dense_parameters = dense;
  p.expert_parameters = expert;
  p.name = "layer";
  return p;
}

// One rank: its chunks, their counts in flight.
struct Rank {
  std::vector<ProgramMemory> programs;
  std::vector<ops::StageProgram> chunks{1};
  std::vector<int> in_flight{1};
  std::vector<int> waiting;
  StateRules state{{0, 0, 0}, {0, 0, 0}};
  framework::FrameworkProfile profile;
  StageInput input;
  int shares = 0;  // of the chunks: shares of the vocabulary layers

  Rank() { profile.state.gathered_units = 2; }

  StageMemory memory() {
    std::vector<const ops::StageProgram*> list;
    for (const ops::StageProgram& c : chunks) list.push_back(&c);
    input.chunks = list.data();
    input.in_flight = in_flight.data();
    if (!waiting.empty()) input.waiting = waiting.data();
    input.chunk_count = static_cast<int>(chunks.size());
    input.model_chunks = input.chunk_count - shares;
    input.vpp = input.model_chunks;
    StageMemory out;
    stage_memory(programs, input, state, profile, out);
    return out;
  }
};

// 3 micro-batches of 4 layers that keep 10 each: 120 at the end of the last forward. Backward of
// the last layer starts with all of it and has 25 alive itself: 110 + 25 = 135. Forward of the last
// layer: 110 held + 12.
TEST(Stage, BackwardOfTheLastLayerOnTopOfAllThatIsHeld) {
  Rank r;
  r.programs = {program(10, 12, 25)};
  r.chunks[0].items.push_back({0, 4});
  r.in_flight = {3};
  const StageMemory m = r.memory();
  EXPECT_EQ(m.allocated.value, 135);
  EXPECT_EQ(m.activations.value, 120);
  EXPECT_EQ(m.held.value, 120);
  EXPECT_EQ(m.transient.value, 15);
  EXPECT_EQ(m.moment, Moment::backward);
  EXPECT_EQ(m.in_flight, 3);
}

TEST(Stage, ForwardWinsWhenItsWorkingSetIsTheLargest) {
  Rank r;
  r.programs = {program(10, 80, 25)};
  r.chunks[0].items.push_back({0, 4});
  r.in_flight = {3};
  const StageMemory m = r.memory();
  EXPECT_EQ(m.allocated.value, 80 + 110);
  EXPECT_EQ(m.held.value, 120);  // the last layer's own 10 again, once its forward is over
  EXPECT_EQ(m.moment, Moment::forward);
}

// A head that keeps 100 of logits while its layers' tensors are beneath; the layer before it has
// lost the logits when its own backward runs.
TEST(Stage, TheHeadsTensorsAreGoneWhenTheLayersRunBackward) {
  Rank r;
  r.programs = {program(10, 10, 60), program(100, 100, 108)};
  r.programs[1].backward_module = ops::Module::loss;
  r.chunks[0].items.push_back({0, 2});
  r.chunks[0].items.push_back({1, 1});
  const StageMemory m = r.memory();
  EXPECT_EQ(m.allocated.value, 20 + 108);
  EXPECT_EQ(m.moment, Moment::loss);
  r.programs[0].backward_peak = Bytes{130};
  const StageMemory layers = r.memory();
  EXPECT_EQ(layers.allocated.value, 10 + 130);
  EXPECT_EQ(layers.moment, Moment::backward);
}

// Two chunks of 2 layers: 3 + 1 micro-batches in flight; the deeper chunk reached the peak.
TEST(Stage, ChunksCountApart) {
  Rank r;
  r.programs = {program(10, 10, 14)};
  r.chunks.resize(2);
  r.chunks[0].items.push_back({0, 2});
  r.chunks[1].items.push_back({0, 2});
  r.in_flight = {3, 1};
  r.input.peak_chunk = 1;
  const StageMemory m = r.memory();
  EXPECT_EQ(m.activations.value, 3 * 20 + 20);
  EXPECT_EQ(m.allocated.value, 80 + 4);
  EXPECT_EQ(m.in_flight, 2);
}

// Weights' gradients put off: 3 micro-batches of 2 layers between F and B keep 10 a layer, 2 of
// them between B and W keep 6: 60 + 24 = 84. B of the last layer starts with all of it and has 13
// alive itself, its own 10 among them: 74 + 13.
TEST(Stage, WhatWeightGradientsStillNeedIsHeldToo) {
  Rank r;
  ProgramMemory p = program(10, 10, 14);
  p.put_off = Bytes{6};
  p.gradient_peak = Bytes{13};
  r.programs = {p};
  r.chunks[0].items.push_back({0, 2});
  r.in_flight = {3};
  r.waiting = {2};
  r.input.splits_backward = true;
  const StageMemory m = r.memory();
  EXPECT_EQ(m.allocated.value, 87);
  EXPECT_EQ(m.in_flight, 3);
  EXPECT_EQ(m.waiting, 2);
}

// The same layers where weights' gradients keep 15 a layer, more than the 10 that forward keeps.
// One micro-batch is between F and B, two between B and W: 20 + 60 = 80, and the B that reached it
// ended there, so it began with 2 x 20 + 30 = 70. When the first layer runs last the other has left
// 15 for its 10, and 18 are alive where the first kept 10: 70 + 5 - 10 + 18 = 83.
TEST(Stage, AnInputGradientThatLeavesMoreThanItFreesEndsAtThePeak) {
  Rank r;
  ProgramMemory p = program(10, 10, 14);
  p.put_off = Bytes{15};
  p.gradient_peak = Bytes{18};
  r.programs = {p};
  r.chunks[0].items.push_back({0, 2});
  r.in_flight = {1};
  r.waiting = {2};
  r.input.splits_backward = true;
  EXPECT_EQ(r.memory().allocated.value, 83);
  // And where all have run B: 3 x 30, the last of which began with 20 + 60 = 80 and ended with 90.
  r.in_flight = {0};
  r.waiting = {3};
  const StageMemory m = r.memory();
  EXPECT_EQ(m.allocated.value, 93);
  EXPECT_EQ(m.moment, Moment::backward);
  EXPECT_EQ(m.waiting, 3);
}

// Whole backwards beside split ones start with all that is held: 3 x 20, of it 10 of the last layer
// among the 30 that it has alive itself: 50 + 30 = 80. A split one ends there, so that it begins
// with 60 + 20 - 30 = 50 and has 50 + 5 - 10 + 18 = 63 when its first layer runs last.
TEST(Stage, WholeBackwardsBesideSplitOnesStartWithAllThatIsHeld) {
  Rank r;
  ProgramMemory p = program(10, 10, 30);
  p.put_off = Bytes{15};
  p.gradient_peak = Bytes{18};
  r.programs = {p};
  r.chunks[0].items.push_back({0, 2});
  r.in_flight = {3};
  r.waiting = {0};
  r.input.splits_backward = true;
  EXPECT_EQ(r.memory().allocated.value, 63);
  r.input.whole_too = true;
  EXPECT_EQ(r.memory().allocated.value, 80);
}

// A share of the vocabulary layers that waits for its T with 40 kept, beside one micro-batch of a
// layer that keeps 10: its S had 70 alive in forward, 90 when it made the input's gradient.
TEST(Stage, TheWorkingSetOfASharesOutputPassCounts) {
  Rank r;
  ProgramMemory share = program(20, 70, 100);
  share.put_off = Bytes{40};
  share.gradient_peak = Bytes{90};
  r.programs = {program(10, 10, 14), share};
  r.chunks.resize(2);
  r.chunks[0].items.push_back({0, 1});
  r.chunks[1].items.push_back({1, 1});
  r.in_flight = {1, 0};
  r.waiting = {0, 1};
  r.shares = 1;
  EXPECT_EQ(r.memory().allocated.value, 10 + 90);
}

// The chunk with the head runs its backward right after its forward: the other chunk's backward
// never has the logits beneath it.
TEST(Stage, ABackwardOfAnotherChunkHasNoLogitsBeneath) {
  Rank r;
  r.programs = {program(10, 10, 60), program(100, 100, 100)};
  r.chunks.resize(2);
  r.chunks[0].items.push_back({0, 1});
  r.chunks[1].items.push_back({0, 1});
  r.chunks[1].items.push_back({1, 1});
  r.in_flight = {2, 1};
  r.input.peak_chunk = 1;
  // Head: 20 + 10 + 100 = 130. Layer of chunk 1: 20 + 60 = 80. Chunk 0, its third in place of
  // chunk 1's: 20 + 60 = 80.
  EXPECT_EQ(r.memory().allocated.value, 130);
  r.programs[0].backward_peak = Bytes{115};
  EXPECT_EQ(r.memory().allocated.value, 20 + 115);
}

// Parameters 2 B, gradients 4 B over 2, optimizer 12 B over 8 for dense; experts over 2 and 4.
TEST(Stage, StatesByShards) {
  Rank r;
  r.programs = {program(0, 0, 0, 1000, 300)};
  r.chunks[0].items.push_back({0, 5});
  r.state.dense = {2, 4, 12, 1, 2, 8};
  r.state.expert = {2, 4, 12, 1, 2, 4};
  const StageMemory m = r.memory();
  EXPECT_DOUBLE_EQ(m.parameters.value, 5 * (2 * 1000.0 + 2 * 300.0));
  EXPECT_DOUBLE_EQ(m.gradients.value, 5 * (4 * 1000.0 + 4 * 300.0) / 2);
  EXPECT_DOUBLE_EQ(m.optimizer.value, 5 * (12 * 1000.0 / 8 + 12 * 300.0 / 4));
}

// Without a gradient buffer the first step's gradients appear as backward goes: 4 layers of 100
// parameters, 4 B. First to go backward: 400 + 10*3 + 25; last: 1600 + 25. And at the step: 1600.
TEST(Stage, GradientsGrowDuringBackwardWhereThereIsNoBuffer) {
  Rank r;
  r.programs = {program(10, 12, 25, 100)};
  r.chunks[0].items.push_back({0, 4});
  r.state.dense.gradient = 4;
  r.input.gradients_from_start = false;
  StageMemory m = r.memory();
  EXPECT_EQ(m.gradients.value, 1600);
  EXPECT_EQ(m.allocated.value, 1625);
  // Large activations: the first layer to go is the worst, with one layer's gradients.
  r.programs[0].saved = Bytes{1000};
  r.programs[0].backward_peak = Bytes{1500};
  m = r.memory();
  EXPECT_EQ(m.allocated.value, 3000 + 1500 + 400);
  EXPECT_EQ(m.gradients.value, 400);
  // From the start: everything at once.
  r.input.gradients_from_start = true;
  EXPECT_EQ(r.memory().allocated.value, 3000 + 1500 + 1600);
}

// An unfused optimizer's temporary, 4 B a parameter that the rank owns, beats small activations.
TEST(Stage, TheStepIsAMomentOfItsOwn) {
  Rank r;
  r.programs = {program(10, 12, 25, 1000)};
  r.chunks[0].items.push_back({0, 1});
  r.state.dense = {2, 2, 8, 1, 1, 4};
  r.profile.state.step_bytes_per_parameter = 4;
  const StageMemory m = r.memory();
  EXPECT_EQ(m.moment, Moment::optimizer);
  EXPECT_EQ(m.activations.value, 0);
  EXPECT_EQ(m.transient.value, 4 * 1000.0 / 4);
  EXPECT_EQ(m.allocated.value, 2000 + 2000 + 2000 + 1000);
}

// ZeRO-3 over 8: 2 units of the largest program gathered at 2 B, and in backward one unit's whole
// gradient besides.
TEST(Stage, GatheredUnitsOfZero3) {
  Rank r;
  r.programs = {program(10, 10, 10, 100), program(5, 5, 5, 400)};
  r.chunks[0].items.push_back({0, 3});
  r.chunks[0].items.push_back({1, 1});
  r.state.dense = {2, 4, 12, 8, 8, 8};
  r.state.gathers = true;
  r.state.gathered_bytes = 2;
  const StageMemory m = r.memory();
  EXPECT_DOUBLE_EQ(m.parameters.value, 2 * 700.0 / 8);
  EXPECT_EQ(m.moment, Moment::backward);
  EXPECT_DOUBLE_EQ(m.transient.value, 400.0 * 2 * 2 + 400.0 * (2 + 4));
}

// A shape's stand-in gradient is cached once a rank, however many layers and chunks have it.
TEST(Stage, PlaceholdersOnceAShape) {
  Rank r;
  r.programs = {program(1, 1, 1, 100), program(1, 1, 1, 50)};
  r.programs[0].placeholder_elements = 100;
  r.programs[1].placeholder_elements = 30;
  r.chunks.resize(2);
  r.chunks[0].items.push_back({0, 3});
  r.chunks[0].items.push_back({1, 1});
  r.chunks[0].items.push_back({0, 2});
  r.chunks[1].items.push_back({0, 3});
  r.in_flight = {1, 1};
  r.input.peak_chunk = 1;
  const StageMemory none = r.memory();
  r.state.placeholder_bytes = 2;
  const StageMemory some = r.memory();
  EXPECT_EQ((some.transient - none.transient).value, 2 * 130);
}

// ZeRO-3 writes the shards of gradients on a stream of its own, whose blocks are no other's: those
// that come after the peak, 2 x 800 / 8 x 16 bytes, are reserved on top of it.
TEST(Stage, GradientShardsAreReservedApart) {
  Rank r;
  r.programs = {program(1000, 60000, 1000, 800)};
  r.chunks[0].items.push_back({0, 2});
  r.input.gradients_from_start = false;
  r.state.dense.gradient = 16;
  r.state.dense.gradient_shards = 8;
  r.profile.memory.reserve_fraction = 0.1;
  const StageMemory whole = r.memory();
  ASSERT_EQ(whole.moment, Moment::forward);
  EXPECT_DOUBLE_EQ(whole.gradients.value, 0);
  EXPECT_DOUBLE_EQ(whole.reserved.value, 1.1 * whole.allocated.value);
  r.state.gathers = true;
  const StageMemory sharded = r.memory();
  ASSERT_EQ(sharded.moment, Moment::forward);
  EXPECT_DOUBLE_EQ(sharded.reserved.value, 1.1 * (sharded.allocated.value + 3200));
}

// Also where most is allocated once all of them are there: 40 layers that keep 10 each. The first
// layer to run backward has 400 kept, 3,200 gathered and a whole gradient of 800 (2 + 16) beside
// it: 18,000, and 64,000 of shards. The last has 10 kept, 17,600 and the shards: 81,610 are
// allocated, and 390 more reserved.
TEST(Stage, GradientShardsBesideTheMostThatPassesHold) {
  Rank r;
  r.programs = {program(10, 3000, 10, 800)};
  r.chunks[0].items.push_back({0, 40});
  r.input.gradients_from_start = false;
  r.state.dense.gradient = 16;
  r.state.dense.gradient_shards = 8;
  r.state.gathers = true;
  const StageMemory m = r.memory();
  ASSERT_EQ(m.moment, Moment::backward);
  EXPECT_DOUBLE_EQ(m.allocated.value - m.parameters.value, 81610);
  EXPECT_DOUBLE_EQ(m.reserved.value, m.allocated.value + 390);
}

TEST(Stage, OutsideTheAllocator) {
  Rank r;
  r.programs = {program(1000, 1000, 1000)};
  r.chunks[0].items.push_back({0, 1});
  r.profile.memory.context = Bytes{600};
  r.profile.memory.communicator = Bytes{50};
  r.profile.memory.workspace = Bytes{100};
  r.profile.memory.reserve_fraction = 0.1;
  r.profile.memory.hidden_buffers = 3;
  r.input.communicators = 4;
  r.input.hidden_buffer = Bytes{20};
  StageMemory m = r.memory();
  EXPECT_DOUBLE_EQ(m.allocated.value, 1100);
  EXPECT_DOUBLE_EQ(m.reserved.value, 1210);
  EXPECT_DOUBLE_EQ(m.device.value, 1210 + 600 + 200);
  // Under pressure cached segments go back: what is pressed, never more than without.
  r.profile.memory.pressed_fraction = 0.05;
  m = r.memory();
  EXPECT_DOUBLE_EQ(m.least.value, 1155 + 600 + 200);
  r.profile.memory.pressed_fraction = 0.2;
  m = r.memory();
  EXPECT_DOUBLE_EQ(m.least.value, m.device.value);
  r.profile.memory.pressed_fraction = 0;
  r.profile.memory.expandable_fraction = 0.01;
  r.profile.memory.expandable_segments = true;
  EXPECT_DOUBLE_EQ(r.memory().reserved.value, 1111);
  r.profile.memory.expandable_segments = false;
  // Buckets are there where gradients are reduced at all.
  r.profile.memory.buckets = Bytes{70};
  EXPECT_DOUBLE_EQ(r.memory().allocated.value, 1100);
  r.input.reduces_gradients = true;
  EXPECT_DOUBLE_EQ(r.memory().allocated.value, 1170);
  r.input.reduces_gradients = false;
  r.input.has_tensor_parallel = true;
  m = r.memory();
  EXPECT_DOUBLE_EQ(m.allocated.value, 1160);
  // Three for good, and four that the device has not reached.
  r.input.lagging_buffers = 4;
  EXPECT_DOUBLE_EQ(r.memory().allocated.value, 1100 + 7 * 20);
}

// Two layers of 30 and 5 in each chunk, 3 and 1 micro-batches: by module, and the largest names.
TEST(Stage, TablesOfWhatIsHeld) {
  Writer w;
  const auto q = w.tensor("q", 30, true);
  const auto n = w.tensor("n", 5, true);
  w.tensor("t", 1000);
  w.program.tensors[q].module = ops::Module::qkv;
  w.program.tensors[n].module = ops::Module::norm;
  const std::vector<ops::Program> programs{w.program};
  ops::StageProgram chunk;
  chunk.items.push_back({0, 2});
  const ops::StageProgram* chunks[] = {&chunk, &chunk};
  const int in_flight[] = {3, 1};
  StageInput in;
  in.chunks = chunks;
  in.in_flight = in_flight;
  in.chunk_count = 2;
  std::vector<Bytes> modules;
  module_memory(programs, in, modules);
  EXPECT_EQ(modules[static_cast<std::size_t>(ops::Module::qkv)].value, 30 * 2 * 4);
  EXPECT_EQ(modules[static_cast<std::size_t>(ops::Module::norm)].value, 5 * 2 * 4);
  const std::vector<Holder> first = holders(programs, in, 1);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(std::string_view(first[0].name), "q");
  EXPECT_EQ(first[0].bytes.value, 240);
}

}  // namespace
}  // namespace eratos::memory
