#include "apps/anchored.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "apps/anchor.h"
#include "eratos/job/job.h"
#include "eratos/projection/anchor.h"
#include "eratos/projection/likeness.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/text/dump.h"

namespace eratos::apps {

namespace {

using report::AccuracyRow;
using report::AnchoredRow;

// A run that can stand in a group, with what its job is written as.
struct Candidate {
  const MeasuredRun* measured = nullptr;
  const AccuracyRow* row = nullptr;
  text::Node job;

  const reader::Run& run() const { return measured->run; }
  int gpus() const { return run().spec.cluster.gpus(); }
};

using Group = std::vector<Candidate>;

std::string group_of(const Candidate& c) {
  const reader::RunName& name = c.run().name;
  const job::JobSpec& spec = c.run().spec;
  return fmt::format("{}\n{}\n{}\n{}@{}\n{}\n{}\n{}\n{}\n{}", c.row->file, name.source,
                     name.framework, spec.framework.name, spec.framework.generation,
                     spec.cluster.accelerator.name, job::name_of(spec.precision), spec.batch.micro,
                     spec.batch.sequence, text::to_json(*c.job.find("model"), 0));
}

std::vector<Group> groups_of(const MeasuredRuns& measured, const std::vector<AccuracyRow>& rows) {
  std::map<std::string, Group> by_key;
  std::vector<std::string> order;
  for (const MeasuredRun& each : measured.runs) {
    const AccuracyRow& row = rows[each.row];
    if (!row.throughput_error() || !row.suspect.empty() || !row.excluded.empty()) continue;
    Candidate c{&each, &row, reader::job_to_node(each.run.spec)};
    const std::string key = group_of(c);
    Group& group = by_key[key];
    if (group.empty()) order.push_back(key);
    group.push_back(std::move(c));
  }
  std::vector<Group> out;
  for (const std::string& key : order) {
    Group& group = by_key[key];
    const auto [least, most] = std::minmax_element(
        group.begin(), group.end(),
        [](const Candidate& a, const Candidate& b) { return a.gpus() < b.gpus(); });
    if (least->gpus() < most->gpus()) out.push_back(std::move(group));
  }
  return out;
}

// An anchor and the runs that are projected from it, by their place in the group's answer.
struct Work {
  const Candidate* anchor = nullptr;
  std::vector<std::pair<const Candidate*, std::size_t>> targets;
};

// Fields that differ, then by how many doublings numbers among them do: tp 8 is nearer to 4 than
// to 1.
std::pair<std::size_t, double> distance(const text::Node& a, const text::Node& b) {
  const std::vector<std::string> paths = differing_fields(a, b);
  double doublings = 0;
  for (const std::string& path : paths) {
    const text::Node* left = text::find_at(a, path);
    const text::Node* right = text::find_at(b, path);
    if (left == nullptr || right == nullptr) continue;
    const auto x = left->as_double();
    const auto y = right->as_double();
    if (x && y && *x > 0 && *y > 0) doublings += std::abs(std::log2(*x / *y));
  }
  return {paths.size(), doublings};
}

// Each larger run to the smallest one that is most like it; `answers` counts them.
std::vector<Work> work_of(const std::vector<Group>& groups, std::size_t& answers) {
  std::vector<Work> out;
  for (const Group& group : groups) {
    int least = group.front().gpus();
    for (const Candidate& c : group) least = std::min(least, c.gpus());
    const std::size_t first = out.size();
    for (const Candidate& c : group) {
      if (c.gpus() == least) out.push_back({&c, {}});
    }
    for (const Candidate& c : group) {
      if (c.gpus() == least) continue;
      const auto nearest =
          std::min_element(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(),
                           [&](const Work& a, const Work& b) {
                             return distance(a.anchor->job, c.job) < distance(b.anchor->job, c.job);
                           });
      nearest->targets.emplace_back(&c, answers++);
    }
  }
  std::erase_if(out, [](const Work& w) { return w.targets.empty(); });
  return out;
}

AnchoredRow row_of(const Candidate& target, const Candidate& anchor) {
  AnchoredRow out;
  const reader::RunName& name = target.run().name;
  out.id = name.id;
  out.anchor = anchor.run().name.id;
  out.file = target.row->file;
  out.source = name.source;
  out.family = name.family;
  out.gpu = name.gpu;
  out.model = name.model;
  out.gpus = target.gpus();
  out.anchor_gpus = anchor.gpus();
  out.differs = differing_fields(anchor.job, target.job);
  out.unanchored = *target.row->throughput_error();
  return out;
}

// Does the row state a peak that the anchor states too, of the same kind and stage?
bool same_peak(const reader::Measured& a, const reader::Measured& b) {
  return a.memory.value > 0 && b.memory.value > 0 && a.memory_kind == b.memory_kind &&
         a.first_stage == b.first_stage;
}

void project_anchored(const Candidate& target, const Candidate& from,
                      const projection::Anchor& anchor,
                      const std::vector<calibration::ErrorClass>& classes,
                      const MeasuredRuns& measured, const projection::Options& options,
                      projection::Workspace& w, AnchoredRow& out) {
  const reader::Run& run = target.run();
  job::JobSpec spec = run.spec;
  calibration::Calibration calibration = measured.calibration_of(run);
  projection::carry_all(anchor, spec, calibration);
  job::CheckedJob checked;
  if (!job::check(spec, checked).empty()) return;  // as legal as without an anchor
  const projection::Projection p = projection::project(checked, calibration, options, w);
  const reader::Measured& m = run.measured;
  out.error = projected_speed(run, p.throughput.tokens_per_s_per_gpu) / measured_speed(m) - 1;
  out.like = projection::likeness_of(checked, p);
  const auto band = projection::anchored_confidence(checked, anchor, classes, p).step;
  const double truth = p.time.step.value * (1 + out.error);
  out.in_band = band.first.value <= truth && truth <= band.second.value;
  if (!same_peak(m, from.run().measured)) return;
  out.memory_kind = std::string(reader::name_of(m.memory_kind));
  out.memory_unanchored = target.row->memory_error();
  out.memory_error =
      projection::peak_of(p.memory, peak_kind(m.memory_kind), m.first_stage) / m.memory - 1;
}

}  // namespace

Result<std::vector<AnchoredRow>> anchor_all(const MeasuredRuns& measured,
                                            const projection::Options& options,
                                            const std::vector<AccuracyRow>& rows) {
  const auto same = reader::load_anchored_classes(true);
  if (!same) return faults(same.error());
  const auto other = reader::load_anchored_classes(false);
  if (!other) return faults(other.error());
  const std::vector<Group> groups = groups_of(measured, rows);
  std::size_t answers = 0;
  const std::vector<Work> work = work_of(groups, answers);
  std::vector<AnchoredRow> out(answers);
  in_parallel(work.size(), [&]() -> Take {
    const std::shared_ptr<projection::Workspace> workspace = projection::make_workspace();
    return [&, workspace](std::size_t i) {
      const Candidate& from = *work[i].anchor;
      const reader::Run& run = from.run();
      const projection::Anchor anchor = projection::anchor_on(
          run.spec, measured_run(run, *from.row), measured.calibration_of(run), *workspace);
      for (const auto& [target, at] : work[i].targets) {
        out[at] = row_of(*target, from);
        project_anchored(*target, from, anchor, out[at].differs.empty() ? *same : *other, measured,
                         options, *workspace, out[at]);
      }
    };
  });
  return out;
}

}  // namespace eratos::apps
