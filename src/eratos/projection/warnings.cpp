#include "eratos/projection/warnings.h"

#include <algorithm>
#include <string>
#include <vector>

#include "eratos/projection/state.h"

namespace eratos::projection {

namespace {

void borrowed_numbers(const job::JobSpec& spec, const calibration::Calibration& calibration,
                      std::vector<Warning>& out) {
  using Section = calibration::Borrowing::Section;
  const DType format = job::gemm_dtype(spec.precision);
  const bool across_nodes = spec.cluster.levels.size() > 1;
  for (const calibration::Borrowing& b : calibration.part.statements) {
    const bool unused = (b.section == Section::matrix && b.dtype != format &&
                         b.dtype != job::activation_dtype(spec.precision)) ||
                        (b.section == Section::network && !across_nodes) ||
                        (b.section == Section::collective && spec.cluster.gpus() == 1);
    if (!unused) out.push_back({"calibration-borrowed", b.text});
  }
  const hardware::AcceleratorSpec& part = spec.cluster.accelerator;
  if (part.kin.empty()) {
    for (const std::string& field : part.borrowed) {
      out.push_back(
          {"hardware-borrowed", part.name + ": " + field + " is taken from the nearest kin"});
    }
  } else {
    out.push_back({"hardware-described",
                   part.name +
                       " is a description, not a part that was measured: efficiencies are " +
                       part.kin + "'s; " + calibration.unmeasured.basis});
    std::string fields;
    for (const std::string& field : part.borrowed) fields += (fields.empty() ? "" : ", ") + field;
    if (!fields.empty()) {
      out.push_back({"hardware-borrowed",
                     part.name + ": not stated and taken from " + part.kin + ": " + fields});
    }
  }
  if (spec.cluster.accelerator.confidence == "low") {
    out.push_back({"hardware-uncertain",
                   "the figures of " + spec.cluster.accelerator.name + " are of low confidence"});
  }
}

void routing(const job::CheckedJob& job, std::vector<Warning>& out) {
  const job::JobSpec& spec = *job.spec;
  if (!model::is_moe(spec.model) || spec.routing.pad_to_capacity) return;
  if (spec.routing.balance == job::Balance::balanced) {
    out.push_back(
        {"routing-balanced",
         "experts are assumed to get equal shares of the tokens, as benchmarks force them to; "
         "natural routing is slower and needs more memory: moe.routing random, or skewed with a "
         "moe.skew"});
    return;
  }
  out.push_back({"routing-uneven",
                 "times are the mean of the most loaded rank, the table of memory is the median "
                 "peak; which experts are popular is assumed to stay for a run and to differ from "
                 "layer to layer"});
}

void approximations(const job::CheckedJob& job, std::vector<Warning>& out) {
  const job::JobSpec& spec = *job.spec;
  routing(job, out);
  if (spec.graph_share > 0 && spec.graph_share < 1) {
    out.push_back({"graphs-partial", "launches inside graphs are taken as a fixed share of all"});
  }
  const job::RecomputeSpec& r = spec.recompute;
  if (r.granularity == job::Granularity::full && r.method == job::RecomputeMethod::uniform &&
      r.layer_ids.empty() && r.layers > 1) {
    out.push_back(
        {"recompute-units",
         "recomputed units of " + std::to_string(r.layers) +
             " layers are projected as units of one layer: the real run keeps fewer inputs, "
             "and holds a whole unit's activations in backward"});
  }
  if (spec.offload.optimizer > 0) {
    out.push_back({"host-update-assumed",
                   "the host's update rate is that of one published machine, not of yours"});
  }
}

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) {
    const bool last = &name == &names.back();
    all += (all.empty() ? "" : last ? " and " : ", ") + name;
  }
  return all;
}

// Fits, but only because the allocator gives segments back that it would rather keep.
void tight_memory(const MemoryAnswer& m, std::vector<Warning>& out) {
  if (!m.fits || m.device_peak <= m.capacity * (1.0 - m.margin)) return;
  out.push_back({"allocator-pressed",
                 "there is no room for what the allocator would reserve: it gives cached segments "
                 "back and asks again, which waits for the device each time; expandable segments or "
                 "a smaller micro-batch avoid that"});
}

// What the job's framework would not run, or not so.
void unusual_schedule(const job::CheckedJob& job, std::vector<Warning>& out) {
  const job::JobSpec& spec = *job.spec;
  if (job.parallel.pp == 1) return;
  const schedule::Schedule& schedule = schedule_of(job);
  const framework::ScheduleRules& rules = spec.framework.schedules;
  const std::string name(schedule.name);
  const std::vector<std::string>& offered = rules.offered;
  if (!offered.empty() && std::find(offered.begin(), offered.end(), name) == offered.end()) {
    out.push_back({"schedule-not-offered", spec.framework.name + " " + spec.framework.generation +
                                               " does not run this schedule; it has " +
                                               joined(offered)});
  }
  const schedule::Shape shape = shape_of(job);
  // Source: Megatron-LM core/pipeline_parallel/schedules.py, the interleaved schedule's group size.
  if (&schedule == &schedule::schedules::interleaved_one_f_one_b &&
      shape.micro_batches % shape.pp != 0) {
    out.push_back({"interleaving-uneven",
                   "micro-batches are not a multiple of pp: Megatron-LM needs a group size that "
                   "allows it"});
  }
  if (!schedule.splits_backward) return;
  if (spec.recompute.granularity != job::Granularity::none) {
    out.push_back(
        {"recompute-with-split-backward",
         "the input's gradients recompute what " + name +
             " then keeps for the weights' gradients, which saves little" +
             (rules.split_recompute ? std::string()
                                    : "; " + spec.framework.name + " refuses the two together")});
  }
  if (!rules.split_dp_overlap && (spec.overlap.grad_reduce || spec.overlap.param_gather)) {
    out.push_back({"overlap-with-split-backward",
                   spec.framework.name + " runs " + name +
                       " without overlap of data-parallel traffic: set overlap.grad_reduce and "
                       "overlap.param_gather to false"});
  }
}

}  // namespace

void append_warnings(const job::CheckedJob& job, const calibration::Calibration& calibration,
                     Projection& out) {
  borrowed_numbers(*job.spec, calibration, out.warnings);
  approximations(job, out.warnings);
  unusual_schedule(job, out.warnings);
  tight_memory(out.memory, out.warnings);
}

}  // namespace eratos::projection
