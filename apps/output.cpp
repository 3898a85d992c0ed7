#include "apps/output.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "apps/exit_code.h"
#include "eratos/text/file.h"

namespace eratos::apps {

int deliver(const std::string& text, const Arguments& arguments, int code) {
  if (arguments.has("--output")) {
    const auto overwrite = arguments.has("--force") ? text::Overwrite::yes : text::Overwrite::no;
    const Result<void> written = text::write_file(arguments.value("--output"), text, overwrite);
    if (!written) {
      report_faults(written.error());
      const bool in_the_way =
          !arguments.has("--force") && access(arguments.value("--output").c_str(), F_OK) == 0;
      return in_the_way ? kUsage : kEnvironment;
    }
    return code;
  }
  const bool all = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if ((!all || std::fflush(stdout) != 0) && errno != EPIPE) {
    std::fprintf(stderr, "error: cannot write the result: %s\n", std::strerror(errno));
    return kEnvironment;
  }
  return code;
}

int report_faults(const Diagnostics& faults) {
  for (const Diagnostic& d : faults) std::fprintf(stderr, "%s\n", to_text(d).c_str());
  return kBadInput;
}

int report_usage(std::string_view message) {
  std::fprintf(stderr, "error: %.*s\n", static_cast<int>(message.size()), message.data());
  return kUsage;
}

report::Style style_of(const Arguments& arguments) {
  const char* no_colour = std::getenv("NO_COLOR");
  const bool wanted = no_colour == nullptr || *no_colour == '\0';
  return {wanted && !arguments.has("--output") && isatty(STDOUT_FILENO) != 0};
}

Result<Format> format_of(const Arguments& arguments, std::string_view allowed) {
  const std::string name = arguments.value("--format", "text");
  const std::string among = ' ' + std::string(allowed) + ' ';
  if (among.find(' ' + name + ' ') != std::string::npos) {
    if (name == "json") return Format::json;
    if (name == "csv") return Format::csv;
    if (name == "markdown") return Format::markdown;
    if (name == "html") return Format::html;
    return Format::text;
  }
  for (const std::string_view known : {"csv", "markdown", "html"}) {
    if (name == known) {
      return fault({{},
                    fmt::format("`{}` has no format `{}`; it has: {}", arguments.command, name,
                                allowed)});
    }
  }
  return fault({{}, fmt::format("unknown format `{}`; known: {}", name, allowed)});
}

}  // namespace eratos::apps
