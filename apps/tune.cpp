// eratos tune JOB -o DIR: which configuration to run, found with few measurements.
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "apps/axis_words.h"
#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/load_job.h"
#include "apps/numbers.h"
#include "apps/output.h"
#include "apps/tune_memory.h"
#include "apps/tune_model.h"
#include "apps/tune_report.h"
#include "apps/tune_workshop.h"
#include "eratos/agent/answer.h"
#include "eratos/agent/refinement.h"
#include "eratos/agent/scripted.h"
#include "eratos/agent/seeds.h"
#include "eratos/agent/session.h"
#include "eratos/http/http.h"
#include "eratos/reader/primus_target.h"
#include "eratos/search/legality.h"
#include "eratos/text/dump.h"
#include "eratos/text/yaml.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

using text::Node;

constexpr int kSeeds = 24;
constexpr const char* kPolicies = "model, scripted, seeds, none";

// "": what --policy is where it is not said.
bool is_policy(const std::string& word) {
  return word.empty() || word == "model" || word == "scripted" || word == "seeds" || word == "none";
}

// What the run is asked, from flags and from a target file.
struct Asked {
  std::unique_ptr<Job> job;
  std::optional<reader::TuneTarget> target;
  std::vector<std::string> axes;
  std::string policy;
  int seeds = kSeeds;
  agent::Investigation investigation;
  int measurements = 0;
  std::string why_unmeasured;  // "": a budget of 0 was asked for
  int runs = 0;
  std::string measure_command;
  std::optional<agent::ModelSettings> model;  // of --policy model; nothing where one is replayed
  std::string wishes;
};

// Of --cluster, where that is a target file of Primus's agent.
Result<std::optional<reader::TuneTarget>> target_of(const std::string& cluster, Location& at) {
  if (!cluster.ends_with(".yaml") && !cluster.ends_with(".yml")) {
    return std::optional<reader::TuneTarget>{};
  }
  const Result<Node> tree = text::parse_yaml_file(cluster);
  if (!tree) return faults(tree.error());
  if (!reader::is_tune_target(*tree)) return std::optional<reader::TuneTarget>{};
  at = tree->where();
  Result<reader::TuneTarget> target = reader::tune_target_of(*tree);
  if (!target) return faults(target.error());
  return std::optional<reader::TuneTarget>(*std::move(target));
}

Result<Asked> asked_of(const Arguments& arguments) {
  Asked out;
  Location at;
  Result<std::optional<reader::TuneTarget>> target = target_of(arguments.value("--cluster"), at);
  Result<std::unique_ptr<Job>> job = prepare_job(arguments);
  if (!target || !job) {  // of both at once: a target file says what is tuned and on what
    Diagnostics bad = target ? Diagnostics{} : target.error();
    if (!job) bad.insert(bad.end(), job.error().begin(), job.error().end());
    return faults(std::move(bad));
  }
  out.target = *std::move(target);
  out.job = *std::move(job);
  job::JobSpec& spec = out.job->read.job;
  if (out.target) {
    Result<hardware::ClusterSpec> cluster = reader::with_target(spec.cluster, *out.target, at);
    if (!cluster) return faults(cluster.error());
    spec.cluster = *std::move(cluster);
    if (!arguments.has("--memory-margin")) out.job->options.memory_margin = out.target->margin;
    out.axes = out.target->axes;
    out.investigation = {out.target->budget.rounds, out.target->budget.simulations,
                         out.target->budget.proposals};
    // A flag that names a program or a budget knows better than the file.
    const bool measures = out.target->has_gpu || arguments.has("--measure-command");
    out.measurements = measures ? out.target->budget.measurements : 0;
    if (!measures) out.why_unmeasured = "available_for_benchmark.has_gpu is false";
  }
  for (const std::string& text : arguments.values("--axes")) {
    for (std::string& word : axis_words(text)) {
      // What the command says of an axis replaces what the file does.
      const std::string name = word.substr(0, word.find_first_of("!="));
      std::erase_if(out.axes, [&](const std::string& w) {
        return w.substr(0, w.find_first_of("!=")) == name;
      });
      out.axes.push_back(std::move(word));
    }
  }
  Diagnostics fixed = search::fixed_faults(spec);
  if (!fixed.empty()) {
    reader::locate(fixed, out.job->read.report);
    return faults(std::move(fixed));
  }
  const auto count = [&](const char* flag, int otherwise) {
    return static_cast<int>(number_of(arguments, flag, otherwise));
  };
  out.policy = arguments.value("--policy");
  if (out.policy.empty() || out.policy == "model") {
    Result<std::optional<agent::ModelSettings>> model = model_of(arguments);
    if (!model) return faults(model.error());
    const bool told = arguments.has("--replay") || arguments.has("--show-prompt");
    if (*model && !arguments.has("--replay")) out.model = *std::move(model);
    if (out.policy.empty()) out.policy = out.model || told ? "model" : "scripted";
    if (out.policy == "model" && !out.model && !told) {
      return fault({.message = "`--policy model` and no model is configured",
                    .cure = "give --model and --model-url, or --model-config FILE "
                            "(docs/tuning_models.md)"});
    }
  }
  if (arguments.has("--replay")) {  // before a folder is made for it
    const Result<agent::Script> script = replayed_script(arguments.value("--replay"));
    if (!script) return faults(script.error());
  }
  out.wishes = arguments.value("--ask");
  out.seeds = count("--seed-budget", out.seeds);
  out.measurements = count("--budget-measure", out.measurements);
  if (arguments.has("--budget-simulate")) {
    out.investigation.simulations = count("--budget-simulate", 0);
    out.investigation.proposals = out.investigation.simulations;
  }
  out.investigation.rounds = count("--rounds", out.investigation.rounds);
  out.runs = count("--budget-run", 0);
  out.measure_command = arguments.value("--measure-command");
  return out;
}

// run.json: what a resumed run must be asked again.
Node run_node(const Asked& asked) {
  Node out = Node::mapping();
  out.set("job", Node::string(digest_text(asked.job->read.job)));
  out.set("calibration", Node::string(asked.job->calibration.name));
  out.set("memory_margin", Node::number(asked.job->options.memory_margin));
  Node axes = Node::sequence();
  for (const std::string& w : asked.axes) axes.append(Node::string(w));
  out.set("axes", std::move(axes));
  out.set("policy", Node::string(asked.policy));
  if (!asked.wishes.empty()) out.set("ask", Node::string(asked.wishes));
  out.set("seed_budget", Node::integer(asked.seeds));
  Node investigation = Node::mapping();
  investigation.set("rounds", Node::integer(asked.investigation.rounds));
  investigation.set("simulations", Node::integer(asked.investigation.simulations));
  investigation.set("proposals", Node::integer(asked.investigation.proposals));
  out.set("investigation", std::move(investigation));
  out.set("budget_measure", Node::integer(asked.measurements));
  out.set("budget_run", Node::integer(asked.runs));
  out.set("measure_command", Node::string(asked.measure_command));
  return out;
}

std::string why_off(const agent::Investigation& i) {
  std::string zeros;
  const auto zero = [&](int n, const char* what) {
    if (n <= 0) zeros += (zeros.empty() ? "" : ", ") + std::string(what);
  };
  zero(i.rounds, "rounds");
  zero(i.simulations, "simulations");
  zero(i.proposals, "proposals");
  return "a budget of 0 turns it off: " + zeros;
}

struct Stages {
  std::vector<agent::Stage> done;
  const agent::Session& session;

  // The trials made since the last one belong to it.
  void end(std::string name, bool on, std::string what) {
    const int all = static_cast<int>(session.trials().size());
    done.push_back({std::move(name), on, std::move(what), all - counted});
    counted = all;
    if (terminal) {
      std::fprintf(stderr, "tune: %s: %s\n", done.back().name.c_str(), done.back().what.c_str());
    }
  }
  int counted = 0;
  bool terminal = isatty(STDERR_FILENO) != 0;
};

struct Tuned {
  agent::Answer answer;
  std::optional<ModelStage> model;
};

// The trial that the model chose, where its choice stands: with the user's wishes, which no figure
// holds; without, the figures decide.
const agent::Trial* choice_of(const Asked& asked, const std::optional<ModelStage>& model,
                              const agent::Session& session) {
  if (!model || !model->talk.finish || asked.wishes.empty()) return nullptr;
  return session.trial(model->talk.finish->trial);
}

Result<Tuned> tune(const Asked& asked, agent::Session& session, const Remembered& remembered,
                   const Arguments& arguments) {
  Stages stages{{}, session};
  const bool plain = asked.policy == "none";
  if (!remembered.said.empty()) stages.end("memory", true, "remembered: " + remembered.said);
  agent::Seeds seeds = agent::plant_seeds(session, plain ? 0 : asked.seeds);
  const search::Proof& proof = seeds.outcome.proof;
  stages.end("seeds", seeds.searched,
             seeds.searched ? fmt::format("{} candidates, {} simulated, optimum {}", proof.raw,
                                          proof.simulated, proof.proven ? "proven" : "not proven")
             : plain        ? "off: --policy none"
                            : "a budget of 0 turns it off");
  std::optional<ModelStage> model;
  bool scripted = asked.policy == "scripted";
  if (asked.policy == "model") {
    agent::Desk desk = model_desk(session);
    agent::TalkBrief brief = model_brief(desk, asked.wishes);
    if (!remembered.said.empty()) brief.seeds += " Of earlier runs: " + remembered.said + ".";
    Result<ModelStage> told =
        ask_model(arguments, asked.model, desk, std::move(brief), arguments.value("--output"));
    if (!told) return faults(told.error());
    model = *std::move(told);
    scripted = !model->talk.finish && model->talk.end != agent::TalkEnd::interrupted;
    if (scripted) model->said += "; the scripted policy goes on in its place";
    if (scripted) std::fprintf(stderr, "warning: the language model: %s\n", model->said.c_str());
    stages.end("language model", true, model->said);
  }
  const bool investigates = scripted && !asked.investigation.off();
  agent::Investigated i;
  if (investigates) {
    i = agent::investigate(session, asked.investigation);
    stages.end("investigation", true,
               fmt::format("scripted policy, {} rounds; it ended because {}", i.rounds, i.stopped));
  } else {
    stages.end("investigation", false,
               asked.policy == "model" && !scripted ? std::string("off: the model chose")
               : !scripted                          ? "off: --policy " + asked.policy
                                                    : why_off(asked.investigation));
  }
  const bool by_runs = asked.runs > 0 && session.workshop().measures_with().empty();
  const int most = by_runs ? asked.runs : asked.measurements;
  const bool on = by_runs || (most > 0 && !session.workshop().measures_with().empty());
  const std::string why_not = most > 0 ? fmt::format("{} measurements allowed, none made: {}", most,
                                                     session.workshop().why_not_measured())
                              : asked.why_unmeasured.empty()
                                  ? std::string("a budget of 0 turns it off")
                                  : "off: " + asked.why_unmeasured;
  std::optional<agent::Refined> refined;
  if (session.best() == nullptr) {
    stages.end("refinement", false, "there is nothing to choose among");
  } else if (!seeds.searched && !on) {  // not even what would be measured: no space was searched
    stages.end("refinement", false, why_not);
  } else {
    agent::Refinement refinement(session, seeds.candidates, remembered.learned);
    for (const agent::Discovery& d : i.found) refinement.add(d.space, d.at);
    if (model) {
      agent::Desk desk = model_desk(session);
      add_tried(desk, refinement);
    }
    refined = refinement.run(by_runs ? agent::Fidelity::run : agent::Fidelity::measure);
    stages.end("refinement", on,
               on ? fmt::format("{} of {} {}; it ended because {}", refined->measured, most,
                                by_runs ? "runs" : "measurements", refined->stopped)
                  : why_not);
  }
  Tuned out{agent::answer_of(session, std::move(stages.done), std::move(seeds), std::move(refined),
                             choice_of(asked, model, session)),
            std::move(model)};
  return out;
}

int write_all(const Tuned& tuned, agent::Session& session, agent::Records& records,
              const Arguments& arguments) {
  const agent::Answer& answer = tuned.answer;
  TuneFiles files{.folder = records.folder()};
  Diagnostics bad;
  const auto write = [&](const std::string& name, const std::string& text) {
    const Result<void> written = records.write(name, text);
    if (!written) bad.insert(bad.end(), written.error().begin(), written.error().end());
  };
  if (answer.winner != nullptr) {
    const agent::TunedJobPtr job = session.job_of(*answer.winner);
    const auto winner = session.workshop().winner_files(*job);
    if (!winner) return report_faults(winner.error());
    for (const agent::WinnerFile& f : *winner) {
      write(f.name, f.text);
      files.winner.push_back(f.name);
      files.unsaid.insert(files.unsaid.end(), f.unsaid.begin(), f.unsaid.end());
    }
  }
  Node summary = agent::summary_node(answer);
  summary.set("eratos", Node::string(std::string(kVersion)));
  if (tuned.model) {
    Node model = agent::talk_node(tuned.model->talk);
    model.set("name", Node::string(tuned.model->settings.model));
    summary.set("language_model", std::move(model));
  }
  write("summary.json", text::to_json(summary) + '\n');
  report::Page page = tune_page(answer, files);
  if (tuned.model) page.sections.insert(page.sections.end() - 3, model_section(*tuned.model));
  write("report.md", report::page_markdown(page));
  write("report.html", report::page_html(page));
  if (records.trouble()) bad.push_back(*records.trouble());
  if (!bad.empty()) {
    report_faults(bad);
    return kEnvironment;
  }
  Arguments to_terminal = arguments;
  to_terminal.flags.erase("--output");
  const int code = answer.interrupted         ? kInterrupted
                   : answer.winner == nullptr ? kDoesNotFit
                                              : kAnswered;
  if (arguments.value("--format") == "json") {
    return deliver(text::to_json(summary) + '\n', to_terminal, code);
  }
  report::Page shown = page;  // pictures and the list of trials stand in the folder
  shown.sections.resize(shown.sections.size() - 3);
  return deliver(report::page_text(shown, style_of(to_terminal)), to_terminal, code);
}

// What would be sent to a model, and to nobody else.
int show_prompt(const Asked& asked, TuneWorkshop& workshop, search::Space space,
                const std::array<agent::Budget, agent::kFidelities>& budgets,
                const Arguments& arguments) {
  agent::Records nowhere;
  agent::Session session(workshop, std::move(space), budgets, nowhere);
  agent::plant_seeds(session, asked.policy == "none" ? 0 : asked.seeds);
  agent::Desk desk = model_desk(session);
  const std::string text = shown_prompt(arguments, asked.model, model_brief(desk, asked.wishes));
  Arguments to_terminal = arguments;
  to_terminal.flags.erase("--output");
  return deliver(text, to_terminal, kAnswered);
}

// What stands in the way of -o, by the rules of --output; kAnswered where nothing does. A folder
// that holds no run and something else is somebody's: a report.md there is not ours to replace.
int folder_fault(const std::string& folder, const Arguments& arguments) {
  namespace fs = std::filesystem;
  std::error_code none;
  Diagnostic what{.where = {.file = folder}};
  const bool run = agent::holds_run(folder);
  if (fs::exists(folder, none) && !fs::is_directory(folder, none)) {
    what.message = "is a file";
    what.cure = "name a folder; it is made where it is not there";
  } else if (run && !arguments.has("--resume") && !arguments.has("--force")) {
    what.message = "holds a run already";
    what.cure = "--resume goes on with it, --force replaces it, or name another folder";
  } else if (!run && !arguments.has("--force") && fs::is_directory(folder, none) &&
             !fs::is_empty(folder, none)) {
    what.message = "holds files that are no run's";
    what.cure = "name another folder, or --force to replace those that have a run's names";
  } else {
    return kAnswered;
  }
  report_faults({what});
  return kUsage;
}

}  // namespace

int run_tune(const Arguments& arguments) {
  if (const Result<Format> format = format_of(arguments, "text json"); !format) {
    return report_usage(format.error().front().message);
  }
  if (const std::string fault = model_flags_fault(arguments); !fault.empty()) {
    return report_usage(fault);
  }
  if (const std::string policy = arguments.value("--policy"); !is_policy(policy)) {
    return report_usage(fmt::format("unknown policy `{}`; known: {}", policy, kPolicies));
  }
  if (!arguments.has("--output") && !arguments.has("--show-prompt")) {
    return report_usage("`tune` needs a folder for what it finds: -o DIR");
  }
  if (arguments.has("--resume") && arguments.has("--force")) {
    return report_usage("`--resume` goes on with a run and `--force` replaces it: choose one");
  }
  if (!arguments.has("--show-prompt")) {
    const int code = folder_fault(arguments.value("--output"), arguments);
    if (code != kAnswered) return code;
  }
  Result<Asked> asked = asked_of(arguments);
  if (!asked) return report_faults(asked.error());
  if (asked->model && !arguments.has("--show-prompt") && !http::is_built_in()) {
    std::fprintf(stderr,
                 "error: a model is asked for, and this eratos was built without libcurl; "
                 "--policy scripted needs none\n");
    return kEnvironment;
  }
  TuneWorkshop::Settings settings{.threads = static_cast<int>(number_of(arguments, "--threads", 0)),
                                  .measure_command = asked->measure_command,
                                  .folder = arguments.value("--output"),
                                  .runs = asked->runs > 0};
  if (asked->target) {
    settings.benchmark_gpus = asked->target->benchmark_gpus;
    settings.benchmark_arch = asked->target->benchmark_arch;
  }
  TuneWorkshop workshop(*asked->job, settings);
  Result<search::Space> space = workshop.space_of(asked->axes);
  if (!space) return report_faults(space.error());
  std::array<agent::Budget, agent::kFidelities> budgets;
  budgets[static_cast<std::size_t>(agent::Fidelity::measure)].most = asked->measurements;
  budgets[static_cast<std::size_t>(agent::Fidelity::run)].most = asked->runs;
  if (arguments.has("--show-prompt")) {
    return show_prompt(*asked, workshop, *std::move(space), budgets, arguments);
  }
  TuneMemory memory;
  if (const int code = memory.open(arguments.value("--memory"), *asked->job); code != kAnswered) {
    return code;
  }
  agent::Records records;
  const agent::Folder how = arguments.has("--resume")  ? agent::Folder::resume
                            : arguments.has("--force") ? agent::Folder::force
                                                       : agent::Folder::fresh;
  const bool replaces = how == agent::Folder::force && agent::holds_run(settings.folder);
  if (const Result<void> open = records.open(arguments.value("--output"), how, run_node(*asked));
      !open) {
    return report_faults(open.error());
  }
  if (replaces) workshop.forget_measurements();
  agent::Session session(workshop, *std::move(space), budgets, records);
  const Result<Remembered> remembered = memory.offer(records);
  if (!remembered) return report_faults(remembered.error());
  for (const Remembered::One& one : remembered->measured) {
    records.remember(one.digest, one.measured);
  }
  const Result<Tuned> tuned = tune(*asked, session, *remembered, arguments);
  if (!tuned) return report_faults(tuned.error());
  const agent::Answer& answer = tuned->answer;
  if (answer.refined && !answer.interrupted) {
    const int kept = memory.keep(session, answer.refined->learned, *remembered);
    if (kept != kAnswered) return kept;
  }
  return write_all(*tuned, session, records, arguments);
}

}  // namespace eratos::apps
