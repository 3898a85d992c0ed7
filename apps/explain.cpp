// eratos explain JOB KEY: one number of the projection as a tree; without KEY, the keys there are.
#include <string>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/load_job.h"
#include "apps/output.h"
#include "eratos/report/json.h"
#include "eratos/report/text.h"
#include "eratos/text/dump.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

std::string key_list(Format format) {
  if (format == Format::json) {
    text::Node keys = text::Node::sequence();
    for (const std::string& key : projection::explainable_keys()) {
      keys.append(text::Node::string(key));
    }
    text::Node out = report::document(std::string(kVersion));
    out.set("keys", std::move(keys));
    return text::to_json(out) + '\n';
  }
  std::string out;
  for (const std::string& key : projection::explainable_keys()) out += key + '\n';
  return out;
}

}  // namespace

int run_explain(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, "text json");
  if (!format) return report_usage(format.error().front().message);
  if (arguments.words.size() < 2) return deliver(key_list(*format), arguments, kAnswered);

  const Result<std::unique_ptr<Job>> job = load_job(arguments);
  if (!job) return report_faults(job.error());
  const Result<projection::Explanation> tree =
      projection::explain((*job)->checked, (*job)->calibration, (*job)->options, arguments.words[1],
                          *(*job)->workspace);
  if (!tree) return report_faults(tree.error());
  const std::string text = *format == Format::json
                               ? report::explanation_json(*tree, std::string(kVersion))
                               : report::explanation_text(*tree, style_of(arguments));
  return deliver(text, arguments, kAnswered);
}

}  // namespace eratos::apps
