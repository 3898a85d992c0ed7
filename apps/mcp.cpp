// eratos mcp [JOB]: the tools of `eratos tune` for programs that speak the Model Context Protocol.
//
// Standard output is the protocol's alone. A job is the one that the server was started with, or,
// of a server that was started without, a catalogue name or a file below the folder it was started
// in: what a model names reaches no other file.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "apps/answers.h"
#include "apps/axis_words.h"
#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/interrupt.h"
#include "apps/load_job.h"
#include "apps/output.h"
#include "apps/tune_workshop.h"
#include "eratos/agent/desk.h"
#include "eratos/agent/records.h"
#include "eratos/agent/texts.h"
#include "eratos/agent/tools.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/reader/sayable.h"
#include "eratos/search/legality.h"
#include "eratos/serve/mcp.h"
#include "eratos/text/dump.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

using text::Node;

// Ends a search where the client has cancelled its call.
class McpWorkshop final : public TuneWorkshop {
 public:
  explicit McpWorkshop(const Job& job) : TuneWorkshop(job, {}) {}

  search::Outcome search(const search::Space& space, const calibration::Calibration& calibration,
                         search::Method& method) override {
    const std::unique_ptr<Answers> answers = answers_of_threads(space, calibration, options(), 0);
    std::vector<search::Tell> tells;
    while (!interrupted()) {
      const std::span<const search::Ask> asks = method.ask();
      if (asks.empty()) break;
      tells.assign(asks.size(), {});
      answers->answer(asks, tells, [&method] { method.prepare(); });
      for (search::Tell& tell : tells) search::make_plain(tell);
      method.tell(tells);
    }
    return method.outcome();
  }
  bool interrupted() override { return apps::interrupted() || (cancelled_ && (*cancelled_)()); }

  void set_cancelled(const serve::Cancelled* cancelled) { cancelled_ = cancelled; }

 private:
  const serve::Cancelled* cancelled_ = nullptr;
};

// A job with the trials that a client has made of it.
struct Bench {
  std::unique_ptr<Job> job;
  std::unique_ptr<McpWorkshop> workshop;
  agent::Records records;
  std::unique_ptr<agent::Session> session;
};

Result<std::unique_ptr<Bench>> bench_of(const Arguments& arguments) {
  Result<std::unique_ptr<Job>> job = prepare_job(arguments);
  if (!job) return faults(job.error());
  Diagnostics fixed = search::fixed_faults((*job)->read.job);
  if (!fixed.empty()) return faults(std::move(fixed));
  auto out = std::make_unique<Bench>();
  out->job = *std::move(job);
  out->workshop = std::make_unique<McpWorkshop>(*out->job);
  std::vector<std::string> axes;
  for (const std::string& text : arguments.values("--axes")) {
    for (std::string& word : axis_words(text)) axes.push_back(std::move(word));
  }
  Result<search::Space> space = out->workshop->space_of(axes);
  if (!space) return faults(space.error());
  std::array<agent::Budget, agent::kFidelities> budgets;
  budgets[static_cast<std::size_t>(agent::Fidelity::measure)].most = 0;
  budgets[static_cast<std::size_t>(agent::Fidelity::run)].most = 0;
  out->session =
      std::make_unique<agent::Session>(*out->workshop, *std::move(space), budgets, out->records);
  out->session->evaluate(agent::Patch{}, agent::Fidelity::simulate, "baseline", "as it came");
  return out;
}

// Below the folder the server runs in, links followed, and nothing hidden: clients start servers in
// people's homes, and what is wrong with a file is told with a piece of it.
bool is_below(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty() || path.front() == '/' || path.front() == '~') return false;
  std::error_code failed;
  const fs::path here = fs::canonical(".", failed);
  if (failed) return false;
  const fs::path below = fs::weakly_canonical(here / path, failed).lexically_relative(here);
  if (failed || below.empty()) return false;
  return std::none_of(below.begin(), below.end(),
                      [](const fs::path& part) { return part.native().starts_with('.'); });
}

Node text_argument(const char* description) {
  Node out = Node::mapping();
  out.set("type", Node::string("string"));
  out.set("maxLength", Node::integer(500));
  out.set("description", Node::string(description));
  return out;
}

class Tools final : public serve::ToolBox {
 public:
  explicit Tools(const Arguments& arguments) : arguments_(arguments) {
    for (agent::ToolFacts& t : agent::tool_facts(false)) {
      if (arguments.words.empty()) ask_for_a_job(t.schema);
      offers_.push_back(
          {t.name, t.description, std::move(t.schema), agent::tool_text(t.name).reads_only});
    }
  }

  // The job that the server was started with. Errors: it cannot be read.
  Result<void> open() {
    if (arguments_.words.empty()) return {};
    const Result<Bench*> bench = bench_at(arguments_);
    if (!bench) return faults(bench.error());
    return {};
  }

  const std::vector<serve::ToolOffer>& offers() const override { return offers_; }

  serve::ToolAnswer call(const std::string& name, const Node& arguments,
                         const serve::Cancelled& cancelled) override {
    Node rest = arguments;
    Arguments of_job = arguments_;
    if (arguments_.words.empty()) {
      const Node* job = arguments.find("job");
      if (job == nullptr || !job->is_scalar()) return refused({"`job` is missing"});
      const Node* cluster = arguments.find("cluster");
      for (const Node* at : {job, cluster}) {
        if (at == nullptr || (at->is_scalar() && is_below(at->raw()))) continue;
        return refused({"`job` and `cluster` are names, or files below the folder of the server"});
      }
      of_job.words = {job->raw()};
      if (cluster != nullptr) of_job.flags["--cluster"] = {cluster->raw()};
      rest.erase("job");
      rest.erase("cluster");
    }
    const Result<Bench*> bench = bench_at(of_job);
    if (!bench) {
      std::vector<std::string> lines;
      for (const Diagnostic& d : bench.error()) lines.push_back(to_text(d));
      return refused(lines);
    }
    agent::Desk desk{*(*bench)->session};
    desk.stage = "mcp";
    desk.write_job = [](const job::JobSpec& spec) { return reader::job_to_node(spec); };
    (*bench)->workshop->set_cancelled(&cancelled);
    const agent::ToolSaid said = agent::call_tool(desk, name, rest);
    (*bench)->workshop->set_cancelled(nullptr);
    return {said.json, said.is_fault};
  }

 private:
  static void ask_for_a_job(Node& schema) {
    Node* properties = schema.find("properties");
    properties->set("job", text_argument("a name of the catalogue, or a job's file below the "
                                         "folder of the server"));
    properties->set("cluster", text_argument("where it runs, e.g. h100-sxm-4x8; left out, what the "
                                             "job's file says"));
    Node required = Node::sequence({Node::string("job")});
    if (const Node* own = schema.find("required")) {
      for (const Node& word : own->items()) required.append(word);
    }
    schema.set("required", std::move(required));
  }

  static serve::ToolAnswer refused(const std::vector<std::string>& faults) {
    Node list = Node::sequence();
    for (const std::string& f : faults) list.append(Node::string(f));
    Node out = Node::mapping();
    out.set("refused", std::move(list));
    return {text::to_json(out, 0), true};
  }

  Result<Bench*> bench_at(const Arguments& of_job) {
    const std::string key = of_job.words.front() + '\n' + of_job.value("--cluster");
    if (const auto at = benches_.find(key); at != benches_.end()) return at->second.get();
    constexpr std::size_t kMostJobs = 32;
    if (benches_.size() == kMostJobs) {
      return fault({.message = fmt::format("{} jobs are open, and no more are taken", kMostJobs),
                    .cure = "start another server"});
    }
    Result<std::unique_ptr<Bench>> made = bench_of(of_job);
    if (!made) return faults(made.error());
    return (benches_[key] = *std::move(made)).get();
  }

  const Arguments& arguments_;
  std::vector<serve::ToolOffer> offers_;
  std::map<std::string, std::unique_ptr<Bench>> benches_;
};

// Lines of standard input until its end or Ctrl-C. A line that is too long is handed over cut,
// which the server refuses, and its rest is dropped.
void serve_input(serve::McpServer& server) {
  std::string line;
  bool too_long = false;
  char buffer[65536];
  while (!interrupted()) {
    pollfd waiting{STDIN_FILENO, POLLIN, 0};
    constexpr int kPiece = 200;  // ms: how long Ctrl-C may wait
    if (poll(&waiting, 1, kPiece) <= 0) continue;
    const ssize_t bytes = read(STDIN_FILENO, buffer, sizeof buffer);
    if (bytes <= 0) break;
    for (ssize_t i = 0; i < bytes; ++i) {
      const char c = buffer[i];
      if (c == '\n') {
        if (!too_long || !line.empty()) server.receive(line);
        line.clear();
        too_long = false;
      } else if (!too_long) {
        line += c;
        if (line.size() <= serve::kMostLine) continue;
        server.receive(line);
        line.clear();
        too_long = true;
      }
    }
  }
  if (!line.empty() && !interrupted()) server.receive(line);
}

constexpr const char* kInstructions =
    "eratos projects memory and step time of training runs of language models without running "
    "them. list_axes says what may be changed, project tries a configuration, explain says what "
    "binds it, search proves the best of a part of the space. Figures are projections with a band "
    "of error unless they say that they were measured.";

}  // namespace

int run_mcp(const Arguments& arguments) {
  const Interruptible guard;
  Tools tools(arguments);
  if (const Result<void> open = tools.open(); !open) return report_faults(open.error());
  bool broken = false;
  {
    serve::McpServer server(
        tools, {"eratos", std::string(kVersion), kInstructions}, [&](const std::string& line) {
          broken =
              broken || std::fputs((line + '\n').c_str(), stdout) < 0 || std::fflush(stdout) != 0;
        });
    serve_input(server);
    if (interrupted()) server.stop();
  }
  return interrupted() ? kInterrupted : kAnswered;
}

}  // namespace eratos::apps
