#include "apps/tune_model.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "apps/model_transport.h"
#include "apps/numbers.h"
#include "eratos/agent/client.h"
#include "eratos/agent/json_parts.h"
#include "eratos/agent/records.h"
#include "eratos/agent/spend.h"
#include "eratos/agent/tool_parts.h"
#include "eratos/agent/tools.h"
#include "eratos/agent/transcript.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/text/file.h"
#include "eratos/text/yaml.h"

namespace eratos::apps {

namespace {

using text::Node;

std::string variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::string() : std::string(value);
}

// The file of --model-config. What the parser says of it may repeat a line with a key in it.
Result<std::optional<Node>> model_file(const std::string& path) {
  if (path.empty()) return std::optional<Node>{};
  const Result<std::string> text = text::read_file(path);
  if (!text) return faults(text.error());
  Result<Node> tree = text::parse_yaml(*text, path);
  if (tree) return std::optional<Node>(*std::move(tree));
  Diagnostics bad;
  for (const Diagnostic& d : tree.error()) {
    bad.push_back({d.where, "the model's file is no YAML here", "docs/tuning_models.md has one"});
  }
  return faults(std::move(bad));
}

agent::TalkLimits limits_of(const Arguments& arguments,
                            const std::optional<agent::ModelSettings>& model) {
  agent::TalkLimits out;
  out.turns = static_cast<int>(number_of(arguments, "--model-turns", out.turns));
  if (model && model->context_tokens > model->reply_tokens) {
    out.bytes = static_cast<std::size_t>(model->context_tokens - model->reply_tokens) *
                agent::kBytesPerToken;
  }
  return out;
}

// What a replay needs of the settings: what the first line of the transcript says.
agent::ModelSettings settings_of(const Node& model) {
  agent::ModelSettings s;
  s.model = agent::string_at(model, "name");
  s.api =
      agent::string_at(model, "api") == "anthropic" ? agent::Api::anthropic : agent::Api::openai;
  s.currency = agent::string_at(model, "currency");
  const auto price = [&](const char* key) -> std::optional<double> {
    const Node* at = model.find(key);
    const Result<double> value = at == nullptr ? Result<double>(0.0) : at->as_double();
    return at == nullptr || !value ? std::nullopt : std::optional<double>(*value);
  };
  s.price_in = price("price_in");
  s.price_out = price("price_out");
  return s;
}

agent::TalkLimits limits_of(const Node& said) {
  agent::TalkLimits out;
  out.turns = static_cast<int>(agent::integer_at(said, "turns", out.turns));
  out.calls = static_cast<int>(agent::integer_at(said, "calls", out.calls));
  out.wasted = static_cast<int>(agent::integer_at(said, "wasted", out.wasted));
  out.bytes = static_cast<std::size_t>(agent::integer_at(said, "bytes", 0));
  return out;
}

std::optional<std::string> ask_at_terminal(const std::string& question) {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0) return std::nullopt;
  std::fprintf(stderr, "tune: the model asks: %s\n> ", question.c_str());
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

std::string how_it_went(const agent::Talk& talk, const agent::ModelSettings& settings) {
  // Turns, not answers: the last one may have failed.
  std::string out =
      fmt::format("{}: {} turn{}, {} calls, {}", settings.model, talk.turns,
                  talk.turns == 1 ? "" : "s", talk.calls, agent::usage_text(talk.usage, settings));
  if (talk.finish) {
    out += fmt::format("; it chose trial {}", talk.finish->trial);
  } else {
    out += fmt::format("; it ended without a choice ({}{})", agent::word_of(talk.end),
                       talk.why.empty() ? "" : ": " + talk.why);
  }
  if (talk.left_out > 0) {
    out += fmt::format("; {} results were left out of its context", talk.left_out);
  }
  return out;
}

std::string budgets_text(const agent::Session& session) {
  const agent::Budget& measure = session.budget(agent::Fidelity::measure);
  if (measure.off()) return "no measurements; projections are free";
  return fmt::format("{} measurements; projections are free", measure.most - measure.spent);
}

// describe_job and describe_cluster, for the first message.
std::string facts_for_model(agent::Desk& desk) {
  const agent::ToolSaid job = agent::call_tool(desk, "describe_job", std::string_view("{}"));
  const agent::ToolSaid cluster =
      agent::call_tool(desk, "describe_cluster", std::string_view("{}"));
  return fmt::format("{{\"job\":{},\"cluster\":{}}}", job.json, cluster.json);
}

}  // namespace

Result<std::optional<agent::ModelSettings>> model_of(const Arguments& arguments) {
  Result<std::optional<Node>> file = model_file(arguments.value("--model-config"));
  if (!file) return faults(file.error());
  // Flags say the same as the lines of a file.
  for (const auto& [flag, key] : {std::pair{"--model", "model"}, std::pair{"--model-url", "url"},
                                  std::pair{"--model-api", "api"}}) {
    if (!arguments.has(flag)) continue;
    if (!*file) *file = Node::mapping();
    if ((*file)->is_mapping()) (*file)->set(key, Node::string(arguments.value(flag)));
  }
  agent::ModelEnvironment environment;
  environment.api = variable("ERATOS_MODEL_API");
  environment.url = variable("ERATOS_MODEL_URL");
  environment.model = variable("ERATOS_MODEL");
  environment.key = variable("ERATOS_MODEL_KEY");
  environment.openai_key = variable("OPENAI_API_KEY");
  environment.anthropic_key = variable("ANTHROPIC_API_KEY");
  agent::KeySources keys;
  constexpr std::size_t kMostKey = 10'000;
  keys.read_key = [](const std::string& path) { return text::read_file(path, kMostKey); };
  keys.read_variable = variable;
  return agent::model_settings(*file ? &**file : nullptr, environment, keys);
}

Node model_node(const agent::ModelSettings& s) {
  Node out =
      agent::object({{"api", Node::string(s.api == agent::Api::openai ? "openai" : "anthropic")},
                     {"url", Node::string(s.url)},
                     {"name", Node::string(s.model)}});
  if (s.price_in) out.set("price_in", Node::number(*s.price_in));
  if (s.price_out) out.set("price_out", Node::number(*s.price_out));
  out.set("currency", Node::string(s.currency));
  return out;
}

std::string model_flags_fault(const Arguments& arguments) {
  const std::string policy = arguments.value("--policy");
  for (const char* flag : {"--model", "--model-url", "--model-api", "--model-config", "--replay",
                           "--show-prompt", "--ask", "--model-turns"}) {
    if (arguments.has(flag) && !policy.empty() && policy != "model") {
      return fmt::format("`{}` is of a language model, and `--policy {}` asks none", flag, policy);
    }
  }
  if (arguments.has("--replay") && arguments.has("--resume")) {
    return "`--resume` goes on with a run and `--replay` tells one again: choose one";
  }
  return "";
}

Result<agent::Script> replayed_script(const std::string& path) {
  constexpr std::size_t kMostBytes = 256'000'000;
  const Result<std::string> text = text::read_file(path, kMostBytes);
  if (!text) return faults(text.error());
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    lines.push_back(text->substr(at, end - at));
    at = end + 1;
  }
  return agent::script_of(lines, path);
}

Result<ModelStage> ask_model(const Arguments& arguments,
                             const std::optional<agent::ModelSettings>& model, agent::Desk& desk,
                             agent::TalkBrief brief, const std::string& folder) {
  ModelStage out;
  agent::TalkLimits limits = limits_of(arguments, model);
  if (model) out.settings = *model;
  brief.model = model_node(out.settings);
  agent::Journal journal;
  std::vector<std::string> before;
  if (!folder.empty()) {
    Result<std::vector<std::string>> lines = journal.open(folder + "/transcript.jsonl");
    if (!lines) return faults(lines.error());
    before = *std::move(lines);
    // Only a run that goes on has a beginning; what --force replaces is gone.
    if (!arguments.has("--resume") && !before.empty()) {
      if (const Result<void> kept = journal.keep(0); !kept) return faults(kept.error());
      before.clear();
    }
  }
  agent::Script script;
  const std::string replayed = arguments.value("--replay");
  if (!replayed.empty()) {
    Result<agent::Script> read = replayed_script(replayed);
    if (!read) return faults(read.error());
    script = *std::move(read);
    limits = limits_of(script.limits);
    out.settings = settings_of(script.model);
    brief.model = script.model;
  } else if (!before.empty()) {
    Result<agent::Script> read = agent::script_of(before, folder + "/transcript.jsonl");
    if (!read) return faults(read.error());
    script = agent::without_failures(*std::move(read));
  }
  ModelTransport transport;
  WallClock clock;
  std::unique_ptr<agent::Client> client;
  if (replayed.empty()) {
    constexpr std::uint64_t kSeed = 0;  // of the share of waits that is left to chance
    client = std::make_unique<agent::Client>(
        out.settings, transport, clock, kSeed, [](const agent::Attempt& a) {
          std::fprintf(stderr, "tune: the model's server: %s; asked again in %.1f s\n",
                       a.what.c_str(), a.wait_s);
        });
  }
  std::size_t user = 0;
  desk.ask_user = [&](const std::string& question) -> std::optional<std::string> {
    if (user < script.users.size()) return script.users[user++];
    return replayed.empty() ? ask_at_terminal(question) : std::nullopt;
  };
  agent::ScriptedChat chat(script, client.get(), [&](const agent::Usage& usage) {
    if (client != nullptr) client->charge(usage);
  });
  agent::Transcript::File file;
  if (!folder.empty()) {
    file.append = [&](const std::string& line) { return journal.append(line); };
    file.keep = [&](std::size_t lines) { return journal.keep(lines); };
  }
  agent::Transcript transcript(file, before);
  out.talk = agent::talk_with(chat, desk, brief, limits, transcript);
  desk.ask_user = {};
  if (transcript.trouble()) return faults(*transcript.trouble());
  out.said = how_it_went(out.talk, out.settings);
  return out;
}

std::string shown_prompt(const Arguments& arguments,
                         const std::optional<agent::ModelSettings>& model,
                         const agent::TalkBrief& brief) {
  const std::vector<agent::ToolFacts> tools = agent::tool_facts(true);
  return agent::prompt_text(agent::first_request(brief, limits_of(arguments, model), tools));
}

agent::Desk model_desk(agent::Session& session) {
  agent::Desk desk{session};
  desk.write_job = [](const job::JobSpec& spec) { return reader::job_to_node(spec); };
  return desk;
}

agent::TalkBrief model_brief(agent::Desk& desk, const std::string& wishes) {
  const agent::Session& session = desk.session;
  agent::TalkBrief out;
  out.facts = facts_for_model(desk);
  if (session.baseline() != nullptr) out.baseline = session.baseline()->number;
  if (session.trials().size() > 1) {
    out.seeds =
        fmt::format("A planner without a model has made {} trials", session.trials().size());
    if (const agent::Trial* best = session.best()) {
      out.seeds += fmt::format("; the best is trial {}", best->number);
    }
    out.seeds += '.';
  }
  out.budgets = budgets_text(session);
  out.wishes = wishes;
  return out;
}

void add_tried(agent::Desk& desk, agent::Refinement& refinement) {
  constexpr std::size_t kMost = 8;
  std::vector<const agent::Trial*> tried;
  for (const auto& t : desk.session.trials()) {
    const bool has_step = t->fits() && t->fidelity != agent::Fidelity::memory;
    if (t->stage == desk.stage && has_step) tried.push_back(t.get());
  }
  std::stable_sort(tried.begin(), tried.end(), [](const agent::Trial* a, const agent::Trial* b) {
    return a->projected.tokens_per_s_per_gpu.value > b->projected.tokens_per_s_per_gpu.value;
  });
  tried.resize(std::min(tried.size(), kMost));
  for (const agent::Trial* t : tried) {
    agent::Pinned at = agent::pinned_at(desk, desk.session.job_of(*t)->spec);
    refinement.add(std::make_shared<const search::Space>(std::move(at.space)), at.at);
  }
}

report::Section model_section(const ModelStage& model) {
  report::Section out;
  out.heading = "the language model";
  out.sentences.push_back(model.said);
  if (!model.talk.finish) return out;
  std::string cites;
  for (const int n : model.talk.finish->cites) {
    cites += (cites.empty() ? "" : ", ") + std::to_string(n);
  }
  out.sentences.push_back(
      fmt::format("Its words, which nothing here rests on, citing trials {}: {}", cites,
                  model.talk.finish->rationale));
  return out;
}

}  // namespace eratos::apps
