#include "apps/run_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "eratos/base/check.h"
#include "eratos/calibration/curves.h"
#include "eratos/projection/projection.h"
#include "eratos/projection/steps.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/pattern_table.h"
#include "eratos/text/tree.h"
#include "eratos/text/yaml.h"

namespace eratos::apps {

namespace {

// In data/priors.csv: the parts of one architecture are a class.
constexpr std::string_view kAnyPart = "any part";

using calibration::FitRow;
using calibration::Owner;
using calibration::Parameter;
using calibration::Probe;

// What is known before any run of one line of data/priors.csv.
struct ClassPrior {
  FittedConstant of_class;  // its spread: how little is known of the class
  double members = 0;       // spread of its members around it
};

// The class of a constant; nothing where data/priors.csv has no line. Parts of one architecture are
// a class, but for a part that has a line of its own.
std::optional<ClassPrior> class_prior(const FittedConstant& member) {
  static const reader::PatternTable table("priors");
  const std::string_view path = member.parameter->path;
  const auto row = table.find(
      member.owner, [&](std::size_t r) { return table.cell(r, "path") == path; });
  if (!row) return std::nullopt;
  const auto number = [&](std::string_view column) {
    return std::stod(std::string(table.cell(*row, column)));
  };
  const double prior = number("prior");
  ClassPrior out{{member.parameter, "class " + std::string(table.cell(*row, "class")), prior, prior,
                  number("class_spread"), true},
                 number("spread")};
  if (table.cell(*row, "class") == kAnyPart) {
    if (const auto part = reader::load_accelerator(member.owner)) {
      out.of_class.owner = "class " + part->architecture;
    }
  }
  return out;
}

bool starts_with(std::string_view text, std::string_view head) {
  return text.substr(0, head.size()) == head;
}

bool across_nodes(const job::JobSpec& spec) {
  return spec.cluster.nodes > 1 && spec.cluster.levels.size() > 1;
}

// False where the job has nothing that the constant prices, so that no row is projected for it.
bool reads(const Parameter& p, const job::JobSpec& spec) {
  const parallel::ParallelSpec& by = spec.parallel;
  const bool moe = model::is_moe(spec.model);
  const bool gathers = by.sharding == parallel::Sharding::zero3 ||
                       by.sharding == parallel::Sharding::hsdp;
  if (p.path == "loss.fused_traffic_bytes_per_logit") return spec.loss_fused;
  if (p.path == "loss.unfused_traffic_bytes_per_logit") return !spec.loss_fused;
  if (p.path == "host.per_layer_tp_across_nodes_s") return by.tp > 1 && by.pp > 1 && across_nodes(spec);
  if (p.path == "host.per_blocking_send_s") return by.pp > 1;
  if (p.path == "host.tp_overlap_exponent") return by.tp > 1;
  if (p.path == "host.overlap_exponent") return by.tp == 1 || spec.framework.host.tp_overlap_exponent <= 0;
  if (p.path == "host.per_layer_tp_each_node_s") return by.tp > 1 && across_nodes(spec);
  if (starts_with(p.path, "host.per_moe_")) return moe;
  if (p.path == "kernel.narrow_matrix") return job::is_narrow(spec.precision);
  if (p.path == "kernel.per_group_s") return moe;
  if (p.path == "overlap.tp_share") return by.tp > 1 && spec.overlap.tp;
  if (p.path == "overlap.dp_share") return spec.overlap.grad_reduce || spec.overlap.param_gather;
  if (p.path == "overlap.fsdp_share") return gathers;
  if (p.path == "overlap.ep_share") return by.ep > 1 && spec.overlap.moe_a2a;
  if (p.path == "overlap.pp_exposed") return by.pp > 1 && spec.overlap.p2p;
  if (p.path == "kernel.collective") return spec.cluster.gpus() > 1;
  if (p.path == "kernel.network_decay" || p.path == "network.share") return across_nodes(spec);
  return true;
}

// Formats whose products the job runs.
std::vector<DType> formats_of(const job::JobSpec& spec) {
  std::vector<DType> out{job::activation_dtype(spec.precision)};
  const DType narrow = job::gemm_dtype(spec.precision);
  if (narrow != out.front()) out.push_back(narrow);
  return out;
}

std::string profile_name(const framework::FrameworkProfile& p) { return p.name + "@" + p.generation; }

// The profile's own file, or that of the one it is based on, whichever states the path.
std::string stated_by(const std::string& profile, const std::string& path) {
  const DataFile* file = reader::find_file(reader::Kind::frameworks, profile);
  if (file == nullptr) return "";
  const auto own = text::parse_yaml(file->text, "");
  if (!own) return "";
  if (text::find_at(*own, path) != nullptr) {
    return own->find("name")->raw() + "@" + own->find("generation")->raw();
  }
  const text::Node* base = own->find("based_on");
  return base == nullptr ? "" : stated_by(base->raw(), path);
}

// The part whose file has the section, along the chain of kin.
std::string measured_on(const std::string& part, const std::string& path) {
  std::string name = part;
  for (int depth = 0; depth < 8 && !name.empty(); ++depth) {
    const auto tree = reader::load_tree(reader::Kind::calibrations, name);
    if (!tree) return "";
    if (text::find_at(*tree, path) != nullptr) return name;
    if (text::find_at(*tree, path.substr(0, path.rfind('.'))) != nullptr) return "";
    const text::Node* kin = tree->find("borrowed");
    name = kin == nullptr ? "" : kin->raw();
  }
  return "";
}

}  // namespace

RunFit::RunFit(MeasuredRuns& measured, FitOf of, double least_mfu,
               const std::function<bool(std::size_t)>& takes)
    : measured_(&measured), of_(of) {
  std::set<std::string> seen;
  std::vector<std::size_t> taken;
  for (std::size_t i = 0; i < measured.runs.size(); ++i) {
    const MeasuredRun& each = measured.runs[i];
    if (!each.run.name.suspect.empty() || measured_speed(each.run.measured) <= 0) continue;
    if (takes && !takes(i)) continue;
    // A run may stand in two files.
    const std::string& id = each.run.name.id;
    if (!id.empty() && !seen.insert(id).second) continue;
    taken.push_back(i);
    parts_.insert(each.run.spec.cluster.accelerator.name);
  }
  for (const std::size_t i : taken) {
    const reader::Measured& m = measured.runs[i].run.measured;
    add_row(i, m.mfu <= 0 || m.mfu >= least_mfu);
  }
  problem_.evaluate = [this](std::span<const double> x, std::span<const Probe> probes,
                             std::span<double> out) { evaluate(x, probes, out); };
}

void RunFit::add_row(std::size_t run, bool counts) {
  const job::JobSpec& spec = measured_->runs[run].run.spec;
  job::CheckedJob checked;
  if (!job::check(spec, checked).empty() || !projection::schedule_faults(checked).empty()) return;
  FitRow row;
  row.counts = counts;
  const std::string& source = measured_->runs[run].run.name.source;
  const auto [at, fresh] =
      sources_by_name_.emplace(source, static_cast<int>(sources_.size()));
  if (fresh) sources_.push_back(source);
  // What a user's rows have in common is what is asked for: each counts in full.
  row.source = of_ == FitOf::users_own ? static_cast<int>(runs_.size()) : at->second;
  framework_constants(spec, row);
  part_constants(spec, row);
  problem_.rows.push_back(std::move(row));
  runs_.push_back(run);
}

int RunFit::class_of(const FittedConstant& of_class) {
  const auto [at, fresh] = index_.emplace(of_class.name(), static_cast<int>(constants_.size()));
  if (fresh) {
    const Parameter& p = *of_class.parameter;
    problem_.parameters.push_back({.prior = std::clamp(of_class.prior, p.least, p.most),
                                   .spread = of_class.spread,
                                   .least = p.least,
                                   .most = p.most});
    constants_.push_back(of_class);
  }
  return at->second;
}

int RunFit::free_parameters() const {
  return static_cast<int>(std::count_if(constants_.begin(), constants_.end(),
                                        [](const FittedConstant& c) { return !c.of_class; }));
}

int RunFit::constant_of(FittedConstant constant) {
  if (const auto known = index_.find(constant.name()); known != index_.end()) return known->second;
  const auto known_of_class =
      of_ == FitOf::catalogue ? class_prior(constant) : std::optional<ClassPrior>();
  const int under = known_of_class ? class_of(known_of_class->of_class) : -1;
  const auto [at, fresh] =
      index_.emplace(constant.name(), static_cast<int>(constants_.size()));
  ERATOS_CHECK(fresh);
  const Parameter& p = *constant.parameter;
  constant.prior = constant.before;
  constant.spread = p.spread;
  if (known_of_class) {
    constant.prior = known_of_class->of_class.prior;
    constant.spread = known_of_class->members;
  }
  problem_.parameters.push_back({.prior = std::clamp(constant.prior, p.least, p.most),
                                 .under = under,
                                 .spread = constant.spread,
                                 .least = p.least,
                                 .most = p.most});
  constants_.push_back(std::move(constant));
  return at->second;
}

void RunFit::framework_constants(const job::JobSpec& spec, FitRow& row) {
  const std::string profile = profile_name(spec.framework);
  for (const Parameter& p : calibration::parameters()) {
    if (p.owner != Owner::framework || !reads(p, spec)) continue;
    const double now = calibration::value_of(p, spec.framework);
    if (calibration::is_neutral(p, now)) continue;
    std::string owner = profile;
    if (of_ == FitOf::catalogue) {
      const std::string path(p.path);
      const auto [at, fresh] = owners_.emplace(profile + " " + path, "");
      if (fresh) at->second = stated_by(profile, path);
      owner = at->second;
      if (owner.empty()) continue;
    }
    row.parameters.push_back(constant_of({&p, owner, now, 0, 0, false}));
  }
}

std::string RunFit::part_owner(const std::string& part, const std::string& path) {
  const auto stated_on = [&](const std::string& of) -> const std::string& {
    const auto [at, fresh] = owners_.emplace(of + " " + path, "");
    if (fresh) at->second = measured_on(of, path);
    return at->second;
  };
  const std::string& owner = stated_on(part);
  if (of_ == FitOf::catalogue) return owner;
  const bool shared = std::any_of(parts_.begin(), parts_.end(), [&](const std::string& other) {
    return other != part && stated_on(other) == owner;
  });
  return shared && !owner.empty() ? owner : part;
}

void RunFit::part_constants(const job::JobSpec& spec, FitRow& row) {
  const std::string& part = spec.cluster.accelerator.name;
  const calibration::PartCalibration& known = measured_->calibrations.at(part).part;
  const auto add = [&](const Parameter& p) {
    const double now = calibration::value_of(p, known);
    if (now <= 0 || !reads(p, spec)) return;
    const std::string owner = part_owner(part, std::string(p.path));
    if (owner.empty()) return;
    const int constant = constant_of({&p, owner, now, 0, 0, false});
    const auto& of = row.parameters;
    if (std::find(of.begin(), of.end(), constant) == of.end()) row.parameters.push_back(constant);
  };
  for (const DType format : formats_of(spec)) {
    // The curve that answers for the format may be another format's.
    const calibration::GemmCurve& curve = calibration::gemm_curve(known, format);
    for (std::size_t i = 0; i < known.gemm.size(); ++i) {
      const Parameter* p = calibration::in_training_of(static_cast<DType>(i));
      if (p != nullptr && &known.gemm[i] == &curve) add(*p);
    }
  }
  // The catalogue's network shares are measured on collectives, not fitted to steps.
  if (of_ == FitOf::users_own) add(*calibration::find_parameter("network.share"));
}

void RunFit::evaluate(std::span<const double> x, std::span<const Probe> probes,
                      std::span<double> out) const {
  // Where the probes of each row begin.
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    if (i == 0 || probes[i].row != probes[i - 1].row) begins.push_back(i);
  }
  begins.push_back(probes.size());
  in_parallel(begins.size() - 1, [&]() -> Take {
    const std::shared_ptr<projection::Workspace> workspace = projection::make_workspace();
    const auto parts = std::make_shared<std::map<std::string, calibration::Calibration>>();
    return [&, workspace, parts](std::size_t group) {
      const std::span<const Probe> mine =
          probes.subspan(begins[group], begins[group + 1] - begins[group]);
      const auto row = static_cast<std::size_t>(mine.front().row);
      reader::Run& run = measured_->runs[runs_[row]].run;
      const std::string& part = run.spec.cluster.accelerator.name;
      const auto found = parts->find(part);
      calibration::Calibration& own =
          found != parts->end() ? found->second
                                : parts->emplace(part, measured_->calibrations.at(part)).first->second;
      const auto write = [&](int constant, double value) {
        const Parameter& p = *constants_[static_cast<std::size_t>(constant)].parameter;
        if (p.owner == Owner::framework) {
          p.in_framework(run.spec.framework) = value;
        } else {
          p.in_part(own.part) = value;
        }
      };
      job::CheckedJob checked;
      const bool legal = job::check(run.spec, checked).empty();
      std::vector<Seconds> steps(mine.size());
      const auto set = [&](std::size_t i) {
        for (const int c : problem_.rows[row].parameters) write(c, x[static_cast<std::size_t>(c)]);
        const int changed = mine[i].parameter;
        if (changed < 0) return false;
        write(changed, mine[i].value);
        const std::string_view path = constants_[static_cast<std::size_t>(changed)].parameter->path;
        return starts_with(path, "loss.") || starts_with(path, "overlap.");
      };
      if (legal) projection::project_steps(checked, own, set, *workspace, steps);
      const double tokens = static_cast<double>(run.spec.batch.global) * run.spec.batch.sequence;
      for (std::size_t i = 0; i < mine.size(); ++i) {
        const double step = steps[i].value;
        const double speed =
            step > 0 ? projected_speed(run, tokens / step / checked.parallel.world()) : 0;
        out[begins[group] + i] = speed > 0 ? std::log(speed / measured_speed(run.measured))
                                           : std::numeric_limits<double>::quiet_NaN();
      }
    };
  });
}

void RunFit::widen(std::size_t constant, double uncertainty) {
  constants_[constant].spread = std::hypot(constants_[constant].spread, uncertainty);
  problem_.parameters[constant].spread = constants_[constant].spread;
}

void RunFit::hold(std::size_t constant) {
  calibration::FitParameter& held = problem_.parameters[constant];
  held.least = held.most = held.prior;
}

void RunFit::put(const std::vector<double>& values, std::size_t row) {
  job::JobSpec& spec = measured_->runs[runs_[row]].run.spec;
  calibration::PartCalibration& part =
      measured_->calibrations.at(spec.cluster.accelerator.name).part;
  for (const int c : problem_.rows[row].parameters) {
    const auto i = static_cast<std::size_t>(c);
    const Parameter& p = *constants_[i].parameter;
    if (p.owner == Owner::framework) {
      p.in_framework(spec.framework) = values[i];
    } else {
      p.in_part(part) = values[i];
    }
  }
}

}  // namespace eratos::apps
