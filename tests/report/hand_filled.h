// An answer with numbers filled in by hand, so that reports are tested apart from the model.
#pragma once

#include <string>

#include "eratos/report/answer.h"

namespace eratos::report {

// Two stages on 16 accelerators of 80 GiB; step 10 s: compute 7, bubble 1, optimizer 0.25,
// launch 0.25, exposed tp 1 and dp 0.5.
struct HandFilled {
  job::JobSpec spec;
  job::CheckedJob checked;
  projection::Projection projection;
  Answer answer;

  HandFilled() {
    spec.name = "job";
    spec.model.name = "toy-8b";
    spec.batch = {.micro = 2, .global = 128, .sequence = 8192};
    spec.precision = job::Recipe::bf16;
    spec.framework.name = "megatron";
    spec.framework.generation = "2026.06";
    spec.cluster.name = "toy-2x8";
    spec.cluster.accelerator.name = "toy";
    spec.cluster.nodes = 2;
    spec.cluster.gpus_per_node = 8;
    spec.parallel.tp = 2;
    spec.parallel.pp = 2;
    spec.parallel.dp = 4;
    spec.parallel.sharding = parallel::Sharding::zero1;
    checked.spec = &spec;
    checked.parallel = spec.parallel;
    checked.micro_batches = 16;

    projection::Projection& p = projection;
    p.parameters = {.total = 8'030'261'248.0, .active = 8'030'261'248.0, .per_stage = {2e9, 2.1e9}};
    p.memory.fits = true;
    p.memory.capacity = gib(80);
    p.memory.allocated_peak = gib(50);
    p.memory.reserved_peak = gib(55);
    p.memory.device_peak = gib(57.5);
    p.memory.least_peak = gib(54.5);
    p.memory.peak_stage = 0;
    memory::StageMemory s;
    s.parameters = gib(4);
    s.gradients = gib(8);
    s.optimizer = gib(6);
    s.activations = gib(30);
    s.transient = gib(2);
    s.communication = gib(1);
    s.framework = gib(1.5);
    s.allocated = gib(50);
    s.reserved = gib(55);
    s.device = gib(57.5);
    s.least = gib(54.5);
    s.moment = memory::Moment::backward;
    s.peak_module = ops::Module::mlp_in;
    s.peak_program = "block";
    s.in_flight = 2;
    p.memory.stages.push_back(s);
    s.activations = gib(15);
    s.allocated = gib(35);
    s.reserved = gib(38.5);
    s.device = gib(41);
    s.moment = memory::Moment::loss;
    s.in_flight = 1;
    p.memory.stages.push_back(s);
    p.memory.saved_by_module.assign(static_cast<std::size_t>(ops::Module::count_), Bytes{});
    p.memory.saved_by_module[static_cast<std::size_t>(ops::Module::mlp_in)] = gib(3);
    p.memory.saved_by_module[static_cast<std::size_t>(ops::Module::norm)] = gib(1);

    p.time.step = Seconds{10};
    p.time.compute = Seconds{7};
    p.time.bubble = Seconds{1};
    p.time.optimizer = Seconds{0.25};
    p.time.launch = Seconds{0.25};
    p.time.exposed.tp = Seconds{1};
    p.time.exposed.dp = Seconds{0.5};
    p.time.critical_stage = 1;
    p.time.by_module[static_cast<std::size_t>(ops::Module::mlp_in)] = Seconds{3};
    p.time.by_module[static_cast<std::size_t>(ops::Module::mlp_out)] = Seconds{1.5};
    p.time.by_module[static_cast<std::size_t>(ops::Module::core_attention)] = Seconds{2};
    p.time.by_module[static_cast<std::size_t>(ops::Module::loss)] = Seconds{0.5};

    p.throughput.tokens_per_s_per_gpu = 6553.6;  // 128 * 8192 / (10 * 16)
    p.throughput.tokens_per_s = 104857.6;
    p.throughput.samples_per_s = 12.8;
    p.throughput.model_flops_per_gpu = FlopsPerSecond{4.0e14};
    p.throughput.hardware_flops_per_gpu = FlopsPerSecond{5.0e14};
    p.throughput.mfu = 0.4;
    p.throughput.hfu = 0.5;
    p.confidence.step = {Seconds{9}, Seconds{11.5}};
    p.confidence.peak = {gib(47), gib(53)};
    p.confidence.basis = "hand";
    p.calibration = "toy";
    p.warnings.push_back({"borrowed", "the network is that of another part"});

    answer.spec = &spec;
    answer.checked = &checked;
    answer.projection = &projection;
    answer.job = text::Node::mapping();
    answer.job.set("model", text::Node::string("toy-8b"));
    answer.version = "0.0.0";
    answer.defaults = 3;
  }
  HandFilled(const HandFilled&) = delete;
  HandFilled& operator=(const HandFilled&) = delete;
};

}  // namespace eratos::report
