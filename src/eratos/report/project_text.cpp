#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "eratos/report/hybrid.h"
#include "eratos/report/memory_table.h"
#include "eratos/report/quantity.h"
#include "eratos/report/text.h"
#include "eratos/report/time_parts.h"

namespace eratos::report {

namespace {

constexpr int kBarColumns = 48;

// Rows of the time table: modules that a reader thinks of as one thing.
constexpr std::string_view group_of(ops::Module m) {
  switch (m) {
    case ops::Module::norm:
    case ops::Module::residual:
      return "norms, residuals";
    case ops::Module::qkv:
    case ops::Module::mla_down:
    case ops::Module::mla_up:
    case ops::Module::rotary:
    case ops::Module::core_attention:
    case ops::Module::attention_out:
      return "attention";
    case ops::Module::mixer_in:
    case ops::Module::mixer_gate:
    case ops::Module::convolution:
    case ops::Module::scan:
    case ops::Module::mixer_out:
      return "state space, linear attention";
    case ops::Module::mlp_in:
    case ops::Module::activation:
    case ops::Module::mlp_out:
      return "feed-forward";
    case ops::Module::router:
    case ops::Module::dispatch:
    case ops::Module::combine:
      return "routing, permutation";
    case ops::Module::latent:
    case ops::Module::expert_in:
    case ops::Module::expert_activation:
    case ops::Module::expert_out:
    case ops::Module::shared_expert:
      return "experts";
    case ops::Module::embedding:
    case ops::Module::output_layer:
    case ops::Module::loss:
      return "embedding, output, loss";
    case ops::Module::mtp:
      return "multi-token prediction";
    case ops::Module::quantize:
      return "quantisation";
    case ops::Module::adapter:
      return "adapters";
    case ops::Module::offload:
      return "host copies";
    case ops::Module::gradient_reduce:
    case ops::Module::parameter_gather:
    case ops::Module::gradient_norm:
    case ops::Module::optimizer:
    case ops::Module::count_:
      return "";  // of the step, not of a layer
  }
  return "";
}

}  // namespace

std::vector<TimePart> module_parts(const projection::TimeAnswer& t) {
  std::vector<TimePart> parts;
  for (std::size_t i = 0; i < t.by_module.size(); ++i) {
    const std::string_view group = group_of(static_cast<ops::Module>(i));
    if (group.empty() || t.by_module[i].value <= 0) continue;
    const auto known = std::find_if(parts.begin(), parts.end(),
                                    [&](const TimePart& p) { return p.name == group; });
    if (known != parts.end()) {
      known->time += t.by_module[i];
    } else {
      parts.push_back({std::string(group), t.by_module[i]});
    }
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const TimePart& x, const TimePart& y) { return y.time < x.time; });
  return parts;
}

std::vector<TimePart> step_parts(const projection::TimeAnswer& t) {
  return {{"compute", t.compute},
          {"pipeline bubble", t.bubble},
          {"tp communication, exposed", t.exposed.tp},
          {"cp communication, exposed", t.exposed.cp},
          {"ep communication, exposed", t.exposed.ep},
          {"pp communication, exposed", t.exposed.pp},
          {"dp communication, exposed", t.exposed.dp},
          {"host copies, exposed", t.exposed.host},
          {"optimizer", t.optimizer},
          {"launch", t.launch}};
}

namespace {

std::string bars(const std::vector<TimePart>& parts, Seconds step, const Style& style) {
  constexpr double kLeastShare = 5e-4;  // what would print as 0.0%
  std::string out;
  for (const TimePart& p : parts) {
    const double share = p.time / step;
    if (share < kLeastShare) continue;
    out += fmt::format("  {} {} s {}  ", padded(p.name, 25),
                       padded(seconds_number(p.time, step), 9, Align::right),
                       padded(percent(share), 6, Align::right)) +
           style.bar(bar(share, kBarColumns)) + '\n';
  }
  return out;
}

std::string time_table(const projection::TimeAnswer& t, const Style& style) {
  std::string out = style.bold("where the step goes") +
                    style.dim(fmt::format("   on the critical rank, stage {}\n", t.critical_stage));
  out += bars(step_parts(t), t.step, style);
  out += style.bold("by module") + style.dim("   exposed communication of its own included\n");
  out += bars(module_parts(t), t.step, style);
  return out;
}

void speed_rows(const projection::Projection& p, Table& table) {
  const projection::ThroughputAnswer& r = p.throughput;
  table.row({"step time",
             fmt::format("{}   ({} to {})", duration(p.time.step),
                         duration(p.confidence.step.first), duration(p.confidence.step.second))});
  table.row({"throughput", fmt::format("{} tokens/s/GPU   ({} tokens/s, {:.2f} sequences/s)",
                                       thousands(r.tokens_per_s_per_gpu), thousands(r.tokens_per_s),
                                       r.samples_per_s)});
  std::string rate =
      fmt::format("{}/GPU, MFU {}", teraflops(r.model_flops_per_gpu), percent(r.mfu));
  if (r.hfu > r.mfu * 1.0005) {
    rate += fmt::format("   (as executed {}, HFU {})", teraflops(r.hardware_flops_per_gpu),
                        percent(r.hfu));
  }
  table.row({"model rate", rate});
}

}  // namespace

std::string project_text(const Answer& a, const Style& style) {
  const projection::Projection& p = *a.projection;
  Table facts({{""}, {""}});
  facts.row({"memory", verdict(p.memory, style)});
  if (!p.memory.routing.even) facts.row({"routing", uneven_routing(p.memory.routing)});
  speed_rows(p, facts);

  std::string out = headline(a, style) + '\n' + facts.text(0, style) + '\n';
  out += time_table(p.time, style) + '\n';
  out += stage_table(p.memory, style);
  out += hybrid_text(a, style);
  const std::string after = notes(a, style);
  if (!after.empty()) out += '\n' + after;
  return out;
}

}  // namespace eratos::report
