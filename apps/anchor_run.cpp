#include "apps/anchor_run.h"

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "eratos/hardware/cluster.h"
#include "eratos/model/architecture.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/text/csv.h"
#include "eratos/text/scalar.h"

namespace eratos::apps {

namespace {

using reader::Measured;
using reader::MemoryKind;
using reader::SpeedFrom;
using text::Node;

// Words for fields that every run differs in.
const std::map<std::string, std::string, std::less<>> kFields = {
    {"gbs", "batch.global"}, {"mbs", "batch.micro"}, {"seq", "batch.sequence"},
    {"tp", "parallel.tp"},   {"cp", "parallel.cp"},  {"pp", "parallel.pp"},
    {"vpp", "parallel.vpp"}, {"ep", "parallel.ep"},  {"etp", "parallel.etp"}};

const std::map<std::string, MemoryKind, std::less<>> kPeaks = {{"allocated", MemoryKind::allocated},
                                                               {"reserved", MemoryKind::reserved},
                                                               {"device", MemoryKind::device}};

Location at_flag(const Arguments& arguments) { return {"--anchor " + arguments.value("--anchor")}; }

// "gpus=8,step_s=12.3" and not "runs.csv:a=b".
bool is_pairs(std::string_view run) {
  const std::size_t equals = run.find('=');
  return equals != std::string_view::npos && run.find(".csv:") == std::string_view::npos &&
         run.find('/') > equals;
}

// Split at commas outside brackets.
std::vector<std::string> pieces_of(std::string_view text) {
  std::vector<std::string> out(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    if (c == ',' && depth == 0) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

// What the words say, before any job is made of them.
struct Words {
  std::optional<int> gpus;
  std::string cluster;
  std::vector<std::string> sets;
  bool says_global = false;
  double step_s = 0;
  double tokens = 0;
  Bytes peak;
  std::string peak_kind;
};

class WordReader {
 public:
  explicit WordReader(Location where) : where_(std::move(where)) {}

  Result<Words> read(std::string_view run) {
    for (const std::string& piece : pieces_of(run)) read_piece(piece);
    if (out_.step_s > 0 && out_.tokens > 0) {
      fault("step_s and tokens_per_s_per_gpu are two words for one figure", "give one of them");
    }
    if (bad_.empty() && out_.step_s <= 0 && out_.tokens <= 0 && out_.peak.value <= 0) {
      fault("nothing measured is said", "add step_s=, tokens_per_s_per_gpu= or peak_gb=");
    }
    if (!out_.peak_kind.empty() && out_.peak.value <= 0 && bad_.empty()) {
      fault("`peak` says of which kind a peak is, and none is given", "add peak_gb= or peak_gib=");
    }
    if (!bad_.empty()) return faults(std::move(bad_));
    return std::move(out_);
  }

 private:
  void fault(std::string message, std::string cure) {
    bad_.push_back({.where = where_, .message = std::move(message), .cure = std::move(cure)});
  }

  double positive(const std::string& key, const std::string& value) {
    const std::optional<double> number = text::double_of(value);
    constexpr double kLeast = 1e-9;  // of a step in seconds, a speed, a peak: nobody measured less
    constexpr double kMost = 1e12;   // or more
    if (number && *number >= kLeast && *number <= kMost) return *number;
    fault(fmt::format("`{}` is `{}`, not a number above 0 that can have been measured", key, value),
          "write the figure in the unit of its name");
    return 0;
  }

  void read_piece(const std::string& piece) {
    const std::size_t equals = piece.find('=');
    const std::string key = piece.substr(0, equals);
    if (equals == std::string::npos || key.empty() || equals + 1 == piece.size()) {
      fault(fmt::format("`{}` is no KEY=VALUE", piece), "e.g. gpus=8,step_s=12.3");
      return;
    }
    if (key != "gbs" && !seen_.emplace(key, true).second) {
      fault(fmt::format("`{}` is given twice", key), "give it once");
      return;
    }
    read_pair(key, piece.substr(equals + 1));
  }

  void read_pair(const std::string& key, const std::string& value) {
    if (key == "gpus") {
      const double gpus = positive(key, value);
      if (gpus != std::floor(gpus) || gpus > hardware::kMostAccelerators) {
        fault(fmt::format("`gpus` is `{}`, not a number of accelerators", value), "e.g. gpus=8");
      } else if (gpus > 0) {
        out_.gpus = static_cast<int>(gpus);
      }
    } else if (key == "cluster") {
      out_.cluster = value;
    } else if (key == "step_s") {
      out_.step_s = positive(key, value);
    } else if (key == "tokens_per_s_per_gpu") {
      out_.tokens = positive(key, value);
    } else if (key == "peak_gb" || key == "peak_gib") {
      if (out_.peak.value > 0) {
        fault("peak_gb and peak_gib are two words for one figure", "give one of them");
      }
      out_.peak = Bytes{positive(key, value) * (key == "peak_gb" ? 1e9 : kGiB)};
    } else if (key == "peak") {
      out_.peak_kind = value;
      if (kPeaks.count(value) == 0) {
        fault(fmt::format("`peak` is `{}`", value), "write allocated, reserved or device");
      }
    } else if (const auto field = kFields.find(key); field != kFields.end()) {
      set(field->second, value);
    } else if (key.find('.') != std::string::npos || key == "precision" || key == "sharding") {
      set(key, value);
    } else {
      unknown(key);
    }
  }

  void set(const std::string& path, const std::string& value) {
    out_.says_global = out_.says_global || path == "batch.global";
    out_.sets.push_back(path + "=" + value);
  }

  void unknown(const std::string& key) {
    std::vector<std::string> known{"gpus",    "cluster",  "step_s", "tokens_per_s_per_gpu",
                                   "peak_gb", "peak_gib", "peak"};
    for (const auto& [word, path] : kFields) known.push_back(word);
    const std::string near = nearest_name(key, known);
    std::string all;
    for (const std::string& word : known) all += (all.empty() ? "" : ", ") + word;
    fault(fmt::format("unknown key `{}`", key),
          near.empty() ? "known: " + all + ", and fields of the job such as parallel.tp"
                       : "did you mean `" + near + "`?");
  }

  Location where_;
  Words out_;
  std::map<std::string, bool> seen_;
  Diagnostics bad_;
};

// --cluster and --nodes of the run. Errors: accelerators that make no such cluster.
Result<void> place(const Words& words, const hardware::ClusterSpec& of_job, const Location& where,
                   Arguments& out) {
  if (!words.cluster.empty()) {
    out.flags["--cluster"] = {words.cluster};
    out.flags.erase("--nodes");
    return {};
  }
  if (!words.gpus) return {};
  const int each = of_job.gpus_per_node;
  if (*words.gpus % each == 0) {
    out.flags["--nodes"] = {std::to_string(*words.gpus / each)};
    return {};
  }
  const std::string& part = of_job.accelerator.name;
  if (*words.gpus < each && hardware::follows_from_part(of_job) &&
      reader::find_file(reader::Kind::accelerators, part) != nullptr) {
    out.flags["--cluster"] = {fmt::format("{}-1x{}", part, *words.gpus)};
    out.flags.erase("--nodes");
    return {};
  }
  return fault({.where = where,
                .message = fmt::format("{} accelerators are no whole number of nodes of {}",
                                       *words.gpus, each),
                .cure = "say where it ran: cluster=PART-NxM"});
}

Measured measured_of(const Words& words, const job::JobSpec& spec) {
  Measured out;
  if (words.tokens > 0) {
    out.from = SpeedFrom::tokens_per_s_per_gpu;
    out.tokens_per_s_per_gpu = words.tokens;
  } else if (words.step_s > 0) {
    out.from = SpeedFrom::step_time_s;
    out.tokens_per_s_per_gpu = static_cast<double>(spec.batch.global) * spec.batch.sequence /
                               words.step_s / spec.cluster.gpus();
  }
  out.memory = words.peak;
  out.memory_kind = words.peak_kind.empty() ? MemoryKind::device : kPeaks.at(words.peak_kind);
  return out;
}

// Where nothing is said of it, every data-parallel rank of the run has as many micro-batches as
// those of JOB, unless JOB's file says how its batch follows from the ranks.
void share_batch(const Words& words, const Job& target, Job& run, std::vector<std::string>& notes) {
  if (words.says_global || run.read.follows.replica_sequences > 0) return;
  job::JobSpec& spec = run.read.job;
  const int slice = spec.parallel.tp * spec.parallel.cp * spec.parallel.pp;
  const int dp = spec.cluster.gpus() / std::max(1, slice);
  const double global = static_cast<double>(target.checked.micro_batches) * spec.batch.micro * dp;
  if (dp < 1 || global > 1e9 || static_cast<int>(global) == spec.batch.global) return;
  spec.batch.global = static_cast<int>(global);
  notes.push_back(
      fmt::format("its global batch is taken for {}, as many micro-batches a rank as here; say "
                  "gbs= if it was another",
                  spec.batch.global));
}

Result<AnchorRun> run_of_words(const Arguments& arguments, const Job& target) {
  const Location where = at_flag(arguments);
  const Result<Words> words = WordReader(where).read(arguments.value("--anchor"));
  if (!words) return faults(words.error());
  Arguments own = arguments;
  if (auto placed = place(*words, target.read.job.cluster, where, own); !placed) {
    return faults(placed.error());
  }
  for (const std::string& set : words->sets) own.flags["--set"].push_back(set);
  const auto named = [&](Diagnostics all) {
    for (Diagnostic& d : all) d.message = "the anchor's run: " + d.message;
    return faults(std::move(all));
  };
  Result<std::unique_ptr<Job>> job = prepare_job(own);
  if (!job) return named(job.error());
  AnchorRun out;
  share_batch(*words, target, **job, out.notes);
  if (Diagnostics illegal = check_job(**job, where.file); !illegal.empty()) {
    return named(std::move(illegal));
  }
  const job::JobSpec& spec = (*job)->read.job;
  if (words->gpus && *words->gpus != spec.cluster.gpus()) {
    return fault({.where = where,
                  .message = fmt::format("{} has {} accelerators, gpus says {}", spec.cluster.name,
                                         spec.cluster.gpus(), *words->gpus),
                  .cure = "leave one of them out"});
  }
  out.measured = measured_of(*words, spec);
  if (words->peak.value > 0 && words->peak_kind.empty()) {
    out.notes.emplace_back(
        "its peak is taken for what the driver shows; say peak=reserved or peak=allocated if not");
  }
  out.spec = spec;
  return out;
}

// JOB's architecture under the name that the row has for it.
Node models_of(const std::string& name, const job::JobSpec& target) {
  Node list = Node::mapping();
  list.set(name, *reader::job_to_node(target, {.model = true}).find("model"));
  Node out = Node::mapping();
  out.set("models", std::move(list));
  return out;
}

// A row that names a model of the catalogue is of that model.
Result<void> same_model(const std::string& name, const job::JobSpec& target,
                        const Location& where) {
  const Result<model::Architecture> known = reader::load_model(name);
  if (!known) return {};
  constexpr double kSame = 0.01;  // padded vocabularies and untied heads apart
  const double theirs = model::count_parameters(*known, 0, false).total;
  const double ours = model::count_parameters(target.model, 0, false).total;
  if (std::abs(theirs / ours - 1) <= kSame) return {};
  return fault({.where = where,
                .message = fmt::format("the run is of {} ({:.3g} parameters), the job of {:.3g}",
                                       name, theirs, ours),
                .cure = "an anchor is a run of the same model"});
}

Result<AnchorRun> run_of_row(const Arguments& arguments, const Job& target) {
  const std::string run = arguments.value("--anchor");
  const std::size_t csv = run.find(".csv:");
  const std::size_t colon = csv != std::string::npos ? csv + 4 : run.rfind(':');
  if (colon == std::string::npos || colon + 1 == run.size() || colon == 0) {
    return fault({.where = at_flag(arguments),
                  .message = "neither FILE.csv:ID nor KEY=VALUE,...",
                  .cure = "e.g. --anchor runs.csv:my-run or --anchor gpus=8,step_s=12.3"});
  }
  const std::string id = run.substr(colon + 1);
  const Result<text::CsvTable> table = text::parse_csv_file(run.substr(0, colon));
  if (!table) return faults(table.error());
  const Result<std::size_t> ids = table->require_column("id");
  if (!ids) return faults(ids.error());
  const Result<std::size_t> names = table->require_column("model");
  if (!names) return faults(names.error());
  std::vector<std::string> known;
  for (std::size_t i = 0; i < table->rows(); ++i) {
    known.emplace_back(table->cell(i, *ids));
    if (known.back() != id) continue;
    const std::string name(table->cell(i, *names));
    const Location where = table->where(i);
    if (auto same = same_model(name, target.read.job, where); !same) return faults(same.error());
    const std::vector<Node> models{models_of(name, target.read.job)};
    Result<reader::RunReader> rows = reader::RunReader::make(*table, models);
    if (!rows) return faults(rows.error());
    auto row = rows->read(i);
    if (!row) {
      const reader::Unusable& why = row.error();
      return fault({.where = where,
                    .message = "the anchor's run cannot be projected: " + why.reason +
                               (why.detail.empty() ? "" : ": " + why.detail),
                    .cure = "fill the row, or say what differs as KEY=VALUE,..."});
    }
    job::CheckedJob checked;
    Diagnostics illegal = job::check(row->spec, checked);
    if (illegal.empty()) illegal = projection::schedule_faults(checked);
    for (Diagnostic& d : illegal) {
      d.where = where;
      d.message = "the anchor's run: " + d.message;
    }
    if (!illegal.empty()) return faults(std::move(illegal));
    AnchorRun out;
    if (!row->name.suspect.empty()) {
      out.notes.push_back("its time is suspect: " + row->name.suspect);
    }
    out.spec = std::move(row->spec);
    out.measured = row->measured;
    return out;
  }
  const std::string near = nearest_name(id, known);
  return fault(
      {.where = {run.substr(0, colon)},
       .message = "no run `" + id + "`",
       .cure = near.empty() ? "the column `id` names them" : "did you mean `" + near + "`?"});
}

}  // namespace

Result<AnchorRun> read_anchor_run(const Arguments& arguments, const Job& target) {
  Result<AnchorRun> out = is_pairs(arguments.value("--anchor")) ? run_of_words(arguments, target)
                                                                : run_of_row(arguments, target);
  if (out && out->measured.from == SpeedFrom::none && out->measured.memory.value <= 0) {
    return fault({.where = at_flag(arguments),
                  .message = "the run states neither a speed nor a peak",
                  .cure = "anchor on a run that was measured"});
  }
  return out;
}

}  // namespace eratos::apps
