// The lines that every text report begins and ends with: which job this is, whether it fits, and
// what the reader of the numbers must know.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "eratos/report/quantity.h"
#include "eratos/report/text.h"

namespace eratos::report {

namespace {

constexpr std::size_t kColumns = 95;  // and "note " before the first line

std::string degrees(const job::JobSpec& spec, const parallel::ParallelSpec& p) {
  std::string out = fmt::format("tp {}, pp {}", p.tp, p.pp);
  if (p.vpp > 1) out += fmt::format(", vpp {}", p.vpp);
  // One that was asked for; the framework's own choice follows from pp and vpp.
  if (p.pp > 1 && spec.schedule.algorithm != "auto") out += " by " + spec.schedule.algorithm;
  if (p.output_layer != parallel::OutputLayer::last_stage) {
    out += fmt::format(" with {} output layer", parallel::name_of(p.output_layer));
  }
  if (p.cp > 1) out += fmt::format(", cp {}", p.cp);
  if (model::is_moe(spec.model)) out += fmt::format(", ep {}, etp {}", p.ep, p.etp);
  out += fmt::format(", dp {}", p.dp);
  if (p.sequence_parallel && p.tp > 1) out += ", sequence parallel";
  if (p.sharding != parallel::Sharding::none) {
    out += fmt::format(", {}", job::name_of(p.sharding));
  }
  return out;
}

std::string recompute(const job::RecomputeSpec& r) {
  if (r.granularity == job::Granularity::none) return "no recompute";
  if (r.granularity == job::Granularity::selective) return "selective recompute";
  if (!r.layer_ids.empty()) return fmt::format("{} layer{} recomputed", r.layer_ids.size(), r.layer_ids.size() == 1 ? "" : "s");
  if (r.method == job::RecomputeMethod::uniform) return "full recompute";
  if (r.layers == 0) return "no recompute";
  return fmt::format("{} layer{} a virtual stage recomputed", r.layers, r.layers == 1 ? "" : "s");
}

}  // namespace

std::string headline(const Answer& a, const Style& style) {
  const job::JobSpec& spec = *a.spec;
  const hardware::ClusterSpec& c = spec.cluster;
  std::string model = spec.model.name.empty() ? spec.name : spec.model.name;
  if (model.empty()) model = "a model without a name";
  std::string out = style.bold(fmt::format("{} on {}", model, c.name)) +
                    fmt::format("   {} x {}, {} node{} of {}\n", c.gpus(), c.accelerator.name,
                                c.nodes, c.nodes == 1 ? "" : "s", c.gpus_per_node);
  const projection::ParameterAnswer& p = a.projection->parameters;
  std::string parameters = count(p.total) + " parameters";
  if (p.active > 0 && p.active != p.total) parameters += " (" + count(p.active) + " active)";
  out += fmt::format("{}; {} x {} tokens a step, micro-batch {}, {} micro-batch{} a rank\n",
                     parameters, thousands(spec.batch.global), thousands(spec.batch.sequence),
                     spec.batch.micro, thousands(a.checked->micro_batches),
                     a.checked->micro_batches == 1 ? "" : "es");
  out += fmt::format("{}; {}, {}, {} {}\n", degrees(spec, a.checked->parallel),
                     job::name_of(spec.precision), recompute(spec.recompute), spec.framework.name,
                     spec.framework.generation);
  return out;
}

std::string verdict(const projection::MemoryAnswer& m, const Style& style) {
  const Bytes room = m.capacity * (1 - m.margin);
  const std::string word = m.fits ? style.good("fits") : style.bad("does not fit");
  std::string out = fmt::format("{}  {} of {} a GPU (stage {})", word, gib_text(m.device_peak),
                                gib_text(m.capacity), m.peak_stage);
  if (m.fits && m.device_peak <= m.capacity) {
    out += fmt::format(", {} free", gib_text(m.capacity - m.device_peak));
  } else if (m.fits) {
    out += fmt::format(", {} once cached segments are given back", gib_text(m.least_peak));
  } else if (m.least_peak <= m.capacity) {
    out += fmt::format(", inside the {} margin", percent(m.margin));
  } else {
    out += fmt::format(", at least {} too much", gib_text(m.least_peak - room));
  }
  return out;
}

std::string uneven_routing(const projection::RoutingAnswer& r) {
  const auto span = [](Bytes p50, Bytes p99, double oom) {
    return fmt::format("p50 {}, p99 {}, out of memory {}", gib_text(p50), gib_text(p99), percent(oom));
  };
  return fmt::format("{:.2f} x equal rows on the busiest rank; peak of a step {}; of {} steps {}", r.most,
                     span(r.step_p50, r.step_p99, r.step_oom), thousands(r.run_steps),
                     span(r.run_p50, r.run_p99, r.run_oom));
}

std::string notes(const Answer& a, const Style& style) {
  std::vector<projection::Warning> all = a.projection->warnings;
  all.insert(all.end(), a.reader_warnings.begin(), a.reader_warnings.end());
  std::string out;
  for (const projection::Warning& w : all) {
    out += style.dim("note ") +
           wrapped(fmt::format("{} [{}]", w.message, w.code), kColumns, "     ") + '\n';
  }
  if (a.defaults > 0) {
    out +=
        style.dim("note ") +
        fmt::format("{} values are framework or catalogue defaults; `eratos import` shows each\n",
                    a.defaults);
  }
  return out;
}

}  // namespace eratos::report
