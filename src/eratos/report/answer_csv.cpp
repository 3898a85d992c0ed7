#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "eratos/report/compare.h"
#include "eratos/text/csv.h"

namespace eratos::report {

namespace {

struct Row {
  std::string heads;
  std::string cells;

  void text(std::string_view head, std::string_view value) {
    const char* comma = heads.empty() ? "" : ",";
    heads += comma + std::string(head);
    cells += comma + text::csv_field(value);
  }
  void number(std::string_view head, double value) { text(head, fmt::format("{}", value)); }
  void bytes(std::string_view head, Bytes value) { number(head, std::round(value.value)); }
};

Row row_of(const Compared& c, const projection::Projection& first) {
  const projection::Projection& p = *c.answer.projection;
  const job::JobSpec& spec = *c.answer.spec;
  Row row;
  row.text("label", c.label);
  row.text("model", spec.model.name);
  row.text("cluster", spec.cluster.name);
  row.text("framework", spec.framework.name + "@" + spec.framework.generation);
  row.number("gpus", spec.cluster.gpus());
  row.number("step_s", p.time.step.value);
  row.number("step_ratio", p.time.step / first.time.step);
  row.number("step_low_s", p.confidence.step.first.value);
  row.number("step_high_s", p.confidence.step.second.value);
  row.number("compute_s", p.time.compute.value);
  row.number("bubble_s", p.time.bubble.value);
  row.number("tp_s", p.time.exposed.tp.value);
  row.number("cp_s", p.time.exposed.cp.value);
  row.number("ep_s", p.time.exposed.ep.value);
  row.number("pp_s", p.time.exposed.pp.value);
  row.number("dp_s", p.time.exposed.dp.value);
  row.number("host_s", p.time.exposed.host.value);
  row.number("optimizer_s", p.time.optimizer.value);
  row.number("launch_s", p.time.launch.value);
  row.number("tokens_per_s_per_gpu", p.throughput.tokens_per_s_per_gpu);
  row.number("throughput_ratio",
             p.throughput.tokens_per_s_per_gpu / first.throughput.tokens_per_s_per_gpu);
  row.number("tokens_per_s", p.throughput.tokens_per_s);
  row.number("model_tflops_per_gpu", p.throughput.model_flops_per_gpu.value / 1e12);
  row.number("mfu", p.throughput.mfu);
  row.number("hfu", p.throughput.hfu);
  row.bytes("allocated_peak_bytes", p.memory.allocated_peak);
  row.bytes("reserved_peak_bytes", p.memory.reserved_peak);
  row.bytes("device_peak_bytes", p.memory.device_peak);
  row.number("device_peak_ratio", p.memory.device_peak / first.memory.device_peak);
  row.bytes("capacity_bytes", p.memory.capacity);
  row.text("fits", p.memory.fits ? "true" : "false");
  const parallel::ParallelSpec& cut = c.answer.checked->parallel;
  for (const auto& [head, degree] : {std::pair{"tp", cut.tp},
                                     {"pp", cut.pp},
                                     {"vpp", cut.vpp},
                                     {"cp", cut.cp},
                                     {"ep", cut.ep},
                                     {"etp", cut.etp},
                                     {"dp", cut.dp},
                                     {"mbs", spec.batch.micro},
                                     {"gbs", spec.batch.global},
                                     {"seq_len", spec.batch.sequence}}) {
    row.number(head, degree);
  }
  row.text("schedule", spec.schedule.algorithm);
  return row;
}

}  // namespace

std::string answers_csv(const std::vector<Compared>& all) {
  std::string out;
  for (const Compared& c : all) {
    const Row row = row_of(c, *all[0].answer.projection);
    if (out.empty()) out = row.heads + '\n';
    out += row.cells + '\n';
  }
  return out;
}

std::string memory_csv(const Answer& a) {
  const projection::MemoryAnswer& m = a.projection->memory;
  std::string out;
  for (std::size_t i = 0; i < m.stages.size(); ++i) {
    const memory::StageMemory& s = m.stages[i];
    Row row;
    row.number("stage", static_cast<double>(i));
    row.bytes("parameters_bytes", s.parameters);
    row.bytes("gradients_bytes", s.gradients);
    row.bytes("optimizer_bytes", s.optimizer);
    row.bytes("activations_bytes", s.activations);
    row.bytes("transient_bytes", s.transient);
    row.bytes("communication_bytes", s.communication);
    row.bytes("framework_bytes", s.framework);
    row.bytes("peak_bytes", s.allocated);
    row.bytes("reserved_bytes", s.reserved);
    row.bytes("device_bytes", s.device);
    row.number("in_flight_micro_batches", s.in_flight);
    row.number("waiting_micro_batches", s.waiting);
    row.text("peak_moment", memory::name_of(s.moment));
    row.bytes("capacity_bytes", m.capacity);
    if (out.empty()) out = row.heads + '\n';
    out += row.cells + '\n';
  }
  return out;
}

}  // namespace eratos::report
