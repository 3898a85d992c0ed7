#include "apps/tuned.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "eratos/agent/refinement.h"
#include "eratos/report/accuracy_picks.h"
#include "eratos/search/knobs.h"
#include "eratos/search/refine.h"

namespace eratos::apps {

namespace {

using report::AccuracyRow;

struct Asked {
  const AccuracyRow* row = nullptr;
  bool out_of_memory = false;
};

report::TunedGroup tune_group(const report::Choice& choice, const search::RefineOptions& options,
                              const std::map<const AccuracyRow*, search::Prospect>& prospects) {
  report::TunedGroup out;
  const std::string& key = choice.measured.front()->but_layout;
  out.name = key.substr(0, key.find('\n'));
  out.family = choice.measured.front()->family;
  out.n = static_cast<int>(choice.measured.size());
  out.n_oom = static_cast<int>(choice.oom.size());
  search::Refine refine(options);
  std::vector<Asked> rows;
  double best = 0;
  for (const AccuracyRow* row : choice.measured) {
    refine.add(prospects.at(row));
    rows.push_back({row, false});
    best = std::max(best, report::measured_tokens(*row));
  }
  for (const AccuracyRow* row : choice.oom) {
    refine.add(prospects.at(row));
    rows.push_back({row, true});
  }
  const auto judge = [&](std::size_t budget, std::optional<std::size_t> pick) {
    if (!pick) {
      out.none = true;
    } else if (rows[*pick].out_of_memory) {
      out.picked_oom = true;
    } else {
      out.regret[budget] = best / report::measured_tokens(*rows[*pick].row) - 1;
    }
  };
  // Without a measurement the model's own choice stands, as in accuracy_picks.h.
  std::optional<std::size_t> fastest;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].row->fits) continue;
    if (!fastest || rows[i].row->projected_tokens > rows[*fastest].row->projected_tokens) {
      fastest = i;
    }
  }
  judge(0, fastest);
  std::size_t budget = 1;
  for (int asked = 0; budget < report::kTunedBudgets.size();) {
    const std::optional<search::Refine::Choice> next = refine.ask();
    if (next) {
      const Asked& row = rows[next->prospect];
      search::Observation seen;
      seen.out_of_memory = row.out_of_memory;
      if (!row.out_of_memory) {
        seen.measured = 1 / report::measured_tokens(*row.row);
        // What the row states of its own kind of memory and stage, in the same proportion.
        if (row.row->measured_memory.value > 0 && row.row->projected_memory.value > 0) {
          seen.peak = row.row->device_peak * (row.row->measured_memory / row.row->projected_memory);
        }
      }
      refine.tell(next->prospect, seen);
      ++out.measured;
      out.measured_oom += row.out_of_memory ? 1 : 0;
      ++asked;
    }
    while (budget < report::kTunedBudgets.size() &&
           (!next || asked == report::kTunedBudgets[budget])) {
      judge(budget++, refine.pick());
    }
  }
  return out;
}

}  // namespace

std::vector<report::TunedGroup> tune_rows(const MeasuredRuns& measured,
                                          const projection::Options& options,
                                          const std::vector<AccuracyRow>& rows) {
  const std::vector<report::Choice> choices = report::choices_of(rows);
  std::map<const AccuracyRow*, const reader::Run*> runs;
  for (const MeasuredRun& each : measured.runs) runs[&rows[each.row]] = &each.run;
  std::vector<const AccuracyRow*> wanted;
  for (const report::Choice& c : choices) {
    wanted.insert(wanted.end(), c.measured.begin(), c.measured.end());
    wanted.insert(wanted.end(), c.oom.begin(), c.oom.end());
  }
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  std::vector<search::Prospect> prospects(wanted.size());
  in_parallel(wanted.size(), [&]() -> Take {
    const std::shared_ptr<projection::Workspace> workspace = projection::make_workspace();
    return [&, workspace](std::size_t i) {
      const AccuracyRow& row = *wanted[i];
      const reader::Run& run = *runs.at(&row);
      search::Prospect& p = prospects[i];
      p.projected = 1 / row.projected_tokens;
      p.peak = row.device_peak;
      p.place = agent::place_of(run.spec);
      p.elasticity = search::elasticities_of(run.spec, measured.calibration_of(run), options,
                                             Seconds{row.projected_step_s}, *workspace);
    };
  });
  std::map<const AccuracyRow*, search::Prospect> by_row;
  for (std::size_t i = 0; i < wanted.size(); ++i) by_row[wanted[i]] = std::move(prospects[i]);
  std::vector<report::TunedGroup> out;
  for (const report::Choice& c : choices) {
    search::RefineOptions refine;
    refine.capacity = runs.at(c.measured.front())->spec.cluster.accelerator.memory_visible;
    out.push_back(tune_group(c, refine, by_row));
  }
  return out;
}

}  // namespace eratos::apps
