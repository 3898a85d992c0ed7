#include "eratos/schedule/registry.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "eratos/schedule/simulate.h"

namespace eratos::schedule {

const Schedule* find(std::string_view name) {
  for (const Schedule* s : kSchedules) {
    if (s->name == name) return s;
  }
  return nullptr;
}

namespace {

Diagnostic below(int least, const char* what, int value, const char* field) {
  return {.message = std::string(what) + " is " + std::to_string(value),
          .cure = "it must be at least " + std::to_string(least),
          .field = field};
}

}  // namespace

std::optional<Diagnostic> refusal(const Schedule& schedule, const Shape& shape) {
  const int m = shape.micro_batches;
  if (shape.pp < 1) return below(1, "pp", shape.pp, "parallel.pp");
  if (shape.chunks < 1) return below(1, "vpp", shape.chunks, "parallel.vpp");
  if (m < 1) return below(1, "the number of micro-batches", m, "batch.global");
  if (shape.group_size < 0) {
    return below(0, "the group size", shape.group_size, "schedule.group_size");
  }
  constexpr int kMostChunks = std::numeric_limits<std::int16_t>::max();
  if (shape.chunks > kMostChunks) {
    return Diagnostic{.message = "vpp is " + std::to_string(shape.chunks),
                      .cure = "it must be at most " + std::to_string(kMostChunks),
                      .field = "parallel.vpp"};
  }
  // An order of more would not fit in memory: 8 bytes an action, and as many for its end.
  constexpr double kMostActions = 1e9;
  const double each = (schedule.splits_backward ? 3.0 : 2.0) +
                      (shape.output != OutputLayer::last_stage ? 2.0 : 0.0);
  if (each * shape.pp * shape.chunks * m > kMostActions) {
    return Diagnostic{.message = "pp " + std::to_string(shape.pp) + " x vpp " +
                                 std::to_string(shape.chunks) + " x " + std::to_string(m) +
                                 " micro-batches is more than a schedule can hold (1e9 actions)",
                      .cure = "lower one of them",
                      .field = "batch.global"};
  }
  if (shape.output != OutputLayer::last_stage && !schedule.cuts_output) {
    return Diagnostic{.message = std::string(schedule.name) +
                                 " keeps the output layer on the last stage; it has no place for its "
                                 "shares on every rank",
                      .cure = "leave the output layer on the last stage, or choose 1f1b",
                      .field = "schedule.output_layer"};
  }
  return schedule.refusal(shape);
}

std::optional<Diagnostic> refusal(const Schedule& schedule, const Shape& shape,
                                  const Costs& costs) {
  auto why = refusal(schedule, shape);
  if (!why && schedule.refusal_for != nullptr) why = schedule.refusal_for(shape, costs);
  return why;
}

Result<void> make_order(const Schedule& schedule, const Shape& shape, const Costs& costs,
                        Order& order) {
  if (auto why = refusal(schedule, shape, costs)) return fault(std::move(*why));
  if (shape.output != OutputLayer::last_stage && schedule.generate_cut != nullptr) {
    schedule.generate_cut(shape, costs, order);
  } else if (schedule.generate != nullptr) {
    schedule.generate(shape, order);
  } else {
    schedule.generate_for(shape, costs, order);
  }
  return {};
}

Result<void> make_order(const Schedule& schedule, const Shape& shape, Order& order) {
  if (auto why = refusal(schedule, shape)) return fault(std::move(*why));
  if (schedule.generate != nullptr) {
    schedule.generate(shape, order);
    return {};
  }
  const std::vector<ChunkCost> unit(static_cast<std::size_t>(slot_count(shape)),
                                    ChunkCost{.forward = 1,
                                              .backward = 2,
                                              .held = 1,
                                              .input_gradient = 1,
                                              .weight_gradient = 1,
                                              .kept = 1});
  const std::vector<OutputCost> outputs(static_cast<std::size_t>(shape.pp), OutputCost{1, 1, 0});
  schedule.generate_for(shape, Costs{.chunks = unit, .links = {}, .outputs = outputs}, order);
  return {};
}

Result<void> make_order(std::string_view name, const Shape& shape, Order& order) {
  if (const Schedule* s = find(name)) return make_order(*s, shape, order);
  std::vector<std::string> known;
  std::string all;
  for (const Schedule* s : kSchedules) {
    known.emplace_back(s->name);
    all += (all.empty() ? "" : ", ") + known.back();
  }
  const std::string near = nearest_name(name, known);
  return fault({.message = "unknown schedule `" + std::string(name) + "`",
                .cure = near.empty() ? "known: " + all : "did you mean `" + near + "`?",
                .field = "schedule.algorithm"});
}

}  // namespace eratos::schedule
