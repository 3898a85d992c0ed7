// eratos search JOB: which configuration should I run?
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/load_job.h"
#include "apps/output.h"
#include "eratos/report/space.h"
#include "eratos/search/legality.h"
#include "eratos/search/space.h"
#include "eratos/search/walk.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

// `tp=1,2`, `vpp!=8` or `rest=job`: a word of --axes that stands by itself.
bool is_axis(const std::string& word) {
  const std::size_t end = word.find_first_of("!=");
  if (end == std::string::npos) return false;
  const std::string name = word.substr(0, end);
  if (name == "rest") return true;
  for (const search::AxisFacts& f : search::kAxisFacts) {
    if (f.name == name || f.alias == name) return true;
  }
  return false;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  while ((begin = text.find_first_not_of(" \t\n", begin)) != std::string::npos) {
    const std::size_t end = text.find_first_of(" \t\n", begin);
    out.push_back(text.substr(begin, end - begin));
    begin = end;
    if (end == std::string::npos) break;
  }
  return out;
}

struct Request {
  Arguments job;                   // with JOB as its only word
  std::vector<std::string> axes;
};

// --axes takes one word in quotes or several behind it.
Result<Request> request_of(const Arguments& arguments) {
  Request out{arguments, {}};
  out.job.words.clear();
  for (const std::string& text : arguments.values("--axes")) {
    for (std::string& word : words_of(text)) out.axes.push_back(std::move(word));
  }
  for (const std::string& word : arguments.words) {
    if (is_axis(word)) {
      out.axes.push_back(word);
    } else {
      out.job.words.push_back(word);
    }
  }
  if (out.job.words.size() == 1) return out;
  if (out.job.words.empty()) return fault({.message = "`search` needs JOB"});
  return fault({.message = fmt::format("unexpected word `{}`", out.job.words[1])});
}

int explain_space(const search::Space& space, const Arguments& arguments, Format format) {
  const search::Count count = search::count(space);
  return deliver(format == Format::json
                     ? report::space_json(space, count, std::string(kVersion))
                     : report::space_text(space, count, style_of(arguments)),
                 arguments, count.legal > 0 ? kAnswered : kDoesNotFit);
}

}  // namespace

int run_search(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, "text json");
  if (!format) return report_usage(format.error().front().message);
  const Result<Request> request = request_of(arguments);
  if (!request) return report_usage(request.error().front().message);
  const Result<std::unique_ptr<Job>> job = prepare_job(request->job);
  if (!job) return report_faults(job.error());
  Diagnostics fixed = search::fixed_faults((*job)->read.job);
  if (!fixed.empty()) {
    reader::locate(fixed, (*job)->read.report);
    return report_faults(fixed);
  }
  const Result<search::Space> space = search::space_of((*job)->read.job, request->axes);
  if (!space) return report_faults(space.error());
  return explain_space(*space, arguments, *format);
}

}  // namespace eratos::apps
