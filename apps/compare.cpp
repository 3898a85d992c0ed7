// eratos compare JOB ...: jobs, clusters and variants side by side: what differs, what it costs,
// why.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/compare.h"
#include "apps/exit_code.h"
#include "apps/load_job.h"
#include "apps/output.h"
#include "eratos/parallel/schedules.h"
#include "eratos/projection/state.h"
#include "eratos/reader/decode.h"
#include "eratos/reader/hardware_file.h"
#include "eratos/report/compare.h"
#include "eratos/report/page.h"

namespace eratos::apps {

namespace {

constexpr std::size_t kMostJobs = 200;

// One job to project: the words and flags that `project` would have got.
struct Variant {
  std::string label;
  Arguments arguments;
  bool required = true;  // an illegal one is a fault; a varied one is left out
};

// "parallel.tp=1,2,4" is three sets; commas inside brackets belong to a value.
std::vector<std::string> sets_of(const std::string& vary) {
  std::vector<std::string> out;
  const std::size_t equals = vary.find('=');
  const std::string key = vary.substr(0, equals + 1);
  std::string value;
  int depth = 0;
  for (const char c : vary.substr(equals + 1)) {
    depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    if (c == ',' && depth == 0) {
      out.push_back(key + value);
      value.clear();
    } else {
      value += c;
    }
  }
  out.push_back(key + value);
  return out;
}

std::string joined(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + ", " + b;
}

// Every job on every cluster, then each with every combination of the varied values.
std::vector<Variant> variants_of(const Arguments& arguments) {
  const std::vector<std::string> clusters = arguments.values("--cluster");
  std::vector<Variant> out;
  for (const std::string& word : arguments.words) {
    for (std::size_t i = 0; i < std::max<std::size_t>(1, clusters.size()); ++i) {
      Variant v;
      v.arguments = arguments;
      v.arguments.words = {word};
      if (!clusters.empty()) v.arguments.flags["--cluster"] = {clusters[i]};
      if (arguments.words.size() > 1) v.label = word;
      if (clusters.size() > 1) v.label = joined(v.label, clusters[i]);
      out.push_back(std::move(v));
    }
  }
  const std::size_t plain = out.size();
  std::vector<Variant> varied(out);
  for (const std::string& vary : arguments.values("--vary")) {
    std::vector<Variant> next;
    for (const Variant& v : varied) {
      for (const std::string& set : sets_of(vary)) {
        Variant one = v;
        one.label = joined(one.label, set);
        one.required = false;
        one.arguments.flags["--set"].push_back(set);
        next.push_back(std::move(one));
        if (next.size() > kMostJobs) return next;
      }
    }
    varied = std::move(next);
  }
  if (arguments.has("--vary")) out.insert(out.end(), varied.begin(), varied.end());
  for (std::size_t i = 0; i < plain; ++i) {
    if (out[i].label.empty())
      out[i].label = arguments.has("--vary") ? "as it is" : out[i].arguments.words[0];
  }
  return out;
}

text::Node hardware_of(const hardware::ClusterSpec& cluster) {
  text::Node out = reader::accelerator_to_node(cluster.accelerator);
  for (const char* key : {"name", "kin", "borrowed", "confidence"}) out.erase(key);
  text::Node levels = reader::cluster_to_node(cluster);
  if (const text::Node* list = levels.find("levels"); list != nullptr) out.set("levels", *list);
  out.set("gpus", text::Node::integer(cluster.gpus()));
  return out;
}

struct Comparison {
  std::vector<std::unique_ptr<Projected>> projected;  // what the answers point into
  std::vector<report::Compared> answers;
  std::vector<report::Refused> refused;
  bool fits = true;
};

Result<void> add(const Variant& v, Comparison& to) {
  Result<Projected> projected = project_job(v.arguments);
  if (!projected) {
    if (v.required) return faults(projected.error());
    to.refused.push_back({v.label, projected.error()});
    return {};
  }
  auto kept = std::make_unique<Projected>(*std::move(projected));
  report::Compared one{v.label, answer_of(*kept), hardware_of(kept->job->read.job.cluster)};
  // A varied value that the job has already is the same job again.
  for (const report::Compared& known : to.answers) {
    if (!v.required && known.answer.job == one.answer.job && known.hardware == one.hardware) {
      return {};
    }
  }
  to.fits = to.fits && kept->projection.memory.fits;
  to.projected.push_back(std::move(kept));
  to.answers.push_back(std::move(one));
  return {};
}

std::string render(const Comparison& c, Format format, const Arguments& arguments) {
  switch (format) {
    case Format::text:
      return report::page_text(report::compare_page(c.answers, c.refused), style_of(arguments));
    case Format::json:
      return report::compare_json(c.answers, c.refused);
    case Format::csv:
      return report::answers_csv(c.answers);
    case Format::markdown:
      return report::page_markdown(report::compare_page(c.answers, c.refused));
    case Format::html:
      return report::page_html(report::compare_page(c.answers, c.refused));
  }
  return "";
}

}  // namespace

int compare_schedules(const Arguments& arguments, Format format) {
  Arguments plain = arguments;
  plain.flags.erase("--schedule");
  Comparison all;
  const Result<void> own = add({"", plain, true}, all);
  if (!own) return report_faults(own.error());
  const job::CheckedJob& job = all.projected.front()->job->checked;
  // `auto` is one of the schedules below: it stands first, once.
  const std::string_view mine = projection::schedule_of(job).name;
  const bool chosen = job.spec->schedule.algorithm == "auto";
  all.answers.front().label = std::string(mine) + (chosen ? " (auto)" : " (as it is)");
  Comparison others;
  for (const parallel::ScheduleFacts& facts : parallel::kScheduleFacts) {
    if (facts.name == "none" || job.parallel.pp == 1) continue;
    if (facts.name == mine) continue;
    Variant v{std::string(facts.name), plain, false};
    std::vector<std::string>& sets = v.arguments.flags["--set"];
    sets.push_back("schedule.algorithm=" + std::string(facts.name));
    const int vpp = job.parallel.vpp;
    const int asked = vpp < facts.least_vpp                        ? facts.least_vpp
                      : facts.most_vpp > 0 && vpp > facts.most_vpp ? facts.most_vpp
                                                                   : vpp;
    if (asked != vpp) sets.push_back(fmt::format("parallel.vpp={}", asked));
    if (const Result<void> added = add(v, others); !added) return report_faults(added.error());
  }
  if (others.answers.empty() && others.refused.empty()) {
    return report_usage("pp is 1: there is no pipeline to schedule");
  }
  std::stable_sort(others.answers.begin(), others.answers.end(),
                   [](const report::Compared& a, const report::Compared& b) {
                     return a.answer.projection->time.step < b.answer.projection->time.step;
                   });
  for (report::Compared& one : others.answers) all.answers.push_back(std::move(one));
  for (report::Refused& one : others.refused) all.refused.push_back(std::move(one));
  all.fits = all.fits && others.fits;
  return deliver(render(all, format, arguments), arguments, fit_code(arguments, all.fits));
}

int run_compare(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, kAnswerFormats);
  if (!format) return report_usage(format.error().front().message);
  const std::vector<Variant> variants = variants_of(arguments);
  if (variants.size() < 2) {
    return report_usage("`compare` needs two jobs, two --cluster, or --vary KEY=a,b");
  }
  if (variants.size() > kMostJobs) {
    return report_usage(fmt::format("that is more than {} jobs to compare", kMostJobs));
  }
  Comparison all;
  Diagnostics bad;
  for (const Variant& v : variants) {
    const Result<void> added = add(v, all);
    if (!added) bad.insert(bad.end(), added.error().begin(), added.error().end());
  }
  if (!bad.empty()) return report_faults(bad);
  if (all.answers.size() < 2) {
    for (const report::Refused& r : all.refused) report_faults(r.faults);
    if (!all.refused.empty()) return kBadInput;
    return report_usage("every variant is the job as it is: there is nothing to compare");
  }
  return deliver(render(all, *format, arguments), arguments, fit_code(arguments, all.fits));
}

}  // namespace eratos::apps
